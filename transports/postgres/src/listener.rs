//! The listening connection: it wakes receivers, and its life is that of this process's locks.

use std::{
    ops::RangeInclusive,
    pin::Pin,
    sync::{Arc, Weak},
    time::Duration,
};

use consign_postgres_connect::connect_first;
use futures_util::{
    FutureExt, StreamExt,
    future::BoxFuture,
    stream::{BoxStream, poll_fn},
};
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::{
    AsyncMessage, Client, Config, Error, Socket,
    tls::{MakeTlsConnect, TlsConnect},
    types::Type,
};

use crate::{
    Inner,
    failure::{Failure, TooLate},
    log,
    pump::pump_soon,
};

/// The settings of a connection of the pool. A statement that waits for a row of another transaction would block its connection for
/// others. Statements are not limited as a whole, as the application uses these connections too.
pub(crate) fn settings(timeout: Duration) -> String {
    format!("{SESSION}; SET lock_timeout = {}", (timeout.as_millis() / 2).clamp(1, 5_000))
}

/// The settings of the listening connection.
const LISTENING: &str = "SET lock_timeout = '5s'";
/// Begins a transaction of the listening connection. What it writes is lost only with the locks of its holder. On a connection of a
/// pooler the setting must not last, or messages of others would be confirmed before they are on the disk.
const BEGIN: &str = "BEGIN; SET LOCAL synchronous_commit = off";
const SESSION: &str = "SET jit = off; SET default_transaction_isolation = 'read committed'";

type Messages = BoxStream<'static, Result<AsyncMessage, Error>>;
type Connecting = BoxFuture<'static, Result<(Client, Messages), Error>>;

/// Opens connections that pass their notifications on.
pub(crate) struct Connector(Box<dyn Fn() -> Connecting + Send + Sync>);

