use std::{fmt, future::Future, sync::Arc, time::Duration};

use bytes::Bytes;
use consign_codecs::{CodecSet, Codecs};
use tower::util::BoxCloneService;

use super::{
    Answering, IntoAnswer, RecordedReplies, ReplySenders, ReplyStore, Responder,
    address::Addresses,
    reply::{FaultBody, Replying},
    senders::Senders,
    stats::ResponderStats,
};
use crate::{
    BuildError, Message,
    message::EntityPath,
    routing::{
        Handler, Router, RouterBuilder,
        private::{Call, CountRoutes, Fallback, Invoke, NoRoute, OpenEnd, Route},
    },
    rpc::{Correlate, Fault},
    time::{Clock, SystemClock},
    transport::{
        SendError,
        deadline::{self, OPERATION_TIMEOUT},
    },
};

/// Collects how a responder replies, and then its handlers.
#[must_use = "a builder does nothing until `build` is called"]
pub struct ResponderBuilder<P: ReplySenders> {
    replying: Replying<P>,
}

/// Collects the handlers of a [`Responder`]; `R` is the list so far.
#[must_use = "a builder does nothing until `build` is called"]
pub struct HandlersBuilder<S, C, P: ReplySenders, R> {
    routes: RouterBuilder<S, C, R>,
    replying: Arc<Replying<P>>,
}

/// Where replies go before anybody has said it.
type NoSenders = fn(&EntityPath) -> Result<BoxCloneService<Message, (), SendError>, SendError>;

impl Responder<(), (), NoSenders, NoRoute> {
    /// Starts a responder whose replies go out by `senders`:
    /// `|address: &EntityPath| Ok(SendService::new(broker.sender(address)?))`.
    pub fn builder<P: ReplySenders>(senders: P) -> ResponderBuilder<P> {
        let replying = Replying {
            senders: Senders::new(senders),
            addresses: Addresses::new(),
            correlate: Correlate::default(),
            is_strict: false,
            subject: None,
            fault_body: None,
            clock: Arc::new(SystemClock::new()),
            recorded: None,
            operation: OPERATION_TIMEOUT,
            stats: ResponderStats::default(),
        };
        ResponderBuilder { replying }
    }
}

impl<P: ReplySenders> ResponderBuilder<P> {
    /// The number of paths whose sending stack is cached: 16. The least recently used one is removed.
    pub const KEPT: usize = Senders::<P>::KEPT;

    /// Dead-letters requests that cannot be answered, before a handler sees them: without a `ReplyTo` as
    /// `MissingReplyTo`, without an id as `MissingProperty`. Otherwise a request without a `ReplyTo` is handled, and what
    /// its handler returns is counted as unwanted. One with a `ReplyTo` and without an id is dead-lettered in both cases.
    pub fn strict(mut self) -> Self {
        self.replying.is_strict = true;
        self
    }

    /// Sets the `CorrelationId` of replies, by default [`Correlate::MessageIdOrCorrelationId`]. A request that was sent again under a
    /// new id has its first one in the property `x-original-message-id`, which then counts as its `MessageId`.
    pub fn correlate(mut self, by: Correlate) -> Self {
        self.replying.correlate = by;
        self
    }

    /// Sets the absolute address of this namespace, such as `sb://orders.example/`: an absolute address that begins with it
    /// is one of an entity here. Any other absolute address is refused, as all are by default.
    pub fn namespace(mut self, prefix: &str) -> Self {
        self.replying.addresses.set_namespace(prefix);
        self
    }

    /// Sets which entities replies may go to. Some are never allowed: management addresses, sub-queues, and other
    /// namespaces. By default all. Paths are equal in any case: compare [`EntityPath`]s, not their texts.
    pub fn allow(mut self, allowed: impl Fn(&EntityPath) -> bool + Send + Sync + 'static) -> Self {
        self.replying.addresses.set_allowed(allowed);
        self
    }

    /// Sets the subject of replies. By default they have none.
    pub fn reply_subject(mut self, subject: impl Into<Arc<str>>) -> Self {
        self.replying.subject = Some(subject.into());
        self
    }

    /// Writes a body of this ContentType into faults. By default it is empty, and a client that does not check for a fault
    /// takes that for an empty reply. A requester of this library reads the properties of a fault, and ignores its body.
    ///
    /// ```
    /// # use consign::{Message, message::EntityPath, rpc::Responder, transport::SendError};
    /// # use tower::service_fn;
    /// # let senders = |_: &EntityPath| Ok(service_fn(async |_: Message| Ok::<_, SendError>(())));
    /// let responder = Responder::builder(senders)
    ///     .fault_body("application/json", |fault| format!(r#"{{"code":"{}"}}"#, fault.code().as_str()));
    /// ```
    pub fn fault_body<B: Into<Bytes>>(
        mut self,
        content_type: impl Into<String>,
        body: impl Fn(&Fault) -> B + Send + Sync + 'static,
    ) -> Self {
        let write = Arc::new(move |fault: &Fault| body(fault).into());
        self.replying.fault_body = Some(FaultBody { content_type: content_type.into(), write });
        self
    }

