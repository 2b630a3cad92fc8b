//! Ends idle links and connections, and rights that have expired.

use std::time::Duration;

use consign_amqp::{
    engine::{Connection as Engine, LinkId},
    types::{Error, condition},
};
use tokio::time::Instant;

use super::{client::Client, rights::FAR};
use crate::{errors::Failure, links::Link};

/// The least time for an idle link: the timer is due as often while a client waits.
const MIN_IDLE: Duration = Duration::from_secs(1);

impl Client {
    /// Notes that there is no link, if so.
    pub(crate) fn check_alone(&mut self) {
        if self.links.values().all(|link| link.kind.is_cbs()) {
            self.idle.alone_since.get_or_insert(Instant::now());
            self.times_changed();
        }
    }

    /// Returns when [`Client::keep_time`] is to be called.
    pub(super) fn due(&self) -> Instant {
        self.idle.due
    }

    /// Has the times looked at again, as something has changed that may be due earlier.
    pub(crate) fn times_changed(&mut self) {
        self.idle.due = Instant::now();
    }

    /// Has the times looked at when a link that is new may be idle.
    pub(super) fn idle_link_due(&mut self, now: Instant) {
        if let Some(idle_at) = now.checked_add(self.idle_link()) {
            self.idle.due = self.idle.due.min(idle_at);
        }
    }

    /// Has the links that wait for settlements looked at then.
    pub(crate) fn search_unsettled_at(&mut self, at: Option<Instant>) {
        self.unsettled_due = at;
        if let Some(at) = at {
            self.idle.due = self.idle.due.min(at);
        }
    }

    fn idle_link(&self) -> Duration {
        self.shared.timeouts.idle_link.max(MIN_IDLE)
    }

    /// Ends what is idle or has lost its rights, and sets the timer.
    pub(super) fn keep_time(&mut self, engine: &mut Engine, now: Instant) {
        let far = now.checked_add(FAR).unwrap_or(now);
        self.idle.due = far;
        if self.is_closing() {
            return;
        }
        if self.held.expire(now) {
            self.detach_unauthorized(engine, now, "has expired");
        }
        self.expire_transactions(now);
        self.resume_unsettled(engine, now);
        let mut timeouts = self.shared.timeouts.clone();
        timeouts.idle_link = self.idle_link();
        if self.held.needs_token(now) {
            let since = *self.idle.unauthorized_since.get_or_insert(now);
            if now.duration_since(since) >= timeouts.authorization {
                let text = format!("No token was put for {} seconds.", timeouts.authorization.as_secs());
                return self.close(engine, Error::new(condition::UNAUTHORIZED_ACCESS, text));
            }
        } else {
            self.idle.unauthorized_since = None;
        }
        let is_idle = |id: LinkId, link: &Link| {
            let is_used = link.kind.is_cbs() || link.kind.is_waiting(engine, id);
            !is_used && now.duration_since(link.active) >= timeouts.idle_link
        };
        let idle: Vec<_> = self.links.iter().filter(|(id, link)| is_idle(**id, link)).map(|(id, _)| *id).collect();
        for link in idle {
            let text = format!("The link was idle for {} seconds.", timeouts.idle_link.as_secs());
            let failure = Failure { condition: condition::DETACH_FORCED, status: 408, description: text.into() };
            self.detach(engine, link, failure);
        }
        let limit = if self.idle.was_used { timeouts.idle_connection } else { timeouts.new_connection };
        let alone_until = self.idle.alone_since.and_then(|since| since.checked_add(limit));
        if alone_until.is_some_and(|until| until <= now) {
            let text = format!("The connection had no link for {} seconds.", limit.as_secs());
            return self.close(engine, Error::new(condition::CONNECTION_FORCED, text));
        }
        let next_idle = self.links.iter().filter(|(_, link)| !link.kind.is_cbs()).filter_map(|(id, link)| {
            let from = if link.kind.is_waiting(engine, *id) { now } else { link.active };
            from.checked_add(timeouts.idle_link)
        });
        let token_until = self.idle.unauthorized_since.and_then(|since| since.checked_add(timeouts.authorization));
        let times = next_idle
            .chain(alone_until)
            .chain(token_until)
            .chain(self.held.next_expiry())
            .chain(self.transactions.next_expiry())
            .chain(self.unsettled_due);
        self.idle.due = times.min().unwrap_or(far).min(far);
    }

    /// Detaches the links that need a right which the client has no more, as a token has expired or was replaced.
    pub(crate) fn detach_unauthorized(&mut self, engine: &mut Engine, now: Instant, why: &str) {
        let lost = self.links.iter().filter_map(|(id, link)| {
            let (entity, needed) = link.kind.needs()?;
            let rights = self.held.of(entity, now);
            let lost = needed.map_or(rights == crate::auth::Rights::NONE, |needed| !rights.contains(needed));
            lost.then(|| (*id, entity.clone()))
        });
        for (link, entity) in lost.collect::<Vec<_>>() {
            let mut failure = Failure::unauthorized("Send, Listen", &entity);
            failure.description = format!("ExpiredToken: the token for '{entity}' {why}.").into();
            self.detach(engine, link, failure);
        }
    }
}
