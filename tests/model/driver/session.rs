use std::{
    collections::{BTreeMap, BTreeSet},
    task::{Context, Poll, Waker},
};

use consign::{
    broker::QueueLease,
    transport::{Delivery, ErrorKind, SessionSource},
};

use super::{
    Driver, HeldSession,
    compare::{Shown, assert_same},
    receive::{sequence_numbers, take, take_deleted},
    settle::told,
    world::Kind,
};
use crate::model::{Part, Source};

/// The numbers of each session that were delivered, by the entity and the session.
#[derive(Debug, Default)]
pub(super) struct Order(BTreeMap<(u32, String), BTreeSet<u64>>);

impl Order {
    /// Whether a message that was not delivered before comes after a later one.
    fn is_inverted(&mut self, entity: u32, session: &str, number: u64) -> bool {
        let delivered = self.0.entry((entity, session.to_owned())).or_default();
        let is_late = delivered.last().is_some_and(|&last| number < last);
        delivered.insert(number) && is_late
    }
}

impl Driver {
    /// Mostly an entity with sessions.
    fn any_with_sessions(&mut self) -> Option<usize> {
        let any = self.one_in(12);
        self.any_handle(|handle| handle.kind != Kind::Topic && (any || handle.path.ends_with("talks")))
    }

    pub(super) fn accept_session(&mut self) {
        let Some(at) = self.any_with_sessions() else { return };
        let (handle, id) = (self.handles[at].clone(), format!("s{}", self.rng.u32(0..4)));
        let acceptor = handle.queue().unwrap().session_acceptor().unwrap();
        let deletes = self.one_in(4);
        let accepted = if deletes { acceptor.receive_and_delete().accept(&id) } else { acceptor.accept(&id) };
        let expected = self.model.accept_session(handle.entity, Some(&id));
        self.keep_session(accepted.map(Some).map_err(|error| error.kind()), expected, deletes);
    }

    pub(super) fn accept_next_session(&mut self) {
        let Some(at) = self.any_with_sessions() else { return };
        let handle = self.handles[at].clone();
        let mut acceptor = handle.queue().unwrap().session_acceptor().unwrap();
        let deletes = self.one_in(4);
        if deletes {
            acceptor = acceptor.receive_and_delete();
        }
        let accepted = match acceptor.poll_accept(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(accepted) => accepted.map(Some).map_err(|error| error.kind()),
            Poll::Pending => Ok(None),
        };
        drop(acceptor);
        let expected = self.model.accept_session(handle.entity, None);
        self.keep_session(accepted, expected, deletes);
    }

    fn keep_session(
        &mut self,
        accepted: Result<Option<consign::broker::SessionReceiver>, ErrorKind>,
        expected: Result<Option<crate::model::Holder>, ErrorKind>,
        deletes: bool,
    ) {
        let seen = accepted
            .as_ref()
            .map(|it| it.as_ref().map(|it| (it.session_id().to_owned(), it.locked_until().as_millis())));
        let wanted = expected.as_ref().map(|it| it.as_ref().map(|it| (it.id.clone(), it.until)));
        assert_eq!(seen, wanted);
        if let (Ok(Some(receiver)), Ok(Some(holder))) = (accepted, expected) {
            self.sessions.push(HeldSession { receiver, holder, deletes, cursor: 1 });
        }
    }

    fn any_session(&mut self) -> Option<usize> {
        (!self.sessions.is_empty()).then(|| self.rng.usize(0..self.sessions.len()))
    }

    pub(super) fn receive_in_session(&mut self) {
        let Some(at) = self.any_session() else { return };
        let max = self.rng.usize(1..4);
        let HeldSession { receiver, holder, deletes, .. } = &mut self.sessions[at];
        let (holder, deletes) = (holder.clone(), *deletes);
        let received = if deletes { take_deleted(&self.broker, receiver, max) } else { take(receiver, max) };
        self.note_order(holder.entity, &holder.id, received.as_deref().unwrap_or_default());
        if deletes {
            let expected = self.model.receive_and_delete(holder.entity, Source::Session(&holder), max);
            self.compare_deleted(received, expected);
        } else {
            let expected = self.model.receive(holder.entity, Source::Session(&holder), max);
            self.keep(holder.entity, received, expected, true);
        }
    }

