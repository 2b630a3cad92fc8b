//! The state that the parts of one client share.

use std::sync::{Arc, OnceLock};

use consign_core::{
    message::EntityPath,
    time::{Clock, SystemClock, Timestamp},
    transport::ErrorKind,
};
use lapin::{
    ExchangeKind,
    options::{ExchangeDeclareOptions, QueueDeclareOptions, QueueDeleteOptions},
    types::FieldTable,
};
use tokio::sync::OnceCell;

use crate::{
    arguments::quorum,
    cancels::Cancels,
    dead_letters::exchanges::DeadLetterExchanges,
    delays::Delays,
    entities::Entities,
    error::Failure,
    link::{Leased, Link},
    numbers::Numbers,
    publisher::Publisher,
    session::Slots,
};

/// The state of a client, which its clones and everything that it has created share.
pub(crate) struct Shared {
    pub(crate) link: Arc<Link>,
    pub(crate) numbers: Numbers,
    /// Distinguishes the locks of this process from those of another.
    pub(crate) salt: u64,
    clock: SystemClock,
    /// The settings of entities.
    pub(crate) entities: Arc<Entities>,
    /// Where the dead letters of queues of other programs go.
    pub(crate) dead_letters: Arc<DeadLetterExchanges>,
    moves: OnceLock<Publisher>,
    delays: OnceCell<Delays>,
    pub(crate) cancels: Arc<Cancels>,
    /// The slots of sessions that are read here.
    pub(crate) slots: Slots,
}

impl Shared {
    pub(crate) fn new(link: Link, entities: Arc<Entities>, dead_letters: Arc<DeadLetterExchanges>) -> Self {
        Self {
            link: Arc::new(link),
            numbers: Numbers::new(),
            salt: fastrand::u64(..),
            clock: SystemClock::new(),
            entities,
            dead_letters,
            moves: OnceLock::new(),
            delays: OnceCell::new(),
            cancels: Arc::default(),
            slots: Slots::default(),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now().utc
    }

    /// The publisher for copies of messages that move. On a channel that was wrapped it is the only one: a message that the broker
    /// returns is known to the publisher alone that has published it, and lapin may report it with the confirm of another.
    pub(crate) fn moves(&self) -> &Publisher {
        self.moves.get_or_init(|| Publisher::spawn(Arc::clone(&self.link)))
    }

    pub(crate) async fn delays(&self) -> Result<&Delays, Failure> {
        self.delays.get_or_try_init(|| Delays::declare(&self.link)).await
    }

    /// Forgets the bindings of a delay target. It is bound again if it is created again.
    pub(crate) fn forget_delays(&self, name: &str) {
        if let Some(delays) = self.delays.get() {
            delays.forget(name);
        }
    }

    /// Runs one operation on a channel of its own, which an error may end.
    pub(crate) async fn manage<T, F>(&self, what: &str, operation: F) -> Result<T, Failure>
    where
        F: AsyncFnOnce(&Leased) -> lapin::Result<T>,
    {
        self.link.manage(what, operation).await
    }

    /// Returns whether a queue of this name exists.
    pub(crate) async fn has_queue(&self, name: &str) -> Result<bool, Failure> {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::durable() };
        let asking =
            async |leased: &Leased| leased.channel.queue_declare(name.into(), options, FieldTable::default()).await;
        match self.manage("queue.declare", asking).await {
            Ok(_) => Ok(true),
            Err(failure) if failure.kind() == ErrorKind::EntityNotFound => Ok(false),
            // An exclusive queue of another connection.
            Err(failure) if failure.is_exclusive() => Ok(true),
            Err(failure) => Err(failure),
        }
    }

    /// Returns whether a headers exchange of this name exists.
    pub(crate) async fn has_exchange(&self, name: &str) -> Result<bool, Failure> {
        let passive = ExchangeDeclareOptions { passive: true, durable: true, ..ExchangeDeclareOptions::default() };
        let asking = async |leased: &Leased| {
            leased.channel.exchange_declare(name.into(), ExchangeKind::Headers, passive, FieldTable::default()).await
        };
        match self.manage("exchange.declare", asking).await {
            Ok(()) => Ok(true),
            Err(failure) if failure.kind() == ErrorKind::EntityNotFound => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    pub(crate) async fn declare(&self, name: &str, arguments: FieldTable) -> Result<(), Failure> {
        let declaring = async |leased: &Leased| {
            leased.channel.queue_declare(name.into(), QueueDeclareOptions::durable(), arguments).await
        };
        self.manage("queue.declare", declaring).await.map(drop)
    }

    pub(crate) async fn declare_dead_letters(&self, path: &EntityPath) -> Result<(), Failure> {
        self.declare(path.as_str(), quorum().into()).await
    }

    pub(crate) async fn delete_queue(&self, name: &str) -> Result<(), Failure> {
        let deleting =
            async |leased: &Leased| leased.channel.queue_delete(name.into(), QueueDeleteOptions::default()).await;
        self.cancels.deleting(name, self.manage("queue.delete", deleting)).await.map(drop)
    }
}
