use super::{
    super::{
        ActionError, DeadLetterFilter, Explained, Report, RunOutcome,
        action::{Action, Refused, Step},
        no_dead_letter,
    },
    fates::{Fate, Fates},
    finish::{Begun, Finished},
    held::{Held, Kept},
    numbers::{Numbers, Sent},
};
use crate::{
    Message,
    message::SequenceNumber,
    time::Timestamp,
    transport::{Delivery, Lease, ReceiveError},
};

/// The state of one pass.
pub(super) struct Pass<'r, L: Lease> {
    /// The last that matched when the run began; unknown where nothing can be peeked.
    last: Option<SequenceNumber>,
    numbers: Numbers,
    sent: Sent,
    pub(super) report: &'r mut Report,
    /// So many of those that match are removed, or stay.
    done: u64,
    pub(super) held: Held<L>,
    fates: Fates,
    /// So many that are behind the last were received.
    beyond: usize,
    /// Nothing more is received.
    pub(super) is_over: bool,
}

impl<'r, L: Lease> Pass<'r, L> {
    /// A pass ends when so many that are behind the last were received. The first of them is not the end: some brokers return
    /// released messages behind later ones.
    const MAX_BEYOND: usize = 64;

    pub(super) fn new(last: Option<SequenceNumber>, report: &'r mut Report, held: Held<L>) -> Self {
        Self {
            last,
            numbers: Numbers::default(),
            sent: Sent::default(),
            report,
            done: 0,
            held,
            fates: Fates::default(),
            beyond: 0,
            is_over: false,
        }
    }

    /// How many more dead letters fit beside those that are held, whatever their result. None while those in flight may be the last
    /// that match: a request for more would lock others, or receive again what this run releases.
    pub(super) fn free_places(&mut self, max_held: usize, in_flight: usize) -> usize {
        let failures = Report::MAX_FAILURES.saturating_sub(self.report.failures.len());
        let held = max_held.saturating_sub(self.held.len());
        if self.last.is_some() && self.done >= self.report.matching {
            self.is_over = true;
        } else if !self.is_over && failures.min(held) == 0 {
            self.is_over = true;
            self.report.end = if failures == 0 { RunOutcome::TooManyFailures } else { RunOutcome::TooManyHeld };
        }
        let may_be_done = self.last.is_some() && self.done + in_flight as u64 >= self.report.matching;
        if may_be_done { 0 } else { failures.min(held) }
    }

    /// How many may be received at once: all of them may be behind the last.
    pub(super) fn most_received(&self) -> usize {
        if self.last.is_some() { Self::MAX_BEYOND.saturating_sub(self.beyond) } else { usize::MAX }
    }

    /// Looks at what was received, and says what is to be done with it. Errors: it is no dead letter.
    pub(super) fn take<A: Action<L>>(
        &mut self,
        delivery: Delivery<L>,
        now: Timestamp,
        filter: &DeadLetterFilter,
        action: &A,
    ) -> Result<Option<Begun<L, A::Send>>, ReceiveError> {
        let lease = Kept::new(delivery.lease);
        let received = delivery.message.received().copied();
        let Some(received) = received.filter(|received| received.dead_lettered) else {
            return Err(no_dead_letter());
        };
        let number = match self.last {
            // The numbers of several partitions come in no order.
            Some(last) if received.sequence_number > last && received.partition_id.is_none() => {
                self.beyond += 1;
                self.is_over |= self.beyond >= Self::MAX_BEYOND;
                self.held.push(lease);
                return Ok(None);
            }
            Some(_) => received.sequence_number,
            None if self.sent.has(&delivery.message) => {
                self.held.push(lease);
                return Ok(None);
            }
            None => self.numbers.of(&delivery.message),
        };
        self.report.examined += 1;
        let fate = self.fates.of(number);
        if fate == Some(Fate::InDoubt { copied: true }) {
            self.begin(number, &delivery.message);
            return Ok(Some(Begun { number, lease, step: Step::Remove, copied_before: true }));
        }
        if matches!(fate, Some(Fate::InHand | Fate::Removed | Fate::Stays)) {
            self.held.push(lease);
            return Ok(None);
        }
        let dead = Explained::new(delivery.message, now);
        if !filter.matches(&dead) {
            self.report.skipped += 1;
            self.held.push(lease);
            return Ok(None);
        }
        if self.last.is_none() {
            self.report.matching += u64::from(fate.is_none());
            if self.sent.may_have(&dead) {
                self.held.push(lease);
                return Ok(None);
            }
        }
        match action.begin(&dead) {
            Ok(step) => {
                self.begin(number, dead.message());
                if self.last.is_none()
                    && let Step::SendFirst(_, Some(copy)) = &step
                {
                    self.sent.add(*copy, &dead);
                }
                return Ok(Some(Begun { number, lease, step, copied_before: false }));
            }
            Err(Refused::HopLimit) => self.report.stopped_at_hop_limit += 1,
            Err(Refused::Failed(error)) => self.failed(number, error),
        }
        self.stays(number);
        self.held.push(lease);
        Ok(None)
    }

    pub(super) fn finished(&mut self, finished: Finished<L>) {
        let Finished { number, copied, copied_before, result, lease } = finished;
        self.report.resubmitted += u64::from(copied);
        let failed_before = self.report.failures.iter().position(|failure| failure.sequence_number() == number);
        if let Some(failed) = failed_before {
            self.report.failures.remove(failed);
        }
        match (result, lease) {
            (Ok(()), _) => {
                self.report.purged += u64::from(!copied && !copied_before);
                self.done += 1;
                self.fates.set(number, Fate::Removed);
            }
            (Err(error), Some(lease)) => {
                self.failed(number, error);
                self.stays(number);
                self.held.push(lease);
            }
            (Err(error), None) => {
                self.failed(number, error);
                // It may come again. That it is tried twice only ends the run where nothing can be settled.
                match failed_before {
                    Some(_) => self.stays(number),
                    None => self.fates.set(number, Fate::InDoubt { copied: copied || copied_before }),
                }
            }
        }
        self.numbers.finished(number, matches!(self.fates.of(number), Some(Fate::InDoubt { .. })));
    }

    /// Gives back what is held.
    pub(super) async fn end(self) {
        self.report.missed = self.report.matching.saturating_sub(self.done);
        self.held.release().await;
    }

    fn begin(&mut self, number: SequenceNumber, message: &Message) {
        self.fates.set(number, Fate::InHand);
        if self.last.is_none() {
            self.numbers.begun(number, message);
        }
    }

    fn stays(&mut self, number: SequenceNumber) {
        self.done += 1;
        self.fates.set(number, Fate::Stays);
    }

    fn failed(&mut self, sequence_number: SequenceNumber, error: ActionError) {
        self.report.failures.push(error.of(sequence_number));
    }
}
