//! A subscriber that keeps every event and span of a thread as text.

use std::{
    fmt::{self, Write},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

#[derive(Clone, Default)]
struct Log {
    text: Arc<Mutex<String>>,
    spans: Arc<AtomicU64>,
}

/// Runs `test`, and answers with what it logged on this thread.
pub(crate) fn captured<T>(test: impl FnOnce() -> T) -> (T, String) {
    let log = Log::default();
    let text = Arc::clone(&log.text);
    let value = tracing::subscriber::with_default(log, test);
    let text = text.lock().unwrap().clone();
    (value, text)
}

impl Log {
    fn line(&self, level: &str, fields: impl FnOnce(&mut dyn Visit)) {
        let mut line = format!("{level}:");
        fields(&mut Fields(&mut line));
        let mut text = self.text.lock().unwrap();
        text.push_str(&line);
        text.push('\n');
    }
}

struct Fields<'l>(&'l mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.line(span.metadata().name(), |fields| span.record(fields));
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        self.line("record", |fields| values.record(fields));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.line(event.metadata().level().as_str(), |fields| event.record(fields));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
