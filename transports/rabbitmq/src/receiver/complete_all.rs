//! Completes several deliveries, those without a gap by one frame.

use std::{ops::Range, sync::Arc};

use consign_core::transport::CompleteAll;

use super::{
    delivered::{Held, Ticket},
    settling::RabbitMqSettle,
    state::Passing,
};

/// Deliveries of one channel that follow each other in a batch, in the order of the broker.
#[derive(Default)]
struct Run {
    from: usize,
    /// A dropped receiver keeps its channel until the frames are written.
    held: Vec<(Passing, Held)>,
}

/// Completes deliveries. One that cannot be completed with others settles by its own future.
pub(super) fn complete_all(
    batch: impl Iterator<Item = Result<(Passing, Held), RabbitMqSettle>>,
) -> CompleteAll<RabbitMqSettle> {
    let mut all = CompleteAll::done();
    let mut run = Run::default();
    for (index, taken) in batch.enumerate() {
        if !taken.as_ref().is_ok_and(|(_, held)| run.is_continued_by(&held.ticket)) {
            std::mem::take(&mut run).complete(&mut all);
        }
        match taken {
            Ok(taken) => {
                if run.held.is_empty() {
                    run.from = index;
                }
                run.held.push(taken);
            }
            Err(settle) => include(&mut all, index..index + 1, settle),
        }
    }
    run.complete(&mut all);
    all
}

impl Run {
    fn is_continued_by(&self, next: &Ticket) -> bool {
        let Some((_, Held { ticket: last, .. })) = self.held.last() else { return true };
        match (last.origin.leased.settled(), next.origin.leased.settled()) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other) && last.tag < next.tag,
            _ => false,
        }
    }

    /// Returns how many can be settled by one frame.
    fn prefix(&self) -> usize {
        let Some((_, first)) = self.held.first() else { return 0 };
        let tags: Vec<u64> = self.held.iter().map(|(_, held)| held.ticket.tag).collect();
        first.ticket.origin.leased.settled().map_or(0, |settled| settled.lock().prefix(&tags))
    }

    fn complete(mut self, all: &mut CompleteAll<RabbitMqSettle>) {
        let Some((passing, _)) = self.held.first() else { return };
        let deadline = passing.shared().client.link.deadline();
        for (passing, held) in &self.held {
            passing.shared().settled(&held.ticket.origin);
        }
        let prefix = self.prefix();
        if prefix > 1 {
            let tickets = self.held.drain(..prefix).map(|(_, held)| held.ticket).collect();
            include(
                all,
                self.from..self.from + prefix,
                RabbitMqSettle::writing(Ticket::ack_all(tickets), deadline, |error| error),
            );
            self.from += prefix;
        }
        for (index, (_, held)) in self.held.drain(..).enumerate() {
            let index = self.from + index;
            include(all, index..index + 1, RabbitMqSettle::writing(held.ticket.ack(), deadline, |error| error));
        }
    }
}

/// Includes a settlement of these messages, whose result is known already in most cases.
fn include(all: &mut CompleteAll<RabbitMqSettle>, messages: Range<usize>, settle: RabbitMqSettle) {
    match settle.into_result() {
        Ok(Ok(())) => {}
        Ok(Err(error)) if messages.len() == 1 => all.fail(messages.start, error),
        Ok(Err(error)) => all.wait_for(messages, RabbitMqSettle::err(error)),
        Err(settle) => all.wait_for(messages, settle),
    }
}
