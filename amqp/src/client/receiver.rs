use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::sync::oneshot;

use super::{Error, session::Link};
use crate::{
    engine::{Delivery, DeliveryId, Reason},
    types::{Attach, DeliveryState},
};

/// A link that receives.
#[derive(Debug)]
pub struct ReceiverLink {
    link: Arc<Link>,
    /// The credit and the deliveries at hand are brought to this number.
    automatic: Option<u32>,
    /// Deliveries received since the last credit.
    taken: u32,
}

/// Settles deliveries of a [`ReceiverLink`], from any task. The link stays attached while there is one.
#[derive(Clone, Debug)]
pub struct Settler {
    link: Arc<Link>,
}

impl ReceiverLink {
    pub(super) fn new(link: Link) -> Self {
        Self { link: Arc::new(link), automatic: None, taken: 0 }
    }

    /// Sets how many deliveries the server may send from now on, whatever it was allowed before. It ends an automatic credit.
    ///
    /// # Errors
    /// The link, its session or the connection has ended.
    pub fn set_credit(&mut self, credit: u32) -> Result<(), Error> {
        self.automatic = None;
        self.credit(credit)
    }

    /// Has deliveries arrive until this number has: those that wait for [`ReceiverLink::recv`] are a part of it, whenever they have
    /// arrived. Returns how many deliveries are to be received, which are more if more wait already. It ends an automatic credit.
    ///
    /// # Errors
    /// The link, its session or the connection has ended.
    pub fn request(&mut self, deliveries: u32) -> Result<u32, Error> {
        self.automatic = None;
        self.credit_up_to(deliveries)
    }

    /// Has the server send ahead: the credit and the deliveries that wait for [`ReceiverLink::recv`] are together between half of
    /// `deliveries` and `deliveries`.
    ///
    /// # Errors
    /// The link, its session or the connection has ended.
    pub fn set_automatic_credit(&mut self, deliveries: u32) -> Result<(), Error> {
        self.automatic = Some(deliveries);
        self.taken = 0;
        self.credit_up_to(deliveries).map(drop)
    }

