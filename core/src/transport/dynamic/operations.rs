//! The object-safe twins of the traits of a transport. A blanket implementation makes each transport one of them.

use super::{Boxed, DynLease, DynReceiver, DynSender};
use crate::{
    Message,
    administration::{Administration, Counts, Entity, EntitySettings},
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
    transport::{
        Capabilities, Delivery, ManageError, PeekMessages, PurgeMessages, ReceiveDeferred, ReceiveError, ReceiveMode,
        ScheduleMessages, SendError, ServerAddress, Transport,
    },
};

pub(super) trait Connection: Send + Sync {
    fn capabilities(&self) -> Capabilities;
    fn server(&self) -> Option<ServerAddress>;
    fn sender<'a>(&'a self, path: &'a EntityPath) -> Boxed<'a, Result<DynSender, SendError>>;
    fn receiver<'a>(&'a self, path: &'a EntityPath, mode: ReceiveMode) -> Boxed<'a, Result<DynReceiver, ReceiveError>>;
    fn ping(&self) -> Boxed<'_, Result<(), ManageError>>;
    fn close(&self) -> Boxed<'_, Result<(), ManageError>>;
}

impl<T: Transport> Connection for T {
    fn capabilities(&self) -> Capabilities {
        Transport::capabilities(self)
    }

    fn server(&self) -> Option<ServerAddress> {
        Transport::server(self)
    }

    fn sender<'a>(&'a self, path: &'a EntityPath) -> Boxed<'a, Result<DynSender, SendError>> {
        Box::pin(async move { Transport::sender(self, path).await.map(DynSender::new) })
    }

    fn receiver<'a>(&'a self, path: &'a EntityPath, mode: ReceiveMode) -> Boxed<'a, Result<DynReceiver, ReceiveError>> {
        Box::pin(async move { Transport::receiver(self, path, mode).await.map(DynReceiver::new) })
    }

    fn ping(&self) -> Boxed<'_, Result<(), ManageError>> {
        Box::pin(Transport::ping(self))
    }

    fn close(&self) -> Boxed<'_, Result<(), ManageError>> {
        Box::pin(Transport::close(self))
    }
}

pub(super) trait Peek: Send + Sync {
    fn peek<'a>(
        &'a self,
        path: &'a EntityPath,
        from: SequenceNumber,
        max: usize,
    ) -> Boxed<'a, Result<Vec<Message>, ReceiveError>>;
}

impl<T: PeekMessages> Peek for T {
    fn peek<'a>(
        &'a self,
        path: &'a EntityPath,
        from: SequenceNumber,
        max: usize,
    ) -> Boxed<'a, Result<Vec<Message>, ReceiveError>> {
        Box::pin(PeekMessages::peek(self, path, from, max))
    }
}

pub(super) trait Schedule: Send + Sync {
    fn schedule<'a>(
        &'a self,
        path: &'a EntityPath,
        messages: Vec<Message>,
        at: Timestamp,
    ) -> Boxed<'a, Result<Vec<SequenceNumber>, SendError>>;
    fn cancel<'a>(&'a self, path: &'a EntityPath, numbers: &'a [SequenceNumber]) -> Boxed<'a, Result<(), SendError>>;
}

impl<T: ScheduleMessages> Schedule for T {
    fn schedule<'a>(
        &'a self,
        path: &'a EntityPath,
        messages: Vec<Message>,
        at: Timestamp,
    ) -> Boxed<'a, Result<Vec<SequenceNumber>, SendError>> {
        Box::pin(ScheduleMessages::schedule(self, path, messages, at))
    }

    fn cancel<'a>(&'a self, path: &'a EntityPath, numbers: &'a [SequenceNumber]) -> Boxed<'a, Result<(), SendError>> {
        Box::pin(self.cancel_scheduled(path, numbers))
    }
}

pub(super) trait Defer: Send + Sync {
    fn receive_deferred<'a>(
        &'a self,
        path: &'a EntityPath,
        numbers: &'a [SequenceNumber],
    ) -> Boxed<'a, Result<Vec<Delivery<DynLease>>, ReceiveError>>;
}

impl<T: ReceiveDeferred> Defer for T {
    fn receive_deferred<'a>(
        &'a self,
        path: &'a EntityPath,
        numbers: &'a [SequenceNumber],
    ) -> Boxed<'a, Result<Vec<Delivery<DynLease>>, ReceiveError>> {
        Box::pin(async move {
            let deliveries = ReceiveDeferred::receive_deferred(self, path, numbers).await?;
            Ok(deliveries.into_iter().map(DynLease::delivery).collect())
        })
    }
}

pub(super) trait Purge: Send + Sync {
    fn purge<'a>(
        &'a self,
        path: &'a EntityPath,
        max: usize,
        accepted_before: Option<Timestamp>,
    ) -> Boxed<'a, Result<usize, ManageError>>;
}

impl<T: PurgeMessages> Purge for T {
    fn purge<'a>(
        &'a self,
        path: &'a EntityPath,
        max: usize,
        accepted_before: Option<Timestamp>,
    ) -> Boxed<'a, Result<usize, ManageError>> {
        Box::pin(PurgeMessages::purge(self, path, max, accepted_before))
    }
}

/// The twin of a trait whose methods take a path and settings.
macro_rules! administer {
    ($($name:ident($($arg:ident: $type:ty),*) -> $ok:ty;)*) => {
        #[allow(clippy::elidable_lifetime_names, clippy::needless_lifetimes, reason = "one operation takes no argument")]
        pub(super) trait Administer: Send + Sync {
            $(fn $name<'a>(&'a self, $($arg: $type),*) -> Boxed<'a, Result<$ok, ManageError>>;)*
        }

        #[allow(clippy::elidable_lifetime_names, clippy::needless_lifetimes, reason = "one operation takes no argument")]
        impl<T: Administration> Administer for T {
            $(
                fn $name<'a>(&'a self, $($arg: $type),*) -> Boxed<'a, Result<$ok, ManageError>> {
                    Box::pin(Administration::$name(self, $($arg),*))
                }
            )*
        }
    };
}

administer! {
    create(path: &'a EntityPath, settings: &'a EntitySettings) -> ();
    declare(path: &'a EntityPath, settings: &'a EntitySettings) -> ();
    update(path: &'a EntityPath, settings: &'a EntitySettings) -> ();
    delete(path: &'a EntityPath) -> ();
    settings(path: &'a EntityPath) -> EntitySettings;
    list() -> Vec<Entity>;
    counts(path: &'a EntityPath) -> Counts;
}
