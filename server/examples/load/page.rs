//! The page and peeks of a deep queue, beside those of a queue of 100 messages.

use std::{
    io::Write,
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use consign::{
    message::{EntityPath, SequenceNumber},
    transport::{DynTransport, PeekMessages, TransportRegistry},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    time::Instant,
};

use crate::{Failure, Options, process::Server};

/// Messages of the shallow queue.
const SHALLOW: u32 = 100;
/// What one command, page or peek shows.
const SHOWN: usize = 50;

/// How long calls on one queue took.
#[derive(Default)]
struct Times(Vec<Duration>);

impl Times {
    fn at(&mut self, hundredths: usize) -> Duration {
        self.0.sort_unstable();
        self.0.get((self.0.len() * hundredths / 100).min(self.0.len().saturating_sub(1))).copied().unwrap_or_default()
    }
}

/// A client of the page over one connection.
struct Browser(BufReader<TcpStream>);

impl Browser {
    async fn connect(address: SocketAddr) -> Result<Self, Failure> {
        Ok(Self(BufReader::new(TcpStream::connect(address).await?)))
    }

    async fn get(&mut self, address: SocketAddr, path: &str) -> Result<(), Failure> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        self.0.get_mut().write_all(request.as_bytes()).await?;
        let (mut length, mut status) = (0, String::new());
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).await?;
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse()?;
            }
            if status.is_empty() {
                status = line;
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).await?;
        if !status.contains("200") || length == 0 {
            return Err(format!("{path}: {status}").into());
        }
        Ok(())
    }
}

/// Sends messages by the command line.
fn fill(program: &Path, url: &str, queue: &str, count: u32) -> Result<(), Failure> {
    let mut command = Command::new(program);
    command.args(["send", queue, "--content-type", "application/json", "--message-id", "m"]).env("CONSIGN_URL", url);
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    let mut input = process.stdin.take().ok_or("no standard input")?;
    for number in 0..count {
        writeln!(input, "{{\"order\":{number},\"sku\":\"screw\",\"count\":5}}")?;
    }
    drop(input);
    if process.wait()?.success() { Ok(()) } else { Err("the queue was not filled".into()) }
}

/// Calls for the one queue and the other, in turns, and prints how long both took.
async fn compare(
    what: &str,
    depths: [u32; 2],
    rounds: u32,
    mut call: impl AsyncFnMut(usize) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut times = [Times::default(), Times::default()];
    for round in 0..rounds + 5 {
        for (at, times) in times.iter_mut().enumerate() {
            let began = Instant::now();
            call(at).await?;
            // The first calls warm both up.
            if round >= 5 {
                times.0.push(began.elapsed());
            }
        }
    }
    let [shallow, deep] = &mut times;
    let ratio = deep.at(99).as_secs_f64() / shallow.at(99).as_secs_f64().max(1e-9);
    println!(
        "page: {what}: {} messages {:.2?} (50 %) {:.2?} (99 %), {} messages {:.2?} {:.2?}: {ratio:.2} times at 99 %",
        depths[0],
        shallow.at(50),
        shallow.at(99),
        depths[1],
        deep.at(50),
        deep.at(99)
    );
    Ok(())
}

pub(crate) async fn run(options: &Options) -> Result<(), Failure> {
    let folder = std::env::temp_dir().join(format!("consign-load-{}", std::process::id()));
    let store = folder.join("store");
    std::fs::create_dir_all(&folder)?;
    let in_store = ["--create-entities", "--data", store.to_str().ok_or("a path that is not UTF-8")?];
    let mut done = on(options, "in memory", &[]).await;
    if done.is_ok() {
        done = on(options, "in a store", &in_store).await;
    }
    std::fs::remove_dir_all(&folder)?;
    done
}

async fn on(options: &Options, place: &str, more: &[&str]) -> Result<(), Failure> {
    let mut server = Server::consign(&options.program, more)?;
    let http = server.http()?;
    let url = format!("servicebus://any:any@{}?emulator=true", server.address);
    let depths = [SHALLOW, options.scaled(100_000)];
    let queues = ["shallow", "deep"];
    for (queue, depth) in queues.into_iter().zip(depths) {
        fill(&options.program, &url, queue, depth)?;
    }
    let rounds = options.scaled(1_000);

    let mut browser = Browser::connect(http).await?;
    for (what, from) in [("the first messages", [0, 0]), ("the middle of the messages", depths.map(|depth| depth / 2))]
    {
        compare(&format!("{place}, page, {what}"), depths, rounds, async |at| {
            let path = format!("/$page/messages?path={}&from={}", queues[at], from[at]);
            browser.get(http, &path).await
        })
        .await?;
    }
    compare(&format!("{place}, page, one message in the middle"), depths, rounds, async |at| {
        let path = format!("/$page/message?path={}&number={}", queues[at], depths[at] / 2);
        browser.get(http, &path).await
    })
    .await?;

    let transport: DynTransport = TransportRegistry::new().with(consign_servicebus::connector()).connect(&url).await?;
    let paths = [EntityPath::new(queues[0])?, EntityPath::new(queues[1])?];
    for (what, from) in [("the first", [0, 0]), ("the middle", depths.map(|depth| depth / 2))] {
        compare(&format!("{place}, peek of {SHOWN} by the transport, {what}"), depths, rounds, async |at| {
            let peeked = transport.peek(&paths[at], SequenceNumber::new(from[at].into()), SHOWN).await?;
            if peeked.len() == SHOWN { Ok(()) } else { Err("messages are missing".into()) }
        })
        .await?;
    }
    compare(&format!("{place}, the command `consign peek`"), depths, options.scaled(200), async |at| {
        let mut command = Command::new(&options.program);
        command.args(["peek", queues[at], "-n", "50"]).env("CONSIGN_URL", &url).stdout(Stdio::null());
        if command.status()?.success() { Ok(()) } else { Err("the command has failed".into()) }
    })
    .await
}
