//! Replies in a file, and after it was opened again.
#![allow(clippy::unwrap_used)]

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use consign::{
    Message,
    administration::QueueSettings,
    broker::{Broker, Queue},
    codecs::Codecs,
    consumer::Consumer,
    message::EntityPath,
    middleware::dedup::{DedupKey, DedupLayer, DedupStore},
    routing::Body,
    rpc::{Fault, RecordedReplies, RecordedReply, ReplyStore, Responder},
    time::{ManualClock, Timestamp},
    transport::{ReceiverExt, SendService, Sender},
};
use consign_store_redb::RedbStore;
use tempfile::TempDir;
use tokio::{sync::Notify, task::JoinHandle};
use tower::Layer;

const WINDOW: Duration = Duration::from_secs(600);

struct Folder {
    folder: TempDir,
    clock: Arc<ManualClock>,
}

impl Folder {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000_000)));
        Self { folder: tempfile::tempdir().unwrap(), clock }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("handled.redb")
    }

    fn open(&self, max_reply_bytes: u64) -> RedbStore<Arc<ManualClock>> {
        let builder = RedbStore::builder(WINDOW).max_reply_bytes(max_reply_bytes).clock(Arc::clone(&self.clock));
        builder.open(self.path()).unwrap()
    }
}

/// A reply of so many bytes besides its format, its ContentType and its properties, of which it has none.
fn reply(bytes: usize) -> RecordedReply {
    RecordedReply::from_bytes(&[&[1, 0, 0, 0, 0, 0, 0, 0, 0][..], &vec![7; bytes]].concat()).unwrap()
}

async fn put(store: &impl ReplyStore, id: u8, bytes: usize) {
    store.put(DedupKey::new("requests", &[id]), reply(bytes)).await.unwrap();
}

/// The sizes of the replies that are found.
async fn found(store: &impl ReplyStore, ids: impl IntoIterator<Item = u8>) -> Vec<(u8, usize)> {
    let mut found = Vec::new();
    for id in ids {
        if let Some(reply) = store.find(DedupKey::new("requests", &[id])).await.unwrap() {
            found.push((id, reply.size()));
        }
    }
    found
}

/// Rules: W-18.
#[tokio::test]
async fn replies_are_found_when_the_file_is_opened_again() {
    let folder = Folder::new();
    let store = folder.open(RedbStore::MAX_REPLY_BYTES);
    assert_eq!(found(&store, [1]).await, [], "no reply was ever kept");
    put(&store, 1, 10).await;
    put(&store, 2, 20).await;
    put(&store, 1, 30).await;
    drop(store);
    let store = folder.open(RedbStore::MAX_REPLY_BYTES);
    assert_eq!(found(&store, [1, 2, 3]).await, [(1, 30), (2, 20)]);
    assert!(store.find(DedupKey::new("others", &[1])).await.unwrap().is_none(), "another scope");
}

/// Rules: W-18.
#[tokio::test]
async fn a_file_keeps_a_reply_for_its_window() {
    let folder = Folder::new();
    let store = folder.open(RedbStore::MAX_REPLY_BYTES);
    put(&store, 1, 10).await;
    folder.clock.advance(Duration::from_millis(599_999));
    drop(store);
    let store = folder.open(RedbStore::MAX_REPLY_BYTES);
    assert_eq!(found(&store, [1]).await, [(1, 10)]);
    put(&store, 2, 10).await;
    folder.clock.advance(Duration::from_millis(1));
    assert_eq!(found(&store, [1, 2]).await, [(2, 10)]);
}

