use std::time::Duration;

use consign::{
    Message,
    administration::QueueSettings,
    transport::{ErrorKind, Lease, ReceiverExt, Sender},
};

use consign_conformance::faults::Proxy;
use consign_postgres::{
    Postgres,
    deadpool_postgres::{Manager, Pool},
    tokio_postgres::NoTls,
};

use crate::{Fixture, LONGEST, QUEUE, repeated, until};

/// Less than the locks of messages and sessions hold, which others would get after that.
const BEFORE_LOCKS_END: Duration = Duration::from_secs(40);

/// Ends the connections of a process, as a network does.
pub(crate) async fn cut(fixture: &Fixture, application: &str) {
    fixture
        .run(&format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE application_name = '{application}' AND pid <> pg_backend_pid()"
        ))
        .await;
}

/// Waits until a process listens: what it locks from then on belongs to its connection.
async fn listening(postgres: &Postgres) {
    let listening = async { while postgres.create_reply_queue().await.is_err() {} };
    tokio::time::timeout(LONGEST, listening).await.expect("it does not listen");
}

/// Rules: S-29, S-73.
/// The locks of a process that is gone are given back without a count, long before they run out.
#[tokio::test]
async fn the_messages_of_a_lost_process_come_back_uncounted() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let name = format!("{}_lost", fixture.schema);
    let postgres = &fixture.postgres;
    postgres.sender(QUEUE).await.unwrap().send(Message::new("a")).await.unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let lost = crate::options(&fixture.schema);
    let url = fixture.url_of(&name);
    let held = runtime
        .spawn(async move {
            let lost = lost.connect(&url).await.unwrap();
            listening(&lost).await;
            let mut receiver = lost.receiver(QUEUE).await.unwrap();
            let delivery = receiver.receive_within(LONGEST).await.unwrap();
            (lost, delivery)
        })
        .await
        .unwrap();
    // Its tasks stop where they are, and its connections end.
    runtime.shutdown_background();
    cut(&fixture, &name).await;
    let mut receiver = postgres.receiver(QUEUE).await.unwrap();
    let delivery = receiver.receive_within(BEFORE_LOCKS_END).await.unwrap();
    assert_eq!(delivery.message.received().unwrap().delivery_count, 1);
    delivery.complete().await.unwrap();
    drop(held);
    fixture.end().await;
}

/// Rules: K-257.
/// What releases them comes before the receive has locked them.
#[tokio::test]
async fn messages_that_are_locked_after_their_receive_was_given_up_are_released() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let name = format!("{}_late", fixture.schema);
    let options = || crate::options(&fixture.schema).timeout(Duration::from_millis(500));
    let late = repeated(async || options().connect(&fixture.url_of(&name)).await).await;
    receive_late(fixture, late, &name).await;
}

/// Rules: K-257.
/// Also if the process has no listening connection.
#[tokio::test]
async fn messages_that_are_locked_late_without_a_holder_are_released() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let name = format!("{}_late", fixture.schema);
    let pool = Pool::builder(Manager::new(fixture.url_of(&name).parse().unwrap(), NoTls)).max_size(4).build().unwrap();
    let late = crate::options(&fixture.schema).timeout(Duration::from_millis(500)).wrap(pool).unwrap();
    receive_late(fixture, late, &name).await;
}

