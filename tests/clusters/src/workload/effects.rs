//! A consumer with the layer of duplicate detection, whose effects are rows of the transaction that commits the id.

use std::{fmt, sync::Arc, time::Duration};

use consign::{
    Disposition, Message,
    consumer::Consumer,
    middleware::dedup::{DedupKey, DedupLayer, StoreError},
    transport::{ReceiveMode, Transport},
};
use consign_store_postgres::{
    Claim, PostgresStore, Table,
    tokio_postgres::{Client as Database, Config, NoTls},
};
use tokio::{sync::Mutex, time::sleep};
use tower::{Layer, ServiceExt, service_fn};

use super::{
    Part,
    pace::{RETRY, chain, retried},
};
use crate::history::{Queue, What};

const SCOPE: &str = "work";
/// Longer than a run.
const WINDOW: Duration = Duration::from_secs(24 * 3_600);
/// Of a reservation: after a client was killed, its messages wait for this time.
const LEASE: Duration = Duration::from_secs(6);

/// The names of the tables of a run: the ids, and the effects.
pub(crate) fn tables(name: &str) -> (String, String) {
    let name = name.replace('-', "_");
    (format!("{name}_ids"), format!("{name}_effects"))
}

/// A connection for effects that is made again when it is lost.
type Connection = Arc<Mutex<Option<Database>>>;

pub(super) async fn consume(part: Part) {
    let recorder = &part.recorder;
    let (ids, effects) = tables(&part.client.name);
    let config: Config = part.client.effects.parse().expect("the URL of a database");
    let store = retried(recorder, "store", || {
        let table = Table::new(&ids).expect("a name of letters");
        PostgresStore::builder(WINDOW).table(table).connect(config.clone(), NoTls)
    })
    .await;
    let handler = Handler { store, config, insert: format!("INSERT INTO {effects} (message) VALUES ($1)").into() };
    loop {
        let handler = handler.clone();
        let dedup = DedupLayer::new(handler.store.clone(), SCOPE).lease(LEASE);
        let connection = Arc::new(Mutex::new(None));
        let service = service_fn(move |message| handler.clone().handle(Arc::clone(&connection), message));
        let recorder = recorder.clone();
        let stack = dedup.layer(service).map_request({
            let recorder = recorder.clone();
            move |message: Message| {
                let id = message.message_id().unwrap_or_default().to_owned();
                let sequence = message.received().map(|received| received.sequence_number.get());
                recorder.record(What::Delivered { queue: Queue::Work, id, sequence, hold: None });
                message
            }
        });
        let path = part.queue(Queue::Work);
        let mode = ReceiveMode::PeekLock;
        let receiver = retried(&recorder, "receiver", || part.transport.receiver(&path, mode)).await;
        let ended = Consumer::new(receiver, stack).concurrency(4).run().await;
        let error = ended.err().map(|error| chain(&error)).unwrap_or_default();
        recorder.record(What::Stopped { part: "consumer".into(), error });
        sleep(RETRY).await;
    }
}

#[derive(Clone)]
struct Handler {
    store: PostgresStore,
    config: Config,
    insert: Arc<str>,
}

/// An effect that was not committed, or perhaps.
#[derive(Debug)]
enum EffectError {
    Database(consign_store_postgres::tokio_postgres::Error),
    Store(StoreError),
}

impl Handler {
    async fn handle(self, connection: Connection, message: Message) -> Result<Disposition, EffectError> {
        let mut connection = connection.lock().await;
        let mut database = match connection.take() {
            Some(database) if !database.is_closed() => database,
            _ => {
                let (database, task) = self.config.connect(NoTls).await?;
                tokio::spawn(task);
                database
            }
        };
        self.effect(&mut database, &message).await?;
        *connection = Some(database);
        Ok(Disposition::Complete)
    }

    /// The row of a message, and its id, by one commit.
    async fn effect(&self, database: &mut Database, message: &Message) -> Result<(), EffectError> {
        let id = message.message_id().unwrap_or_default();
        let transaction = database.transaction().await?;
        let claim = self.store.commit_in(&transaction, DedupKey::new(SCOPE, id.as_bytes())).await;
        if claim.map_err(EffectError::Store)? == Claim::New {
            transaction.execute(&*self.insert, &[&id]).await?;
            transaction.commit().await?;
        }
        Ok(())
    }
}

impl From<consign_store_postgres::tokio_postgres::Error> for EffectError {
    fn from(error: consign_store_postgres::tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl fmt::Display for EffectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Database(error) => write!(f, "the effect failed: {}", chain(error)),
            Self::Store(error) => write!(f, "the id failed: {}", chain(error)),
        }
    }
}

impl std::error::Error for EffectError {}
