//! Rows that other programs, and other clients of PostgreSQL, have added.

use consign::{
    Message,
    transport::{Batch, BoxFuture, ErrorKind, SendError, Sender},
};
use consign_outbox_postgres::{OutboxErrorKind, To};
use tokio::sync::mpsc;

use crate::support::{Bench, LONG, Running, message};

/// Hands on what it is given.
#[derive(Clone)]
struct Taker(mpsc::Sender<Message>);

impl Sender for Taker {
    type Send = BoxFuture<Result<(), SendError>>;

    fn send(&self, message: Message) -> Self::Send {
        let taker = self.0.clone();
        Box::pin(async move {
            taker.send(message).await.unwrap();
            Ok(())
        })
    }

    fn send_batch(&self, _: Batch) -> Self::Send {
        Box::pin(async { Err(SendError::new(ErrorKind::NotSupported)) })
    }
}

/// A data section.
const BODY: &str = "'\\x005375a00178'";
/// The same behind a section with the group id `s`.
const IN_SESSION: &str = "'\\x005373c00e0b40404040404040404040a10173005375a00178'";

/// Rules.
#[tokio::test]
async fn an_empty_session_is_none_and_a_session_of_the_message_alone_is_refused() {
    let Some(bench) = Bench::new().await else { return };
    let sql = format!(
        "INSERT INTO {} (destination, session, message_id, message) VALUES \
         ('orders', '', 'none', {BODY}), ('orders', 's', 'both', {IN_SESSION}), ('orders', NULL, 'null', {IN_SESSION}), \
         ('orders', '', 'empty', {IN_SESSION}), ('orders', NULL, 'nothing', '')",
        bench.name
    );
    bench.client.batch_execute(&sql).await.unwrap();
    let (taker, mut taken) = mpsc::channel(10);
    let running = Running::start(bench.relay(To::sender(Taker(taker))));
    bench.until_sent().await;
    assert_eq!(running.stop().await.sent, 2);
    let mut sent = Vec::new();
    while let Ok(message) = taken.try_recv() {
        sent.push((message.message_id().map(str::to_owned), message.session_id().map(str::to_owned)));
    }
    sent.sort_unstable();
    assert_eq!(sent, [(Some("both".into()), Some("s".into())), (Some("none".into()), None)]);
    let refused = bench.outbox.refused(&bench.client, 10).await.unwrap();
    let shown: Vec<_> = refused.iter().map(|one| (&*one.message_id, &*one.error)).collect();
    let of = |why: &str| format!("the row is not a message: {why}");
    let (null, other) =
        (of("the column session is null, and the message has a SessionId"), of("the column session has another id"));
    assert_eq!(shown, [("null", &*null), ("empty", &*other), ("nothing", &*of("it has no bytes"))]);
    bench.end().await;
}

/// Rules: X-50.
/// The ids are read as far as they can be valid, and the sessions count as the messages do.
#[tokio::test]
async fn a_batch_has_the_ids_of_its_rows_within_its_limit() {
    let Some(bench) = Bench::new().await else { return };
    let sql = format!(
        "INSERT INTO {} (destination, session, message_id, message) \
         SELECT 'orders', NULL, repeat('m', 50000000), {BODY} FROM generate_series(1, 3)",
        bench.name
    );
    bench.client.batch_execute(&sql).await.unwrap();
    let (taker, _taken) = mpsc::channel(10);
    let running = Running::start(bench.relay(To::sender(Taker(taker))));
    tokio::time::timeout(LONG, bench.until_sent()).await.unwrap();
    assert_eq!(running.stop().await.refused, 3);
    for one in bench.outbox.refused(&bench.client, 10).await.unwrap() {
        assert_eq!((one.message_id.len(), one.error.contains("128")), (129, true), "{}", one.error);
    }
    bench.end().await;
}

/// Rules: X-40.
#[tokio::test]
async fn another_client_adds_a_row_by_sql() {
    let Some(mut bench) = Bench::new().await else { return };
    let in_session = Message::builder().message_id("a").session_id("north").build("an order").unwrap();
    let transaction = bench.client.transaction().await.unwrap();
    for message in [&in_session, &Message::new("without an id")] {
        let row = bench.outbox.row("orders", message).unwrap();
        let sql = bench.outbox.insert_sql();
        let added = transaction.execute(sql, &[&row.destination, &row.session, &row.message_id, &row.message]).await;
        assert_eq!(added.unwrap(), 1);
    }
    let refused = bench.outbox.row("orders/$deadletterqueue", &message("b")).unwrap_err();
    assert_eq!(refused.kind(), OutboxErrorKind::InvalidMessage);
    transaction.commit().await.unwrap();
    let (taker, mut taken) = mpsc::channel(10);
    let running = Running::start(bench.relay(To::sender(Taker(taker))));
    bench.until_sent().await;
    assert_eq!(running.stop().await.sent, 2);
    let mut sent = [taken.recv().await.unwrap(), taken.recv().await.unwrap()];
    sent.sort_by_key(|message| message.session_id().is_none());
    assert_eq!((sent[0].message_id(), sent[0].payload()), (Some("a"), Some(&b"an order"[..])));
    assert_eq!(sent[1].message_id().map(str::len), Some(32));
    bench.end().await;
}