/// By the process `late`, whose connections have that name.
async fn receive_late(fixture: Fixture, late: Postgres, name: &str) {
    let mut receiver = repeated(async || late.receiver(QUEUE).await).await;
    fixture.postgres.sender(QUEUE).await.unwrap().send(Message::new("a")).await.unwrap();
    // A statement of the process does not end by a limit or by a request to cancel it.
    fixture
        .run(&format!(
            "CREATE TABLE {{s}}.gate (id integer);
            INSERT INTO {{s}}.gate VALUES (1);
            CREATE OR REPLACE FUNCTION {{s}}.now() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
            BEGIN
                WHILE current_setting('application_name') = '{name}' LOOP
                    BEGIN
                        PERFORM FROM {{s}}.gate FOR SHARE;
                        EXIT;
                    EXCEPTION WHEN query_canceled OR lock_not_available THEN
                    END;
                END LOOP;
                RETURN clock_timestamp();
            END $$"
        ))
        .await;
    let client = fixture.postgres.pool().get().await.unwrap();
    client.batch_execute(&format!("BEGIN; SELECT FROM {}.gate FOR UPDATE", fixture.schema)).await.unwrap();
    let found = async |state: &str, part: &str| {
        let sql = format!(
            "SELECT FROM pg_stat_activity
            WHERE application_name = '{name}' AND state = '{state}' AND position('{part}' IN query) > 0"
        );
        !fixture.postgres.pool().get().await.unwrap().query(&sql, &[]).await.unwrap().is_empty()
    };
    // Another statement of the process may have the last connection, and wait for the gate too.
    let given_up = repeated(async || {
        receiver.receive().await.unwrap_err();
        if found("active", "receive").await { Ok(()) } else { Err("no receive waits for the lock") }
    });
    given_up.await;
    drop(receiver);
    until(async || found("idle", "release_all").await).await;
    assert!(found("active", "receive").await, "it waits for the lock");
    client.batch_execute("COMMIT").await.unwrap();
    drop(client);
    let mut receiver = fixture.postgres.receiver(QUEUE).await.unwrap();
    let delivery = receiver.receive_within(Duration::from_secs(20)).await.unwrap();
    assert_eq!(delivery.message.received().unwrap().delivery_count, 1);
    delivery.complete().await.unwrap();
    drop(late);
    fixture.end().await;
}

/// Rules: K-223.
/// So is a session, whose lock would hold for a minute.
#[tokio::test]
async fn a_session_of_a_lost_process_goes_on_elsewhere() {
    let settings = QueueSettings::default().requires_session(true);
    let Some(fixture) = Fixture::new(settings).await else { return };
    let name = format!("{}_session", fixture.schema);
    let postgres = &fixture.postgres;
    let message = Message::builder().session_id("a").build("1").unwrap();
    postgres.sender(QUEUE).await.unwrap().send(message).await.unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let lost = crate::options(&fixture.schema);
    let url = fixture.url_of(&name);
    let held = runtime
        .spawn(async move {
            let lost = lost.connect(&url).await.unwrap();
            listening(&lost).await;
            let mut session = lost.accept_session(QUEUE, "a").await.unwrap();
            let delivery = session.receive_within(LONGEST).await.unwrap();
            (lost, session, delivery)
        })
        .await
        .unwrap();
    runtime.shutdown_background();
    cut(&fixture, &name).await;
    let mut acceptor = postgres.sessions(QUEUE).await.unwrap();
    let mut session = acceptor.next_within(BEFORE_LOCKS_END).await.unwrap();
    let delivery = session.receive_within(Duration::from_secs(10)).await.unwrap();
    assert_eq!(delivery.message.payload(), Some(&b"1"[..]));
    delivery.complete().await.unwrap();
    drop(held);
    fixture.end().await;
}

/// A process that is back in time keeps its locks.
#[tokio::test]
async fn locks_outlive_a_lost_connection() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let name = format!("{}_back", fixture.schema);
    let options = crate::options(&fixture.schema).grace(Duration::from_secs(30));
    let back = options.connect(&fixture.url_of(&name)).await.unwrap();
    fixture.postgres.sender(QUEUE).await.unwrap().send(Message::new("a")).await.unwrap();
    let mut receiver = back.receiver(QUEUE).await.unwrap();
    let delivery = receiver.receive_within(Duration::from_secs(10)).await.unwrap();
    cut(&fixture, &name).await;
    // The connection may turn out to be lost only when it is used.
    until(async || delivery.lease.renew().await.is_ok()).await;
    delivery.complete().await.unwrap();
    fixture.end().await;
}

