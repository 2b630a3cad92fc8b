//! Sessions that are given up, or whose lock ends, while a call of theirs is under way.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use consign::{
    Message,
    administration::{Administration, QueueSettings},
    message::{EntityPath, SequenceNumber},
    transport::{Batch, ReceiverExt, Sender, Session},
};
use consign_postgres::{
    Postgres, PostgresSession,
    deadpool_postgres::{Manager, Pool},
    tokio_postgres::{Config, NoTls, config::Host},
};
use futures_util::FutureExt;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{TcpListener, TcpStream},
};

use crate::{Fixture, LONGEST, QUEUE, repeated, until};

const LONG: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Closed,
    Dropped,
    RanOut,
    LostProcess,
    SettingsChanged,
}

const ENDS: [End; 5] = [End::Closed, End::Dropped, End::RanOut, End::LostProcess, End::SettingsChanged];

fn by_session() -> QueueSettings {
    QueueSettings::default().requires_session(true)
}

async fn send(postgres: &Postgres, body: &'static str) {
    let message = Message::builder().session_id("a").build(body).unwrap();
    postgres.sender(QUEUE).await.unwrap().send(message).await.unwrap();
}

async fn accepted(postgres: &Postgres) -> PostgresSession {
    let accepted = async {
        loop {
            match postgres.accept_session(QUEUE, "a").await {
                Ok(session) => return session,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    };
    tokio::time::timeout(LONGEST, accepted).await.expect("the session is not given up")
}

/// Ends the lock of a session, as far as that goes while the call of `held` is under way.
async fn ends(fixture: &Fixture, session: PostgresSession, end: End) -> tokio::task::JoinHandle<()> {
    let postgres = fixture.postgres.clone();
    let (ending, waits_in) = match end {
        End::Closed => (tokio::spawn(async move { session.close().await.unwrap() }), "close_session("),
        End::Dropped => (tokio::spawn(async move { drop(session) }), "drop_session("),
        End::RanOut => {
            let sql = "UPDATE {s}.sessions SET until = clock_timestamp(); SELECT {s}.step(id) FROM {s}.entities";
            fixture.run(sql).await;
            return tokio::spawn(async move { drop(session) });
        }
        End::LostProcess => {
            let sql = "INSERT INTO {s}.holders (lost) VALUES ('-infinity');
                UPDATE {s}.sessions SET holder = (SELECT id FROM {s}.holders WHERE lost = '-infinity');
                SELECT {s}.sweep(0)";
            fixture.run(sql).await;
            return tokio::spawn(async move { drop(session) });
        }
        End::SettingsChanged => {
            let update = async move {
                let settings = by_session().lock_duration(Duration::from_secs(50)).into();
                postgres.update(&EntityPath::new(QUEUE).unwrap(), &settings).await.unwrap();
                drop(session);
            };
            (tokio::spawn(update), "sessions")
        }
    };
    let given_up = format!("SELECT count(*) = 0 FROM {}.sessions WHERE token IS NOT NULL", fixture.schema);
    let client = fixture.postgres.pool().get().await.unwrap();
    until(async || {
        client.query_one(&given_up, &[]).await.unwrap().get::<_, bool>(0) || fixture.waits_for_a_lock(waits_in).await
    })
    .await;
    ending
}

/// Rules: K-258.
#[tokio::test]
async fn a_message_that_is_received_while_its_session_ends_is_redelivered_first() {
    for end in ENDS {
        let Some(fixture) = Fixture::new(by_session()).await else { return };
        let postgres = &fixture.postgres;
        send(postgres, "first").await;
        // It has its number.
        assert_eq!(postgres.counts(QUEUE).await.unwrap().active, 1);
        let session = postgres.accept_session(QUEUE, "a").await.unwrap();
        let mut client = postgres.pool().get().await.unwrap();
        let receive = client.transaction().await.unwrap();
        let held = format!(
            "SELECT r.id FROM {s}.sessions AS s, LATERAL {s}.receive(
                s.entity, 0::smallint, s.token, s.session, gen_random_uuid(), 1, 1000000, NULL
            ) AS r WHERE r.id IS NOT NULL",
            s = fixture.schema
        );
        assert_eq!(receive.query(&held, &[]).await.unwrap().len(), 1);
        let ending = ends(&fixture, session, end).await;
        receive.commit().await.unwrap();
        drop(client);
        ending.await.unwrap();

        let mut session = accepted(postgres).await;
        let first = session.receive_within(LONG).await;
        let first = first.unwrap_or_else(|error| panic!("{end:?}: {error}"));
        let count = first.message.received().unwrap().delivery_count;
        assert_eq!(count, if end == End::RanOut { 2 } else { 1 }, "{end:?}");
        first.complete().await.unwrap();
        session.close().await.unwrap();
        fixture.end().await;
    }
}

/// Rules: K-258.
#[tokio::test]
async fn a_deferred_message_that_is_received_while_its_session_ends_stays_deferred() {
    for end in ENDS {
        let Some(fixture) = Fixture::new(by_session()).await else { return };
        let postgres = &fixture.postgres;
        send(postgres, "first").await;
        let mut session = postgres.accept_session(QUEUE, "a").await.unwrap();
        session.receive_within(LONG).await.unwrap().defer().await.unwrap();
        let mut client = postgres.pool().get().await.unwrap();
        let receive = client.transaction().await.unwrap();
        let held = format!(
            "SELECT r.id FROM {s}.sessions AS s, LATERAL {s}.receive_deferred(
                s.entity, 0::smallint, '{{1}}', NULL, gen_random_uuid(), s.session, s.token
            ) AS r",
            s = fixture.schema
        );
        assert_eq!(receive.query(&held, &[]).await.unwrap().len(), 1);
        let ending = ends(&fixture, session, end).await;
        receive.commit().await.unwrap();
        drop(client);
        ending.await.unwrap();

        let mut session = accepted(postgres).await;
        let deferred = session.receive_deferred(&[SequenceNumber::new(1)]).await;
        let deferred = deferred.unwrap_or_else(|error| panic!("{end:?}: {error}"));
        assert_eq!(deferred.len(), 1);
        drop(deferred);
        session.close().await.unwrap();
        fixture.end().await;
    }
}

