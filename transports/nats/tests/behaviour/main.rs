//! What the suite of all transports does not ask: what is given up half-way, a server that goes, messages of others.

mod by_url;
mod declare;
mod drops;
mod entities;
mod foreign;
mod headers;
mod inbox;
mod large_dead_letters;
mod log;
mod own;
mod plain;
mod prefixes;
mod reconnection;
mod refused;
mod republished;
mod sealed;
#[path = "../conformance/server.rs"]
mod server;
mod session_order;
mod session_search;
mod session_subjects;
mod sessions;
mod settlement;
mod shutdown;
mod tls;
mod topics;
mod urls;
mod wrapped;

use std::time::Duration;

use consign_nats::{Nats, QueueSettings, async_nats::jetstream};

/// Longer than anything takes that is not broken.
const LONG: Duration = Duration::from_secs(20);

/// A connection, and a queue that no other test has. `None` without a server.
async fn queue(settings: QueueSettings) -> Option<(Nats, String)> {
    let nats = Nats::options().namespace("test").server_syncs().connect(&server::url()?).await.expect("a server");
    let path = format!("t{:016x}", fastrand::u64(..));
    nats.create_queue(&path, settings).await.expect("a new queue");
    Some((nats, path))
}

/// Lets the server take records and dead letters of a queue up to a size alone.
async fn limit_records(nats: &Nats, path: &str, size: i32) {
    let context = jetstream::new(nats.client().clone());
    let mut config =
        context.get_stream(format!("test_{path}_x")).await.expect("the stream").cached_info().config.clone();
    config.max_message_size = size;
    context.update_stream(&config).await.expect("an update");
}
