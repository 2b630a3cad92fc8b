//! Relays to queues in the database of the table.

use std::{thread, time::Duration};

use consign::{
    Message,
    administration::QueueSettings,
    message::EntityPath,
    transport::{ReceiveMode, ReceiverExt, Transport},
};
use consign_outbox_postgres::{Relay, SameDatabase, tokio_postgres::NoTls};
use consign_postgres::Postgres;
use tracing::{
    Event, Metadata, Subscriber,
    span::{Attributes, Id, Record},
};

use crate::support::{self, Bench, LONG, Running, message};

/// Queues in the schema of a test's own.
struct Queues {
    bench: Bench,
    postgres: Postgres,
}

impl Queues {
    /// `None` without PostgreSQL.
    async fn new() -> Option<Self> {
        let bench = Bench::new().await?;
        let postgres = Postgres::options().schema(bench.name.as_str()).connect(&support::address()).await.unwrap();
        postgres.migrate().await.unwrap();
        Some(Self { bench, postgres })
    }

    fn relay(&self) -> Relay<SameDatabase> {
        let relay = Relay::same_database(self.bench.outbox.clone(), self.bench.named(), NoTls, self.postgres.clone());
        relay.poll_interval(Duration::from_millis(20)).backoff(Duration::from_millis(1), Duration::from_millis(1))
    }

    /// Receives a message, and returns its id.
    async fn receive(&self, queue: &str) -> String {
        let path = EntityPath::new(queue).unwrap();
        let mut receiver = Transport::receiver(&self.postgres, &path, ReceiveMode::PeekLock).await.unwrap();
        let delivery = receiver.receive_within(LONG).await.unwrap();
        let id = delivery.message.message_id().unwrap().to_owned();
        delivery.complete().await.unwrap();
        id
    }

    async fn end(self) {
        self.bench.end_with(&self.postgres).await;
    }
}

/// A log whose lines take longer than a pause.
struct SlowLog;