/// Rules: S-29.
/// The server has noticed it, and other processes with it. This process has not, as if the network were gone.
#[tokio::test]
async fn locks_outlive_a_connection_whose_loss_is_silent() {
    let options = |schema: &str| crate::options(schema).grace(Duration::from_secs(18));
    let Some(fixture) = Fixture::with(QueueSettings::default(), options).await else { return };
    let name = format!("{}_silent", fixture.schema);
    let proxy = Proxy::to(fixture.address().await).await.unwrap();
    let (credentials, rest) = fixture.url.split_once('@').unwrap();
    // Later connections pass by the proxy.
    let url = format!("{credentials}@{},{rest}?application_name={name}", proxy.address());
    let pool = fixture.other().await.pool().clone();
    let silent = options(&fixture.schema).timeout(Duration::from_secs(2));
    let silent = silent.wrap_and_listen(pool, url.parse().unwrap(), NoTls).unwrap();
    fixture.postgres.sender(QUEUE).await.unwrap().send(Message::new("a")).await.unwrap();
    listening(&silent).await;
    let mut receiver = repeated(async || silent.receiver(QUEUE).await).await;
    let delivery = repeated(async || receiver.receive().await).await;
    let listens = async || {
        let sql = format!("SELECT pid FROM pg_stat_activity WHERE application_name = '{name}'");
        let client = fixture.postgres.pool().get().await.unwrap();
        client.query(&sql, &[]).await.unwrap().first().map(|row| row.get::<_, i32>(0))
    };
    until(async || listens().await.is_some()).await;
    proxy.freeze(true);
    cut(&fixture, &name).await;
    until(async || listens().await.is_none()).await;
    until(async || listens().await.is_some()).await;
    // It takes its locks back only after that.
    let is_held = format!("SELECT bool_and(lost IS NULL) FROM {}.holders", fixture.schema);
    let client = fixture.postgres.pool().get().await.unwrap();
    until(async || client.query_one(&is_held, &[]).await.unwrap().get(0)).await;
    repeated(async || delivery.lease.renew().await).await;
    drop(client);
    fixture.end().await;
}

/// A connection of the pool is lost in silence with the others.
#[tokio::test]
async fn one_call_fails_when_all_idle_connections_are_lost() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let proxy = Proxy::to(fixture.address().await).await.unwrap();
    let (credentials, rest) = fixture.url.split_once('@').unwrap();
    // Later connections pass by the proxy.
    let url = format!("{credentials}@{},{rest}", proxy.address());
    let idle = crate::options(&fixture.schema).timeout(Duration::from_secs(8)).connect(&url).await.unwrap();
    until(async || {
        futures_util::future::join_all((0..4).map(|_| idle.counts(QUEUE))).await;
        idle.pool().status().size == 4
    })
    .await;
    proxy.freeze(true);
    let mut failed = 0;
    for _ in 0..6 {
        failed += usize::from(idle.counts(QUEUE).await.is_err());
    }
    assert!(failed <= 1, "{failed} calls failed");
    fixture.end().await;
}

/// A receive that waits until another delivery is settled has the holder of then, not that of before.
#[tokio::test]
async fn a_receive_that_has_waited_locks_under_no_lost_holder() {
    let options = |schema: &str| crate::options(schema).grace(Duration::from_secs(60));
    let Some(fixture) = Fixture::with(QueueSettings::default(), options).await else { return };
    let proxy = Proxy::to(fixture.address().await).await.unwrap();
    let (credentials, rest) = fixture.url.split_once('@').unwrap();
    let url = format!("{credentials}@{}/{}", proxy.address(), rest.split_once('/').unwrap().1);
    let pool = fixture.other().await.pool().clone();
    let one = options(&fixture.schema).max_deliveries(1);
    let one = one.wrap_and_listen(pool, url.parse().unwrap(), NoTls).unwrap();
    let sender = fixture.postgres.sender(QUEUE).await.unwrap();
    sender.send(Message::new("a")).await.unwrap();
    listening(&one).await;
    let mut receiver = one.receiver(QUEUE).await.unwrap();
    let first = receiver.receive_within(LONGEST).await.unwrap();
    let holders = async || {
        let sql = format!("SELECT holder FROM {}.locks", fixture.schema);
        let client = fixture.postgres.pool().get().await.unwrap();
        let rows = client.query(&sql, &[]).await.unwrap();
        rows.iter().map(|row| row.get::<_, Option<i32>>(0)).collect::<Vec<_>>()
    };
    let before = holders().await;
    assert!(before.iter().all(|holder| holder.is_some_and(|holder| holder > 0)), "{before:?}");
    sender.send(Message::new("b")).await.unwrap();
    let waiting = tokio::spawn(async move { receiver.receive_within(LONGEST).await.unwrap() });
    // It waits for the place of the first, and asks the server for nothing before.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    proxy.refuse(true);
    proxy.cut();
    until(async || one.create_reply_queue().await.is_err()).await;
    first.complete().await.unwrap();
    let second = waiting.await.unwrap();
    let after = holders().await;
    assert!(after.len() == 1 && after != before, "{after:?}");
    second.complete().await.unwrap();
    fixture.end().await;
}

