//! Locks whose time has passed, while nothing has released their messages.

use std::time::Duration;

use consign::{
    Message,
    administration::QueueSettings,
    transport::{ErrorKind, Lease, ReceiverExt, Sender, Session},
};

use crate::{Fixture, LOCKS_END, QUEUE, options};

const NEVER: Duration = Duration::from_secs(3_600);

fn by_session() -> QueueSettings {
    QueueSettings::default().requires_session(true)
}

impl Fixture {
    /// In one transaction, which is rolled back, nothing comes between the end of the locks and the statement.
    async fn after_the_end(&self, end: &str, statement: &str) -> tokio_postgres::Row {
        let mut client = self.postgres.pool().get().await.unwrap();
        let transaction = client.transaction().await.unwrap();
        transaction.batch_execute(&end.replace("{s}", &self.schema)).await.unwrap();
        transaction.query_one(&statement.replace("{s}", &self.schema), &[]).await.unwrap()
    }
}

#[tokio::test]
async fn a_message_is_not_completed_between_the_end_of_its_lock_and_its_release() {
    let Some(fixture) = Fixture::new(QueueSettings::default()).await else { return };
    let [own, shared] = fixture.two_locked().await;
    // It has a row of its own from now on; the other one is in that of the receive.
    own.lease.renew().await.unwrap();
    let asked = "WITH asked AS (
        SELECT entity, id, token FROM {s}.messages
        UNION ALL SELECT l.entity, m.id, l.token FROM {s}.plain AS m, {s}.locks AS l
    )";
    let complete = "SELECT count(*) FROM {s}.complete(ARRAY(SELECT token FROM asked), ARRAY(SELECT id FROM asked))";
    let left: i64 = fixture.after_the_end(LOCKS_END, &format!("{asked} {complete}")).await.get(0);
    assert_eq!(left, 2, "those that are not completed");
    let settle = "SELECT array_agg({s}.settle(entity, id, token, NULL, 0::smallint, NULL, NULL, NULL)) FROM asked";
    let answers: Vec<i16> = fixture.after_the_end(LOCKS_END, &format!("{asked} {settle}")).await.get(0);
    assert_eq!(answers, [2, 2], "each lock is lost");
    own.complete().await.unwrap();
    shared.complete().await.unwrap();
    fixture.end().await;
}

const SESSIONS_END: &str = "UPDATE {s}.sessions SET until = clock_timestamp()";

#[tokio::test]
async fn nothing_is_done_with_a_session_between_the_end_of_its_lock_and_its_release() {
    let Some(fixture) = Fixture::new(by_session()).await else { return };
    let message = Message::builder().session_id("a").build("1").unwrap();
    fixture.postgres.sender(QUEUE).await.unwrap().send(message).await.unwrap();
    let mut session = fixture.postgres.accept_session(QUEUE, "a").await.unwrap();
    let delivery = session.receive().await.unwrap();
    let calls = "SELECT
            {s}.settle(m.entity, m.id, m.token, s.token, 0::smallint, NULL, NULL, NULL),
            {s}.renew_session(s.entity, s.session, s.token),
            {s}.close_session(s.entity, s.session, s.token)
        FROM {s}.messages AS m, {s}.sessions AS s";
    let row = fixture.after_the_end(SESSIONS_END, calls).await;
    let answers: (i16, Option<i64>, bool) = (row.get(0), row.get(1), row.get(2));
    assert_eq!(answers, (3, None, false));
    delivery.complete().await.unwrap();
    session.close().await.unwrap();
    fixture.end().await;
}

#[tokio::test]
async fn the_state_of_a_session_needs_its_lock_and_can_be_cleared() {
    let Some(fixture) = Fixture::with(by_session(), |schema| options(schema).poll_every(NEVER)).await else { return };
    let session = fixture.postgres.accept_session(QUEUE, "a").await.unwrap();
    session.set_state(Some("state".into())).await.unwrap();
    session.set_state(None).await.unwrap();
    assert_eq!(session.state().await.unwrap(), None);
    fixture.run(SESSIONS_END).await;
    assert_eq!(session.state().await.unwrap_err().kind(), ErrorKind::SessionLockLost);
    assert_eq!(session.set_state(Some("late".into())).await.unwrap_err().kind(), ErrorKind::SessionLockLost);
    drop(session);
    fixture.end().await;
}

/// The message is dead-lettered, and nothing is to be redelivered later.
#[tokio::test]
async fn a_delay_after_the_last_delivery_is_not_waited_for() {
    let Some(fixture) = Fixture::new(QueueSettings::default().max_delivery_count(1)).await else { return };
    fixture.postgres.sender(QUEUE).await.unwrap().send(Message::new("a")).await.unwrap();
    let delivery = fixture.postgres.receiver(QUEUE).await.unwrap().receive().await.unwrap();
    delivery.abandon_after(NEVER).unwrap().await.unwrap();
    let mut dead_letters = fixture.postgres.receiver(&format!("{QUEUE}/$deadletterqueue")).await.unwrap();
    let dead = dead_letters.receive_within(Duration::from_secs(20)).await.unwrap();
    assert_eq!(dead.message.dead_letter_reason(), Some("MaxDeliveryCountExceeded"));
    dead.complete().await.unwrap();
    fixture.end().await;
}