impl Connector {
    pub(crate) fn new<T>(config: Config, tls: T, timeout: Duration) -> Arc<Self>
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send + Sync + 'static,
        T::TlsConnect: Send + Sync,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        Arc::new(Self(Box::new(move || {
            let (config, tls) = (config.clone(), tls.clone());
            Box::pin(async move {
                let connect = |config: Config| {
                    let tls = tls.clone();
                    async move { config.connect(tls).await }.boxed()
                };
                let (client, mut connection) = connect_first(&config, timeout, connect).await?;
                let messages = poll_fn(move |cx| Pin::new(&mut connection).poll_message(cx));
                Ok((client, messages.boxed() as Messages))
            })
        })))
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// How long a loss of the connection may go unnoticed, and how long another one may take. All together is less than a grace of 5 s or
/// more, after which other processes release what this one has locked. A shorter grace does not make a server answer faster.
#[derive(Clone, Copy)]
struct Pace {
    /// Between two checks of the connection.
    ping: Duration,
    /// How long the answer of a check may take.
    answer: Duration,
    /// The longest pause between two attempts to connect.
    pause: Duration,
}

impl Pace {
    fn new(grace: Duration, timeout: Duration) -> Self {
        let (least, most) = (Duration::from_millis(500), Duration::from_secs(10));
        let part = (grace / 3).clamp(least, most);
        Self {
            ping: part,
            answer: timeout.min(part.max(Duration::from_secs(2))),
            pause: (grace / 4).clamp(least, most / 2),
        }
    }
}

/// Listens until the broker is dropped, and connects again when the connection is lost.
pub(crate) async fn run(inner: Weak<Inner>, connector: Arc<Connector>) {
    let mut holder = None;
    let (mut pause, mut is_lost) = (FIRST_PAUSE, false);
    loop {
        let open = inner.upgrade().filter(|inner| !inner.is_closed());
        let Some((limit, grace)) = open.map(|inner| (inner.database.timeout, inner.options.grace)) else { return };
        let pace = Pace::new(grace, limit);
        let began = Instant::now();
        let ended = match timeout(limit, (connector.0)()).await {
            Ok(Ok((client, messages))) => {
                match listen(&inner, &client, messages, &mut holder, &mut is_lost, pace).await {
                    Ok(Ended::Shared) => {
                        // It notifies nothing, and another process may get the lock of the holder with the next statement.
                        let Some(strong) = inner.upgrade() else { return };
                        log::shared(&strong.options.schema);
                        strong.database.never_prepare();
                        strong.never_listening();
                        strong.hub.wake_all();
                        return;
                    }
                    ended => ended.map(drop),
                }
            }
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(Failure::TooLate(TooLate)),
        };
        let Some(strong) = inner.upgrade().filter(|inner| !inner.is_closed()) else { return };
        if let Err(failure) = ended {
            is_lost = true;
            log::not_listening(&strong.options.schema, &failure, pause);
        }
        strong.not_listening();
        strong.hub.wake_all();
        drop(strong);
        if began.elapsed() > pace.pause {
            pause = FIRST_PAUSE;
        }
        sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        pause = (pause * 2).min(pace.pause);
    }
}

/// Why a connection is not listened to any more.
enum Ended {
    Gone,
    /// It is that of a pooler: statements of one client have several connections of the server.
    Shared,
}

/// Listens as long as the connection lasts.
async fn listen(
    inner: &Weak<Inner>,
    client: &Client,
    mut messages: Messages,
    holder: &mut Option<i32>,
    is_lost: &mut bool,
    pace: Pace,
) -> Result<Ended, Failure> {
    let dispatched = async {
        while let Some(message) = messages.next().await {
            if let AsyncMessage::Notification(notification) = message? {
                let Some(inner) = inner.upgrade() else { return Ok(Ended::Gone) };
                let payload = notification.payload();
                if let Some(holder) = payload.strip_prefix('+') {
                    inner.joined(holder);
                    continue;
                }
                if let Some(Ok(changed)) = payload.strip_prefix('=').map(str::parse) {
                    inner.quota.forget(changed);
                    inner.hub.wake(changed);
                    continue;
                }
                match payload.strip_prefix('!').unwrap_or(payload).parse() {
                    Ok(entity) if payload.starts_with('!') => pump_soon(&inner, entity),
                    Ok(entity) => inner.hub.wake(entity),
                    Err(_) => inner.hub.wake_all(),
                }
            }
        }
        Ok(Ended::Gone)
    };
    let asked = async {
        let Some(strong) = inner.upgrade() else { return Ok(Ended::Gone) };
        let (mut gone, limit) = (strong.gone(), strong.database.timeout);
        let suspected = Arc::clone(&strong.database.suspected);
        // It changes nothing, and fails on a server that is no longer the primary.
        let ping = strong.sql("UPDATE {s}.holders SET lost = NULL WHERE false");
        let schema = strong.options.schema.clone();
        drop(strong);
        let hello = hello(inner, client, holder);
        let Some(process) = timeout(limit, hello).await.map_err(|_| Failure::TooLate(TooLate))?? else {
            return Ok(Ended::Shared);
        };
        if std::mem::take(is_lost) {
            log::listening_again(&schema);
        }
        loop {
            tokio::select! {
                // The broker is closed or dropped, and no process is to wait for the end of a lock without a holder.
                _ = gone.changed() => return Ok(Ended::Gone),
                () = suspected.notified() => {}
                () = sleep(pace.ping) => {}
            }
            let asked = async {
                client.batch_execute(&ping).await?;
                process_of(client).await
            };
            if timeout(pace.answer, asked).await.map_err(|_| Failure::TooLate(TooLate))?? != Some(process) {
                return Ok(Ended::Shared);
            }
        }
    };
    tokio::select! {
        ended = dispatched => ended,
        ended = asked => ended,
    }
}

/// The ids of holders of this crate. A database that was restored would give the next id of its sequence to a second process, and
/// each would take the lock of the other. That sequence is for clients without this crate.
const HOLDERS: RangeInclusive<i32> = 1 << 24..=i32::MAX;

/// Returns the process of the server that has executed this.
async fn process_of(client: &Client) -> Result<Option<i32>, Failure> {
    let row = client.query_typed("SELECT pg_backend_pid()", &[]).await?;
    Ok(row.first().map(|row| row.try_get(0)).transpose()?)
}

/// Returns whether other clients have the process of the server too. A pooler executes the next statement of any client on the
/// connection that was used last, unless several come at once.
async fn is_shared(inner: &Inner, client: &Client, process: Option<i32>) -> Result<bool, Failure> {
    const PROBES: usize = 4;
    for _ in 0..PROBES {
        let Some(of_pool) = inner.database.process().await else { break };
        if Some(of_pool) == process || process_of(client).await? != process {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Begins to listen, with a holder. Returns the process of the server, `None` if there are several.
async fn hello(inner: &Weak<Inner>, client: &Client, holder: &mut Option<i32>) -> Result<Option<i32>, Failure> {
    let Some(inner) = inner.upgrade() else { return process_of(client).await };
    client.batch_execute(&format!("LISTEN {}", inner.schema.channel)).await?;
    // From here on a proxy that keeps connections with a state to one process has done so.
    let process = process_of(client).await?;
    if is_shared(&inner, client, process).await? {
        client.batch_execute("UNLISTEN *").await?;
        return Ok(None);
    }
    client.batch_execute(&format!("{SESSION}; {LISTENING}")).await?;
    let lock = inner.sql("SELECT pg_advisory_lock({s}.lock_class(), $1)");
    if let Some(id) = *holder {
        // A server that has not detected the loss of the last connection keeps its lock: no other process has had this one.
        let last = inner.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_locks
            WHERE locktype = 'advisory' AND granted AND pid <> pg_backend_pid() AND objsubid = 2
                AND classid::bigint = {s}.lock_class()::bigint & 4294967295 AND objid::bigint = $1::bigint
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
        );
        let _ = client.query_typed(&last, &[(&id, Type::INT4)]).await;
        client.query_typed(&lock, &[(&id, Type::INT4)]).await?;
        client.batch_execute(BEGIN).await?;
        let back = inner.sql("UPDATE {s}.holders SET lost = NULL WHERE id = $1 RETURNING id");
        let back = client.query_typed(&back, &[(&id, Type::INT4)]).await?;
        client.batch_execute("COMMIT").await?;
        if back.is_empty() {
            // It took too long: its messages are released by now.
            *holder = None;
        }
    }
    let joined = format!("SELECT pg_notify({}, '+' || $1)", inner.schema.channel_literal);
    if holder.is_none() {
        // No other process sees the row before its lock is taken.
        client.batch_execute(BEGIN).await?;
        let new = inner.sql("INSERT INTO {s}.holders (id) OVERRIDING SYSTEM VALUE VALUES ($1)");
        let id = fastrand::i32(HOLDERS);
        client.query_typed(&new, &[(&id, Type::INT4)]).await?;
        client.query_typed(&lock, &[(&id, Type::INT4)]).await?;
        client.batch_execute("COMMIT").await?;
        *holder = Some(id);
    }
    // Later processes notify this one; earlier ones are in the table.
    client.query_typed(&joined, &[(&holder.unwrap_or_default().to_string(), Type::TEXT)]).await?;
    let others = inner.sql("SELECT FROM {s}.holders WHERE id <> $1 LIMIT 1");
    let others = client.query_typed(&others, &[(holder, Type::INT4)]).await?;
    if process_of(client).await? != process {
        return Ok(None);
    }
    inner.listening(*holder, !others.is_empty());
    // Changes before this were notified to no connection of this process.
    inner.quota.forget_all();
    inner.hub.wake_all();
    Ok(process)
}
