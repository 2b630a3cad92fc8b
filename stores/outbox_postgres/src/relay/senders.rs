//! Sending by the senders of any transport.

use std::{collections::HashMap, time::Duration};

use consign_core::{
    message::EntityPath,
    transport::{ErrorKind, SendError, Sender},
};
use futures_util::{StreamExt, stream};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};
use tokio_postgres::Client;

use super::{
    Progress, RelayMode,
    connection::within,
    rows::{self, Outcome, Report, Waiting},
    slow::Slow,
};
use crate::{Destinations, OutboxError, log};

/// How many senders are kept. Beyond that they are created again.
const MOST: usize = 1_024;
/// Reports that wait for the database. A sender waits when there are more.
const REPORTS: usize = 64;
/// A destination whose send took as long, and failed, is not sent to again in the same batch: each of its sessions would take as
/// long, while the other destinations wait. A failure that comes at once may be that of its session alone.
const SLOW: Duration = Duration::from_secs(1);

/// So long after its first send, a destination and session has no further message in the batch: one that takes long for each would
/// delay the others, and the shutdown, by all that were read. So long after its begin, a batch begins no further session of a
/// destination whose last send was slow.
const LONG: Duration = Duration::from_secs(1);

/// Sends by the senders of a transport, at least once.
pub struct Senders<D: Destinations> {
    destinations: D,
    kept: parking_lot::Mutex<HashMap<String, D::Sender>>,
}

impl<D: Destinations> Senders<D> {
    pub(super) fn new(destinations: D) -> Self {
        Self { destinations, kept: parking_lot::Mutex::default() }
    }

    async fn sender(&self, path: &EntityPath) -> Result<D::Sender, SendError> {
        if let Some(sender) = self.kept.lock().get(path.as_str()) {
            return Ok(sender.clone());
        }
        let sender = self.destinations.sender(path).await?;
        let mut kept = self.kept.lock();
        if kept.len() >= MOST {
            kept.clear();
        }
        kept.insert(path.as_str().to_owned(), sender.clone());
        Ok(sender)
    }

    /// Sends the messages of each destination and session, so many at once.
    async fn send_groups(
        &self,
        groups: Vec<Vec<Waiting>>,
        limit: Duration,
        concurrency: usize,
        reports: mpsc::Sender<Report>,
    ) {
        let slow = parking_lot::Mutex::new(Slow::default());
        let (slow, reports, began) = (&slow, &reports, Instant::now());
        stream::iter(groups)
            .for_each_concurrent(concurrency, |group| self.send_all(group, (began, limit), slow, reports.clone()))
            .await;
    }

    /// Sends the messages of one destination and session one after the other, up to the first that is to be sent again, or that
    /// would be late. The rest waits for the next batch.
    async fn send_all(
        &self,
        group: Vec<Waiting>,
        (batch, limit): (Instant, Duration),
        slow: &parking_lot::Mutex<Slow>,
        reports: mpsc::Sender<Report>,
    ) {
        let first = Instant::now();
        for (place, waiting) in group.into_iter().enumerate() {
            let is_late = if place == 0 {
                batch.elapsed() >= LONG && slow.lock().last.contains(&waiting.destination)
            } else {
                first.elapsed() >= LONG
            };
            if is_late || slow.lock().failed.contains(&waiting.destination) {
                return;
            }
            let began = Instant::now();
            let mut outcome = if waiting.is_sent { Outcome::Sent } else { self.send(&waiting, limit).await };
            let is_last = matches!(outcome, Outcome::Failed { .. });
            let is_slow = began.elapsed() >= SLOW.min(limit);
            slow.lock().ended(&waiting.destination, is_slow, is_last);
            if is_last && is_slow {
                outcome = outcome.of_destination();
            }
            if reports.send(waiting.report(outcome)).await.is_err() || is_last {
                return;
            }
        }
    }

    async fn send(&self, waiting: &Waiting, limit: Duration) -> Outcome {
        let read = waiting.path().and_then(|path| Ok((path, waiting.message()?)));
        let (path, message) = match read {
            Ok(read) => read,
            Err(why) => return Outcome::Refused(format!("the row is not a message: {why}")),
        };
        let sending = async { self.sender(&path).await?.send(message).await };
        match timeout(limit, sending).await {
            Ok(Ok(())) => Outcome::Sent,
            Ok(Err(error)) => {
                self.kept.lock().remove(path.as_str());
                outcome(&error)
            }
            Err(_) => {
                // Its link may be dead.
                self.kept.lock().remove(path.as_str());
                Outcome::Failed { error: format!("no answer within {limit:?}"), is_whole: false }
            }
        }
    }
}

