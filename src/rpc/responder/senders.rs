use std::sync::{Mutex, MutexGuard, PoisonError};

use tower_service::Service;

use crate::{Message, message::EntityPath, transport::SendError};

/// Creates the senders of replies: a function from the path of an entity to a stack that sends to it.
pub trait ReplySenders: Send + Sync + 'static {
    /// A stack whose innermost service sends to one entity.
    type Sender: Service<Message, Response = (), Error: Into<SendError> + Send, Future: Send> + Clone + Send + 'static;

    /// Returns the stack that sends to the entity at `address`. It is kept and cloned for further replies to this
    /// address while it is among the last [`KEPT`](super::ResponderBuilder::KEPT) in use. One that fails to become ready is
    /// replaced, and so is one that answers that the entity is gone. Replies that are sent at the same time, faults, and
    /// replies to duplicates may each make one. Put a timeout into a stack that may wait long: until it is ready, the
    /// request keeps its slot in the consumer.
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
///
/// A sender is the user's code: it is made, cloned and dropped outside of the lock.
pub(super) struct Senders<P: ReplySenders> {
    source: P,
    kept: Mutex<Kept<P::Sender>>,
}

struct Kept<S> {
    /// The last address in use comes first. A sender is not there while it is cloned.
    senders: Vec<(EntityPath, Option<Box<S>>)>,
    /// How often a sender has moved to another place.
    moves: u64,
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
        Self { source, kept: Mutex::new(Kept { senders: Vec::new(), moves: 0 }) }
    }

    fn kept(&self) -> MutexGuard<'_, Kept<P::Sender>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sender to an address.
    #[inline]
    pub(super) fn find(&self, address: &EntityPath) -> Result<Found<P::Sender>, SendError> {
        match self.take(address) {
            Some((kept, moves)) => {
                let sender = P::Sender::clone(&kept);
                self.put_back(address, kept, moves);
                Ok(Found { sender, is_kept: true })
            }
            None => self.make(address),
        }
    }

    /// Takes the sender to an address out of its place, which is the first one by then. `None` if there is none, or another
    /// thread has it. Returns the moves so far too.
    #[inline]
    fn take(&self, address: &EntityPath) -> Option<(Box<P::Sender>, u64)> {
        let mut kept = self.kept();
        let place = kept.place(address)?;
        if place > 0 {
            kept.move_to_front(place);
        }
        Some((kept.senders[0].1.take()?, kept.moves))
    }

    #[inline]
    fn put_back(&self, address: &EntityPath, sender: Box<P::Sender>, moves: u64) {
        let mut guard = self.kept();
        let kept = &mut *guard;
        match kept.senders.first_mut() {
            Some((_, vacant @ None)) if kept.moves == moves => *vacant = Some(sender),
            _ => {
                let left = kept.put_back(address, sender);
                drop(guard);
                drop(left);
            }
        }
    }

    /// A new sender, in place of one that may be kept.
    #[cold]
    pub(super) fn make(&self, address: &EntityPath) -> Result<Found<P::Sender>, SendError> {
        let sender = self.source.sender(address)?;
        let entry = (address.clone(), Some(Box::new(sender.clone())));
        let mut kept = self.kept();
        // Another reply to this address may have been as fast.
        let dropped = match kept.place(address) {
            Some(place) => Some(kept.senders.remove(place)),
            None if kept.senders.len() < Self::KEPT => None,
            None => kept.senders.pop(),
        };
        kept.senders.insert(0, entry);
        kept.moves += 1;
        drop(kept);
        drop(dropped);
        Ok(Found { sender, is_kept: false })
    }

    /// The entity at `address` has gone, or its sender cannot be used any more.
    #[cold]
    pub(super) fn forget(&self, address: &EntityPath) {
        let mut kept = self.kept();
        let dropped = kept.place(address).map(|place| kept.senders.remove(place));
        kept.moves += 1;
        drop(kept);
        drop(dropped);
    }
}

impl<S> Kept<S> {
    #[inline]
    fn place(&self, address: &EntityPath) -> Option<usize> {
        self.senders.iter().position(|(path, _)| path.as_str() == address.as_str())
    }

    #[cold]
    fn move_to_front(&mut self, place: usize) {
        self.senders[..=place].rotate_right(1);
        self.moves += 1;
    }

    /// Puts a sender back where its address is by now. Returns it if its place went to another meanwhile.
    #[cold]
    fn put_back(&mut self, address: &EntityPath, sender: Box<S>) -> Option<Box<S>> {
        match self.place(address).map(|place| &mut self.senders[place].1) {
            Some(vacant @ None) => {
                *vacant = Some(sender);
                None
            }
            _ => Some(sender),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::RefCell,
        future::{Ready, ready},
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task::{Context, Poll},
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
        assert_eq!(senders.kept().senders.len(), all);
        assert!(!is_kept(1) && is_kept(all));
        senders.forget(&path(0));
        assert!(!is_kept(0));
        assert_eq!(made.load(Ordering::Relaxed), all + 3);
    }

    thread_local! {
        /// Whether the lock of the senders under test is free.
        static IS_FREE: RefCell<Option<Box<dyn Fn() -> bool>>> = const { RefCell::new(None) };
    }

    /// Its user's code fails the test if it runs under the lock.
    struct Outside(Accepts);

    fn assert_is_outside() {
        IS_FREE.with_borrow(|is_free| assert!(is_free.as_ref().is_none_or(|is_free| is_free()), "the lock is held"));
    }

    impl Clone for Outside {
        fn clone(&self) -> Self {
            assert_is_outside();
            Self(self.0)
        }
    }

    impl Drop for Outside {
        fn drop(&mut self) {
            assert_is_outside();
        }
    }

    impl Service<Message> for Outside {
        type Response = ();
        type Error = SendError;
        type Future = Ready<Result<(), SendError>>;

        fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
            self.0.poll_ready(cx)
        }

        fn call(&mut self, message: Message) -> Self::Future {
            self.0.call(message)
        }
    }

    #[test]
    fn senders_are_made_cloned_and_dropped_outside_of_the_lock() {
        let accepts: Accepts = tower::service_fn(|_| ready(Ok(())));
        let make = move |_: &EntityPath| -> Result<Outside, SendError> {
            assert_is_outside();
            Ok(Outside(accepts))
        };
        let senders = Arc::new(Senders::new(make));
        let looked_at = Arc::clone(&senders);
        IS_FREE.set(Some(Box::new(move || looked_at.kept.try_lock().is_ok())));
        let all = Senders::<fn(&EntityPath) -> Result<Accepts, SendError>>::KEPT;
        for number in 0..=all {
            assert!(!senders.find(&path(number)).unwrap().is_kept, "the last one takes the place of the first");
        }
        assert!(senders.find(&path(all)).unwrap().is_kept);
        senders.make(&path(all)).unwrap();
        senders.forget(&path(all));
        IS_FREE.set(None);
    }

    /// As two threads do that answer at once.
    #[test]
    fn a_sender_that_is_being_cloned_is_made_for_another_reply() {
        let accepts: Accepts = tower::service_fn(|_| ready(Ok(())));
        let senders = Senders::new(move |_: &EntityPath| -> Result<Accepts, SendError> { Ok(accepts) });
        senders.make(&path(0)).unwrap();
        let (taken, moves) = senders.take(&path(0)).unwrap();
        assert!(!senders.find(&path(0)).unwrap().is_kept);
        senders.put_back(&path(0), taken, moves);
        assert!(senders.find(&path(0)).unwrap().is_kept);
        assert_eq!(senders.kept().senders.len(), 1);
    }
}
