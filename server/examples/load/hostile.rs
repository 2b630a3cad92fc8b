//! Connections that only take resources, beside a client that works.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    Failure, Options,
    client::Client,
    process::{Server, mib},
};

/// What SASL begins with, and a frame that announces 64 KiB.
const SASL: &[u8] = b"AMQP\x03\x01\x00\x00";
const FRAME: &[u8] = b"\x00\x00\xff\xff\x02\x01\x00\x00";

#[derive(Clone, Copy)]
enum Kind {
    /// Random bytes after the header.
    Garbage,
    /// Nothing.
    Silent,
    /// The header, and nothing after it.
    HalfOpen,
    /// A byte a second.
    Drip,
}

const KINDS: [Kind; 4] = [Kind::Garbage, Kind::Silent, Kind::HalfOpen, Kind::Drip];

pub(crate) async fn run(options: &Options) -> Result<(), Failure> {
    let count = options.scaled(500);
    let time = Duration::from_secs(options.scaled(300).into()) / 10;
    let server = Server::consign(&options.program, &[])?;
    let mut client = Client::new(server.address, "orders").await?;
    client.round_trips(Duration::from_secs(1)).await?;
    let before = client.round_trips(time).await?;
    let (memory, _) = server.memory()?;

    let mut connections = JoinSet::new();
    for (nth, kind) in (0..count).zip(KINDS.into_iter().cycle()) {
        connections.spawn(again(server.address, kind, nth.into()));
    }
    sleep(Duration::from_secs(2)).await;
    let beside = client.round_trips(time).await?;
    let (_, peak) = server.memory()?;
    connections.shutdown().await;
    let after = client.round_trips(time / 3).await?;
    println!("hostile: {count} connections that are opened again when the server closes them, {time:?}");
    println!("hostile: without them {before}");
    println!("hostile: beside them  {beside}");
    println!("hostile: after them   {after}");
    println!("hostile: memory {:.1} MiB before them, at most {:.1} MiB", mib(memory), mib(peak));
    Ok(())
}

/// Connects again a second after each end.
async fn again(address: SocketAddr, kind: Kind, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    loop {
        if let Ok(stream) = TcpStream::connect(address).await {
            // An end is what it is for.
            let _ = one(stream, kind, &mut random).await;
        }
        sleep(Duration::from_secs(1)).await;
    }
}

async fn one(mut stream: TcpStream, kind: Kind, random: &mut fastrand::Rng) -> std::io::Result<()> {
    match kind {
        Kind::Garbage => {
            stream.write_all(SASL).await?;
            let garbage: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(4_096).collect();
            stream.write_all(&garbage).await?;
        }
        Kind::Silent => {}
        Kind::HalfOpen => stream.write_all(SASL).await?,
        Kind::Drip => {
            for byte in SASL.iter().chain(FRAME).copied().chain(std::iter::repeat(0)) {
                stream.write_all(&[byte]).await?;
                // Until the server closes it.
                if let Ok(Ok(0)) = timeout(Duration::from_secs(1), stream.read(&mut [0; 512])).await {
                    break;
                }
                sleep(Duration::from_millis(500)).await;
            }
            return Ok(());
        }
    }
    while stream.read(&mut [0; 512]).await? > 0 {}
    Ok(())
}
