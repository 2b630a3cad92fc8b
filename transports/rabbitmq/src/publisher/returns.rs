//! The results of published messages, when the broker has returned some of them.

use std::collections::HashMap;

use consign_core::transport::ErrorKind;
use lapin::Confirmation;
use tokio::sync::oneshot;

use super::{Name, Outcome};
use crate::error::Failure;

/// A published message: its name, its sender and its result. A result of lapin has the parts of a returned message, and is
/// several times as large.
pub(super) struct Confirmed {
    name: Name,
    /// `None` if it was answered before.
    done: Option<oneshot::Sender<Outcome>>,
    /// Whether the broker has answered.
    is_answered: bool,
    /// The returned message that lapin gave to this confirm.
    returned: Option<Name>,
    outcome: Outcome,
}

impl Confirmed {
    pub(super) fn new(
        published: Name,
        done: Option<oneshot::Sender<Outcome>>,
        result: lapin::Result<Confirmation>,
    ) -> Self {
        let returned = match &result {
            Ok(Confirmation::Ack(Some(returned)) | Confirmation::Nack(Some(returned))) => {
                Some(Name::new(published.channel, &returned.routing_key, returned.properties.message_id().as_ref()))
            }
            _ => None,
        };
        Self { name: published, done, is_answered: result.is_ok(), returned, outcome: outcome(result) }
    }
}

/// How many messages of a name the broker returned whose confirm has not arrived: lapin may have given them to another's.
#[derive(Default)]
pub(super) struct Returns(HashMap<Name, usize>);

impl Returns {
    /// Answers all of `settled`. Every returned message among them is counted before any is answered.
    pub(super) fn answer(&mut self, settled: Vec<Confirmed>) {
        for name in settled.iter().filter_map(|confirmed| confirmed.returned) {
            *self.0.entry(name).or_default() += 1;
        }
        for Confirmed { name, done, is_answered, outcome, .. } in settled {
            let answer = if is_answered && !self.0.is_empty() && self.claim(name) {
                Err(Failure::new(ErrorKind::EntityNotFound, "no queue takes the message"))
            } else {
                outcome
            };
            if let Some(done) = done {
                let _ = done.send(answer);
            }
        }
    }

    /// Forgets the messages of earlier channels.
    pub(super) fn forget_before(&mut self, channel: u64) {
        self.0.retain(|name, _| name.channel >= channel);
    }

    fn claim(&mut self, name: Name) -> bool {
        let Some(count) = self.0.get_mut(&name) else { return false };
        *count -= 1;
        if *count == 0 {
            self.0.remove(&name);
        }
        true
    }
}

fn outcome(result: lapin::Result<Confirmation>) -> Outcome {
    match result? {
        Confirmation::Ack(_) => Ok(()),
        // RabbitMQ: Publisher Confirms, and Queue Length Limit with `reject-publish`. It does not report which.
        Confirmation::Nack(_) => {
            Err(Failure::new(ErrorKind::General, "the broker refused the message: its queue is full or not available"))
        }
        Confirmation::NotRequested => Err(Failure::new(ErrorKind::General, "the channel does not confirm")),
    }
}

#[cfg(test)]
mod tests {
    use lapin::{
        BasicProperties,
        message::{BasicReturnMessage, Delivery},
    };

    use super::*;

    fn returned(id: &str) -> Confirmation {
        let mut delivery = Delivery::mock(0, "".into(), "queue".into(), false, Vec::new());
        delivery.properties = BasicProperties::default().with_message_id(id.into());
        Confirmation::Ack(Some(BasicReturnMessage { delivery, reply_code: 312, reply_text: "NO_ROUTE".into() }))
    }

    /// Answers the results of these ids, and the kinds of the failures.
    fn answer<const N: usize>(returns: &mut Returns, settled: [(&str, Confirmation); N]) -> [Option<ErrorKind>; N] {
        answer_on(1, returns, settled)
    }

    fn answer_on<const N: usize>(
        channel: u64,
        returns: &mut Returns,
        settled: [(&str, Confirmation); N],
    ) -> [Option<ErrorKind>; N] {
        let mut answers = Vec::new();
        let confirmed = settled
            .into_iter()
            .map(|(id, confirmation)| {
                let (done, answer) = oneshot::channel();
                answers.push(answer);
                let (key, id) = id.split_once('/').unwrap_or(("queue", id));
                Confirmed::new(Name::new(channel, &key.into(), Some(&id.into())), Some(done), Ok(confirmation))
            })
            .collect();
        returns.answer(confirmed);
        let kind = |mut answer: oneshot::Receiver<Outcome>| answer.try_recv().unwrap().err().map(|error| error.kind());
        answers.into_iter().map(kind).collect::<Vec<_>>().try_into().unwrap()
    }

    /// Rules: X-21.
    /// lapin gives a returned message to the first confirm that it resolves.
    #[test]
    fn a_returned_message_fails_its_own_send() {
        let (ok, gone) = (None, Some(ErrorKind::EntityNotFound));
        let mut returns = Returns::default();
        assert_eq!(answer(&mut returns, [("a", returned("a"))]), [gone]);
        assert_eq!(answer(&mut returns, [("b", Confirmation::Ack(None)), ("c", returned("b"))]), [gone, ok]);
        assert_eq!(answer(&mut returns, [("d", returned("e"))]), [ok]);
        assert_eq!(answer(&mut returns, [("e", Confirmation::Ack(None)), ("f", Confirmation::Ack(None))]), [gone, ok]);
        assert_eq!(answer(&mut returns, [("e", Confirmation::Ack(None))]), [ok]);
        // One id, in two queues and twice in one.
        let ack = || Confirmation::Ack(None);
        assert_eq!(answer(&mut returns, [("elsewhere/g", returned("g"))]), [ok]);
        assert_eq!(answer(&mut returns, [("elsewhere/g", ack()), ("queue/g", ack())]), [ok, gone]);
        assert_eq!(answer(&mut returns, [("h", returned("i")), ("i", returned("i"))]), [ok, gone]);
        assert_eq!(answer(&mut returns, [("i", ack())]), [gone]);
        assert!(returns.0.is_empty());
    }

    #[test]
    fn a_message_of_another_channel_is_not_returned() {
        let mut returns = Returns::default();
        assert_eq!(answer_on(1, &mut returns, [("a", returned("b"))]), [None]);
        assert_eq!(answer_on(2, &mut returns, [("b", Confirmation::Ack(None))]), [None]);
        returns.forget_before(1);
        assert_eq!(answer_on(1, &mut returns, [("b", Confirmation::Ack(None))]), [Some(ErrorKind::EntityNotFound)]);
        assert_eq!(answer_on(1, &mut returns, [("a", returned("b"))]), [None]);
        returns.forget_before(2);
        assert!(returns.0.is_empty());
    }
}
