mod connection;
mod holder;
mod pauses;
mod reads;
mod rows;
#[cfg(feature = "postgres")]
mod same_database;
mod senders;
mod slow;

use std::{
    collections::BTreeSet,
    fmt,
    future::Future,
    pin::{Pin, pin},
    time::Duration,
};

use consign_core::transport::deadline;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_postgres::{
    Client, Config, Socket,
    tls::{MakeTlsConnect, TlsConnect},
};

#[cfg(feature = "postgres")]
pub use self::same_database::SameDatabase;
pub use self::senders::Senders;
use self::{
    connection::{Connection, Connector, within},
    holder::{Backend, WaitingForLock},
    pauses::{Pauses, Selection},
    reads::Reads,
    rows::{Outcome, Report, Waiting},
};
pub(crate) use self::{pauses::Delayed, rows::MESSAGE_ID};
use crate::{Destinations, Outbox, OutboxError, OutboxErrorKind, log};

/// PostgreSQL counts the milliseconds of a statement in 31 bits.
const LONGEST_STATEMENT: Duration = Duration::from_secs(24 * 24 * 3_600);

/// A relay that has the lock, and asks the database for nothing for as long, may have lost its connection.
const IDLE: Duration = Duration::from_secs(60);

/// Sends the messages of an [`Outbox`], in the order of their rows for each destination and session.
///
/// Run one in each process of the application: a lock in the database lets one of them send. If its process ends, or its
/// connection is closed, the next one continues within the [poll interval](Relay::poll_interval). A connection that breaks without a
/// word is closed by the server after 30 s; the relay that had it replaces it after 10 s.
pub struct Relay<M> {
    mode: M,
    connector: Connector,
    to: Progress,
    batch: u32,
    poll: Duration,
}

/// How many messages a relay has settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Relayed {
    /// The messages that were sent and deleted.
    pub sent: u64,
    /// The messages that were refused, and stay in the table.
    pub refused: u64,
}

/// How a relay sends: [`Senders`] or `SameDatabase`.
#[doc(hidden)]
pub trait RelayMode: Send {
    /// Sends some rows, and records the results.
    fn relay(
        &mut self,
        client: &mut Client,
        rows: Vec<Waiting>,
        to: &mut Progress,
    ) -> impl Future<Output = Result<(), OutboxError>> + Send;
}

/// What a relay has done, and its limits.
pub struct Progress {
    outbox: Outbox,
    pauses: Pauses,
    relayed: Relayed,
    timeout: Duration,
    send_timeout: Duration,
    concurrency: usize,
    /// The rows of messages that were sent, which another connection has locked.
    undeleted: BTreeSet<(i64, String)>,
}

/// How many such rows are kept. The message of one that is forgotten is sent again.
const MOST_UNDELETED: usize = 10_000;

impl<D: Destinations> Relay<Senders<D>> {
    /// Creates a relay that sends by a transport, by one sender, or by one stack: at least once. It connects to the database of
    /// `config` when it is run; `tls` is [`NoTls`](tokio_postgres::NoTls) or a TLS connector. Several hosts are tried in their
    /// order. One that does not accept the connection and answer on it is left for the next one after `connect_timeout`, or
    /// otherwise after an equal part of 10 s.
    pub fn new<T>(outbox: Outbox, config: Config, tls: T, destinations: D) -> Self
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send + Sync + 'static,
        T::TlsConnect: Send + Sync,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        Self::with(outbox, Connector::new(config, tls), Senders::new(destinations))
    }
}

#[cfg(feature = "postgres")]
impl Relay<SameDatabase> {
    /// Creates a relay to queues of `postgres`, exactly once: one transaction sends messages and deletes their rows. The queues
    /// are in the database of `config`.
    pub fn same_database<T>(outbox: Outbox, config: Config, tls: T, postgres: consign_postgres::Postgres) -> Self
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send + Sync + 'static,
        T::TlsConnect: Send + Sync,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        Self::with(outbox, Connector::new(config, tls), SameDatabase::new(postgres))
    }
}

impl<M: RelayMode> Relay<M> {
    /// The interval at which a relay looks for messages without a notification, by default.
    pub const POLL_INTERVAL: Duration = Duration::from_secs(1);

    fn with(outbox: Outbox, connector: Connector, mode: M) -> Self {
        let to = Progress {
            outbox,
            pauses: Pauses::new(Duration::from_millis(100), Duration::from_secs(30)),
            relayed: Relayed::default(),
            timeout: Duration::from_secs(10),
            send_timeout: Duration::from_secs(30),
            concurrency: 16,
            undeleted: BTreeSet::new(),
        };
        Self { mode, connector, to, batch: 100, poll: Self::POLL_INTERVAL }
    }