/// Returns whether a message is sent again after an error. A broker that is away, full, or does not accept the login may take
/// it later.
pub(super) fn outcome(error: &SendError) -> Outcome {
    let is_of_message = matches!(
        error.kind(),
        ErrorKind::InvalidArgument
            | ErrorKind::EntityNotFound
            | ErrorKind::InvalidOperation
            | ErrorKind::NotSupported
            | ErrorKind::MessageSizeExceeded
            | ErrorKind::NoMatchingSubscription
            | ErrorKind::Serialization
    );
    let text = error.to_string();
    if is_of_message && !error.is_retryable() && !error.is_outcome_unknown() {
        Outcome::Refused(text)
    } else {
        Outcome::Failed { error: text, is_whole: false }
    }
}

impl<D: Destinations> RelayMode for Senders<D> {
    async fn relay(
        &mut self,
        client: &mut Client,
        mut rows: Vec<Waiting>,
        to: &mut Progress,
    ) -> Result<(), OutboxError> {
        for row in &mut rows {
            row.is_sent = to.undeleted.contains(&(row.id, row.message_id.clone()));
        }
        let (send_timeout, limit, concurrency) = (to.send_timeout, to.timeout, to.concurrency);
        let (reports, mut reported) = mpsc::channel(REPORTS);
        let sending = self.send_groups(groups(rows, true), send_timeout, concurrency, reports);
        let client = &*client;
        // When it fails, its end of the channel is dropped, and the senders stop.
        let recording = async move {
            let mut some = Vec::with_capacity(REPORTS);
            while reported.recv_many(&mut some, REPORTS).await > 0 {
                let recorded = within(limit, rows::record(client, &to.outbox, &some)).await;
                let locked = recorded.inspect_err(log::not_recorded)?;
                for report in &mut some {
                    let is_sent = report.outcome == Outcome::Sent;
                    if locked.contains(&report.id) {
                        report.locked(false);
                        if is_sent {
                            to.keep_undeleted(report.id, report.message_id.clone());
                        }
                    } else if is_sent {
                        to.undeleted.remove(&(report.id, report.message_id.clone()));
                    }
                }
                to.add(&some);
                some.clear();
            }
            Ok(())
        };
        let ((), recorded) = tokio::join!(sending, recording);
        recorded
    }
}

