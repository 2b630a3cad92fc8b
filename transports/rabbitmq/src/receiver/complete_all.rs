//! Completes several deliveries of a batch.

use std::ops::Range;

use consign_core::transport::CompleteAll;

use super::settling::RabbitMqSettle;

/// Awaits settlements in the order of their messages. Those that follow each other and have one answer are awaited once.
pub(super) fn complete_all(batch: impl Iterator<Item = RabbitMqSettle>) -> CompleteAll<RabbitMqSettle> {
    let mut all = CompleteAll::done();
    let mut last: Option<(Range<usize>, RabbitMqSettle)> = None;
    for (index, settle) in batch.enumerate() {
        match &mut last {
            Some((messages, present)) if present.has_answer_of(&settle) => messages.end = index + 1,
            _ => {
                if let Some((messages, settle)) = last.replace((index..index + 1, settle)) {
                    include(&mut all, messages, settle);
                }
            }
        }
    }
    if let Some((messages, settle)) = last {
        include(&mut all, messages, settle);
    }
    all
}

fn include(all: &mut CompleteAll<RabbitMqSettle>, messages: Range<usize>, settle: RabbitMqSettle) {
    match settle.into_result() {
        Ok(Ok(())) => {}
        Ok(Err(error)) if messages.len() == 1 => all.fail(messages.start, error),
        Ok(Err(error)) => all.wait_for(messages, RabbitMqSettle::err(error)),
        Err(settle) => all.wait_for(messages, settle),
    }
}