    /// Sets how many rows are read at once: 1 to 10,000; 100. A batch has at most 8 MiB of messages and their ids, or one that is larger. Rows
    /// are left for the next batch if sends of their destination or session take a second or more.
    #[must_use]
    pub fn batch_size(mut self, rows: u32) -> Self {
        self.batch = rows.clamp(1, 10_000);
        self
    }

    /// Sets how many destinations and sessions are sent to at the same time: at least 1; 16. In the same database, it is one.
    #[must_use]
    pub fn concurrency(mut self, sends: usize) -> Self {
        self.to.concurrency = sends.max(1);
        self
    }

    /// Sets how often the relay looks for messages without a notification, and for the lock of another relay: 1 s. At least a
    /// millisecond, and at most a year.
    #[must_use]
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll = deadline::clamped(interval);
        self
    }

    /// Sets the first and the longest pause of a session after a failed send, and of a destination that takes nothing: 100 ms and
    /// 30 s. At least a millisecond, and at most a year. Each pause is twice the last one, less up to half of it at random, until
    /// the session, or one of the destination, is sent.
    #[must_use]
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.to.pauses = Pauses::new(first, longest);
        self
    }

    /// Sets how long a statement of the relay may take: 10 s. After it, the relay connects again. The read after one that took
    /// longer has half as many messages, and twice as long, up to 10 minutes. At least a millisecond, and at most 24 days.
    #[must_use]
    pub fn database_timeout(mut self, timeout: Duration) -> Self {
        self.to.timeout = deadline::clamped(timeout).min(LONGEST_STATEMENT);
        self
    }

    /// Sets how long a send may take: 30 s. After it, the message is sent again. At least a millisecond, and at most 24 days.
    #[must_use]
    pub fn send_timeout(mut self, timeout: Duration) -> Self {
        self.to.send_timeout = deadline::clamped(timeout).min(LONGEST_STATEMENT);
        self
    }

    /// Runs until `shutdown` completes: a signal, or `cancelled_owned()` of a `CancellationToken`. It finishes the messages that
    /// it has read, each within the [send timeout](Relay::send_timeout).
    ///
    /// A lost database, and a destination that does not take messages, are not the end: the relay continues after a pause, with
    /// a WARN line.
    ///
    /// # Errors
    ///
    /// [`Version`](OutboxErrorKind::Version) if the table is that of another version of this crate, and
    /// [`Encoding`](OutboxErrorKind::Encoding) if the encoding of the database is not UTF8.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, messages that were sent last may be sent again.
    pub async fn run_until(mut self, shutdown: impl Future<Output = ()> + Send) -> Result<Relayed, OutboxError> {
        let mut shutdown = pin!(shutdown);
        let mut failures = 0_u32;
        let mut before = None;
        let mut reads = Reads::new(self.batch, self.to.timeout);
        loop {
            let mut is_waiting = false;
            let connecting = self.connector.connect(&self.to.outbox, self.to.timeout, reads.limit());
            let connected = tokio::select! {
                biased;
                () = &mut shutdown => return Ok(self.to.relayed),
                connected = connecting => connected,
            };
            let ended = match connected {
                Ok(mut connection) => {
                    let last = before.replace(connection.backend.clone());
                    let counts = (&mut failures, &mut is_waiting);
                    self.serve(&mut connection, last, shutdown.as_mut(), &mut reads, counts).await
                }
                Err(error) => Err(error),
            };
            let error = match ended {
                Ok(()) => return Ok(self.to.relayed),
                Err(error) if error.kind() != OutboxErrorKind::Database => return Err(error),
                Err(error) => error,
            };
            // A connection that never had the lock has sent nothing, so that nothing is sent again. What others sent still counts.
            let counted = if is_waiting { 0 } else { failures };
            let pause = pauses::length(Duration::from_millis(100), Duration::from_secs(10), counted);
            log::disconnected(&error, pause);
            failures = failures.saturating_add(u32::from(!is_waiting));
            tokio::select! {
                biased;
                () = &mut shutdown => return Ok(self.to.relayed),
                () = sleep(pause) => {}
            }
        }
    }

    /// Sends until the shutdown, or an error of the database. The failures before are over when a batch is recorded, or no
    /// message waits: a database may answer and yet record nothing, and each connection then sends a batch again.
    async fn serve<S>(
        &mut self,
        connection: &mut Connection,
        before: Option<Backend>,
        mut shutdown: Pin<&mut S>,
        reads: &mut Reads,
        (failures, is_waiting): (&mut u32, &mut bool),
    ) -> Result<(), OutboxError>
    where
        S: Future<Output = ()> + Send,
    {
        let mut waiting = WaitingForLock::new(before, IDLE.max(self.poll).saturating_add(self.to.send_timeout));
        while !connection.lock(&self.to.outbox, self.to.timeout).await? {
            *is_waiting = true;
            waiting.refused(connection, &self.to.outbox, self.to.timeout).await?;
            tokio::select! {
                biased;
                () = &mut shutdown => return Ok(()),
                () = sleep(self.poll) => {}
            }
        }
        *is_waiting = false;
        loop {
            let next = self.relay_some(connection, reads, failures).await?;
            tokio::select! {
                biased;
                () = &mut shutdown => return Ok(()),
                () = connection.arrived.notified() => {}
                () = sleep_until(next) => {}
            }
        }
    }

    /// Reads some rows and sends their messages. Returns when to read more without a notification.
    async fn relay_some(
        &mut self,
        connection: &mut Connection,
        reads: &mut Reads,
        failures: &mut u32,
    ) -> Result<Instant, OutboxError> {
        let now = Instant::now();
        let selection = match self.to.pauses.select(reads.rows(), now) {
            Ok(selection) => selection,
            Err(next) => return Ok(next),
        };
        let is_lap = matches!(selection, Selection::Lap(_));
        let read = self.read(&connection.client, selection, reads, now).await;
        match &read {
            Ok(_) => reads.succeeded_after(now.elapsed()),
            Err(_) => reads.failed_after(now.elapsed()),
        }
        let (some, is_end) = read?;
        if !some.is_empty() {
            self.to.pauses.sending();
            let relayed = self.mode.relay(&mut connection.client, some, &mut self.to).await;
            self.to.batch_ended();
            relayed?;
            *failures = 0;
            if is_end {
                self.to.pauses.end_lap(now);
            }
            return Ok(now);
        }
        // Groups that were passed may be read now.
        if !is_end || self.to.pauses.end_lap(now) && is_lap {
            return Ok(now);
        }
        if self.to.pauses.is_empty() {
            // No message waits.
            *failures = 0;
        }
        Ok(self.to.pauses.next(now).unwrap_or(now + self.poll).min(now + self.poll))
    }

    /// Returns rows, and whether the lap ends with them.
    async fn read(
        &mut self,
        client: &Client,
        selection: Selection,
        reads: &Reads,
        now: Instant,
    ) -> Result<(Vec<Waiting>, bool), OutboxError> {
        let Progress { outbox, pauses, .. } = &mut self.to;
        let limit = reads.limit();
        let step = match selection {
            Selection::Oldest => {
                let some = within(limit, rows::read_oldest(client, outbox, reads)).await?;
                return Ok((some, true));
            }
            Selection::Lap(step) => step,
        };
        let found = within(limit, rows::groups_after(client, outbox, &step)).await?;
        let (chosen, is_end) = pauses.choose(&step, found, reads.rows(), now);
        if chosen.is_empty() {
            return Ok((Vec::new(), is_end));
        }
        let some = within(limit, rows::read_groups(client, outbox, &chosen, reads.bytes())).await?;
        let read = some.iter().map(|row| pauses::name(&row.destination, row.session.as_deref())).collect();
        let are_left = pauses.chosen_were_read(&chosen, &read);
        Ok((some, is_end && !are_left))
    }
}

