//! Background jobs of callers that cannot wait: a dropped delivery releases its message.
//!
//! Each delivery holds a place in the queue of these jobs from its receive on. So a drop neither waits nor fails, and the queue
//! has a bound.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use consign_core::transport::SettleError;
use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, oneshot},
    time::sleep,
};
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::{
    database::Database,
    failure::Failure,
    pending::{Pending, Work},
    schema::Schema,
    settle::{Action, Settled, Token, settle},
};

/// A place for one job.
#[derive(Debug)]
pub(crate) struct Place {
    permit: mpsc::OwnedPermit<Queued>,
    pending: Pending,
}

impl Place {
    pub(crate) fn send(self, job: Job) {
        let work = self.pending.begin();
        self.permit.send(Queued { job, work });
    }
}

#[derive(Debug)]
pub(crate) struct Queued {
    job: Job,
    work: Work,
}

#[derive(Debug)]
pub(crate) enum Job {
    /// Releases or abandons a message.
    GiveBack { token: Token, action: Action, answer: Option<oneshot::Sender<Result<(), SettleError>>> },
    /// Gives a session up.
    CloseSession { entity: i64, session: Vec<u8>, token: Uuid },
    /// Releases messages that a receive may have locked whose answer was lost.
    ReleaseAll { entity: i64, holder: i32, token: Uuid },
    /// Wakes receivers of other processes.
    Notify(i64),
}

impl Job {
    /// Whether the delivery counts depends on whether its session was given up before.
    fn is_in_order(&self) -> bool {
        match self {
            Self::GiveBack { token, .. } => token.session.is_some(),
            Self::CloseSession { .. } => true,
            Self::ReleaseAll { .. } | Self::Notify(_) => false,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Chores {
    jobs: mpsc::Sender<Queued>,
    pending: Pending,
    /// Until the jobs are done.
    pub(crate) idle: Mutex<Option<mpsc::Receiver<Queued>>>,
}

impl Chores {
    pub(crate) fn new(places: usize, pending: Pending) -> (Self, mpsc::Receiver<Queued>) {
        let (jobs, receiver) = mpsc::channel(places);
        (Self { jobs, pending, idle: Mutex::new(None) }, receiver)
    }

    /// Returns 1 to `max` places, waiting for the first.
    pub(crate) async fn places(&self, max: usize) -> Vec<Place> {
        let mut places = Vec::new();
        // It is closed only when the runtime shuts down.
        let place = |permit| Place { permit, pending: self.pending.clone() };
        places.extend(self.jobs.clone().reserve_owned().await.map(place));
        while places.len() < max {
            match self.jobs.clone().try_reserve_owned() {
                Ok(permit) => places.push(place(permit)),
                Err(_) => break,
            }
        }
        places
    }

    /// Adds a job that may be left out.
    pub(crate) fn try_add(&self, job: Job) {
        let _ = self.jobs.try_send(Queued { job, work: self.pending.begin() });
    }
}

/// How many jobs are started together.
const BATCH: usize = 256;
/// How many jobs run at once.
const AT_ONCE: usize = 4;
/// How often a job is tried if its connection is lost, or another transaction delays it. After the last attempt its lock runs
/// out.
const TRIES: u32 = 6;

/// Runs jobs until all senders of jobs are dropped.
pub(crate) async fn run(database: Database, schema: Schema, mut jobs: mpsc::Receiver<Queued>) {
    let worker = Arc::new(Worker { database, schema });
    let mut batch = Vec::new();
    while jobs.recv_many(&mut batch, BATCH).await > 0 {
        let (mut entities, mut notifications) = (BTreeSet::new(), Vec::new());
        let (mut in_order, mut others) = (Vec::new(), Vec::new());
        for queued in batch.drain(..) {
            match queued.job {
                Job::Notify(entity) => {
                    entities.insert(entity);
                    notifications.push(queued.work);
                }
                _ if queued.job.is_in_order() => in_order.push(queued),
                _ => others.push(queued),
            }
        }
        let run = |Queued { job, work }| {
            let worker = Arc::clone(&worker);
            async move {
                worker.run(job).await;
                drop(work);
            }
        };
        let others = stream::iter(others).for_each_concurrent(AT_ONCE, run);
        let in_order = stream::iter(in_order).for_each(run);
        tokio::join!(others, in_order);
        if !entities.is_empty() {
            worker.notify(entities).await;
        }
    }
}

struct Worker {
    database: Database,
    schema: Schema,
}

impl Worker {
    async fn run(&self, job: Job) {
        let mut pause = Duration::from_millis(50);
        for attempt in 1..=TRIES {
            let answer = self.attempt(&job).await;
            match answer {
                Err(failure) if (failure.is_of_connection() || failure.is_passing()) && attempt < TRIES => {
                    sleep(pause).await;
                    pause *= 3;
                }
                answer => {
                    if let Job::GiveBack { answer: Some(asked), token, .. } = job {
                        let _ = asked.send(match answer {
                            Ok(settled) => settled.into_result(&token),
                            Err(failure) => Err(failure.into()),
                        });
                    }
                    return;
                }
            }
        }
    }

    async fn attempt(&self, job: &Job) -> Result<Settled, Failure> {
        let sql = |template: &str| template.replace("{s}", &self.schema.identifier);
        match job {
            Job::GiveBack { token, action, .. } => {
                let settled = self
                    .database
                    .with(async |client| settle(&self.database.on(client), &self.schema, token, action).await)
                    .await?;
                if settled != Settled::Lost {
                    self.notify(BTreeSet::from([token.entity])).await;
                }
                Ok(settled)
            }
            Job::CloseSession { entity, session, token } => {
                let parameters: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
                    [(entity, Type::INT8), (session, Type::BYTEA), (token, Type::UUID)];
                self.database.rows(&sql("SELECT {s}.close_session($1, $2, $3)"), &parameters).await?;
                self.notify(BTreeSet::from([*entity])).await;
                Ok(Settled::Done)
            }
            Job::ReleaseAll { entity, holder, token } => {
                let parameters: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
                    [(entity, Type::INT8), (holder, Type::INT4), (token, Type::UUID)];
                self.database.rows(&sql("SELECT {s}.release_all($1, $2, $3)"), &parameters).await?;
                Ok(Settled::Done)
            }
            Job::Notify(_) => Ok(Settled::Done),
        }
    }

    /// Wakes all receivers of these entities. Receivers also poll, so a failure does not matter.
    async fn notify(&self, entities: BTreeSet<i64>) {
        let channel = &self.schema.channel_literal;
        let sql = format!("SELECT pg_notify({channel}, entity::text) FROM unnest($1) AS entity");
        let entities: Vec<i64> = entities.into_iter().collect();
        let _ = self.database.rows(&sql, &[(&entities, Type::INT8_ARRAY)]).await;
    }
}
