use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    sync::{Mutex, oneshot},
    time::Instant,
};

use super::{Error, session::Link};
use crate::{
    engine::{CommandError, OutboundDelivery},
    types::{Attach, DeliveryState},
};

/// A link that sends. Several sends may be under way: they are sent in the order of the calls.
#[derive(Debug)]
pub struct SenderLink {
    link: Link,
    /// Whose turn it is to send.
    turn: Mutex<()>,
    next_tag: AtomicU64,
}

/// A delivery that was handed over and has no outcome yet: [`SenderLink::begin_with`].
#[derive(Debug)]
#[must_use = "the outcome is known when this was awaited"]
pub struct Sending<'l> {
    sender: &'l SenderLink,
    /// None of a delivery that is sent settled.
    outcome: Option<oneshot::Receiver<Option<DeliveryState>>>,
    deadline: Instant,
}

/// A send that has not handed over its message.
struct Pending<'l>(&'l Link);

impl SenderLink {
    pub(super) fn new(link: Link) -> Self {
        Self { link, turn: Mutex::new(()), next_tag: AtomicU64::new(0) }
    }

    /// Sends an encoded message, and waits for its outcome: credit, then the receiver's disposition.
    ///
    /// None is a delivery that was settled without a state.
    ///
    /// # Errors
    /// Those of [`SenderLink::send_with`].
    pub async fn send(&self, message: impl Into<Bytes>) -> Result<Option<DeliveryState>, Error> {
        self.send_with(OutboundDelivery::default(), &[message.into()]).await
    }

    /// Sends a delivery whose payload is the chunks in order, and waits for its outcome. One that is sent settled has none: the wait
    /// ends when all of it is handed over, so that closing the connection does not cut it off. An empty tag is replaced by one of 8 bytes that no other delivery of the link has.
    ///
    /// # Errors
    /// - [`Error::TimedOut`]: the receiver gave no credit, and nothing was sent; or it sent no outcome, and the message may
    ///   have been processed.
    /// - [`Error::Detached`], [`Error::Ended`], [`Error::Closed`]: before the outcome, so that the message may have been processed.
    /// - [`Error::Command`]: the message is larger than the receiver accepts, or the tag is too long. Nothing was sent.
    pub async fn send_with(
        &self,
        delivery: OutboundDelivery,
        payload: &[Bytes],
    ) -> Result<Option<DeliveryState>, Error> {
        self.begin_with(delivery, payload).await?.wait().await
    }

    /// Waits for credit and hands over a delivery, as [`SenderLink::send_with`] does, whose outcome is waited for separately. If it
    /// fails, nothing was sent. Both waits together end after [`Options::timeout`](super::Options::timeout).
    ///
    /// # Errors
    /// - [`Error::TimedOut`]: the receiver gave no credit.
    /// - [`Error::Detached`], [`Error::Ended`], [`Error::Closed`]: before there was credit.
    /// - [`Error::Command`]: the message is larger than the receiver accepts, or the tag is too long.
    pub async fn begin_with(&self, mut delivery: OutboundDelivery, payload: &[Bytes]) -> Result<Sending<'_>, Error> {
        if delivery.tag.is_empty() {
            let tag = self.next_tag.fetch_add(1, Ordering::Relaxed).to_be_bytes();
            delivery.tag = tag.to_vec().into();
        }
        let deadline = self.link.connection().deadline();
        let outcome = self.hand_over(deadline, delivery, payload).await?;
        Ok(Sending { sender: self, outcome, deadline })
    }

    /// Waits for credit and appends the delivery to the output. Returns what its outcome goes to.
    async fn hand_over(
        &self,
        deadline: Instant,
        delivery: OutboundDelivery,
        payload: &[Bytes],
    ) -> Result<Option<oneshot::Receiver<Option<DeliveryState>>>, Error> {
        let pending = Pending::new(&self.link)?;
        let _turn = self.link.connection().until(deadline, "credit", self.turn.lock()).await?;
        let connection = self.link.connection();
        let sent = connection.wait_until(deadline, "credit", &self.link.changed, |engine, routes| {
            let id = self.link.id;
            let outcome = self.link.run(engine, routes, |engine, route| {
                let sent = engine.send(id, delivery.clone(), payload)?;
                if delivery.settled {
                    return Ok(None);
                }
                let (outcome, receiver) = oneshot::channel();
                route.expect(sent, outcome);
                Ok(Some(receiver))
            });
            match outcome {
                Err(Error::Command(CommandError::NoCredit | CommandError::NoWindow)) => None,
                Err(Error::Command(CommandError::OutputFull | CommandError::TooManyUnsettled)) => {
                    if !routes.stalled.contains(&id) {
                        routes.stalled.push(id);
                    }
                    None
                }
                outcome => Some(outcome),
            }
        });
        let sent = sent.await;
        drop(pending);
        sent
    }

    /// Waits until no rest of a delivery is left.
    async fn sent(&self, deadline: Instant) -> Result<Option<DeliveryState>, Error> {
        let id = self.link.id;
        let sent =
            self.link.connection().wait_until(deadline, "end of the transfer", &self.link.changed, |engine, routes| {
                if let Some(error) = routes.link_error(id) {
                    return Some(Err(error));
                }
                if !engine.has_rest(id) {
                    return Some(Ok(None));
                }
                if !routes.stalled.contains(&id) {
                    routes.stalled.push(id);
                }
                None
            });
        sent.await
    }

    /// Detaches the link and closes it, and waits until the server has confirmed it.
    ///
    /// # Errors
    /// [`Error::Detached`] if the server has reported an error, or the link, its session or the connection had ended before.
    pub async fn detach(self) -> Result<(), Error> {
        self.link.detach(true).await
    }

    /// Returns the attach of the server.
    #[must_use]
    pub const fn peer(&self) -> &Arc<Attach> {
        &self.link.peer
    }

    /// Returns for how long the receiver has sent no outcome while there are deliveries that wait for one, also if their calls were
    /// dropped or have ended in a timeout. None if there are none.
    #[must_use]
    pub fn silent_for(&self) -> Option<Duration> {
        self.link.connection().shared.read(|_, routes| routes.links.get(&self.link.id)?.silent_for())
    }

    /// Returns why the link has ended, and `None` while it is attached.
    #[must_use]
    pub fn ended(&self) -> Option<Error> {
        self.link.error()
    }
}

impl Sending<'_> {
    /// Waits for the outcome.
    ///
    /// # Errors
    /// - [`Error::TimedOut`]: the receiver sent no outcome, and the message may have been processed.
    /// - [`Error::Detached`], [`Error::Ended`], [`Error::Closed`]: before the outcome, so that the message may have been processed.
    pub async fn wait(self) -> Result<Option<DeliveryState>, Error> {
        let Self { sender, outcome, deadline } = self;
        let Some(outcome) = outcome else { return sender.sent(deadline).await };
        let outcome = sender.link.connection().until(deadline, "outcome", outcome).await?;
        outcome.map_err(|_| sender.ended().unwrap_or(Error::Detached(crate::engine::Reason::Local(None))))
    }
}

impl<'l> Pending<'l> {
    fn new(link: &'l Link) -> Result<Self, Error> {
        link.command(|_, route| {
            route.sends += 1;
            Ok(())
        })?;
        Ok(Self(link))
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let link = self.0;
        // Of a link that has ended, nothing is to be counted.
        let _ = link.command(|engine, route| {
            route.sends = route.sends.saturating_sub(1);
            if route.sends == 0 && std::mem::take(&mut route.drain) {
                engine.drained(link.id)?;
            }
            Ok(())
        });
    }
}
