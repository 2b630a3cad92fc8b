//! The connections of a listener, and which of them is closed when there are too many.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::log::warn_of;

/// The connections of a listener.
pub(super) struct Connections {
    max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Orders the connections by the time since which they are without a request.
    next: u64,
    present: BTreeMap<u64, Entry>,
}

struct Entry {
    is_authorized: bool,
    is_busy: bool,
    since: u64,
    closed: Arc<Notify>,
}

impl State {
    fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Those that were never authorized come first. A request of an authorized client is not interrupted: a message that it deletes would be lost.
    fn first_to_close(&self) -> Option<u64> {
        let candidates = self.present.iter().filter(|(_, entry)| !(entry.is_authorized && entry.is_busy));
        let first = candidates.min_by_key(|(_, entry)| (entry.is_authorized, entry.is_busy, entry.since));
        first.map(|(number, _)| *number)
    }
}

impl Connections {
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max: max.max(1), state: Mutex::default() })
    }

    /// Adds a connection. If there are too many, another one is closed. None if each of them has a request of an authorized client.
    pub(super) fn enter(self: &Arc<Self>) -> Option<Place> {
        let closed = Arc::new(Notify::new());
        let mut state = self.state.lock();
        let is_full = state.present.len() >= self.max;
        if is_full {
            let first = state.first_to_close()?;
            if let Some(entry) = state.present.remove(&first) {
                entry.closed.notify_one();
            }
        }
        let number = state.next();
        let entry = Entry { is_authorized: false, is_busy: false, since: number, closed: Arc::clone(&closed) };
        state.present.insert(number, entry);
        drop(state);
        if is_full {
            warn_of!("HttpConnectionClosed", limit = self.max, "a connection of HTTP was closed, as there is one more");
        }
        let (connections, is_answered) = (Arc::clone(self), AtomicBool::new(false));
        Some(Place(Arc::new(Inner { connections, number, closed, is_answered })))
    }
}

/// The place of a connection, until all clones are dropped.
#[derive(Clone)]
pub(super) struct Place(Arc<Inner>);

struct Inner {
    connections: Arc<Connections>,
    number: u64,
    closed: Arc<Notify>,
    /// Whether the last request is answered, and the answer may not be written yet.
    is_answered: AtomicBool,
}

impl Place {
    /// Waits until the connection is to be closed.
    pub(super) async fn closed(&self) {
        self.0.closed.notified().await;
    }

    /// A request begins. None if the connection is to be closed.
    pub(super) fn begin(&self) -> Option<InProgress> {
        self.0.is_answered.store(false, Ordering::Relaxed);
        let mut state = self.0.connections.state.lock();
        state.present.get_mut(&self.0.number)?.is_busy = true;
        Some(InProgress(self.clone()))
    }

    /// Its client is authorized.
    pub(super) fn authorized(&self) {
        if let Some(entry) = self.0.connections.state.lock().present.get_mut(&self.0.number) {
            entry.is_authorized = true;
        }
    }

    /// What there was to write is written.
    pub(super) fn written(&self) {
        if self.0.is_answered.swap(false, Ordering::Relaxed) {
            let mut state = self.0.connections.state.lock();
            let since = state.next();
            if let Some(entry) = state.present.get_mut(&self.0.number) {
                (entry.is_busy, entry.since) = (false, since);
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.connections.state.lock().present.remove(&self.number);
    }
}

/// A request, until it is answered.
pub(super) struct InProgress(Place);

impl InProgress {
    /// Returns the body of the answer.
    pub(super) fn until_end_of(self, body: Body) -> Answer {
        Answer { body, _in_progress: self }
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.0.is_answered.store(true, Ordering::Relaxed);
    }
}

/// The body of an answer. Its request is in progress until its end.
pub(super) struct Answer {
    body: Body,
    _in_progress: InProgress,
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn closed<const N: usize>(places: [&Place; N]) -> [bool; N] {
        places.map(|place| place.closed().now_or_never().is_some())
    }

    #[test]
    fn the_connection_without_a_request_for_longest_is_closed() {
        let connections = Connections::new(2);
        let [first, second] = [(); 2].map(|()| connections.enter().unwrap());
        drop(first.begin());
        first.written();
        let third = connections.enter().unwrap();
        assert_eq!(closed([&first, &second, &third]), [false, true, false]);
        assert!(second.begin().is_none());
        drop((second, third));
        connections.enter().unwrap();
        assert_eq!(closed([&first]), [false]);
        drop(first);
        assert!(connections.state.lock().present.is_empty());
    }

    #[test]
    fn connections_without_authorization_are_closed_first_and_also_during_a_request() {
        let connections = Connections::new(3);
        let [client, busy, idle] = [(); 3].map(|()| connections.enter().unwrap());
        client.authorized();
        let _in_progress = busy.begin().unwrap();
        let places = [(); 3].map(|()| connections.enter().unwrap());
        assert_eq!(closed([&idle, &busy, &client]), [true, false, false]);
        assert_eq!(closed([&places[0], &places[1], &places[2]]), [true, true, false]);
        places[2].authorized();
        let last = connections.enter().unwrap();
        assert_eq!(closed([&busy, &client, &places[2], &last]), [true, false, false, false]);
        last.authorized();
        connections.enter().unwrap();
        assert_eq!(closed([&client, &places[2], &last]), [true, false, false]);
    }

    #[test]
    fn a_request_of_an_authorized_client_is_in_progress_until_its_answer_is_written() {
        let connections = Connections::new(1);
        let place = connections.enter().unwrap();
        place.authorized();
        let in_progress = place.begin().unwrap();
        place.written();
        assert!(connections.enter().is_none());
        drop(in_progress);
        assert!(connections.enter().is_none());
        place.written();
        assert!(connections.enter().is_some());
        assert_eq!(closed([&place]), [true]);
    }
}
