//! A broker of one queue over TCP: each side writes lines, and a line that is asked is answered by one.
//!
//! `send ID` is answered by `ok`, `receive` by `message ID` or `nothing`, `complete ID` by `ok` or `lost`. A message is
//! locked for the connection that received it, and free again when that ends.

#![expect(clippy::unwrap_used, reason = "a toy that breaks is a test that fails")]

use std::{
    collections::VecDeque,
    future::Future,
    io,
    net::{Ipv4Addr, SocketAddr},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use consign::{
    Disposition, Message,
    administration::{Administration, Counts, Entity, EntitySettings, QueueSettings},
    message::EntityPath,
    time::Timestamp,
    transport::{
        AsyncReceiver, Batch, Capabilities, Capability, Delivery, DynTransport, ErrorKind, FromAsync, Lease, Level,
        ManageError, ReceiveError, ReceiveMode, SendError, Sender, SettleError, Stop, Transport,
    },
};
use consign_conformance::{Failure, faults::Server};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    time::{sleep, timeout},
};

/// What the toy does instead of what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    Loses,
    Invents,
    ForgetsCompletions,
    Repeats,
}

/// A lie is told once in so many calls.
const SELDOM: u64 = 10;
/// Repeated messages are noticed when they are more than the faults, also where few are sent between two faults.
const OFTEN: u64 = 3;

pub(crate) struct Toy {
    address: SocketAddr,
}

#[derive(Default)]
struct Queue {
    messages: Mutex<VecDeque<String>>,
    calls: AtomicU64,
}

impl Toy {
    pub(crate) async fn start(lie: Option<Lie>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let queue = Arc::new(Queue::default());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let queue = Arc::clone(&queue);
                tokio::spawn(async move {
                    let mut locked = Vec::new();
                    let _ = queue.serve(stream, lie, &mut locked).await;
                    queue.messages.lock().unwrap().extend(locked);
                });
            }
        });
        Self { address }
    }
}

impl Queue {
    async fn serve(&self, stream: TcpStream, lie: Option<Lie>, locked: &mut Vec<String>) -> io::Result<()> {
        let (from, mut to) = stream.into_split();
        let mut from = BufReader::new(from);
        loop {
            let mut line = String::new();
            from.read_line(&mut line).await?;
            // A line that was torn asks nothing.
            let Some(line) = line.strip_suffix('\n') else { return Ok(()) };
            to.write_all(self.answer(line, lie, locked).as_bytes()).await?;
        }
    }

    fn answer(&self, line: &str, lie: Option<Lie>, locked: &mut Vec<String>) -> String {
        let mut messages = self.messages.lock().unwrap();
        let (call, id) = line.split_once(' ').unwrap_or((line, ""));
        let every = if lie == Some(Lie::Repeats) { OFTEN } else { SELDOM };
        let is_time = self.calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(every);
        let lie = lie.filter(|_| is_time);
        match call {
            "send" if lie == Some(Lie::Loses) => "ok\n".into(),
            "send" => {
                if lie == Some(Lie::Invents) {
                    messages.push_back(format!("invented {id}").replace(' ', "-"));
                }
                if lie == Some(Lie::Repeats) {
                    messages.extend([id.to_owned(), id.to_owned()]);
                }
                messages.push_back(id.to_owned());
                "ok\n".into()
            }
            "receive" => messages.pop_front().map_or_else(
                || "nothing\n".into(),
                |id| {
                    locked.push(id.clone());
                    format!("message {id}\n")
                },
            ),
            _ => match locked.iter().position(|locked| locked == id) {
                None => "lost\n".into(),
                Some(at) => {
                    let id = locked.swap_remove(at);
                    if lie == Some(Lie::ForgetsCompletions) {
                        messages.push_back(id);
                    }
                    "ok\n".into()
                }
            },
        }
    }
}

impl Server for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn address(&self) -> SocketAddr {
        self.address
    }

    async fn connect(&self, address: SocketAddr) -> Result<DynTransport, Failure> {
        let connection = Connection(Arc::new(Shared { address, stream: tokio::sync::Mutex::default() }));
        Ok(DynTransport::builder(connection).administration().build())
    }

    fn deadline(&self) -> Duration {
        Connection::DEADLINE
    }

    /// A lock ends with its connection.
    fn queue(&self) -> QueueSettings {
        QueueSettings::default().lock_duration(Duration::ZERO)
    }
}

#[derive(Clone)]
pub(crate) struct Connection(Arc<Shared>);

struct Shared {
    address: SocketAddr,
    /// With the number of the connection it is over: a lock ends with its connection.
    stream: tokio::sync::Mutex<(u64, Option<Stream>)>,
}

type Stream = (BufReader<OwnedReadHalf>, OwnedWriteHalf);

impl Connection {
    const DEADLINE: Duration = Duration::from_millis(500);

