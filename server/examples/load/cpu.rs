//! Processor time of a server for a message that is sent, received and completed, with the same client on each server.

use std::{
    net::{SocketAddr, ToSocketAddrs},
    time::Duration,
};

use consign_amqp::{client::SenderLink, engine::OutboundDelivery};
use futures_util::{StreamExt, stream};
use tokio::time::timeout;

use crate::{
    Failure, Options,
    client::{accepted, connect, message},
    process::{Server, listener, processor_time},
};

/// The most unsettled messages, and the credit.
const WINDOW: u32 = 100;
const ROUNDS: usize = 5;
/// The longest time of a round. A server that does not answer is left out.
const LONG: Duration = Duration::from_secs(60);
/// Messages of a round. The kernel counts processor time in units of 10 ms, which is a tenth of a microsecond for each.
const MESSAGES: u32 = 100_000;

/// A server that is measured.
struct Peer {
    name: &'static str,
    address: SocketAddr,
    queue: &'static str,
    pid: u32,
    /// Microseconds a message, of each round.
    settled: Vec<f64>,
    unsettled: Vec<f64>,
    /// Settled and unsettled sends that do not work.
    left_out: Vec<bool>,
}

impl Peer {
    fn new(name: &'static str, address: SocketAddr, queue: &'static str, pid: u32) -> Self {
        Self { name, address, queue, pid, settled: Vec::new(), unsettled: Vec::new(), left_out: Vec::new() }
    }
}

pub(crate) async fn run(options: &Options) -> Result<(), Failure> {
    let server = Server::consign(&options.program, &[])?;
    let acceptor = options.acceptor.as_deref().map(Server::other).transpose()?;
    let mut peers = vec![Peer::new("consign", server.address, "orders", server.pid())];
    if let Some(acceptor) = &acceptor {
        peers.push(Peer::new("the acceptor", acceptor.address, "orders", acceptor.pid()));
    }
    match std::env::var("CONSIGN_AMQP10") {
        Ok(address) => {
            let address = address.to_socket_addrs()?.next().ok_or("CONSIGN_AMQP10 has no address")?;
            peers.push(Peer::new("RabbitMQ", address, "/queue/consign-load", listener(address.port())?));
        }
        Err(_) => println!("cpu: left out: RabbitMQ, CONSIGN_AMQP10 is not set"),
    }
    let messages = options.scaled(MESSAGES);
    // They take turns. The first round only warms up.
    for round in 0..=ROUNDS {
        for peer in &mut peers {
            for is_settled in [true, false] {
                if peer.left_out.contains(&is_settled) {
                    continue;
                }
                let before = processor_time(peer.pid)?;
                let measured = timeout(LONG, measure(peer.address, peer.queue, messages, is_settled)).await;
                match measured.unwrap_or_else(|elapsed| Err(elapsed.into())) {
                    Ok(()) if round > 0 => {
                        let micros = (processor_time(peer.pid)? - before) * 1e6 / f64::from(messages);
                        if is_settled { &mut peer.settled } else { &mut peer.unsettled }.push(micros);
                    }
                    Ok(()) => {}
                    Err(error) if round == 0 => {
                        let sends = if is_settled { "settled" } else { "unsettled" };
                        println!("cpu: {}: {sends} sends are left out: {error}", peer.name);
                        peer.left_out.push(is_settled);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
    }
    println!(
        "cpu: microseconds of processor time of the server for a message of 100 bytes, median of {ROUNDS} rounds of {messages}"
    );
    let own = [true, false].map(|is_settled| median(if is_settled { &peers[0].settled } else { &peers[0].unsettled }));
    for peer in &peers {
        let [settled, unsettled] = [&peer.settled, &peer.unsettled].map(|rounds| median(rounds));
        println!(
            "cpu: {}: settled sends {settled:.1}, unsettled sends {unsettled:.1}; consign takes {:.2} and {:.2} of it",
            peer.name,
            own[0] / settled,
            own[1] / unsettled
        );
    }
    Ok(())
}

/// Sends messages, receives and completes them.
async fn measure(address: SocketAddr, queue: &str, messages: u32, is_settled: bool) -> Result<(), Failure> {
    let (connection, session) = connect(address).await?;
    let sender = session.attach_sender("sender", queue).await?;
    // RabbitMQ has the first settle mode of receivers only.
    let mut receiver = session.attach_receiver("receiver", queue).await?;
    receiver.set_automatic_credit(WINDOW)?;
    let receive = async {
        for _ in 0..messages {
            let delivery = receiver.recv().await?;
            receiver.settle([delivery.id], &accepted())?;
        }
        Ok::<_, Failure>(())
    };
    tokio::try_join!(send(&sender, messages, is_settled), receive)?;
    connection.close().await?;
    Ok(())
}

async fn send(sender: &SenderLink, messages: u32, is_settled: bool) -> Result<(), Failure> {
    let payload = [message(100)?];
    let sends = (0..messages).map(|_| {
        let delivery = OutboundDelivery { settled: is_settled, ..OutboundDelivery::default() };
        sender.send_with(delivery, &payload)
    });
    let mut outcomes = std::pin::pin!(stream::iter(sends).buffer_unordered(WINDOW as usize));
    while let Some(outcome) = outcomes.next().await {
        if outcome? != (!is_settled).then(accepted) {
            return Err("a message was not accepted".into());
        }
    }
    Ok(())
}

/// Not a number if there are none.
fn median(rounds: &[f64]) -> f64 {
    let mut sorted = rounds.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
