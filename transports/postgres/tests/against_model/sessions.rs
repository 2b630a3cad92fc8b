//! Sessions.

use std::time::Duration;

use consign::{
    message::SequenceNumber,
    time::Timestamp,
    transport::{ErrorKind, ReceiveError, Session},
};
use consign_postgres::PostgresSession;

use crate::{
    driver::Driver,
    model::{Holder, Part, Source},
    receive::take,
    settle::told,
};

const TALKS: usize = 3;

impl Driver {
    pub(crate) async fn accept_session(&mut self) {
        let id = format!("s{}", self.rng.u32(0..4));
        let accepted = self.postgres.accept_session("talks", &id).await;
        let expected = self.model.accept_session(self.entities[TALKS], Some(&id));
        self.keep_session(accepted, expected.map(Option::unwrap));
    }

    pub(crate) async fn accept_next_session(&mut self) {
        let expected = match self.model.accept_session(self.entities[TALKS], None) {
            Ok(None) => return,
            expected => expected.map(Option::unwrap),
        };
        let mut sessions = self.postgres.sessions("talks").await.unwrap();
        let accepted = sessions.next_within(Duration::from_secs(60)).await;
        self.keep_session(accepted, expected);
    }

    fn keep_session(&mut self, accepted: Result<PostgresSession, ReceiveError>, expected: Result<Holder, ErrorKind>) {
        let seen = accepted.as_ref().map(|it| it.session_id().to_owned()).map_err(ReceiveError::kind);
        assert_eq!(seen, expected.as_ref().map(|it| it.id.clone()).map_err(|kind| *kind));
        if let (Ok(session), Ok(holder)) = (accepted, expected) {
            self.sessions.push((session, holder));
        }
    }

    fn any_session(&mut self) -> Option<usize> {
        (!self.sessions.is_empty()).then(|| self.rng.usize(0..self.sessions.len()))
    }

    pub(crate) async fn receive_in_session(&mut self) {
        let Some(at) = self.any_session() else { return };
        let max = self.rng.usize(1..4);
        let holder = self.sessions[at].1.clone();
        let expected = self.model.receive(holder.entity, Source::Session(&holder), max);
        let is_expected = expected.as_ref().map_or(true, |expected| !expected.is_empty());
        let received = take(&mut self.sessions[at].0, max, is_expected).await;
        self.keep(holder.entity, received, expected, true);
    }

    pub(crate) async fn receive_deferred_in_session(&mut self) {
        let Some(at) = self.any_session() else { return };
        let holder = self.sessions[at].1.clone();
        if !self.model.entities.contains_key(&holder.entity) {
            return;
        }
        let numbers = self.numbers(holder.entity, Part::Main, Some(&holder.id));
        let expected = self.model.receive_deferred(holder.entity, Source::Session(&holder), &numbers);
        let numbers: Vec<_> = numbers.into_iter().map(SequenceNumber::new).collect();
        let received = self.sessions[at].0.receive_deferred(&numbers).await;
        self.keep(holder.entity, received.map_err(|error| error.kind()), expected, true);
    }

    pub(crate) async fn renew_session(&mut self) {
        let Some(at) = self.any_session() else { return };
        let (session, holder) = &mut self.sessions[at];
        let renewed = session.renew().await.map(Timestamp::as_millis).map_err(|error| error.kind());
        assert_eq!(renewed, self.model.renew_session(holder));
    }

    pub(crate) async fn set_state(&mut self) {
        let Some(at) = self.any_session() else { return };
        let state = self.rng.bool().then(|| vec![self.rng.u8(..); self.rng.usize(0..20)]);
        let (session, holder) = &self.sessions[at];
        let set = session.set_state(state.clone().map(Into::into)).await.map_err(|error| error.kind());
        assert_eq!(set, self.model.set_session_state(holder, state));
        let (session, holder) = &self.sessions[at];
        let state = session.state().await.map(|state| state.map(|state| state.to_vec()));
        assert_eq!(state.map_err(|error| error.kind()), self.model.session_state(holder));
    }

    pub(crate) async fn close_session(&mut self) {
        let Some(at) = self.any_session() else { return };
        let (session, holder) = self.sessions.swap_remove(at);
        let closed = session.close().await.map_err(|error| error.kind());
        assert_eq!(closed, told(self.model.close_session(&holder), true));
    }
}
