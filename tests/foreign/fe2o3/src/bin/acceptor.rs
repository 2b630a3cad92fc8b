//! `acceptor`: the acceptor of fe2o3-amqp with one queue in memory, to compare servers. It prints its address.
//!
//! A message that a client sends is accepted when it is in the queue. It is sent to any client that has credit, up to [`WINDOW`] of
//! them unsettled, and is gone then.
#![forbid(unsafe_code)]

use std::{collections::VecDeque, error::Error, sync::Arc};

use fe2o3_amqp::{
    Receiver, Sender,
    acceptor::{
        ConnectionAcceptor, LinkAcceptor, LinkEndpoint, ListenerConnectionHandle, ListenerSessionHandle,
        SaslPlainMechanism, SessionAcceptor,
    },
    types::{
        messaging::{Body, Message},
        primitives::Value,
    },
};
use tokio::{
    net::TcpListener,
    sync::{Mutex, mpsc},
};

type Failure = Box<dyn Error + Send + Sync>;
type Stored = Message<Body<Value>>;

const WINDOW: usize = 200;

struct Queue {
    to: mpsc::Sender<Stored>,
    from: Mutex<mpsc::Receiver<Stored>>,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let (to, from) = mpsc::channel(1 << 20);
    let queue = Arc::new(Queue { to, from: Mutex::new(from) });
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let queue = Arc::clone(&queue);
        tokio::spawn(async move {
            let acceptor = ConnectionAcceptor::builder()
                .container_id("acceptor")
                .sasl_acceptor(SaslPlainMechanism::new("guest", "guest"))
                .build();
            match acceptor.accept(stream).await {
                Ok(connection) => sessions(connection, queue).await,
                Err(error) => eprintln!("{error:?}"),
            }
        });
    }
}

async fn sessions(mut connection: ListenerConnectionHandle, queue: Arc<Queue>) {
    let acceptor = SessionAcceptor::new();
    while let Ok(session) = acceptor.accept(&mut connection).await {
        tokio::spawn(links(session, Arc::clone(&queue)));
    }
}

async fn links(mut session: ListenerSessionHandle, queue: Arc<Queue>) {
    let acceptor = LinkAcceptor::new();
    while let Ok(link) = acceptor.accept(&mut session).await {
        let queue = Arc::clone(&queue);
        tokio::spawn(async move {
            // The link ends with its client.
            let _ = match link {
                LinkEndpoint::Receiver(receiver) => take(receiver, queue).await,
                LinkEndpoint::Sender(sender) => give(sender, queue).await,
            };
        });
    }
}

async fn take(mut receiver: Receiver, queue: Arc<Queue>) -> Result<(), Failure> {
    loop {
        let delivery = receiver.recv::<Body<Value>>().await?;
        receiver.accept(&delivery).await?;
        queue.to.send(delivery.into_message()).await?;
    }
}

async fn give(mut sender: Sender, queue: Arc<Queue>) -> Result<(), Failure> {
    let mut unsettled = VecDeque::new();
    loop {
        if unsettled.len() == WINDOW
            && let Some(first) = unsettled.pop_front()
        {
            first.await?;
        }
        // A link without a client must not take a message.
        let message = tokio::select! {
            error = sender.on_detach() => return Err(error.into()),
            message = async { queue.from.lock().await.recv().await } => message.ok_or("the queue is closed")?,
        };
        unsettled.push_back(sender.send_batchable(message).await?);
    }
}
