//! What the server refuses because of the user's permissions. It does not answer the call, which ends at its deadline.

use std::{collections::VecDeque, sync::Arc};

use async_nats::{Event, ServerError};
use consign_core::transport::ErrorKind;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{error::Fault, log};

/// Most refusals that are kept, of one connection.
const KEPT: usize = 64;
const PUBLISH: &str = "permissions violation for publish to";
const SUBSCRIPTION: &str = "permissions violation for subscription to";
const INBOX: &str = "_INBOX.";
const SETTLEMENT: &str = "$JS.ACK.";

/// The last refusals of a connection. Of a client with other options they are not known.
#[derive(Clone, Default)]
pub(crate) struct Refusals(Arc<Mutex<VecDeque<Refusal>>>);

struct Refusal {
    is_publish: bool,
    /// That of a settlement without its end, which is another one for each message.
    subject: String,
    /// The last time.
    at: Instant,
    /// The words of the server.
    text: String,
}

impl Refusals {
    pub(crate) fn observe(&self, event: &Event) {
        match event {
            // The permissions may have changed.
            Event::Connected => self.0.lock().clear(),
            Event::ServerError(ServerError::Other(text)) => self.add(text),
            _ => {}
        }
    }

    fn add(&self, text: &str) {
        let lower = text.to_lowercase();
        let is_publish = lower.contains(PUBLISH);
        if !is_publish && !lower.contains(SUBSCRIPTION) {
            return;
        }
        log::refused(group(text), text);
        let subject = subject(text);
        let subject = if subject.starts_with(SETTLEMENT) { first_tokens(subject, 4) } else { subject }.to_owned();
        let refusal = Refusal { is_publish, subject, at: Instant::now(), text: text.trim_matches('\'').to_owned() };
        let mut kept = self.0.lock();
        kept.retain(|known| known.is_publish != is_publish || known.subject != refusal.subject);
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(refusal);
    }

    /// Returns the refusal of a call that began at `since` and has no answer: of its request, or of the inbox of its answer. The
    /// server may have changed the permissions of a publication since, without a word to the client.
    ///
    /// The subject may be without its first tokens. One that begins with `.` may be without its last ones too.
    pub(crate) fn of(&self, called: &str, since: Instant) -> Option<Fault> {
        let is_cause = |refusal: &&Refusal| {
            if refusal.is_publish {
                refusal.at >= since && is_at(&refusal.subject, called)
            } else {
                refusal.subject.starts_with(INBOX)
            }
        };
        self.0.lock().iter().rfind(is_cause).map(|refusal| {
            Fault::new(ErrorKind::Unauthorized, format!("the server does not permit it: {}", refusal.text))
        })
    }

    /// Returns the fault of such a call with the refusal as its cause, if the call had no answer in time.
    pub(crate) fn explain(&self, called: &str, since: Instant, fault: Fault) -> Fault {
        if fault.kind == ErrorKind::ServiceTimeout { self.of(called, since).unwrap_or(fault) } else { fault }
    }
}

/// Whether the server has refused a subject that was called.
fn is_at(refused: &str, called: &str) -> bool {
    if refused.starts_with(SETTLEMENT) {
        return called.strip_prefix(refused).is_some_and(|end| end.starts_with('.'));
    }
    if called.starts_with('.') {
        return refused.split_once(called).is_some_and(|(_, end)| end.is_empty() || end.starts_with('.'));
    }
    refused.strip_suffix(called).is_some_and(|start| start.is_empty() || start.ends_with('.'))
}

/// The subject that the server has named in quotes.
fn subject(text: &str) -> &str {
    text.split('"').nth(1).unwrap_or(text)
}

/// Returns what log lines are limited by: the beginning of a subject, because its end may be a number.
fn group(text: &str) -> &str {
    let subject = subject(text);
    first_tokens(subject, if subject.starts_with('$') { 2 } else { 1 })
}

fn first_tokens(subject: &str, tokens: usize) -> &str {
    subject.match_indices('.').nth(tokens - 1).map_or(subject, |(end, _)| &subject[..end])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn violation(text: &str) -> Event {
        Event::ServerError(ServerError::Other(text.into()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_explains_calls_at_its_subject_alone() {
        let refusals = Refusals::default();
        let began = Instant::now();
        let kind = |called, since| refusals.explain(called, since, Fault::timed_out("a request")).kind;
        refusals.observe(&violation("Permissions Violation for Publish to \"consign.Orders.m\""));
        refusals.observe(&violation("Permissions Violation for Publish to \"$JS.API.DIRECT.GET.orders2.a\""));
        assert_eq!(kind("consign.Orders.m", began), ErrorKind::Unauthorized);
        assert_eq!(kind(".GET.orders2", began), ErrorKind::Unauthorized);
        for other in ["consign.other.m", "consign.orders.m", "consign.Orders.m.1", "Orders", ".GET.orders"] {
            assert_eq!(kind(other, began), ErrorKind::ServiceTimeout, "{other}");
        }
        let busy = Fault::new(ErrorKind::ServiceBusy, "");
        assert_eq!(refusals.explain("consign.Orders.m", began, busy).kind, ErrorKind::ServiceBusy);

        // A call that began after the refusal was not refused itself.
        tokio::time::advance(Duration::from_secs(1)).await;
        let later = Instant::now();
        assert_eq!(kind("consign.Orders.m", later), ErrorKind::ServiceTimeout);
        refusals.observe(&violation("Permissions Violation for Publish to \"consign.Orders.m\""));
        assert_eq!(kind("consign.Orders.m", later), ErrorKind::Unauthorized);

        refusals.observe(&violation("Permissions Violation for Subscription to \"_INBOX.a.>\""));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(kind("consign.other.m", Instant::now()), ErrorKind::Unauthorized);
        refusals.observe(&Event::Connected);
        assert_eq!(kind("consign.Orders.m", later), ErrorKind::ServiceTimeout);
    }

    #[test]
    fn few_refusals_are_kept_and_one_of_all_settlements_at_a_consumer() {
        let refusals = Refusals::default();
        let began = Instant::now();
        refusals.observe(&violation("Permissions Violation for Publish to \"consign.orders.m\""));
        for number in 0..100 {
            refusals.observe(&violation(&format!("Permissions Violation for Publish to \"$JS.ACK.s.q.1.{number}\"")));
        }
        assert_eq!(refusals.0.lock().len(), 2);
        assert!(refusals.of("$JS.ACK.s.q.1.7", began).is_some() && refusals.of("consign.orders.m", began).is_some());
        assert!(refusals.of("$JS.ACK.s.q2.1.7", began).is_none());
        for number in 0..100 {
            refusals.observe(&violation(&format!("Permissions Violation for Publish to \"consign.{number}.m\"")));
        }
        assert_eq!(refusals.0.lock().len(), KEPT);
        assert_eq!(group("Permissions Violation for Publish to \"$JS.ACK.s.q.1.7\""), "$JS.ACK");
        assert_eq!(group("Permissions Violation for Subscription to \"_INBOX.a.>\""), "_INBOX");
    }
}