/// Rules: K-258.
#[tokio::test]
async fn a_close_waits_for_a_receive_that_was_given_up() {
    let Some(fixture) = Fixture::new(by_session()).await else { return };
    let postgres = &fixture.postgres;
    let mut session = postgres.accept_session(QUEUE, "a").await.unwrap();
    let client = postgres.pool().get().await.unwrap();
    client.batch_execute(&format!("BEGIN; SELECT FROM {}.numbers FOR UPDATE", fixture.schema)).await.unwrap();
    send(postgres, "first").await;
    let mut receiving = Box::pin(session.receive());
    assert!(receiving.as_mut().now_or_never().is_none());
    until(async || fixture.waits_for_a_lock("receive(").await).await;
    drop(receiving);
    let closing = tokio::spawn(session.close());
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!closing.is_finished(), "the receive has not ended");
    client.batch_execute("COMMIT").await.unwrap();
    drop(client);
    closing.await.unwrap().unwrap();
    let mut session = accepted(postgres).await;
    let first = session.receive_within(LONG).await.unwrap();
    assert_eq!(first.message.received().unwrap().delivery_count, 1);
    first.complete().await.unwrap();
    session.close().await.unwrap();
    fixture.end().await;
}

/// It does not go over all sessions, and finds one that is free behind many messages of one that is not.
#[tokio::test]
async fn an_accept_of_any_session_looks_at_a_few_of_many() {
    let Some(fixture) = Fixture::new(by_session()).await else { return };
    let postgres = &fixture.postgres;
    let message = |session: String| Message::builder().session_id(session).build("m").unwrap();
    let sender = postgres.sender(QUEUE).await.unwrap();
    sender.send_batch((0..2_000).map(|number| message(format!("{number}"))).collect::<Batch>()).await.unwrap();
    assert_eq!(postgres.counts(QUEUE).await.unwrap().active, 2_000);
    let mut client = postgres.pool().get().await.unwrap();
    let accept = client.transaction().await.unwrap();
    let next = format!(
        "SELECT convert_from(n.session, 'UTF8') FROM {s}.entities AS e, {s}.next_session(e.id, NULL, gen_random_uuid()) AS n",
        s = fixture.schema
    );
    let scans = format!(
        "SELECT idx_scan FROM pg_stat_xact_user_tables WHERE schemaname = '{}' AND relname = 'messages'",
        fixture.schema
    );
    // It may begin with those of earlier transactions.
    let before: i64 = accept.query_one(&scans, &[]).await.unwrap().get(0);
    assert_eq!(accept.query_one(&next, &[]).await.unwrap().get::<_, String>(0), "0");
    let after: i64 = accept.query_one(&scans, &[]).await.unwrap().get(0);
    assert!(after - before < 100, "{} scans", after - before);
    accept.rollback().await.unwrap();
    drop(client);

    fixture.run("DELETE FROM {s}.messages").await;
    sender.send_batch((0..1_100).map(|_| message("long".to_owned())).collect::<Batch>()).await.unwrap();
    let long = postgres.accept_session(QUEUE, "long").await.unwrap();
    sender.send(message("behind".to_owned())).await.unwrap();
    sender.send_batch((0..2_000).map(|number| message(format!("{number}"))).collect::<Batch>()).await.unwrap();
    assert_eq!(postgres.counts(QUEUE).await.unwrap().active, 3_101);
    let mut client = postgres.pool().get().await.unwrap();
    let accept = client.transaction().await.unwrap();
    let before: i64 = accept.query_one(&scans, &[]).await.unwrap().get(0);
    assert_eq!(accept.query_one(&next, &[]).await.unwrap().get::<_, String>(0), "behind");
    let after: i64 = accept.query_one(&scans, &[]).await.unwrap().get(0);
    assert!(after - before < 100, "{} scans beside a session with many messages", after - before);
    accept.rollback().await.unwrap();
    drop(client);
    let behind = postgres.sessions(QUEUE).await.unwrap().next_within(LONG).await.unwrap();
    assert_eq!(behind.session_id(), "behind");
    behind.close().await.unwrap();
    long.close().await.unwrap();
    fixture.end().await;
}