    /// Records replies in `recorded` before they are sent, so that a duplicate request can be answered without running the
    /// handler; see [`Responder::replay`]. If that fails the reply is sent all the same.
    pub fn record<R: ReplyStore>(mut self, recorded: RecordedReplies<R>) -> Self {
        self.replying.recorded = Some(Arc::new(recorded));
        self
    }

    /// Sets how long the broker may take to accept a reply, and a store of recorded replies to answer: by default 60
    /// seconds, at least a millisecond and at most a year. The request of a reply that is not accepted by then is abandoned,
    /// as if the broker had refused the reply for a while; see [`Responder`].
    pub fn operation_timeout(mut self, timeout: Duration) -> Self {
        self.replying.operation = deadline::clamped(timeout);
        self
    }

    /// Sets the clock that measures the remaining time of a requester, by default that of the system. A reply lives for
    /// that time, so the clock has to agree with the broker's.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.replying.clock = Arc::new(clock);
        self
    }

    /// Continues with the handlers, which read requests and write replies with `codecs`.
    pub fn codecs<C: CodecSet>(self, codecs: Codecs<C>) -> HandlersBuilder<(), C, P, NoRoute> {
        self.codecs_and_state(codecs, ())
    }

    /// Continues with the handlers, which share `state`.
    pub fn codecs_and_state<S, C: CodecSet>(self, codecs: Codecs<C>, state: S) -> HandlersBuilder<S, C, P, NoRoute> {
        HandlersBuilder { routes: Router::with_state(codecs, state), replying: Arc::new(self.replying) }
    }
}

impl<S, C, P: ReplySenders, R> HandlersBuilder<S, C, P, R> {
    /// Answers requests with this subject by what `handler` returns; see [`IntoAnswer`].
    #[expect(clippy::type_complexity, reason = "the list of routes is a type")]
    pub fn answer<H, A>(
        self,
        subject: impl Into<Box<str>>,
        handler: H,
    ) -> HandlersBuilder<S, C, P, Route<Answering<H, P>, A, R>>
    where
        H: Call<A> + Invoke<A, S, C>,
        <H::Future as Future>::Output: IntoAnswer,
        C: CodecSet,
        A: 'static,
        R: CountRoutes,
    {
        let answering = Answering::new(handler, Arc::clone(&self.replying));
        HandlersBuilder { routes: self.routes.route(subject, answering).answered(), replying: self.replying }
    }

    /// Answers every request that no other handler takes. Without it such requests are dead-lettered, and answered with
    /// the fault [`UnknownRequest`](crate::rpc::FaultCode::UnknownRequest).
    pub fn fallback<H, A>(self, handler: H) -> HandlersBuilder<S, C, P, R::Ended>
    where
        H: Call<A> + Invoke<A, S, C>,
        <H::Future as Future>::Output: IntoAnswer,
        C: CodecSet,
        A: 'static,
        R: OpenEnd<Fallback<Answering<H, P>, A>>,
    {
        let answering = Answering::new(handler, Arc::clone(&self.replying));
        HandlersBuilder { routes: self.routes.fallback(answering).answered(), replying: self.replying }
    }

    /// Dispatches messages with this subject to a handler without a reply, as [`RouterBuilder::route`] does.
    pub fn route<H, A>(self, subject: impl Into<Box<str>>, handler: H) -> HandlersBuilder<S, C, P, Route<H, A, R>>
    where
        H: Call<A> + Handler<A, S, C>,
        A: 'static,
        R: CountRoutes,
    {
        HandlersBuilder { routes: self.routes.route(subject, handler), replying: self.replying }
    }

    /// The responder, or the first subject that two handlers have.
    pub fn build(self) -> Result<Responder<S, C, P, R>, BuildError>
    where
        C: CodecSet,
    {
        Ok(Responder { router: self.routes.build()?, replying: self.replying })
    }
}

impl<P: ReplySenders> fmt::Debug for ResponderBuilder<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponderBuilder").finish_non_exhaustive()
    }
}

impl<S, C, P: ReplySenders, R: fmt::Debug> fmt::Debug for HandlersBuilder<S, C, P, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlersBuilder").field("routes", &self.routes).finish_non_exhaustive()
    }
}
