//! Bodies in memory and in files, through the layers and behind them.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use bytes::Bytes;
use consign::{
    Disposition, Message,
    administration::QueueSettings,
    broker::Broker,
    consumer::Consumer,
    message::SequenceNumber,
    middleware::{
        claim_check::{BlobErrorKind, BlobId, BlobStore, Claim, ResolveClaimLayer, StoreClaimLayer},
        size_limit::SizeLimitLayer,
    },
    time::{Clock, SystemClock, Timestamp},
    transport::{SendExt, SendService},
};
use consign_store_object::ObjectBlobs;
use object_store::{ObjectStoreExt, local::LocalFileSystem, memory::InMemory, path::Path};
use tower::{BoxError, Layer, ServiceBuilder, service_fn};

fn everywhere() -> (tempfile::TempDir, [(&'static str, ObjectBlobs); 2]) {
    let folder = tempfile::tempdir().unwrap();
    let files = LocalFileSystem::new_with_prefix(folder.path()).unwrap();
    let files = ObjectBlobs::new(files, "claims/orders").unwrap();
    (folder, [("memory", ObjectBlobs::new(InMemory::new(), "claims").unwrap()), ("files", files)])
}

#[tokio::test]
async fn a_blob_is_put_read_and_deleted() {
    let (_folder, stores) = everywhere();
    for (name, blobs) in stores {
        let (id, other) = (BlobId::random(), BlobId::random());
        blobs.put(&id, Bytes::from_static(b"a body")).await.unwrap();
        assert_eq!(blobs.get(&id, 6).await.unwrap(), "a body", "{name}");
        for length in [0, 5, 7, u64::MAX] {
            assert_eq!(blobs.get(&id, length).await.unwrap_err().kind(), BlobErrorKind::Length, "{name}");
        }
        assert_eq!(blobs.get(&other, 6).await.unwrap_err().kind(), BlobErrorKind::Missing, "{name}");
        blobs.put(&other, Bytes::new()).await.unwrap();
        assert_eq!(blobs.get(&other, 0).await.unwrap(), "", "{name}");
        for _ in 0..2 {
            blobs.delete(&id).await.unwrap();
            assert_eq!(blobs.get(&id, 6).await.unwrap_err().kind(), BlobErrorKind::Missing, "{name}");
        }
    }
}

/// Rules: H-40.
/// 5 MiB through a queue that takes 256 KiB.
#[tokio::test]
async fn a_large_body_goes_through_a_small_queue() {
    let (_folder, stores) = everywhere();
    for (name, blobs) in stores {
        let queue = Broker::new().create_queue("orders", QueueSettings::default()).unwrap();
        let body: Vec<u8> = (0..5_u32 << 20).map(|n| n.to_le_bytes()[1]).collect();
        let mut sender = ServiceBuilder::new()
            .layer(StoreClaimLayer::new(blobs.clone()))
            .layer(SizeLimitLayer::default())
            .service(SendService::new(queue.sender().unwrap()));
        sender.send(Message::new(body.clone())).await.unwrap();
        let handler = service_fn(move |message: Message| {
            assert_eq!(message.payload(), Some(&body[..]));
            async { Ok::<_, BoxError>(Disposition::Complete) }
        });
        let consumer = Consumer::new(queue.receiver(), ResolveClaimLayer::new(blobs).layer(handler));
        let stats = consumer.run_until(tokio::time::sleep(Duration::from_millis(500))).await.unwrap();
        assert_eq!(stats.completed(), 1, "{name}");
    }
}

/// Rules: H-42.
#[tokio::test]
async fn a_blob_that_is_gone_or_altered_is_a_dead_letter_after_one_delivery() {
    let folder = tempfile::tempdir().unwrap();
    let files = std::sync::Arc::new(LocalFileSystem::new_with_prefix(folder.path()).unwrap());
    let blobs = ObjectBlobs::shared(files.clone(), "claims").unwrap();
    let queue = Broker::new().create_queue("orders", QueueSettings::default()).unwrap();
    let layer = StoreClaimLayer::new(blobs.clone()).threshold(1);
    let mut sender = layer.layer(SendService::new(queue.sender().unwrap()));
    for body in ["gone", "longer", "altered"] {
        sender.send(Message::new(body)).await.unwrap();
    }
    for (message, change) in
        queue.peek(SequenceNumber::default(), 3).into_iter().zip([None, Some("longer."), Some("Altered")])
    {
        let path = Path::from(format!("claims/{}", Claim::of(&message).unwrap().unwrap().id()));
        match change {
            None => files.delete(&path).await.unwrap(),
            Some(body) => drop(files.put(&path, body.into()).await.unwrap()),
        }
    }
    let never = service_fn(|_: Message| async { Err::<Disposition, BoxError>("a handler saw it".into()) });
    let consumer = Consumer::new(queue.receiver(), ResolveClaimLayer::new(blobs).layer(never));
    let stats = consumer.run_until(tokio::time::sleep(Duration::from_millis(300))).await.unwrap();
    assert_eq!((stats.dead_lettered(), stats.abandoned()), (3, 0));
    let dead = queue.dead_letter().peek(SequenceNumber::default(), 3);
    let why: Vec<_> = dead.iter().map(|dead| dead.dead_letter_description().unwrap()).collect();
    let id = |nth: usize| *Claim::of(&dead[nth]).unwrap().unwrap().id();
    let missing = format!("the blob does not exist (blob {}): ", id(0));
    assert!(why[0].starts_with(&missing) && why[0].contains(&format!("claims/{}", id(0))), "{}", why[0]);
    let length = format!("the blob has a different length (blob {})", id(1));
    assert_eq!(why[1..], [&*length, "the digest of the blob is not that of the claim"]);
    assert!(
        dead.iter().all(|dead| dead.dead_letter_reason() == Some("ClaimMissing") && Claim::of(dead).unwrap().is_ok())
    );
}

/// Rules: H-44.
#[tokio::test]
async fn old_blobs_are_deleted_and_nothing_else() {
    let store = std::sync::Arc::new(InMemory::new());
    let blobs = ObjectBlobs::shared(store.clone(), "claims").unwrap();
    let ids: Vec<_> = (0..10).map(|_| BlobId::random()).collect();
    for id in &ids {
        blobs.put(id, Bytes::from_static(b"a body")).await.unwrap();
    }
    let others = [
        "claims/readme",
        "claims/00000000000000000000000000000000/x",
        "claimsother/00000000000000000000000000000000",
        "00000000000000000000000000000000",
    ];
    for path in others {
        store.put(&Path::from(path), "keep".into()).await.unwrap();
    }
    let now = SystemClock::new().now().utc;
    let deleted = blobs.delete_older_than(Timestamp::from_millis(now.as_millis() - 60_000)).await.unwrap();
    assert_eq!((deleted.blobs, deleted.bytes), (0, 0));
    let deleted = blobs.delete_older_than(now.saturating_add(Duration::from_secs(60))).await.unwrap();
    assert_eq!((deleted.blobs, deleted.bytes), (10, 60));
    for path in others {
        store.get(&Path::from(path)).await.unwrap();
    }
    assert_eq!(blobs.get(&ids[0], 6).await.unwrap_err().kind(), BlobErrorKind::Missing);
}

#[tokio::test]
async fn a_store_that_does_not_answer_may_later() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = ObjectBlobs::new(LocalFileSystem::new_with_prefix(folder.path()).unwrap(), "claims").unwrap();
    // Where the folder should be there is a file.
    std::fs::write(folder.path().join("claims"), "a file").unwrap();
    let error = blobs.put(&BlobId::random(), Bytes::from_static(b"a body")).await.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (BlobErrorKind::Unavailable, true));
    assert!(std::error::Error::source(&error).is_some());
}

#[test]
fn a_prefix_stays_in_the_store() {
    for prefix in ["..", "a/../b", "./a", "a//b"] {
        ObjectBlobs::new(InMemory::new(), prefix).unwrap_err();
    }
    for prefix in ["", "a", "a/b"] {
        ObjectBlobs::new(InMemory::new(), prefix).unwrap();
    }
}