/// The database by way of a network that loses answers while `is_deaf`.
async fn behind_network(url: &str, is_deaf: &Arc<AtomicBool>) -> Config {
    let config: Config = url.parse().unwrap();
    let host = match config.get_hosts() {
        [Host::Tcp(host), ..] => host.clone(),
        _ => "127.0.0.1".to_owned(),
    };
    let server = (host, config.get_ports().first().copied().unwrap_or(5432));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut behind = Config::new();
    behind.host("127.0.0.1").port(listener.local_addr().unwrap().port());
    behind.user(config.get_user().unwrap_or_default()).dbname(config.get_dbname().unwrap_or_default());
    if let Some(password) = config.get_password() {
        behind.password(password);
    }
    let is_deaf = Arc::clone(is_deaf);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (server, is_deaf) = (server.clone(), Arc::clone(&is_deaf));
            tokio::spawn(async move {
                let server = TcpStream::connect(server).await.unwrap();
                let ((mut asks, mut answered), (mut answers, mut asked)) = (client.into_split(), server.into_split());
                let asking = tokio::spawn(async move { copy(&mut asks, &mut asked).await });
                let mut bytes = [0; 4_096];
                while let Ok(read @ 1..) = answers.read(&mut bytes).await {
                    if !is_deaf.load(Ordering::Relaxed) && answered.write_all(&bytes[..read]).await.is_err() {
                        break;
                    }
                }
                asking.abort();
            });
        }
    });
    behind
}

