use std::{
    future::Future,
    pin::Pin,
    task::{Context as TaskContext, Poll, ready},
};

use pin_project_lite::pin_project;
use tower_layer::Layer;

use super::{
    Context, FromMessage,
    private::{HandlerService, Layered},
};
use crate::{Disposition, Message, message_types::TypeTable, settlement::IntoDisposition};

/// An `async fn` whose arguments are extracted from the message, none to eight of them in any order, and whose return
/// value settles it. [`Ignore`](super::Ignore) and [`Forward`](super::Forward) are handlers too; the trait is not meant to be
/// implemented outside of this crate.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler of messages: write an `async fn` with up to 8 arguments that implement `FromMessage`",
    label = "not a handler",
    note = "a handler is an `async fn` with up to 8 arguments that implement `FromMessage`, returning what implements `IntoDisposition`",
    note = "for instance: `async fn created(State(db): State<Db>, Body(order): Body<Order>) -> Result<(), Transient>`",
    note = "more than 8 arguments fit into one type of yours that implements `FromMessage`"
)]
pub trait Handler<Args, S, C>: Call<Args> + 'static {
    /// The handler's own future, or the rejection of an argument. It is not boxed.
    type Future: Future<Output = Disposition>;

    /// Makes the arguments from the message and calls the handler.
    fn handle(&self, message: Message, cx: &Context<S, C>) -> Self::Future;

    /// Returns the tables of those of its arguments that are enums of types of messages.
    #[must_use]
    fn type_tables(&self) -> Vec<&'static TypeTable> {
        Vec::new()
    }

    /// Wraps this one handler in a layer, as in `.route("order.created", created.layer(TimeoutLayer::new(SECOND)))`.
    ///
    /// The layer makes its service once, before the first message, so a limit of its own counts all messages of the handler.
    /// Each call clones that service. An error of the layer abandons the message, except that an
    /// [`Undecodable`](crate::settlement::Undecodable) dead-letters it.
    fn layer<L>(self, layer: L) -> Layered<L, Self, Args, S, C>
    where
        Self: Sized,
        L: Layer<HandlerService<Self, Args, S, C>>,
    {
        Layered::new(layer, self)
    }
}

/// A function of up to eight arguments of any type. As a bound beside [`Handler`] it fixes the argument types before
/// the compiler checks that they can be extracted from a message. So an error names the argument that cannot.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no `async fn` that can be called again and again, with up to 8 arguments",
    label = "not such a function",
    note = "an `async` closure must not capture: take the value as `State`, or write `move |..| {{ let value = value.clone(); async move {{ .. }} }}`"
)]
pub trait Call<Args> {}

/// A function whose arguments can be taken out of a message, whatever it returns. Every [`Handler`] that is a function is
/// one, and so is what answers a request.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no `async fn` whose arguments can be taken out of a message",
    label = "not such a function",
    note = "it takes up to 8 arguments that implement `FromMessage`"
)]
pub trait Invoke<Args, S, C>: Call<Args> + 'static {
    /// The function's own future.
    type Future: Future;

    /// Makes the arguments from the message and calls the function, or returns the disposition of a message that lacks one.
    fn invoke(&self, message: &Message, cx: &Context<S, C>) -> Result<Self::Future, Disposition>;
}

pin_project! {
    /// The future of a handler, or the disposition that a rejected argument decided.
    #[derive(Debug)]
    pub struct HandlerFuture<F> {
        #[pin]
        progress: Progress<F>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = ProgressProjection]
    enum Progress<F> {
        Run { #[pin] future: F },
        Rejected { disposition: Option<Disposition> },
    }
}

impl<F> HandlerFuture<F> {
    #[inline]
    pub(crate) fn run(future: F) -> Self {
        Self { progress: Progress::Run { future } }
    }

    #[cold]
    fn rejected(disposition: Disposition) -> Self {
        Self { progress: Progress::Rejected { disposition: Some(disposition) } }
    }
}

impl<F: Future> Future for HandlerFuture<F>
where
    F::Output: IntoDisposition,
{
    type Output = Disposition;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Disposition> {
        match self.project().progress.project() {
            ProgressProjection::Run { future } => Poll::Ready(ready!(future.poll(cx)).into_disposition()),
            ProgressProjection::Rejected { disposition } => {
                Poll::Ready(disposition.take().expect("a future is not polled after it was ready"))
            }
        }
    }
}

#[cold]
fn rejected(rejection: impl IntoDisposition) -> Disposition {
    rejection.into_disposition()
}

macro_rules! handlers {
    ($($($argument:ident)*;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl<F, Fut, $($argument,)*> Call<($($argument,)*)> for F
        where
            F: Fn($($argument),*) -> Fut,
            Fut: Future,
        {
        }

        impl<F, Fut, S, C, $($argument,)*> Handler<($($argument,)*), S, C> for F
        where
            F: Fn($($argument),*) -> Fut + 'static,
            Fut: Future,
            Fut::Output: IntoDisposition,
            $($argument: FromMessage<S, C>,)*
        {
            type Future = HandlerFuture<Fut>;

            // Not by `invoke`: the future would be moved once more.
            #[inline]
            #[allow(non_snake_case, unused_variables, clippy::many_single_char_names)]
            fn handle(&self, message: Message, cx: &Context<S, C>) -> HandlerFuture<Fut> {
                $(
                    let $argument = match $argument::from_message(&message, cx) {
                        Ok(argument) => argument,
                        Err(rejection) => return HandlerFuture::rejected(rejected(rejection)),
                    };
                )*
                HandlerFuture::run(self($($argument),*))
            }

            fn type_tables(&self) -> Vec<&'static TypeTable> {
                let tables: &[Option<&'static TypeTable>] = &[$($argument::type_table()),*];
                tables.iter().copied().flatten().collect()
            }
        }

        impl<F, Fut, S, C, $($argument,)*> Invoke<($($argument,)*), S, C> for F
        where
            F: Fn($($argument),*) -> Fut + 'static,
            Fut: Future,
            $($argument: FromMessage<S, C>,)*
        {
            type Future = Fut;

            #[inline]
            #[allow(non_snake_case, unused_variables, clippy::many_single_char_names)]
            fn invoke(&self, message: &Message, cx: &Context<S, C>) -> Result<Fut, Disposition> {
                $(
                    let $argument = match $argument::from_message(message, cx) {
                        Ok(argument) => argument,
                        Err(rejection) => return Err(rejected(rejection)),
                    };
                )*
                Ok(self($($argument),*))
            }
        }
    )*};
}

handlers! {
    ;
    T1;
    T1 T2;
    T1 T2 T3;
    T1 T2 T3 T4;
    T1 T2 T3 T4 T5;
    T1 T2 T3 T4 T5 T6;
    T1 T2 T3 T4 T5 T6 T7;
    T1 T2 T3 T4 T5 T6 T7 T8;
}
