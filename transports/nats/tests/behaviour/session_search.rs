//! The search for the next session.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use consign::{
    Message,
    transport::{Sender, Session},
};
use consign_nats::{
    Nats, QueueSettings,
    async_nats::{ConnectOptions, Event},
};

use crate::{LONG, queue, server};

/// The client reports a subscription whose buffer is full.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_does_not_buffer_the_messages_of_held_sessions() {
    const BUFFER: usize = 128;
    let mut settings = QueueSettings::default();
    settings.requires_session = true;
    let Some((nats, path)) = queue(settings).await else { return };
    let held = nats.accept_session(&path, "held").await.unwrap();
    let sender = nats.sender(&path).await.unwrap();
    let message = |session: &'static str| Message::builder().session_id(session).build("a").expect("a message");
    let is_slow = Arc::new(AtomicBool::new(false));
    let slow = Arc::clone(&is_slow);
    let client = ConnectOptions::new().subscription_capacity(BUFFER).event_callback(move |event| {
        slow.fetch_or(matches!(event, Event::SlowConsumer(_)), Ordering::Relaxed);
        std::future::ready(())
    });
    let options = Nats::options().namespace("test").server_syncs().client(client);
    let searching = options.connect(&server::url().unwrap()).await.unwrap();
    let mut acceptor = searching.session_acceptor(&path).await.unwrap();
    let accepted = tokio::spawn(async move { acceptor.accept_next_within(LONG).await });
    for _ in 0..BUFFER * 8 {
        sender.send(message("held")).await.unwrap();
    }
    sender.send(message("free")).await.unwrap();
    let free = accepted.await.unwrap().unwrap();
    assert_eq!(free.session_id(), "free");
    assert!(!is_slow.load(Ordering::Relaxed), "the buffer of the search is full");
    free.close().await.unwrap();
    held.close().await.unwrap();
    nats.delete(&path).await.unwrap();
}