    fn note_order(&mut self, entity: u32, session: &str, received: &[Delivery<QueueLease>]) {
        for delivery in received {
            let number = delivery.message.received().unwrap().sequence_number.get();
            self.tally.inversions += u64::from(self.order.is_inverted(entity, session, number));
        }
    }

    pub(super) fn receive_deferred_in_session(&mut self) {
        let Some(at) = self.any_session() else { return };
        let holder = self.sessions[at].holder.clone();
        let wrong = self.one_in(8);
        let numbers = self.numbers(holder.entity, Part::Main, Some(&holder.id), wrong);
        let received = self.sessions[at].receiver.receive_deferred(&sequence_numbers(&numbers));
        let expected = self.model.receive_deferred(holder.entity, Source::Session(&holder), &numbers);
        self.keep(holder.entity, received.map_err(|error| error.kind()), expected, true);
    }

    pub(super) fn peek_in_session(&mut self) {
        let Some(at) = self.any_session() else { return };
        let max = self.rng.usize(0..6);
        let (holder, cursor) = (self.sessions[at].holder.clone(), self.sessions[at].cursor);
        let peeked: Vec<_> = self.sessions[at].receiver.peek(max).iter().map(Shown::of_broker).collect();
        let expected = self.model_peek(holder.entity, Source::Session(&holder), cursor, max);
        assert_same(&peeked, &expected, &"peek");
        self.sessions[at].cursor = expected.last().map_or(cursor, |last| last.sequence + 1);
    }

    pub(super) fn renew_session(&mut self) {
        let Some(at) = self.any_session() else { return };
        let HeldSession { receiver, holder, .. } = &mut self.sessions[at];
        let renewed = receiver.renew().map(consign::time::Timestamp::as_millis).map_err(|error| error.kind());
        assert_eq!(renewed, self.model.renew_session(holder));
        assert_eq!(receiver.locked_until().as_millis(), holder.until);
    }

    pub(super) fn set_state(&mut self) {
        let Some(at) = self.any_session() else { return };
        let bytes = if self.one_in(4) { 4_000 } else { 20 };
        let state = self.rng.bool().then(|| vec![self.rng.u8(..); self.rng.usize(0..bytes)]);
        let HeldSession { receiver, holder, .. } = &self.sessions[at];
        let set = receiver.set_state(state.clone().map(Into::into)).wait().map_err(|error| error.kind());
        assert_eq!(set, self.model.set_session_state(holder, state));
    }

    pub(super) fn get_state(&mut self) {
        let Some(at) = self.any_session() else { return };
        let HeldSession { receiver, holder, .. } = &self.sessions[at];
        let state = receiver.state().map(|state| state.map(|state| state.to_vec())).map_err(|error| error.kind());
        assert_eq!(state, self.model.session_state(holder));
    }

    pub(super) fn close_session(&mut self) {
        let Some(at) = self.any_session() else { return };
        let HeldSession { receiver, holder, .. } = self.sessions.swap_remove(at);
        let closed = receiver.close().map_err(|error| error.kind());
        assert_eq!(closed, told(self.model.close_session(&holder), true));
    }

    pub(super) fn drop_session(&mut self) {
        let Some(at) = self.any_session() else { return };
        self.drop_session_at(at);
    }

    pub(super) fn drop_session_at(&mut self, at: usize) {
        let HeldSession { receiver, holder, .. } = self.sessions.swap_remove(at);
        drop(receiver);
        let _ = self.model.close_session(&holder);
    }

    pub(super) fn list_sessions(&mut self) {
        let Some(at) = self.any_with_sessions() else { return };
        let sessions = self.handles[at].queue().unwrap().sessions();
        assert_eq!(sessions, self.model.session_ids(self.handles[at].entity));
    }
}
