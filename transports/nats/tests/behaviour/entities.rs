//! What is made for an entity, and what is left of it.

use consign::{
    Message,
    message::{EntityPath, SequenceNumber},
    transport::{ErrorKind, PeekMessages, Sender},
};
use consign_nats::{
    QueueSettings,
    async_nats::jetstream::{self, stream},
};

use crate::queue;

#[tokio::test]
async fn a_stream_of_another_outlives_a_queue_that_would_have_its_name() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    let context = jetstream::new(nats.client().clone());
    let (taken, name) = (format!("{path}-taken"), format!("test_{path}-taken"));
    let config = stream::Config { name: name.clone(), subjects: vec![format!("of.{taken}")], ..Default::default() };
    context.create_stream(config).await.unwrap();
    for _ in 0..2 {
        let error = nats.create_queue(&taken, QueueSettings::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
        context.get_stream(&name).await.expect("the other's stream");
    }
    context.get_stream(format!("{name}_x")).await.expect_err("nothing beside it");
    context.delete_stream(name).await.unwrap();
    nats.delete(&path).await.unwrap();
}

#[tokio::test]
async fn a_large_batch_keeps_its_order() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    let batch = (0..3_000).map(|number| Message::new(format!("{number:04}"))).collect();
    nats.sender(&path).await.unwrap().send_batch(batch).await.unwrap();
    let stored = nats.peek(&EntityPath::new(&path).unwrap(), SequenceNumber::new(0), usize::MAX).await.unwrap();
    assert_eq!(stored.len(), 3_000);
    let out_of_order = stored.windows(2).find(|pair| pair[0].payload() > pair[1].payload());
    assert!(out_of_order.is_none(), "{out_of_order:?}");
    nats.delete(&path).await.unwrap();
}