/// Rules: W-18.
#[tokio::test]
async fn the_oldest_replies_in_a_file_are_pushed_out_by_what_does_not_fit() {
    // Each counts for its body, 9 bytes of its own, and 64 around it.
    const EACH: u64 = 1_000 + 9 + 64;
    let folder = Folder::new();
    let store = folder.open(7 * EACH);
    for id in 0..100 {
        put(&store, id, 1_000).await;
        folder.clock.advance(Duration::from_millis(1));
    }
    let kept: Vec<_> = (93..100).map(|id| (id, 1_000)).collect();
    assert_eq!(found(&store, 0..100).await, kept);
    // One that is replaced counts once, and is the latest then.
    for _ in 0..20 {
        put(&store, 93, 1_000).await;
        folder.clock.advance(Duration::from_millis(1));
    }
    drop(store);
    let store = folder.open(7 * EACH);
    put(&store, 100, 1_000).await;
    assert_eq!(
        found(&store, 93..=100).await.iter().map(|(id, _)| *id).collect::<Vec<_>>(),
        [93, 95, 96, 97, 98, 99, 100]
    );
    // One that is too large pushes nothing out, and takes the place of what it replaces.
    put(&store, 99, 8_000).await;
    assert_eq!(found(&store, 93..=100).await.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [93, 95, 96, 97, 98, 100]);
    // The window of all is over, and one that is new finds them all gone.
    folder.clock.advance(WINDOW);
    put(&store, 1, 7 * 1_000).await;
    assert_eq!(found(&store, 0..=100).await, [(1, 7_000)]);
}

/// One run of a service that answers "count" with how often it was called, over one file.
struct Process {
    consumer: JoinHandle<()>,
    stop: Arc<Notify>,
    runs: Arc<AtomicU32>,
}

impl Process {
    fn start(broker: &Broker, requests: &Queue, folder: &Folder) -> Self {
        let store = Arc::new(RedbStore::open(folder.path(), WINDOW).unwrap());
        let runs = Arc::new(AtomicU32::new(0));
        let (reply_to, counted) = (broker.clone(), Arc::clone(&runs));
        let count = move |Body(number): Body<u32>| {
            let count = counted.fetch_add(1, Ordering::Relaxed) + 100;
            async move { if number == 0 { Err(Fault::application("Zero").with_detail("none")) } else { Ok(count) } }
        };
        let responder = Responder::builder(move |to: &EntityPath| Ok(SendService::new(reply_to.sender(to)?)))
            .record(RecordedReplies::in_store(Arc::clone(&store)).scope("requests"))
            .codecs(Codecs::json())
            .answer("count", count)
            .build()
            .unwrap();
        let stack = DedupLayer::new(store, "requests").on_duplicate(responder.replay()).layer(responder);
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let consumer = Consumer::new(requests.receiver(), stack).run_until(async move { stopped.notified().await });
        let consumer = tokio::spawn(async move { drop(consumer.await.unwrap()) });
        Self { consumer, stop, runs }
    }

    /// Closes the file. How often the handler ran.
    async fn end(self) -> u32 {
        self.stop.notify_one();
        self.consumer.await.unwrap();
        self.runs.load(Ordering::Relaxed)
    }
}

/// Rules: W-18.
#[tokio::test]
async fn a_duplicate_after_a_restart_is_answered_as_the_first_was() {
    let (broker, folder) = (Broker::new(), Folder::new());
    let requests = broker.create_queue("requests", QueueSettings::default()).unwrap();
    let replies = broker.create_queue("replies", QueueSettings::default()).unwrap();
    let send = async |number: &'static str| {
        let request = Message::builder().subject("count").message_id(number).reply_to("replies");
        requests.sender().unwrap().send(request.build(number).unwrap()).await.unwrap();
        let reply = replies.receiver().receive().await.unwrap();
        let message = reply.message.clone();
        reply.complete().await.unwrap();
        let fault = Fault::of_reply(&message).map(|fault| fault.detail().map(str::to_owned));
        (message.payload().unwrap().to_vec(), message.content_type().map(str::to_owned), fault)
    };

    let process = Process::start(&broker, &requests, &folder);
    let before = [send("7").await, send("0").await];
    assert_eq!(process.end().await, 2);

    for _restart in 0..2 {
        let process = Process::start(&broker, &requests, &folder);
        assert_eq!([send("7").await, send("0").await], before);
        assert_eq!(process.end().await, 0, "the handler does not run again");
    }
}

/// Rules: W-18.
#[tokio::test]
async fn replies_and_ids_of_one_file_are_kept_apart() {
    let folder = Folder::new();
    let store = folder.open(RedbStore::MAX_REPLY_BYTES);
    let key = DedupKey::new("requests", &[1]);
    put(&store, 1, 10).await;
    let consign::middleware::dedup::Begin::New(token) = store.begin(key, WINDOW).await.unwrap() else { panic!() };
    store.commit(&token).await.unwrap();
    assert_eq!(found(&store, [1]).await, [(1, 10)]);
}