impl Progress {
    /// Counts the results of sends, logs refusals, and begins the pauses of sessions.
    fn add(&mut self, reports: &[Report]) {
        let now = Instant::now();
        for report in reports {
            let (destination, session) = (&report.destination, report.session.as_deref());
            match &report.outcome {
                Outcome::Sent => {
                    self.relayed.sent += 1;
                    self.pauses.answered(destination, session);
                }
                Outcome::Refused(error) => {
                    self.relayed.refused += 1;
                    self.pauses.answered(destination, session);
                    log::refused(destination, &report.message_id, report.id, error);
                }
                Outcome::Failed { error, is_whole } => {
                    let failure = report.failure(error);
                    self.pauses.failed(destination, session, *is_whole, failure, now);
                }
            }
        }
    }

    /// Records that a message was sent, and its row is locked.
    fn keep_undeleted(&mut self, row: i64, message_id: String) {
        self.undeleted.insert((row, message_id));
        if self.undeleted.len() > MOST_UNDELETED {
            self.undeleted.pop_first();
        }
    }

    /// All sends of a batch have ended: logs those that failed, and begins the pauses of destinations.
    fn batch_ended(&mut self) {
        for delayed in self.pauses.batch_ended(Instant::now()) {
            log::delayed(&delayed);
        }
    }
}

impl<M> fmt::Debug for Relay<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay")
            .field("table", &self.to.outbox.table)
            .field("relayed", &self.to.relayed)
            .finish_non_exhaustive()
    }
}
