//! A layer that maps chosen errors to dead letters, and cuts dead letters to the limits of a broker.
//!
//! ```
//! use consign::{
//!     Disposition, Message,
//!     middleware::dead_letter::DeadLetterLayer,
//!     settlement::{DeadLetter, DeadLetterReason},
//! };
//! use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! let permanent = |error: &BoxError| {
//!     error.is::<std::num::ParseIntError>().then(|| DeadLetter::new(DeadLetterReason::HandlerPermanent, error.to_string()))
//! };
//! let stack = ServiceBuilder::new()
//!     .layer(DeadLetterLayer::new().classify(permanent).property("x-consumer", "billing"))
//!     .service(service_fn(|message: Message| async move {
//!         message.subject().unwrap_or_default().parse::<u32>()?;
//!         Ok::<_, BoxError>(Disposition::Complete)
//!     }));
//! let Disposition::DeadLetter(letter) = stack.oneshot(Message::new("body")).await? else { panic!() };
//! assert_eq!(letter.description, "cannot parse integer from empty string");
//! assert!(letter.changes.properties().is_some_and(|added| added.get("x-consumer").is_some()));
//! # Ok(())
//! # }
//! ```
//!
//! # Failure
//!
//! An error for which the classifier returns a [`DeadLetter`] becomes that disposition. Any other error is returned
//! unchanged, and the consumer abandons the message. Without a classifier every error is returned unchanged.
//!
//! Every dead letter, also one of the handler, gets the configured properties; properties that it already has stay. It is
//! cut to the limits of a broker, with the message's own properties, by [`DeadLetter::fit`].
//!
//! # Order
//!
//! Outermost, so that it gets the errors of all layers. A [`Consumer`](crate::consumer::Consumer) needs this layer only for
//! a classifier or for properties, because it cuts dead letters itself.
//!
//! # Cost
//!
//! The layer keeps a clone of the message until the call returns: a reference count and a few words. Only a dead letter
//! allocates. The table *Layers* of `docs/benchmarks.md` has the figures.

mod service;

use std::{borrow::Cow, fmt, sync::Arc};

use tower::BoxError;
use tower_layer::Layer;

use self::service::DeadLettering;
use crate::{
    Message,
    message::{ApplicationProperties, PropertyValue},
    settlement::DeadLetter,
};

/// Decides which errors are permanent: a closure `Fn(&BoxError) -> Option<DeadLetter>`, or your own type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not classify errors",
    note = "give a closure `|error: &BoxError| -> Option<DeadLetter>`, or implement `Classify`"
)]
pub trait Classify {
    /// Returns the dead letter for `error`; `None` passes the error on.
    fn classify(&self, error: &BoxError) -> Option<DeadLetter>;
}

impl<F> Classify for F
where
    F: Fn(&BoxError) -> Option<DeadLetter>,
{
    fn classify(&self, error: &BoxError) -> Option<DeadLetter> {
        self(error)
    }
}

/// Passes every error on.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default)]
pub struct PassOn;

impl Classify for PassOn {
    fn classify(&self, _: &BoxError) -> Option<DeadLetter> {
        None
    }
}

/// A layer that maps errors to dead letters; see the [module](self).
pub struct DeadLetterLayer<C = PassOn> {
    classify: Arc<C>,
    properties: ApplicationProperties,
}

impl DeadLetterLayer {
    /// Passes every error on, and adds no properties.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Default for DeadLetterLayer {
    fn default() -> Self {
        Self { classify: Arc::new(PassOn), properties: ApplicationProperties::new() }
    }
}

impl<C> DeadLetterLayer<C> {
    /// Sets the function that maps errors to dead letters.
    #[must_use]
    pub fn classify<D: Classify>(self, classify: D) -> DeadLetterLayer<D> {
        DeadLetterLayer { classify: Arc::new(classify), properties: self.properties }
    }

    /// Adds a property to every dead letter, unless it has one of that name.
    #[must_use]
    pub fn property(mut self, key: impl Into<Cow<'static, str>>, value: impl Into<PropertyValue>) -> Self {
        self.properties.insert(key.into(), value);
        self
    }
}

impl<C> Clone for DeadLetterLayer<C> {
    fn clone(&self) -> Self {
        Self { classify: Arc::clone(&self.classify), properties: self.properties.clone() }
    }
}

impl<C> fmt::Debug for DeadLetterLayer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadLetterLayer").field("properties", &self.properties).finish_non_exhaustive()
    }
}

impl<S, C> Layer<S> for DeadLetterLayer<C> {
    type Service = DeadLettering<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        DeadLettering { inner, rules: Arc::new(self.clone()) }
    }
}

impl<C> DeadLetterLayer<C> {
    #[cold]
    fn finish(&self, letter: &mut DeadLetter, message: &Message) {
        if !self.properties.is_empty() {
            let mut properties = self.properties.clone();
            properties.merge(std::mem::take(&mut letter.changes).into_properties());
            letter.changes = properties.into();
        }
        letter.fit(message.properties());
    }
}