/// A receive that waits when its connection is lost says so at most once for each, and goes on.
#[tokio::test]
async fn a_receiver_goes_on_after_its_connection_was_lost() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let name = format!("{}_on", fixture.schema);
    let on = crate::options(&fixture.schema).connect(&fixture.url_of(&name)).await.unwrap();
    let mut receiver = on.receiver(QUEUE).await.unwrap();
    let sender = fixture.postgres.sender(QUEUE).await.unwrap();
    for round in 0..5 {
        let waiting = async {
            let mut errors = 0;
            loop {
                match receiver.receive().await {
                    Ok(delivery) => return (delivery, errors),
                    Err(error) => {
                        assert!(error.is_retryable() && error.kind() == ErrorKind::CommunicationProblem, "{error:?}");
                        errors += 1;
                    }
                }
            }
        };
        let breaking = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            cut(&fixture, &name).await;
            sender.send(Message::new(format!("{round}"))).await.unwrap();
        };
        let both = tokio::time::timeout(LONGEST, async { tokio::join!(waiting, breaking) });
        let ((delivery, errors), ()) = both.await.expect("it goes on");
        assert!(errors <= 5, "{errors} errors for 5 connections");
        until(async || delivery.lease.renew().await.is_ok()).await;
        delivery.complete().await.unwrap();
    }
    fixture.end().await;
}

/// A server that has not noticed that a connection is lost keeps its lock. The process that comes back takes it over.
#[tokio::test]
async fn a_connection_that_the_server_believes_in_keeps_nobody_from_listening() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let name = format!("{}_half", fixture.schema);
    let back = crate::options(&fixture.schema).grace(Duration::from_secs(60));
    let back = back.connect(&fixture.url_of(&name)).await.unwrap();
    let _receiver = back.receiver(QUEUE).await.unwrap();
    let client = fixture.postgres.pool().get().await.unwrap();
    let listens = format!(
        "SELECT l.objid::bigint::integer FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
        WHERE l.locktype = 'advisory' AND l.granted AND a.application_name = '{name}'"
    );
    let holder = async || client.query(&listens, &[]).await.unwrap().first().map(|row| row.get::<_, i32>(0));
    until(async || holder().await.is_some()).await;
    let id = holder().await.unwrap();
    // Another gets the lock in the moment in which it is free, and stays connected.
    let other = fixture.other().await;
    let ghost = other.pool().get().await.unwrap();
    let lock = format!("SET lock_timeout = 0; SELECT pg_advisory_lock({}.lock_class(), {id})", fixture.schema);
    let waits = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid::bigint = $1::bigint";
    let waiting = async || until(async || !client.query(waits, &[&i64::from(id)]).await.unwrap().is_empty()).await;
    let (locked, ()) = tokio::join!(ghost.batch_execute(&lock), async {
        waiting().await;
        cut(&fixture, &name).await;
    });
    locked.unwrap();
    until(async || holder().await == Some(id)).await;
    drop(client);
    fixture.end().await;
}