/// Rules: K-257.
#[tokio::test]
async fn a_session_whose_accept_has_lost_its_answer_is_given_up() {
    let Some(fixture) = Fixture::new(by_session()).await else { return };
    let is_deaf = Arc::default();
    let config = behind_network(&fixture.url, &is_deaf).await;
    let pool = Pool::builder(Manager::new(config, NoTls)).max_size(1).build().unwrap();
    let options = crate::options(&fixture.schema).poll_every(Duration::from_secs(3_600));
    let wrapped = options.timeout(Duration::from_millis(500)).wrap(pool).unwrap();
    let mut sessions = repeated(async || wrapped.sessions(QUEUE).await).await;
    send(&fixture.postgres, "first").await;
    let locked = format!("SELECT FROM {}.sessions WHERE token IS NOT NULL", fixture.schema);
    let client = fixture.postgres.pool().get().await.unwrap();
    let is_locked = async || !client.query(&locked, &[]).await.unwrap().is_empty();
    // What gets no connection is not executed.
    let lost = repeated(async || {
        repeated(async || wrapped.counts(QUEUE).await).await;
        is_deaf.store(true, Ordering::Relaxed);
        assert!(sessions.next_within(LONG).await.is_err());
        let is_locked = is_locked().await;
        is_deaf.store(false, Ordering::Relaxed);
        if is_locked { Ok(()) } else { Err("no accept has locked the session") }
    });
    lost.await;
    until(async || !is_locked().await).await;
    drop(client);
    fixture.end().await;
}

/// Rules: K-257.
/// What gives it up comes before the accept has locked the session.
#[tokio::test]
async fn a_session_that_is_locked_after_its_accept_was_given_up_is_given_up() {
    for is_named in [false, true] {
        let Some(fixture) = Fixture::new(by_session()).await else { return };
        let name = format!("{}_late", fixture.schema);
        let config: Config = fixture.url_of(&name).parse().unwrap();
        let pool = Pool::builder(Manager::new(config, NoTls)).max_size(2).build().unwrap();
        let options = crate::options(&fixture.schema).poll_every(Duration::from_secs(3_600));
        let wrapped = options.timeout(Duration::from_millis(500)).wrap(pool).unwrap();
        let mut sessions = repeated(async || wrapped.sessions(QUEUE).await).await;
        let client = fixture.postgres.pool().get().await.unwrap();
        client.batch_execute(&format!("BEGIN; SELECT FROM {}.numbers FOR UPDATE", fixture.schema)).await.unwrap();
        send(&fixture.postgres, "first").await;
        let last = format!(
            "SELECT state, query FROM pg_stat_activity WHERE application_name = '{name}' AND state IS NOT NULL"
        );
        let is_found = async |state: &str, part: &str| {
            let found = fixture.postgres.pool().get().await.unwrap().query(&last, &[]).await.unwrap();
            found.iter().any(|row| row.get::<_, &str>(0) == state && row.get::<_, &str>(1).contains(part))
        };
        let accept = if is_named { "accept_session" } else { "next_session" };
        // One that gets no connection is not executed.
        let given_up = repeated(async || {
            let accepted = if is_named {
                wrapped.accept_session(QUEUE, "a").await.map(drop)
            } else {
                sessions.next_within(LONG).await.map(drop)
            };
            accepted.unwrap_err();
            if is_found("active", accept).await { Ok(()) } else { Err("no accept waits for the lock") }
        });
        given_up.await;
        until(async || is_found("idle", "drop_session").await || is_found("idle", "pg_notify").await).await;
        assert!(is_found("active", accept).await, "it waits for the lock");
        client.batch_execute("COMMIT").await.unwrap();
        until(async || !is_found("active", accept).await).await;
        let locked = format!("SELECT FROM {}.sessions WHERE token IS NOT NULL", fixture.schema);
        until(async || client.query(&locked, &[]).await.unwrap().is_empty()).await;
        drop(client);
        fixture.end().await;
    }
}
