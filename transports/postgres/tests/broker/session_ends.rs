//! Sessions that are given up, or whose lock ends, while a call of theirs is under way.

use std::time::Duration;

use consign::{
    Message,
    administration::{Administration, QueueSettings},
    message::{EntityPath, SequenceNumber},
    transport::{ReceiverExt, Sender, Session},
};
use consign_postgres::{Postgres, PostgresSession};
use futures_util::FutureExt;

use crate::{Fixture, QUEUE, until};

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
    tokio::time::timeout(Duration::from_secs(20), accepted).await.expect("the session is not given up")
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
                UPDATE {s}.sessions SET holder = (SELECT max(id) FROM {s}.holders);
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
