use std::{any::type_name, convert::Infallible, fmt, marker::PhantomData};

use super::{Context, FromMessage};
use crate::{
    Disposition, Message,
    settlement::{IntoDisposition, Transient},
};

/// A value that a layer has added to the [extensions](Message::extensions) of the message, cloned.
///
/// A message without it is abandoned: the stack lacks the layer. As an `Option` it may be missing.
///
/// ```
/// use consign::{
///     Message,
///     codecs::Codecs,
///     middleware::from_fn::{Next, from_fn},
///     routing::{Extension, Router},
/// };
/// use tower::{BoxError, ServiceBuilder, ServiceExt};
///
/// #[derive(Clone)]
/// struct Tenant(u32);
///
/// async fn created(Extension(Tenant(id)): Extension<Tenant>) {
///     assert_eq!(id, 7);
/// }
///
/// # tokio_test::block_on(async {
/// let router = Router::new(Codecs::json()).route("order.created", created).build()?;
/// let stack = ServiceBuilder::new()
///     .layer(from_fn(async |mut message: Message, next: Next<_>| {
///         message.extensions_mut().insert(Tenant(7));
///         next.run(message).await
///     }))
///     .service(router);
/// stack.oneshot(Message::builder().subject("order.created").build("")?).await?;
/// # Ok::<(), BoxError>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extension<T>(
    /// The value.
    pub T,
);

impl<T: Clone + Send + Sync + 'static, S, C> FromMessage<S, C> for Extension<T> {
    type Rejection = MissingExtension<T>;

    fn from_message(message: &Message, _: &Context<S, C>) -> Result<Self, MissingExtension<T>> {
        message.extensions().get::<T>().cloned().map(Self).ok_or(MissingExtension(PhantomData))
    }
}

impl<T: Clone + Send + Sync + 'static, S, C> FromMessage<S, C> for Option<Extension<T>> {
    type Rejection = Infallible;

    fn from_message(message: &Message, _: &Context<S, C>) -> Result<Self, Infallible> {
        Ok(message.extensions().get::<T>().cloned().map(Extension))
    }
}

/// No layer has added an extension that the handler needs. The message is abandoned, and the cause names the type.
pub struct MissingExtension<T>(PhantomData<fn() -> T>);

impl<T> IntoDisposition for MissingExtension<T> {
    #[cold]
    fn into_disposition(self) -> Disposition {
        Transient::new(format!("no layer has added the extension `{}`", type_name::<T>())).into_disposition()
    }
}

impl<T> fmt::Debug for MissingExtension<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MissingExtension").field(&type_name::<T>()).finish()
    }
}