    /// Waits for the next delivery. Dropping the future loses none.
    ///
    /// # Errors
    /// The link, its session or the connection has ended. Unsettled deliveries that were not received are the server's again.
    pub async fn recv(&mut self) -> Result<Delivery, Error> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Polls for the next delivery. The task of the last call is woken.
    ///
    /// # Errors
    /// Those of [`ReceiverLink::recv`].
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Delivery, Error>> {
        let id = self.link.id;
        let delivery = self.link.connection().shared.read(|_, routes| {
            let error = routes.link_error(id);
            let Some(route) = routes.links.get_mut(&id) else {
                return Poll::Ready(Err(Error::Detached(Reason::Local(None))));
            };
            match (route.deliveries.pop_front(), error) {
                (Some(delivery), _) => Poll::Ready(Ok(delivery)),
                (None, Some(error)) => Poll::Ready(Err(error)),
                (None, None) => {
                    route.receiver = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        });
        if let (Poll::Ready(Ok(_)), Some(deliveries)) = (&delivery, self.automatic) {
            self.taken += 1;
            if self.taken >= deliveries.div_ceil(2) {
                self.taken = 0;
                // The delivery is given out all the same; the next call has the error.
                let _ = self.credit_up_to(deliveries);
            }
        }
        delivery
    }

    /// Has the server use up the credit, and waits until it has: deliveries that it had ready are received then.
    ///
    /// # Errors
    /// The link, its session or the connection has ended, or the server does not answer.
    pub async fn drain(&mut self) -> Result<(), Error> {
        self.automatic = None;
        self.link.command(|engine, route| {
            route.drained = false;
            Ok(engine.drain(self.link.id)?)
        })?;
        self.link.wait("end of the drain", |_, route| route.drained.then_some(Ok(()))).await
    }

    /// Settles deliveries, without waiting for the server. Returns how many were unsettled.
    ///
    /// # Errors
    /// The link, its session or the connection has ended, or the state cannot be encoded.
    pub fn settle(
        &self,
        deliveries: impl IntoIterator<Item = DeliveryId>,
        state: &DeliveryState,
    ) -> Result<usize, Error> {
        self.link.settle(deliveries, state, true)
    }

    /// Returns a handle that settles from other tasks.
    #[must_use]
    pub fn settler(&self) -> Settler {
        Settler { link: Arc::clone(&self.link) }
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
    pub fn peer(&self) -> &Arc<Attach> {
        &self.link.peer
    }

    /// Returns why the link has ended, and `None` while it is attached.
    #[must_use]
    pub fn ended(&self) -> Option<Error> {
        self.link.error()
    }

    /// Sets the credit to what is missing for so many deliveries, within one look: none arrives in between.
    fn credit_up_to(&self, deliveries: u32) -> Result<u32, Error> {
        let id = self.link.id;
        self.link.command(|engine, route| {
            let waiting = route.deliveries.len() + usize::from(engine.has_part(id));
            let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
            engine.credit(id, deliveries.saturating_sub(waiting))?;
            Ok(deliveries.max(waiting))
        })
    }

    fn credit(&self, credit: u32) -> Result<(), Error> {
        self.link.command(|engine, _| Ok(engine.credit(self.link.id, credit)?))
    }
}

impl Settler {
    /// Settles deliveries, without waiting for the server. Returns how many were unsettled.
    ///
    /// # Errors
    /// The link, its session or the connection has ended, or the state cannot be encoded.
    pub fn settle(
        &self,
        deliveries: impl IntoIterator<Item = DeliveryId>,
        state: &DeliveryState,
    ) -> Result<usize, Error> {
        self.link.settle(deliveries, state, true)
    }

    /// Reports the state of a delivery without settling it, and waits until the server has settled it. Returns the server's state.
    ///
    /// The server has then acted on it, where a settlement that is not confirmed may be lost with the connection.
    ///
    /// # Errors
    /// - [`Error::Detached`], [`Error::Ended`], [`Error::Closed`]: before the server has settled it, which it may do or not.
    /// - [`Error::TimedOut`]: the server did not settle it.
    /// - [`Error::Command`]: the state cannot be encoded.
    pub async fn settle_confirmed(
        &self,
        delivery: DeliveryId,
        state: &DeliveryState,
    ) -> Result<Option<DeliveryState>, Error> {
        self.begin_confirmed([delivery], state)?.wait().await.pop().unwrap_or(Ok(None))
    }

    /// Reports the state of deliveries without settling them, in as few frames as their ids permit. The frames are appended within
    /// the call, so that the settlement begins whether or not the result is awaited.
    ///
    /// # Errors
    /// The link, its session or the connection has ended, or the state cannot be encoded. Nothing was sent then.
    pub fn begin_confirmed(
        &self,
        deliveries: impl IntoIterator<Item = DeliveryId>,
        state: &DeliveryState,
    ) -> Result<Confirmations, Error> {
        let mut answers = Vec::new();
        self.link.command(|engine, route| {
            for delivery in deliveries {
                let (sender, answer) = oneshot::channel();
                // What the server has settled already has no answer, which is an error of the wait.
                if engine.settle(self.link.id, [delivery], Some(state), false)? > 0 {
                    route.expect(delivery, sender);
                }
                answers.push(answer);
            }
            Ok(())
        })?;
        Ok(Confirmations { link: Arc::clone(&self.link), answers })
    }

    /// Returns why the link has ended, and `None` while it is attached.
    #[must_use]
    pub fn ended(&self) -> Option<Error> {
        self.link.error()
    }
}

/// Settlements that the server has not confirmed yet: [`Settler::begin_confirmed`].
#[derive(Debug)]
#[must_use = "whether the server has settled the deliveries is known when this was awaited"]
pub struct Confirmations {
    link: Arc<Link>,
    answers: Vec<oneshot::Receiver<Option<DeliveryState>>>,
}

impl Confirmations {
    /// Waits until the server has settled the deliveries. Returns the server's states in the order of the deliveries, each with the
    /// errors of [`Settler::settle_confirmed`].
    pub async fn wait(self) -> Vec<Result<Option<DeliveryState>, Error>> {
        let Self { link, answers } = self;
        let count = answers.len();
        let mut outcomes = Vec::with_capacity(count);
        let all = async {
            for answer in answers {
                let ended = |_| link.error().unwrap_or(Error::Detached(Reason::Local(None)));
                outcomes.push(answer.await.map_err(ended));
            }
        };
        if let Err(Error::TimedOut { waiting_for, after }) = link.connection().within("settlement", all).await {
            outcomes.resize_with(count, || Err(Error::TimedOut { waiting_for, after }));
        }
        outcomes
    }
}
