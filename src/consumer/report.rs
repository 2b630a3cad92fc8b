//! What a run reports of its messages: to the counts, the health, the log, and the sink of undeliverable messages.

use tower::BoxError;

use super::{
    cause::Cause,
    health::ConsumerFailure,
    options::Options,
    slot::{Settling, caught},
    undeliverable::{Fate, NotSettled},
};
use crate::{
    Disposition, Message,
    middleware::catch_panic::Panicked,
    settlement::{Changes, IntoDisposition, cause_of},
    transport::{ErrorKind, Receiver, SettleError, deadline::Unanswered},
};

/// Where a run reports what has happened, and the receiver that it happened with.
pub(super) struct Report<'a, R> {
    pub(super) options: &'a mut Options,
    pub(super) receiver: &'a R,
}

impl<R: Receiver> Report<'_, R> {
    /// Converting, showing and dropping the error is the user's code.
    #[cold]
    pub(super) fn call_failed(&mut self, error: impl Into<BoxError>) -> Disposition {
        let disposition = caught(|| {
            let error: BoxError = error.into();
            let code = if error.is::<Panicked>() { "Panicked" } else { Changes::HANDLER_FAILED };
            match error.into_disposition() {
                Disposition::Abandon(changes) if code != Changes::HANDLER_FAILED => {
                    Disposition::Abandon(Changes::coded(code, changes.cause().unwrap_or_default()))
                }
                disposition => disposition,
            }
        });
        match disposition {
            Some(disposition) => {
                self.options.stats.count_failed();
                self.options.health.failed(ConsumerFailure::Handler);
                disposition
            }
            None => self.call_panicked(&Panicked::in_error()),
        }
    }

    #[cold]
    pub(super) fn call_panicked(&mut self, panicked: &Panicked) -> Disposition {
        self.options.stats.count_panicked();
        self.options.health.failed(ConsumerFailure::Panic);
        Disposition::Abandon(Changes::coded("Panicked", cause_of(panicked)))
    }

    #[cold]
    pub(super) fn stack_failed(&mut self, error: &BoxError) {
        self.options.health.failed(ConsumerFailure::Stack);
        let (log, info) = (&mut self.options.log, self.receiver.entity_info());
        // Showing the error is the user's code.
        caught(|| log.stack_failed(&info, &**error));
    }

    /// A message that ends without its handler, and has no lock.
    pub(super) fn unlocked(&mut self, message: &Message) {
        self.undeliverable(message, NotSettled::Otherwise(Changes::NONE), Fate::Lost);
    }

    /// A dead letter is abandoned, for the first time.
    #[cold]
    pub(super) fn failed_again(&mut self, message: &Message, error: Option<&str>) {
        self.options.log.failed_again(&self.receiver.entity_info(), message, error);
    }

    pub(super) fn undeliverable(&mut self, message: &Message, not: NotSettled, fate: Fate) {
        self.options.undeliverable(self.receiver, message, not, fate);
    }

    /// The outcome of a settlement, other than that a message was completed.
    #[cold]
    pub(super) fn settled(
        &mut self,
        settling: Settling,
        result: Result<(), SettleError>,
        message: Option<&Message>,
        cause: Option<&Cause>,
    ) {
        if let Err(error) = result {
            self.settle_failed(settling, &error, message, cause);
            return;
        }
        let Self { options, receiver } = self;
        let stats = &options.stats;
        match settling {
            Settling::Complete => stats.count_completed(),
            Settling::Abandon => stats.count_abandoned(),
            Settling::DeadLetter => stats.count_dead_lettered(),
            Settling::Defer => stats.count_deferred(),
            Settling::Release => stats.count_released(),
        }
        match (settling, cause) {
            (Settling::DeadLetter, Some(cause)) => options.log.dead_lettered(&receiver.entity_info(), message, cause),
            (Settling::Abandon, Some(cause)) => options.log.abandoned(&receiver.entity_info(), message, cause),
            (Settling::Abandon, None) if message.is_some_and(|message| is_last(*receiver, message)) => {
                options.log.abandoned_last(&receiver.entity_info(), message);
            }
            _ => {}
        }
    }

    #[cold]
    pub(super) fn settle_failed(
        &mut self,
        settling: Settling,
        error: &SettleError,
        message: Option<&Message>,
        cause: Option<&Cause>,
    ) {
        let Self { options, receiver } = self;
        let info = receiver.entity_info();
        if error.is_lock_lost() {
            options.health.failed(ConsumerFailure::LockLost);
            options.stats.count_lock_lost();
            options.log.settled_too_late(&info, message, settling.name(), cause);
        } else {
            options.health.failed(ConsumerFailure::Settle(error.kind()));
            options.stats.count_settle_failed();
            options.log.settle_failed(&info, message, error, settling.name(), None, cause);
        }
    }

    /// Messages of a completion batch that were not completed. Failures of one kind, as those of a broken connection, are one
    /// log line.
    #[cold]
    pub(super) fn completions_failed(&mut self, failures: Vec<(usize, SettleError)>) {
        let (lost, others): (Vec<_>, Vec<_>) = failures.into_iter().partition(|(_, error)| error.is_lock_lost());
        for (_, error) in lost {
            self.settle_failed(Settling::Complete, &error, None, None);
        }
        for failures in others.chunk_by(|(_, one), (_, other)| one.kind() == other.kind()) {
            let messages = failures.len() as u64;
            let info = self.receiver.entity_info();
            if let Some((_, error)) = failures.first() {
                let of = (messages > 1).then_some(messages);
                self.options.log.settle_failed(&info, None, error, "complete", of, None);
                self.options.health.failed(ConsumerFailure::Settle(error.kind()));
            }
            self.options.stats.count_all_settle_failed(messages);
        }
    }

    /// So many settlements or releases were not answered in time.
    #[cold]
    pub(super) fn unanswered(&mut self, settlements: u64, message: Option<&Message>) {
        let messages = message.is_none().then_some(settlements);
        self.options.log.not_answered(&self.receiver.entity_info(), message, messages);
        self.options.health.failed(ConsumerFailure::Settle(ErrorKind::ServiceTimeout));
        self.options.stats.count_all_unanswered(settlements);
    }

    /// A renewal failed that is repeated while the lock holds.
    #[cold]
    pub(super) fn renewal_failed(&mut self, message: Option<&Message>, error: &SettleError) {
        self.options.log.not_renewed(&self.receiver.entity_info(), message, error);
        self.options.health.failed(ConsumerFailure::Renew(error.kind()));
    }

    /// A renewal was not answered in time. It is repeated while the lock holds.
    #[cold]
    pub(super) fn renewal_unanswered(&mut self, message: Option<&Message>) {
        self.options.stats.count_timed_out();
        let unanswered = Unanswered::after(self.options.operation).into();
        self.renewal_failed(message, &unanswered);
    }

    /// The lock of a message was lost while its handler ran, which is cancelled.
    #[cold]
    pub(super) fn lock_lost(&mut self, message: Option<&Message>, is_renewing: bool) {
        self.options.log.lock_lost(&self.receiver.entity_info(), message);
        if is_renewing {
            self.options.stats.count_timed_out();
        }
        self.options.stats.count_cancelled();
        self.options.stats.count_lock_lost();
        self.options.health.failed(ConsumerFailure::LockLost);
    }
}

/// Whether the message is dead-lettered when it is abandoned.
pub(super) fn is_last(receiver: &impl Receiver, message: &Message) -> bool {
    let max = receiver.entity_info().max_delivery_count;
    let received = message.received().filter(|received| !received.dead_lettered);
    received.is_some_and(|received| max.is_some_and(|max| received.delivery_count >= max))
}
