//! The client's end of a connection on a stream, feature `tokio`.
//!
//! [`Connection::open`] starts a task that reads, writes and keeps time. Sessions, and links that send or receive, are handles:
//!
//! ```no_run
//! use consign_amqp::{
//!     client::{Connection, Options},
//!     types::Accepted,
//! };
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let connection = Connection::connect("127.0.0.1:5672", Options::new("example")).await?;
//! let session = connection.begin().await?;
//!
//! let sender = session.attach_sender("sender", "orders").await?;
//! let outcome = sender.send(b"an encoded message".to_vec()).await?;
//! assert_eq!(outcome, Some(Accepted {}.into()));
//!
//! let mut receiver = session.attach_receiver("receiver", "orders").await?;
//! receiver.set_automatic_credit(10)?;
//! let delivery = receiver.recv().await?;
//! receiver.settle([delivery.id], &Accepted {}.into())?;
//! connection.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`Connector`] gives it a stream over TLS or WebSocket. [`Backoff`] has the pauses of a program that connects again.
//!
//! # Dropping
//!
//! A link is detached when its handle is dropped. A session ends with the last handle of it and of its links, and a connection is
//! closed with the last handle of it and of its sessions. None of these waits; [`Connection::close`] does.
//!
//! Dropping the future of a call leaves nothing behind: a session or link that was not returned is ended or detached, and a delivery
//! is received by the next [`ReceiverLink::recv`]. A send whose future is dropped was either sent completely or not at all, and
//! its outcome is lost.
//!
//! # Timeouts
//!
//! Each call but [`ReceiverLink::recv`] ends after [`Options::timeout`].

mod backoff;
mod connection;
mod connector;
mod error;
mod options;
mod progress;
mod receiver;
mod routes;
mod sender;
mod session;

pub use self::{
    backoff::Backoff,
    connection::Connection,
    connector::Connector,
    error::Error,
    options::Options,
    progress::Progress,
    receiver::{Confirmations, ReceiverLink, Settler},
    sender::{SenderLink, Sending},
    session::Session,
};
