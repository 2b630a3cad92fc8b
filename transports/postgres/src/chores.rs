//! Background jobs of callers that cannot wait: a dropped delivery releases its message, and a send wakes receivers of other
//! processes.
//!
//! Each delivery holds a place in the queue of these jobs from its receive on. So a drop neither waits nor fails, and the queue
//! has a bound. Wake-ups need no place: there is at most one for each entity.

use std::{
    collections::{BTreeMap, HashMap, VecDeque, hash_map::Entry},
    future::Future,
    sync::Arc,
    time::Duration,
};

use consign_core::transport::SettleError;
use futures_util::{StreamExt, stream::FuturesUnordered};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, Semaphore, mpsc, oneshot},
    time::{Instant, sleep, sleep_until},
};
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::{
    database::Database,
    failure::Failure,
    log,
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
struct Queued {
    job: Job,
    work: Work,
}

#[derive(Debug)]
pub(crate) enum Job {
    /// Releases or abandons a message.
    GiveBack { token: Token, action: Action, answer: Option<oneshot::Sender<Result<(), SettleError>>> },
    /// Gives a session up: this one, or the one that has the token, if any has.
    CloseSession {
        entity: i64,
        session: Option<Vec<u8>>,
        token: Uuid,
        /// For an accept without an answer, how long the lock would hold: its statement may still run, and lock the session later.
        unanswered: Option<Duration>,
    },
    /// Releases messages that a receive may have locked whose answer was lost. `unanswered` is how long the locks would hold, as
    /// above.
    ReleaseAll { entity: i64, holder: i32, token: Uuid, unanswered: Duration },
}

impl Job {
    /// The lock of a session whose jobs run one after the other: whether a delivery counts depends on whether its session was given
    /// up before.
    fn session(&self) -> Option<Uuid> {
        match self {
            Self::GiveBack { token, .. } => token.session,
            Self::CloseSession { token, .. } => Some(*token),
            Self::ReleaseAll { .. } => None,
        }
    }

    const fn entity(&self) -> i64 {
        match self {
            Self::GiveBack { token, .. } => token.entity,
            Self::CloseSession { entity, .. } | Self::ReleaseAll { entity, .. } => *entity,
        }
    }

    fn unanswered(&self) -> Option<Duration> {
        match self {
            Self::CloseSession { unanswered, .. } => *unanswered,
            Self::ReleaseAll { unanswered, .. } => Some(*unanswered),
            Self::GiveBack { .. } => None,
        }
    }
}

/// A job that is repeated until that time, because it may have come too early.
struct Early {
    job: Job,
    until: Instant,
}

/// The entities whose receivers in other processes are to be woken.
#[derive(Debug, Default)]
struct Arrivals {
    entities: Mutex<BTreeMap<i64, Work>>,
    added: Notify,
}

#[derive(Debug)]
pub(crate) struct Chores {
    jobs: mpsc::Sender<Queued>,
    pending: Pending,
    arrivals: Arc<Arrivals>,
    /// Until the jobs are done.
    idle: Mutex<Option<mpsc::Receiver<Queued>>>,
}

impl Chores {
    pub(crate) fn new(places: usize, pending: Pending) -> Self {
        let (jobs, receiver) = mpsc::channel(places);
        Self { jobs, pending, arrivals: Arc::default(), idle: Mutex::new(Some(receiver)) }
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

    /// Wakes the receivers of an entity in other processes, soon.
    pub(crate) fn notify(&self, entity: i64) {
        self.arrivals.entities.lock().entry(entity).or_insert_with(|| self.pending.begin());
        self.arrivals.added.notify_one();
    }

    /// Returns the tasks, once.
    pub(crate) fn take(&self, database: Database, schema: Schema) -> Option<impl Future<Output = ()> + Send + use<>> {
        let jobs = self.idle.lock().take()?;
        let worker = Arc::new(Worker { database, schema, places: Semaphore::new(AT_ONCE) });
        let arrivals = Arc::clone(&self.arrivals);
        Some(async move {
            let notifying = async {
                loop {
                    arrivals.added.notified().await;
                    let entities = std::mem::take(&mut *arrivals.entities.lock());
                    worker.notify(entities.keys().copied().collect()).await;
                }
            };
            tokio::select! {
                () = run(&worker, jobs) => {}
                () = notifying => {}
            }
        })
    }
}

/// How many jobs are started and have not ended.
const STARTED: usize = 256;
/// How many jobs use the database at once.
const AT_ONCE: usize = 4;
/// How often a job is tried if its connection is lost, or another transaction delays it. After the last attempt its lock runs
/// out.
const TRIES: u32 = 6;
/// How many jobs are repeated that may have come too early, and the longest pause between two attempts. The lock of one more runs
/// out.
const EARLY: usize = 1_024;
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Runs jobs until all senders of jobs are dropped.
async fn run(worker: &Arc<Worker>, mut jobs: mpsc::Receiver<Queued>) {
    let start = |Queued { job, work }| {
        let worker = Arc::clone(worker);
        async move {
            let session = job.session();
            let early = worker.run(job).await;
            drop(work);
            (session, early)
        }
    };
    let (mut batch, mut running, mut repeated) = (Vec::new(), FuturesUnordered::new(), FuturesUnordered::new());
    // What waits for an earlier job of its session.
    let mut waiting: HashMap<Uuid, VecDeque<Queued>> = HashMap::new();
    let (mut started, mut is_open) = (0, true);
    loop {
        tokio::select! {
            received = jobs.recv_many(&mut batch, STARTED - started), if is_open && started < STARTED => {
                is_open = received > 0;
                started += received;
                for queued in batch.drain(..) {
                    match queued.job.session().map(|session| waiting.entry(session)) {
                        Some(Entry::Occupied(mut others)) => others.get_mut().push_back(queued),
                        Some(Entry::Vacant(first)) => {
                            first.insert(VecDeque::new());
                            running.push(start(queued));
                        }
                        None => running.push(start(queued)),
                    }
                }
            }
            Some((session, early)) = running.next() => {
                started -= 1;
                match early {
                    Some(early) if repeated.len() < EARLY => repeated.push(worker.repeat(early)),
                    Some(early) => log::lock_left(early.job.entity()),
                    None => {}
                }
                let Some(session) = session else { continue };
                match waiting.get_mut(&session).and_then(VecDeque::pop_front) {
                    Some(next) => running.push(start(next)),
                    None => drop(waiting.remove(&session)),
                }
            }
            Some(()) = repeated.next(), if is_open || started > 0 => {}
            else => return,
        }
    }
}

struct Worker {
    database: Database,
    schema: Schema,
    places: Semaphore,
}

impl Worker {
    /// Returns the job if it is to be repeated.
    async fn run(&self, job: Job) -> Option<Early> {
        let early = job.unanswered().map(|lock| Instant::now() + lock);
        let mut pause = Duration::from_millis(50);
        for attempt in 1..=TRIES {
            let place = self.places.acquire().await;
            let answer = self.attempt(&job).await;
            drop(place);
            match answer {
                Err(failure) if failure.is_temporary() && attempt < TRIES => {
                    sleep(pause).await;
                    pause *= 3;
                }
                Ok(Settled::Lost) | Err(_) if early.is_some() => break,
                answer => {
                    if let Job::GiveBack { answer: Some(asked), token, .. } = job {
                        let _ = asked.send(match answer {
                            Ok(settled) => settled.into_result(&token),
                            Err(failure) => Err(failure.into()),
                        });
                    }
                    return None;
                }
            }
        }
        early.map(|until| Early { job, until })
    }

    async fn repeat(&self, Early { job, until }: Early) {
        let mut pause = Duration::from_millis(50);
        loop {
            let is_last = Instant::now() + pause >= until;
            sleep_until(until.min(Instant::now() + pause)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
            let place = self.places.acquire().await;
            let answer = self.attempt(&job).await;
            drop(place);
            let is_over = match answer {
                Ok(settled) => settled != Settled::Lost,
                Err(failure) => !failure.is_temporary(),
            };
            if is_over || is_last {
                return;
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
                match settled {
                    Settled::Lost => {}
                    // Who is notified forwards them. After a failure the next sweep does.
                    Settled::Leaving => {
                        let sql = format!("SELECT pg_notify({}, '!' || $1::text)", self.schema.channel_literal);
                        let _ = self.database.rows(&sql, &[(&token.entity, Type::INT8)]).await;
                    }
                    _ => self.notify(vec![token.entity]).await,
                }
                Ok(settled)
            }
            Job::CloseSession { entity, session, token, unanswered } => {
                let parameters: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
                    [(entity, Type::INT8), (session, Type::BYTEA), (token, Type::UUID)];
                let drop = "SELECT {s}.drop_session(entity, session, token) FROM {s}.sessions
                    WHERE entity = $1 AND session = coalesce($2, session) AND token = $3";
                let drop = if session.is_some() { "SELECT {s}.drop_session($1, $2, $3)" } else { drop };
                let dropped = self.database.rows(&sql(drop), &parameters).await?;
                let is_dropped: Option<bool> = dropped.first().map(|row| row.try_get(0)).transpose()?;
                if is_dropped != Some(true) && unanswered.is_some() {
                    return Ok(Settled::Lost);
                }
                self.notify(vec![*entity]).await;
                Ok(Settled::Done)
            }
            Job::ReleaseAll { entity, holder, token, .. } => {
                let parameters: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
                    [(entity, Type::INT8), (holder, Type::INT4), (token, Type::UUID)];
                let released = self.database.rows(&sql("SELECT {s}.release_all($1, $2, $3)"), &parameters).await?;
                let is_released: Option<bool> = released.first().map(|row| row.try_get(0)).transpose()?;
                if is_released != Some(true) {
                    return Ok(Settled::Lost);
                }
                self.notify(vec![*entity]).await;
                Ok(Settled::Done)
            }
        }
    }

    /// Wakes all receivers of these entities. Receivers also poll, so a failure does not matter.
    async fn notify(&self, entities: Vec<i64>) {
        let channel = &self.schema.channel_literal;
        let sql = format!("SELECT pg_notify({channel}, entity::text) FROM unnest($1) AS entity");
        let _ = self.database.rows(&sql, &[(&entities, Type::INT8_ARRAY)]).await;
    }
}
