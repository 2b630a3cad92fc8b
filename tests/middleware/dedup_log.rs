//! What the layer logs of a store that fails.

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use consign::{
    Disposition, Message,
    middleware::dedup::{Begin, DedupKey, DedupLayer, DedupStore, StoreError, StoreErrorKind},
};
use tokio::time::timeout;
use tower::{BoxError, Layer, ServiceExt, service_fn};

/// Answers nothing but an error.
struct Unavailable;

impl DedupStore for Unavailable {
    type Token = ();

    async fn begin(&self, _: DedupKey<'_>, _: Duration) -> Result<Begin<()>, StoreError> {
        Err(StoreError::new(StoreErrorKind::Unavailable))
    }

    async fn commit(&self, (): &()) -> Result<(), StoreError> {
        Err(StoreError::new(StoreErrorKind::Unavailable))
    }

    async fn forget(&self, (): &()) -> Result<(), StoreError> {
        Err(StoreError::new(StoreErrorKind::Unavailable))
    }
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Rules: W-09.
#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_reserve_is_logged_while_the_message_waits() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let layer = DedupLayer::new(Unavailable, "orders/logged");
    let stack = layer.layer(service_fn(|_: Message| async { Ok::<_, BoxError>(Disposition::Complete) }));
    let message = Message::builder().message_id("a").build("body").unwrap();
    let waited = timeout(Duration::from_secs(60), stack.oneshot(message)).await;
    assert!(waited.is_err(), "it waits longer than that");
    let lines = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let warnings: Vec<_> = lines.lines().filter(|line| line.contains("the id of a message was not reserved")).collect();
    assert!(warnings.len() > 50, "{lines}");
    for text in ["WARN", "the store of handled ids failed", "scope=orders/logged", "suppressed=0"] {
        assert!(warnings[0].contains(text), "{lines}");
    }
}