    /// Connects if need be, asks, and answers with the number of the connection. Whatever fails ends the connection.
    async fn ask(&self, question: &str, over: Option<u64>) -> io::Result<(u64, String)> {
        let mut shared = self.0.stream.lock().await;
        if over.is_some_and(|over| over != shared.0 || shared.1.is_none()) {
            return Ok((shared.0, "lost".into()));
        }
        let (number, mut stream) = (shared.0, shared.1.take());
        let asked = timeout(Self::DEADLINE, async {
            let (mut from, mut to) = if let Some(stream) = stream.take() {
                stream
            } else {
                let (from, to) = TcpStream::connect(self.0.address).await?.into_split();
                shared.0 = number + 1;
                (BufReader::new(from), to)
            };
            to.write_all(format!("{question}\n").as_bytes()).await?;
            let mut answer = String::new();
            from.read_line(&mut answer).await?;
            let Some(answer) = answer.strip_suffix('\n') else { return Err(io::ErrorKind::UnexpectedEof.into()) };
            shared.1 = Some((from, to));
            Ok((shared.0, answer.to_owned()))
        });
        asked.await?
    }
}

macro_rules! broken {
    ($error:ident) => {
        |error| $error::new(ErrorKind::CommunicationProblem).with_source(error)
    };
}

impl Sender for Connection {
    type Send = Pin<Box<dyn Future<Output = Result<(), SendError>> + Send>>;

    fn send(&self, message: Message) -> Self::Send {
        let this = self.clone();
        Box::pin(async move {
            let question = format!("send {}", message.message_id().unwrap());
            this.ask(&question, None).await.map(drop).map_err(broken!(SendError))
        })
    }

    fn send_batch(&self, _: Batch) -> Self::Send {
        Box::pin(async { Err(SendError::new(ErrorKind::NotSupported)) })
    }
}

impl AsyncReceiver for Connection {
    type Lease = Locked;

    async fn receive(&mut self, _: usize, _: Stop) -> Result<Vec<Delivery<Locked>>, ReceiveError> {
        loop {
            let (number, answer) = self.ask("receive", None).await.map_err(broken!(ReceiveError))?;
            if let Some(id) = answer.strip_prefix("message ") {
                let message = Message::builder().message_id(id.to_owned()).build("").unwrap();
                return Ok(vec![Delivery { message, lease: Locked(self.clone(), id.to_owned(), number) }]);
            }
            sleep(Duration::from_millis(2)).await;
        }
    }
}

/// A connection, a message, and the number of the connection that it came over.
pub(crate) struct Locked(Connection, String, u64);

impl Lease for Locked {
    type Settle = Pin<Box<dyn Future<Output = Result<(), SettleError>> + Send>>;
    type Renew = Pin<Box<dyn Future<Output = Result<Timestamp, SettleError>> + Send>>;

    fn settle(self, disposition: Disposition) -> Self::Settle {
        assert!(matches!(disposition, Disposition::Complete), "the harness does nothing else");
        Box::pin(async move {
            let (_, answer) =
                self.0.ask(&format!("complete {}", self.1), Some(self.2)).await.map_err(broken!(SettleError))?;
            if answer == "ok" { Ok(()) } else { Err(SettleError::new(ErrorKind::MessageLockLost)) }
        })
    }

    fn release(self) -> Self::Settle {
        Box::pin(async { Ok(()) })
    }

    fn renew(&self) -> Self::Renew {
        Box::pin(async { Err(SettleError::new(ErrorKind::NotSupported)) })
    }

    fn lock_duration(&self) -> Option<Duration> {
        None
    }
}

impl Transport for Connection {
    type Sender = Self;
    type Lease = Locked;
    type Receiver = FromAsync<Self>;

    fn capabilities(&self) -> Capabilities {
        Capabilities::none().with(Capability::PeekLock, Level::Native)
    }

    async fn sender(&self, _: &EntityPath) -> Result<Self, SendError> {
        Ok(self.clone())
    }

    async fn receiver(&self, _: &EntityPath, _: ReceiveMode) -> Result<FromAsync<Self>, ReceiveError> {
        Ok(FromAsync::new(self.clone()))
    }
}

fn no_such_call<T>() -> Result<T, ManageError> {
    Err(ManageError::new(ErrorKind::NotSupported))
}

/// There is one queue, at every path.
impl Administration for Connection {
    async fn create(&self, _: &EntityPath, _: &EntitySettings) -> Result<(), ManageError> {
        Ok(())
    }

    async fn declare(&self, _: &EntityPath, _: &EntitySettings) -> Result<(), ManageError> {
        Ok(())
    }

    async fn update(&self, _: &EntityPath, _: &EntitySettings) -> Result<(), ManageError> {
        no_such_call()
    }

    async fn delete(&self, _: &EntityPath) -> Result<(), ManageError> {
        Ok(())
    }

    async fn settings(&self, _: &EntityPath) -> Result<EntitySettings, ManageError> {
        no_such_call()
    }

    async fn list(&self) -> Result<Vec<Entity>, ManageError> {
        no_such_call()
    }

    async fn counts(&self, _: &EntityPath) -> Result<Counts, ManageError> {
        no_such_call()
    }
}
