use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use consign_core::{
    time::Timestamp,
    transport::{ErrorKind, ManageError, SettleError},
};
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, timeout_at},
};
use tokio_postgres::types::Type;

use crate::{
    Options,
    chores::Chores,
    completions::{self, Completion},
    database::{Database, Parameter},
    failure::{Failure, TooLate},
    hub::Hub,
    idle::Idle,
    listener::{self, Connector},
    pending::Pending,
    pump,
    quota::Quota,
    receiver::Groups,
    rules,
    schema::Schema,
    settle::Token,
    sweeper,
};

/// The holder under which messages are locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    /// The first listening connection is being opened.
    Unknown,
    /// There is no such connection: locks run out.
    None,
    Known(i32),
}

/// State that all handles of one broker share.
pub(crate) struct Inner {
    pub(crate) database: Database,
    pub(crate) schema: Schema,
    pub(crate) options: Options,
    pub(crate) hub: Hub,
    pub(crate) groups: Groups,
    pub(crate) idle: Idle,
    pub(crate) chores: Chores,
    pub(crate) quota: Quota,
    pub(crate) rules: rules::Cache,
    connector: Option<Arc<Connector>>,
    started: AtomicBool,
    completions: mpsc::Sender<Completion>,
    uncompleted: Mutex<Option<mpsc::Receiver<Completion>>>,
    holder: watch::Sender<Holder>,
    /// That of locks without a listening connection: negative, where those in the table are positive.
    unknown_holder: i32,
    /// Whether the connection of the holder is open, as far as this process knows.
    is_listening: AtomicBool,
    /// Whether other processes may be listening.
    has_company: AtomicBool,
    gone: watch::Sender<()>,
    pub(crate) pumping: pump::Running,
    pub(crate) pending: Pending,
    /// Whether the pool is that of the application.
    is_wrapped: bool,
    is_closed: AtomicBool,
}

impl Inner {
    pub(crate) fn new(
        database: Database,
        schema: Schema,
        options: Options,
        connector: Option<Arc<Connector>>,
        is_wrapped: bool,
    ) -> Arc<Self> {
        let pending = Pending::default();
        let chores = Chores::new(options.max_deliveries, pending.clone());
        let (completions, uncompleted) = mpsc::channel(completions::WAITING);
        Arc::new(Self {
            database,
            schema,
            options,
            hub: Hub::default(),
            groups: Groups::default(),
            idle: Idle::default(),
            chores,
            quota: Quota::default(),
            rules: rules::Cache::default(),
            connector,
            started: AtomicBool::new(false),
            completions,
            uncompleted: Mutex::new(Some(uncompleted)),
            holder: watch::channel(Holder::Unknown).0,
            unknown_holder: fastrand::i32(i32::MIN..0),
            is_listening: AtomicBool::new(false),
            has_company: AtomicBool::new(true),
            gone: watch::channel(()).0,
            pumping: pump::Running::default(),
            pending,
            is_wrapped,
            is_closed: AtomicBool::new(false),
        })
    }

    /// Starts the background tasks, once the tables are known to exist.
    pub(crate) fn start(self: &Arc<Self>) {
        if self.started.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Some(connector) = &self.connector {
            tokio::spawn(listener::run(Arc::downgrade(self), Arc::clone(connector)));
        }
        if let Some(chores) = self.chores.take(self.database.clone(), self.schema.clone()) {
            tokio::spawn(chores);
        }
        if let Some(requests) = self.uncompleted.lock().take() {
            tokio::spawn(completions::run(self.database.clone(), self.schema.clone(), requests));
        }
        tokio::spawn(sweeper::run(Arc::downgrade(self)));
    }