/// Returns the rows of each destination, and of each of its sessions, in their order.
pub(super) fn groups(rows: Vec<Waiting>, by_session: bool) -> Vec<Vec<Waiting>> {
    let mut places = HashMap::new();
    let mut groups: Vec<Vec<Waiting>> = Vec::new();
    for row in rows {
        let key = (row.destination.clone(), row.session.clone().filter(|_| by_session));
        let place = *places.entry(key).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use consign_core::{
        Message,
        transport::{Batch, BoxFuture},
    };

    use super::*;
    use crate::{To, encoding};

    fn row(id: i64, destination: &str, session: Option<&str>) -> Waiting {
        let session = session.map(str::to_owned);
        Waiting {
            id,
            destination: destination.into(),
            session,
            message_id: id.to_string(),
            message: Vec::new(),
            attempts: 0,
            is_sent: false,
        }
    }

    fn full_row(id: i64, destination: &str, session: &str) -> Waiting {
        let message = Message::builder().subject(destination.to_owned()).session_id(session.to_owned());
        let message = encoding::encode(&message.build("").unwrap()).unwrap();
        Waiting { message: message.to_vec(), ..row(id, destination, Some(session)) }
    }

    /// Rules: X-42.
    #[test]
    fn each_destination_and_session_keeps_its_order() {
        let rows = || {
            vec![
                row(1, "a", None),
                row(2, "b", Some("s")),
                row(3, "a", Some("s")),
                row(4, "a", None),
                row(5, "b", Some("s")),
                row(6, "b", Some("t")),
            ]
        };
        let ids = |by_session| -> Vec<Vec<i64>> {
            groups(rows(), by_session).iter().map(|group| group.iter().map(|row| row.id).collect()).collect()
        };
        assert_eq!(ids(true), [vec![1, 4], vec![2, 5], vec![3], vec![6]]);
        assert_eq!(ids(false), [vec![1, 3, 4], vec![2, 5, 6]]);
    }

    /// Answers for `b`, and refuses one session of `c` at once. It does not answer for others.
    #[derive(Clone)]
    struct Picky;

    impl Sender for Picky {
        type Send = BoxFuture<Result<(), SendError>>;

        fn send(&self, message: Message) -> Self::Send {
            Box::pin(async move {
                match message.subject() {
                    Some("c") if message.session_id() == Some("0") => Err(SendError::new(ErrorKind::ServiceBusy)),
                    Some("b" | "c") => Ok(()),
                    _ => std::future::pending().await,
                }
            })
        }

        fn send_batch(&self, _: Batch) -> Self::Send {
            unimplemented!("nothing is sent in batches")
        }
    }

    /// Rules: X-48.
    #[tokio::test(start_paused = true)]
    async fn a_silent_destination_delays_the_others_by_one_timeout() {
        let rows = |destination: &str| -> Vec<Waiting> {
            (0..100).map(|id| full_row(id, destination, &id.to_string())).collect()
        };
        let senders = Senders::new(To::sender(Picky));
        let began = Instant::now();
        let all = ["a", "b", "c"].into_iter().flat_map(rows).collect();
        let (reports, mut reported) = mpsc::channel(1_000);
        senders.send_groups(groups(all, true), Duration::from_secs(30), 16, reports).await;
        assert_eq!(began.elapsed(), Duration::from_secs(30));
        let mut counts: HashMap<(String, bool), usize> = HashMap::new();
        while let Some(report) = reported.recv().await {
            *counts.entry((report.destination, report.outcome == Outcome::Sent)).or_default() += 1;
        }
        let count = |destination: &str, sent| counts.get(&(destination.to_owned(), sent)).copied().unwrap_or_default();
        assert_eq!((count("a", false), count("b", true)), (16, 100));
        assert_eq!((count("c", false), count("c", true)), (1, 99), "the other sessions of one that fails at once");
    }

    /// Takes 5 s for each message of `slow`, and none for those of others.
    #[derive(Clone)]
    struct Lagging;

    impl Sender for Lagging {
        type Send = BoxFuture<Result<(), SendError>>;

        fn send(&self, message: Message) -> Self::Send {
            let time = Duration::from_secs(if message.subject() == Some("slow") { 5 } else { 0 });
            Box::pin(async move {
                tokio::time::sleep(time).await;
                Ok(())
            })
        }

        fn send_batch(&self, _: Batch) -> Self::Send {
            unimplemented!("nothing is sent in batches")
        }
    }

    /// Rules: X-48.
    #[tokio::test(start_paused = true)]
    async fn a_destination_that_takes_long_for_each_message_delays_the_others_by_one() {
        let rows = |destination: &str, sessions: i64| -> Vec<Waiting> {
            (0..100).map(|id| full_row(id, destination, &(id % sessions).to_string())).collect()
        };
        let senders = Senders::new(To::sender(Lagging));
        let began = Instant::now();
        let all = [("slow", 2), ("orders", 1)]
            .into_iter()
            .flat_map(|(destination, sessions)| rows(destination, sessions))
            .collect();
        let (reports, mut reported) = mpsc::channel(1_000);
        senders.send_groups(groups(all, true), Duration::from_secs(30), 16, reports).await;
        assert_eq!(began.elapsed(), Duration::from_secs(5));
        let mut sent = Vec::new();
        while let Some(report) = reported.recv().await {
            assert_eq!(report.outcome, Outcome::Sent);
            sent.push((report.destination, report.id));
        }
        let of = |destination: &str| sent.iter().filter(|(of, _)| of == destination).map(|(_, id)| *id).collect();
        assert_eq!((of("slow"), of("orders")), (vec![0, 1], (0..100).collect::<Vec<_>>()));
    }

    /// Rules: X-48.
    #[tokio::test(start_paused = true)]
    async fn slow_sessions_that_have_all_slots_delay_the_others_by_one_send() {
        let slow = (0..100).map(|id| full_row(id, "slow", &id.to_string()));
        let orders = (100..200).map(|id| full_row(id, "orders", "s"));
        let senders = Senders::new(To::sender(Lagging));
        let began = Instant::now();
        let (reports, mut reported) = mpsc::channel(1_000);
        senders.send_groups(groups(slow.chain(orders).collect(), true), Duration::from_secs(30), 16, reports).await;
        assert_eq!(began.elapsed(), Duration::from_secs(5));
        let mut sent = Vec::new();
        while let Some(report) = reported.recv().await {
            assert_eq!(report.outcome, Outcome::Sent);
            sent.push(report.id);
        }
        assert_eq!(sent.iter().filter(|id| **id < 100).count(), 16);
        assert_eq!(sent.into_iter().filter(|id| *id >= 100).collect::<Vec<_>>(), (100..200).collect::<Vec<_>>());
    }

    /// Rules: X-43.
    #[test]
    fn only_a_refusal_of_the_message_is_for_good() {
        for kind in [ErrorKind::MessageSizeExceeded, ErrorKind::EntityNotFound, ErrorKind::Serialization] {
            assert!(matches!(outcome(&SendError::new(kind)), Outcome::Refused(_)), "{kind:?}");
            assert!(matches!(outcome(&SendError::new(kind).with_retryable(true)), Outcome::Failed { .. }), "{kind:?}");
        }
        for kind in [
            ErrorKind::CommunicationProblem,
            ErrorKind::ServiceBusy,
            ErrorKind::QuotaExceeded,
            ErrorKind::Unauthorized,
            ErrorKind::EntityDisabled,
            ErrorKind::General,
        ] {
            assert!(matches!(outcome(&SendError::new(kind).with_retryable(false)), Outcome::Failed { .. }), "{kind:?}");
        }
    }
}
