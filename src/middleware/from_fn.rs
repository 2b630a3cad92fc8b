//! A layer that is an `async fn`.
//!
//! ```
//! use consign::{Disposition, Message, middleware::from_fn::from_fn, settlement::DeadLetterReason};
//! use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! let stack = ServiceBuilder::new()
//!     .layer(from_fn(async |message, next| {
//!         if message.subject().is_none() {
//!             return Ok(Disposition::dead_letter(DeadLetterReason::MissingProperty, "no subject"));
//!         }
//!         next.run(message).await
//!     }))
//!     .service(service_fn(|_: Message| async { Ok::<_, BoxError>(Disposition::Complete) }));
//! assert!(matches!(stack.oneshot(Message::new("body")).await?, Disposition::DeadLetter(_)));
//! # Ok(())
//! # }
//! ```
//!
//! A closure clones the values that it captures for each call: `move |message, next| { let state = state.clone(); async
//! move { .. } }`. A function names the inner service by a type parameter: `async fn f<S>(message: Message, next: Next<S>)`
//! where `S` is a `Service<Message, Response = Disposition>`.
//!
//! [`from_send_fn`] makes a layer of a sending stack.
//!
//! # Failure
//!
//! The call returns what the function returns. If the function does not call [`Next::run`], the inner service is not
//! called.
//!
//! # Order
//!
//! Anywhere. The inner service is made ready before the function runs, and stays ready until the function calls it or drops
//! `next`. A function that waits before that holds what the inner service reserved when it became ready, such as a permit
//! of a concurrency limit.
//!
//! # Cost
//!
//! The inner stack is cloned for each call, and the future of the function contains that of the stack. Only the function
//! may allocate. The table *Layers* of `docs/benchmarks.md` has the figures.

mod service;

use std::{fmt, future::Future, marker::PhantomData};

use tower::BoxError;
use tower_layer::Layer;
use tower_service::Service;

use self::service::{FromFn, Run};
use crate::{Disposition, Message, transport::SendError};

/// Creates a layer of a receiving stack from a function of a message and the inner service.
pub fn from_fn<F, S, Fut>(function: F) -> FromFnLayer<F, S>
where
    F: Fn(Message, Next<S>) -> Fut,
    Fut: Future<Output = Result<Disposition, BoxError>>,
{
    FromFnLayer { function, kind: PhantomData }
}

/// Creates a layer of a sending stack from a function of a request (a message, a batch, a value to encode) and the inner
/// service.
///
/// ```
/// use consign::{Message, middleware::from_fn::from_send_fn, transport::SendError};
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), SendError> {
/// let sender = ServiceBuilder::new()
///     .layer(from_send_fn(async |mut message: Message, next| {
///         message.properties_mut().set_to("billing");
///         next.run(message).await
///     }))
///     .service(service_fn(|message: Message| async move {
///         assert_eq!(message.to(), Some("billing"));
///         Ok::<_, SendError>(())
///     }));
/// sender.oneshot(Message::new("body")).await
/// # }
/// ```
pub fn from_send_fn<F, R, S, Fut>(function: F) -> FromFnLayer<F, S, R, Sending>
where
    F: Fn(R, SendNext<S, R>) -> Fut,
    Fut: Future<Output = Result<(), SendError>>,
{
    FromFnLayer { function, kind: PhantomData }
}

/// The direction of a stack, and so its response type.
#[doc(hidden)]
pub trait Direction: sealed::Sealed {
    /// The response of a call.
    type Response;
    /// The error of a call.
    type Error;
}

/// The stack around a handler.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub enum Receiving {}

/// The stack before a transport.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub enum Sending {}

impl Direction for Receiving {
    type Response = Disposition;
    type Error = BoxError;
}

impl Direction for Sending {
    type Response = ();
    type Error = SendError;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Receiving {}
    impl Sealed for super::Sending {}
}

/// A layer that is an `async fn`; see the [module](self). `S` is the service inside and `R` its request.
pub struct FromFnLayer<F, S, R = Message, D = Receiving> {
    function: F,
    kind: Kind<S, R, D>,
}

type Kind<S, R, D> = PhantomData<fn(S, R) -> D>;

impl<F: Clone, S, R, D> Clone for FromFnLayer<F, S, R, D> {
    fn clone(&self) -> Self {
        Self { function: self.function.clone(), kind: PhantomData }
    }
}

impl<F, S, R, D> fmt::Debug for FromFnLayer<F, S, R, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromFnLayer").finish_non_exhaustive()
    }
}

impl<F: Clone, S, R, D> Layer<S> for FromFnLayer<F, S, R, D> {
    type Service = FromFn<F, S, R, D>;

    fn layer(&self, inner: S) -> Self::Service {
        FromFn { inner, function: self.function.clone(), kind: PhantomData }
    }
}

/// The service after a function in the stack: ready, and to be called once.
#[must_use = "without a call of `run` the request goes no further"]
pub struct Next<S, R = Message, D = Receiving> {
    inner: S,
    kind: Kind<S, R, D>,
}

/// The service after a function in a sending stack.
pub type SendNext<S, R = Message> = Next<S, R, Sending>;

impl<S, R, D> Next<S, R, D> {
    /// Passes the request on.
    pub fn run(mut self, request: R) -> Run<S::Future, D>
    where
        D: Direction,
        S: Service<R, Response = D::Response>,
        S::Error: Into<D::Error>,
    {
        Run { future: self.inner.call(request), direction: PhantomData }
    }
}

impl<S, R, D> fmt::Debug for Next<S, R, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").finish_non_exhaustive()
    }
}
