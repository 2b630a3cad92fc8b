//! A message that always fails with an error that may pass.

use std::time::Duration;

use consign::{
    Message,
    transport::{Batch, BoxFuture, ErrorKind, SendError, Sender},
};
use consign_conformance::log::Lines;
use consign_outbox_postgres::To;

use crate::support::{Bench, Running};

/// Takes all messages but one.
#[derive(Clone)]
struct AllBut(&'static str);

impl Sender for AllBut {
    type Send = BoxFuture<Result<(), SendError>>;

    fn send(&self, message: Message) -> Self::Send {
        let is_failing = message.message_id() == Some(self.0);
        let sent = if is_failing { Err(SendError::new(ErrorKind::General).with_detail("as always")) } else { Ok(()) };
        Box::pin(async { sent })
    }

    fn send_batch(&self, _: Batch) -> Self::Send {
        Box::pin(async { Err(SendError::new(ErrorKind::NotSupported)) })
    }
}

/// Rules.
#[tokio::test]
async fn a_message_that_blocks_its_session_is_named_listed_and_refused_by_hand() {
    let (lines, _guard) = Lines::capture();
    let Some(mut bench) = Bench::new().await else { return };
    let in_session = |id: &'static str| Message::builder().message_id(id).session_id("north").build("").unwrap();
    bench.add("orders", [in_session("blocking"), in_session("later")]).await;
    let running = Running::start(bench.relay(To::sender(AllBut("blocking"))));
    bench.until("EXISTS (SELECT FROM {t} WHERE attempts > 2)").await;
    let failing = bench.outbox.failing(&bench.client, 10).await.unwrap();
    let [one] = &failing[..] else { panic!("{failing:?}") };
    assert_eq!((&*one.destination, one.session.as_deref(), &*one.message_id), ("orders", Some("north"), "blocking"));
    assert!(one.attempts > 2 && one.error.contains("as always"), "{one:?}");
    let line = lines.of("consign::outbox").remove(0);
    for part in [format!("row={}", one.id), "blocking".into(), "north".into(), "attempts=1".into(), "as always".into()]
    {
        assert!(line.contains(&part), "{line} has no {part}");
    }

    assert_eq!(bench.outbox.waiting(&bench.client).await.unwrap(), 2);
    assert_eq!(bench.outbox.refuse(&bench.client, &[one.id, -1]).await.unwrap(), 1);
    assert_eq!(bench.outbox.refuse(&bench.client, &[one.id]).await.unwrap(), 0);
    bench.until_sent().await;
    assert_eq!(running.stop().await.sent, 1);
    let refused = bench.outbox.refused(&bench.client, 10).await.unwrap();
    assert!(refused.len() == 1 && refused[0].error.contains("as always"), "{refused:?}");
    assert_eq!(bench.outbox.delete_refused(&bench.client, Duration::ZERO).await.unwrap(), 1);
    bench.end().await;
}
