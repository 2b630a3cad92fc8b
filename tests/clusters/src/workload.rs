//! The work of one client: producers, consumers, sessions, calls and effects, through the URL of the cluster as a user has it.
//!
//! The client runs in a process of its own. A line on its standard input ends the producers, the end of the input ends it.

mod calls;
mod effects;
mod pace;
mod receiving;
mod sending;
mod sessions;

use std::{path::PathBuf, sync::Arc};

use consign::{
    message::EntityPath,
    transport::{DynTransport, TransportRegistry},
};
use tokio::{
    io::{AsyncBufReadExt, BufReader, stdin},
    sync::watch,
    task::JoinSet,
};
use tower::BoxError;

use self::pace::retried;
pub(crate) use self::{effects::tables, pace::chain};
use crate::history::{Queue, Recorder};

/// What a client is started with.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) url: String,
    /// The database of the effects.
    pub(crate) effects: String,
    /// The prefix of the queues, and of the tables.
    pub(crate) name: String,
    pub(crate) number: u32,
    pub(crate) folder: PathBuf,
    pub(crate) detects_duplicates: bool,
}

/// What the parts of a client share.
#[derive(Clone)]
struct Part {
    client: Arc<Client>,
    transport: DynTransport,
    recorder: Recorder,
    /// Whether producers go on.
    is_producing: watch::Receiver<bool>,
}

impl Part {
    fn queue(&self, queue: Queue) -> EntityPath {
        path(&self.client.name, queue)
    }

    fn is_producing(&self) -> bool {
        *self.is_producing.borrow()
    }
}

/// The path of a queue of a run.
pub(crate) fn path(name: &str, queue: Queue) -> EntityPath {
    let queue = match queue {
        Queue::Work => "work",
        Queue::Detected => "detected",
        Queue::Sessions => "sessions",
    };
    named(name, queue)
}

pub(crate) fn requests(name: &str) -> EntityPath {
    named(name, "requests")
}

/// Where a client gets its replies.
pub(crate) fn replies(name: &str, client: u32) -> EntityPath {
    named(name, &format!("replies-{client}"))
}

fn named(name: &str, queue: &str) -> EntityPath {
    EntityPath::new(&format!("{name}-{queue}")).expect("letters, digits and hyphens")
}

/// Returns a registry of the transports that run on clusters.
pub(crate) fn transports() -> TransportRegistry {
    TransportRegistry::new()
        .with(consign_nats::connector())
        .with(consign_postgres::connector())
        .with(consign_rabbitmq::connector())
}

impl Client {
    /// Works until the standard input ends.
    pub(crate) async fn run(self) -> Result<(), BoxError> {
        let recorder = Recorder::create(&self.folder.join(format!("client-{}.jsonl", self.number)), self.number)?;
        let transports = transports();
        let transport = retried(&recorder, "connect", || transports.connect(&self.url)).await;
        let (producing, is_producing) = watch::channel(true);
        let detects_duplicates = self.detects_duplicates;
        let part = Part { client: Arc::new(self), transport, recorder, is_producing };
        let mut parts = JoinSet::new();
        parts.spawn(sending::produce(part.clone(), Queue::Work));
        parts.spawn(effects::consume(part.clone()));
        if detects_duplicates {
            parts.spawn(sending::produce(part.clone(), Queue::Detected));
            parts.spawn(receiving::consume(part.clone(), Queue::Detected));
        }
        parts.spawn(sessions::produce(part.clone()));
        parts.spawn(sessions::consume(part.clone()));
        parts.spawn(sessions::consume(part.clone()));
        parts.spawn(calls::answer(part.clone()));
        parts.spawn(calls::call(part.clone()));
        let mut lines = BufReader::new(stdin()).lines();
        while lines.next_line().await?.is_some() {
            producing.send_replace(false);
        }
        Ok(())
    }
}
