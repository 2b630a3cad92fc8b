use std::sync::{Mutex, MutexGuard, PoisonError};

use tower_service::Service;

use crate::{Message, message::EntityPath, transport::SendError};

/// Where the senders of replies come from: a function from an address to a stack that sends there.
pub trait ReplySenders: Send + Sync + 'static {
    /// A stack whose innermost service sends to one entity.
    type Sender: Service<Message, Response = (), Error: Into<SendError> + Send, Future: Send> + Clone + Send + 'static;

    /// The stack that sends to the entity at `address`. It is kept for further replies to the same address and cloned for
    /// each, while it is among the last [`KEPT`](super::ResponderBuilder::KEPT) in use and does not answer that the entity
    /// is gone. A stack that may wait long has a timeout in it: until it is through, the request keeps its place in the
    /// consumer.
    fn sender(&self, address: &EntityPath) -> Result<Self::Sender, SendError>;
}

impl<F, S> ReplySenders for F
where
    F: Fn(&EntityPath) -> Result<S, SendError> + Send + Sync + 'static,
    S: Service<Message, Response = (), Error: Into<SendError> + Send, Future: Send> + Clone + Send + 'static,
{
    type Sender = S;

    fn sender(&self, address: &EntityPath) -> Result<S, SendError> {
        self(address)
    }
}

/// The senders of the last addresses. Requests name the addresses, so it keeps a bounded number.
pub(super) struct Senders<P: ReplySenders> {
    source: P,
    /// The last one in use comes first.
    kept: Mutex<Vec<(EntityPath, P::Sender)>>,
}

/// A sender for one reply.
pub(super) struct Found<S> {
    pub(super) sender: S,
    /// Whether it was made for another reply. The entity may have been made anew since.
    pub(super) is_kept: bool,
}

impl<P: ReplySenders> Senders<P> {
    pub(super) const KEPT: usize = 16;

    pub(super) fn new(source: P) -> Self {
        Self { source, kept: Mutex::new(Vec::new()) }
    }

    fn kept(&self) -> MutexGuard<'_, Vec<(EntityPath, P::Sender)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sender to an address.
    #[inline]
    pub(super) fn find(&self, address: &EntityPath) -> Result<Found<P::Sender>, SendError> {
        let mut kept = self.kept();
        let found = kept.iter().position(|(path, _)| path.as_str() == address.as_str());
        let Some(place) = found else {
            drop(kept);
            return self.make(address);
        };
        if place > 0 {
            kept[..=place].rotate_right(1);
        }
        Ok(Found { sender: kept[0].1.clone(), is_kept: true })
    }

    /// A new sender, in place of one that may be kept.
    #[cold]
    pub(super) fn make(&self, address: &EntityPath) -> Result<Found<P::Sender>, SendError> {
        let sender = self.source.sender(address)?;
        let mut kept = self.kept();
        // Another reply to this address may have been as fast.
        kept.retain(|(path, _)| path.as_str() != address.as_str());
        let dropped = if kept.len() < Self::KEPT { None } else { kept.pop() };
        kept.insert(0, (address.clone(), sender.clone()));
        drop(kept);
        drop(dropped);
        Ok(Found { sender, is_kept: false })
    }

    /// The entity at `address` has gone.
    #[cold]
    pub(super) fn forget(&self, address: &EntityPath) {
        self.kept().retain(|(path, _)| path.as_str() != address.as_str());
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::{Ready, ready},
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use tower::util::ServiceFn;

    use super::*;

    type Accepts = ServiceFn<fn(Message) -> Ready<Result<(), SendError>>>;

    fn path(number: usize) -> EntityPath {
        EntityPath::new(&format!("replies.{number}")).unwrap()
    }

    #[test]
    fn as_many_senders_are_kept_as_may_be_and_the_last_used_stay() {
        let made = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&made);
        let senders = Senders::new(move |_: &EntityPath| -> Result<Accepts, SendError> {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(tower::service_fn(|_| ready(Ok(()))))
        });
        let all = Senders::<fn(&EntityPath) -> Result<Accepts, SendError>>::KEPT;
        let is_kept = |number| senders.find(&path(number)).unwrap().is_kept;
        for number in 0..=all {
            assert!(!is_kept(number) && is_kept(0), "{number}");
        }
        assert_eq!(senders.kept().len(), all);
        assert!(!is_kept(1) && is_kept(all));
        senders.forget(&path(0));
        assert!(!is_kept(0));
        assert_eq!(made.load(Ordering::Relaxed), all + 3);
    }
}