    /// Waits for sends and settlements in flight, ends the background tasks, and closes the pool if it is of this broker.
    pub(crate) async fn close(&self) -> Result<(), ManageError> {
        let drained = tokio::time::timeout(self.database.timeout, self.pending.drained()).await;
        self.is_closed.store(true, Ordering::Release);
        self.gone.send_replace(());
        if !self.is_wrapped {
            self.database.pool.close();
        }
        drained.map_err(|_| Failure::TooLate(TooLate).into())
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Returns a statement with the name of the schema.
    pub(crate) fn sql(&self, template: &str) -> String {
        template.replace("{s}", &self.schema.identifier)
    }

    /// Completes a message of no session, together with others.
    pub(crate) async fn complete(&self, token: Token) -> Result<(), SettleError> {
        let (answer, answered) = oneshot::channel();
        let asked = async {
            let Ok(()) = self.completions.send(Completion { token, answer, work: self.pending.begin() }).await else {
                // The runtime in which the broker was started has ended.
                return completions::alone(&self.database, &self.schema, &token).await;
            };
            let gone = || SettleError::new(ErrorKind::CommunicationProblem).with_detail("the runtime is shutting down");
            answered.await.unwrap_or_else(|_| Err(gone()))
        };
        tokio::time::timeout(self.database.timeout, asked)
            .await
            .unwrap_or_else(|_| Err(Failure::TooLate(TooLate).into()))
    }

    /// Completes messages of no session by one statement. Returns the failures by the index of their messages.
    pub(crate) async fn complete_all(&self, tokens: Vec<(usize, Token)>) -> Vec<(usize, SettleError)> {
        let deadline = Instant::now() + self.database.timeout;
        let late = || SettleError::from(Failure::TooLate(TooLate));
        let (mut failures, mut asked) = (Vec::new(), Vec::with_capacity(tokens.len()));
        for tokens in tokens.chunks(completions::WAITING) {
            match timeout_at(deadline, self.completions.reserve_many(tokens.len())).await {
                Ok(Ok(places)) => {
                    for (place, &(index, token)) in places.zip(tokens) {
                        let (answer, answered) = oneshot::channel();
                        place.send(Completion { token, answer, work: self.pending.begin() });
                        asked.push((index, answered));
                    }
                }
                // The runtime in which the broker was started has ended.
                Ok(Err(_)) => {
                    for &(index, token) in tokens {
                        let alone = completions::alone(&self.database, &self.schema, &token);
                        let completed = timeout_at(deadline, alone).await.unwrap_or_else(|_| Err(late()));
                        failures.extend(completed.err().map(|error| (index, error)));
                    }
                }
                Err(_) => failures.extend(tokens.iter().map(|(index, _)| (*index, late()))),
            }
        }
        for (index, answered) in asked {
            let gone = || SettleError::new(ErrorKind::CommunicationProblem).with_detail("the runtime ends");
            let completed = match timeout_at(deadline, answered).await {
                Ok(answer) => answer.unwrap_or_else(|_| Err(gone())),
                Err(_) => Err(late()),
            };
            failures.extend(completed.err().map(|error| (index, error)));
        }
        failures
    }

    /// Returns the holder of a new lock. One without a listening connection runs out: its holder is none that others know. By that
    /// this process finds what a receive without an answer has locked.
    pub(crate) async fn lock_holder(&self) -> i32 {
        self.listening_holder().await.unwrap_or(self.unknown_holder)
    }

    /// Returns the holder if its connection is open. While that is lost, others may release what the holder has at any time, and with
    /// it what has just been added.
    pub(crate) async fn listening_holder(&self) -> Option<i32> {
        let holder = self.holder().await;
        holder.filter(|_| self.is_listening.load(Ordering::Relaxed))
    }

    /// Returns whether this process has a listening connection, or opens one.
    pub(crate) fn listens(&self) -> bool {
        self.connector.is_some()
    }

    /// Returns the holder of this process. Right after the start it waits a little for the listening connection, which sets it.
    pub(crate) async fn holder(&self) -> Option<i32> {
        const WAIT: Duration = Duration::from_secs(2);
        self.connector.as_ref()?;
        let mut holder = self.holder.subscribe();
        let known = tokio::time::timeout(WAIT, holder.wait_for(|holder| *holder != Holder::Unknown)).await;
        match known.ok()?.ok().as_deref() {
            Some(Holder::Known(holder)) => Some(*holder),
            _ => None,
        }
    }

    /// Records the listening connection.
    pub(crate) fn listening(&self, holder: Option<i32>, has_company: bool) {
        self.has_company.store(has_company, Ordering::Relaxed);
        self.is_listening.store(true, Ordering::Relaxed);
        self.holder.send_replace(holder.map_or(Holder::None, Holder::Known));
    }

    /// Records that there is none. Messages that were locked under the name of the last one stay locked under it for a while.
    pub(crate) fn not_listening(&self) {
        self.is_listening.store(false, Ordering::Relaxed);
        self.holder.send_if_modified(|holder| {
            let is_first = *holder == Holder::Unknown;
            if is_first {
                *holder = Holder::None;
            }
            is_first
        });
    }

    /// Records that there will be none: new locks have no holder.
    pub(crate) fn never_listening(&self) {
        self.is_listening.store(false, Ordering::Relaxed);
        self.has_company.store(true, Ordering::Relaxed);
        self.holder.send_replace(Holder::None);
    }

    /// Records that a process of this holder listens from now on.
    pub(crate) fn joined(&self, holder: &str) {
        let own = *self.holder.borrow();
        if holder.parse().is_ok_and(|holder| own != Holder::Known(holder)) {
            self.has_company.store(true, Ordering::Relaxed);
        }
    }

    /// Sets how many listen, this process among them.
    pub(crate) fn set_listeners(&self, listeners: i64) {
        let is_one = matches!(*self.holder.borrow(), Holder::Known(_));
        self.has_company.store(!is_one || listeners > 1, Ordering::Relaxed);
    }

    /// Returns a signal that ends with the broker.
    pub(crate) fn gone(&self) -> watch::Receiver<()> {
        self.gone.subscribe()
    }

    /// Signals a change of an entity: receivers here and in other processes check it.
    pub(crate) fn arrived(&self, entity: i64) {
        self.hub.wake(entity);
        if self.has_company.load(Ordering::Relaxed) {
            self.chores.notify(entity);
        }
    }

    /// Returns the first value of the first row.
    pub(crate) async fn value<T>(&self, template: &str, parameters: &[Parameter<'_>]) -> Result<Option<T>, Failure>
    where
        T: for<'r> tokio_postgres::types::FromSql<'r>,
    {
        let row = self.database.row(&self.sql(template), parameters).await?;
        Ok(row.map(|row| row.try_get::<_, Option<T>>(0)).transpose()?.flatten())
    }

    /// Returns the time of the database.
    pub(crate) async fn now(&self) -> Result<Timestamp, Failure> {
        let millis: Option<i64> = self.value("SELECT {s}.ms({s}.now())", &[]).await?;
        Ok(Timestamp::from_millis(millis.unwrap_or_default()))
    }

    /// Does what is due at an entity and numbers messages that have arrived so far: others may go on sending. Returns whether
    /// messages wait to be forwarded.
    pub(crate) async fn catch_up(&self, entity: i64) -> Result<bool, Failure> {
        // Of one round.
        const BATCH: i64 = 1_000;
        let sql = self.sql("SELECT leaving, more FROM {s}.step($1)");
        let mut rounds_left = None;
        loop {
            let row = self.database.row(&sql, &[(&entity, Type::INT8)]).await?;
            let Some(row) = row else { return Ok(false) };
            let (is_leaving, is_more): (bool, bool) = (row.try_get(0)?, row.try_get(1)?);
            let rounds = match rounds_left {
                _ if !is_more => 0,
                Some(rounds) => rounds,
                None => {
                    let behind: Option<i64> = self.value("SELECT {s}.behind($1)", &[(&entity, Type::INT8)]).await?;
                    behind.map_or(0, |behind| behind / BATCH + 1)
                }
            };
            if rounds == 0 {
                return Ok(is_leaving);
            }
            rounds_left = Some(rounds - 1);
        }
    }
}