impl Subscriber for SlowLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "consign::outbox"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    #[expect(clippy::disallowed_methods, reason = "a line of the log blocks the thread that writes it")]
    fn event(&self, _: &Event<'_>) {
        thread::sleep(Duration::from_millis(10));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Rules: X-42.
/// A batch with a message that is refused is sent one by one. The pause after the one that fails has ended when it is logged.
#[tokio::test]
async fn no_message_is_sent_after_one_that_fails_however_short_its_pause_is() {
    let _guard = tracing::subscriber::set_default(SlowLog);
    let Some(mut queues) = Queues::new().await else { return };
    let settings = QueueSettings::default().duplicate_detection(Duration::from_secs(600)).max_message_size(1_000);
    queues.postgres.create_queue("orders", settings).await.unwrap();
    let large = Message::builder().message_id("large").build("x".repeat(2_000)).unwrap();
    queues.bench.add("orders", [large, message("a"), message("b")]).await;
    // This transaction has the id of the second message, so that its send waits.
    let mut other = support::client().await;
    let holding = other.transaction().await.unwrap();
    queues.postgres.sender("orders").await.unwrap().send_in(&holding, [message("a")]).await.unwrap();
    let running = Running::start(queues.relay().send_timeout(Duration::from_millis(100)));
    queues.bench.until("EXISTS (SELECT FROM {t} WHERE message_id = 'a' AND attempts >= 2)").await;
    holding.rollback().await.unwrap();
    assert_eq!([queues.receive("orders").await, queues.receive("orders").await], ["a", "b"]);
    queues.bench.until_sent().await;
    let relayed = running.stop().await;
    assert_eq!((relayed.sent, relayed.refused), (2, 1));
    queues.end().await;
}

/// Rules: X-45.
#[tokio::test]
async fn a_queue_takes_as_many_messages_of_a_batch_as_fit_into_it() {
    let Some(mut queues) = Queues::new().await else { return };
    queues.postgres.create_queue("orders", QueueSettings::default().max_size(10_000)).await.unwrap();
    let sized = |id: i32| Message::builder().message_id(id.to_string()).build("x".repeat(3_500)).unwrap();
    queues.bench.add("orders", (0..6).map(sized)).await;
    let running = Running::start(queues.relay());
    for id in 0..6 {
        assert_eq!(queues.receive("orders").await, id.to_string());
    }
    queues.bench.until_sent().await;
    assert_eq!(running.stop().await.sent, 6);
    queues.end().await;
}

/// Rules.
/// The error of a statement is not that of the connection.
#[tokio::test]
async fn a_row_that_is_locked_delays_no_other_destination() {
    let Some(mut queues) = Queues::new().await else { return };
    for queue in ["slow", "orders"] {
        queues.postgres.create_queue(queue, QueueSettings::default()).await.unwrap();
    }
    queues.bench.add("slow", [message("a")]).await;
    queues.bench.add("orders", [message("b")]).await;
    let mut other = support::client().await;
    let holding = other.transaction().await.unwrap();
    let locking = format!("SELECT FROM {} WHERE destination = 'slow' FOR UPDATE", queues.bench.name);
    holding.batch_execute(&locking).await.unwrap();
    let mut config = queues.bench.named();
    config.options("-c lock_timeout=20");
    let relay = Relay::same_database(queues.bench.outbox.clone(), config, NoTls, queues.postgres.clone());
    let running = Running::start(relay.backoff(Duration::from_millis(5), Duration::from_millis(50)));
    assert_eq!(queues.receive("orders").await, "b");
    holding.rollback().await.unwrap();
    assert_eq!(queues.receive("slow").await, "a");
    queues.bench.until_sent().await;
    assert_eq!(running.stop().await.sent, 2);
    queues.end().await;
}

/// Rules: X-45.
#[tokio::test]
async fn a_row_that_is_deleted_after_it_was_read_does_not_count_as_sent() {
    let Some(mut queues) = Queues::new().await else { return };
    queues.postgres.create_queue("orders", QueueSettings::default()).await.unwrap();
    queues.bench.add("orders", [message("a"), message("b")]).await;
    let mut other = support::client().await;
    let holding = other.transaction().await.unwrap();
    let deleting = format!("DELETE FROM {} WHERE message_id = 'a'", queues.bench.name);
    holding.batch_execute(&deleting).await.unwrap();
    let running = Running::start(queues.relay());
    let waits = "EXISTS (SELECT FROM pg_stat_activity WHERE application_name = '{t}' AND wait_event_type = 'Lock')";
    queues.bench.until(waits).await;
    holding.commit().await.unwrap();
    assert_eq!(queues.receive("orders").await, "b");
    queues.bench.until_sent().await;
    assert_eq!(running.stop().await.sent, 1);
    queues.end().await;
}

/// Rules.
/// The second time, the relay may not record that a send failed.
#[tokio::test]
async fn a_result_that_cannot_be_recorded_delays_no_other_destination() {
    for is_privilege in [false, true] {
        let Some(mut queues) = Queues::new().await else { return };
        for queue in ["slow", "orders"] {
            queues.postgres.create_queue(queue, QueueSettings::default()).await.unwrap();
        }
        queues.bench.add("slow", [message("a")]).await;
        queues.bench.add("orders", [message("b")]).await;
        if !is_privilege {
            let sql = format!("UPDATE {} SET message = 'no message' WHERE destination = 'slow'", queues.bench.name);
            queues.bench.client.batch_execute(&sql).await.unwrap();
        }
        let mut other = support::client().await;
        let holding = other.transaction().await.unwrap();
        let locking = format!("SELECT FROM {} WHERE destination = 'slow' FOR UPDATE", queues.bench.name);
        holding.batch_execute(&locking).await.unwrap();
        if is_privilege {
            let sql = format!("REVOKE UPDATE ON {} FROM CURRENT_USER", queues.bench.name);
            queues.bench.client.batch_execute(&sql).await.unwrap();
        }
        let mut config = queues.bench.named();
        config.options("-c lock_timeout=20");
        let relay = Relay::same_database(queues.bench.outbox.clone(), config, NoTls, queues.postgres.clone());
        let running = Running::start(relay.backoff(Duration::from_millis(5), Duration::from_millis(50)));
        assert_eq!(queues.receive("orders").await, "b");
        holding.rollback().await.unwrap();
        queues.bench.until_sent().await;
        let relayed = running.stop().await;
        assert_eq!((relayed.sent, relayed.refused), if is_privilege { (2, 0) } else { (1, 1) });
        queues.end().await;
    }
}

/// As after a failover that has left the old primary running.
///
/// Rules: X-45.
#[tokio::test]
async fn a_connection_to_a_server_that_is_read_only_is_replaced() {
    let Some(mut queues) = Queues::new().await else { return };
    queues.postgres.create_queue("orders", QueueSettings::default()).await.unwrap();
    let running = Running::start(queues.relay());
    queues.bench.add("orders", [message("a")]).await;
    assert_eq!(queues.receive("orders").await, "a");
    let name = queues.bench.name.clone();
    let read_only = format!(
        "CREATE FUNCTION {name}_read_only() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
           IF (SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()) < TG_ARGV[0]::timestamptz THEN \
             RAISE EXCEPTION USING ERRCODE = '25006'; \
           END IF; RETURN NULL; \
         END $$; \
         DO $$ BEGIN EXECUTE format('CREATE TRIGGER read_only BEFORE UPDATE OR DELETE ON {name} \
           EXECUTE FUNCTION {name}_read_only(%L)', clock_timestamp()); END $$"
    );
    queues.bench.client.batch_execute(&read_only).await.unwrap();
    queues.bench.add("orders", [message("b")]).await;
    assert_eq!(queues.receive("orders").await, "b");
    queues.bench.until_sent().await;
    assert_eq!(running.stop().await.sent, 2);
    queues.bench.client.batch_execute(&format!("DROP FUNCTION {name}_read_only CASCADE")).await.unwrap();
    queues.end().await;
}
