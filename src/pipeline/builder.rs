use std::fmt;

use tower::ServiceBuilder;
use tower_layer::{Identity, Layer, Stack};

use super::{Describe, LayerInfo, PipelineDescription, Side};
use crate::{
    BuildError, BuildErrorKind as Kind,
    consumer::Settings,
    message_types::{SendTypes, TypeTable},
    routing::{RouterDescription, private::BuiltRouter},
};

/// Collects the layers of a stack, as tower's `ServiceBuilder` does, and their descriptions. The first layer is the
/// outermost.
#[must_use = "a pipeline is nothing until `service` or `router` is called"]
pub struct Pipeline<L> {
    builder: ServiceBuilder<L>,
    name: String,
    destination: Option<String>,
    side: Side,
    layers: Vec<LayerInfo>,
    consumer: Option<Settings>,
    sends: Vec<&'static TypeTable>,
}

/// A stack that was checked, and its description.
#[derive(Clone, Debug)]
pub struct Pipelined<S> {
    service: S,
    description: PipelineDescription,
}

impl Pipeline<Identity> {
    /// Creates the pipeline of a receiving stack, from a broker to a handler. The name is for people: that of the entity,
    /// say.
    pub fn receiving(name: impl Into<String>) -> Self {
        Self::new(name.into(), Side::Receiving)
    }

    /// Creates the pipeline of a sending stack, from the application to a broker.
    pub fn sending(name: impl Into<String>) -> Self {
        Self::new(name.into(), Side::Sending)
    }

    fn new(name: String, side: Side) -> Self {
        Self {
            builder: ServiceBuilder::new(),
            name,
            destination: None,
            side,
            layers: Vec::new(),
            consumer: None,
            sends: Vec::new(),
        }
    }
}

impl<L> Pipeline<L> {
    /// Adds a layer, inside of those before.
    pub fn layer<T: Describe>(self, layer: T) -> Pipeline<Stack<T, L>> {
        let info = layer.info();
        self.push(info, layer)
    }

    /// Adds a layer without a description, such as those of tower, under this name.
    pub fn other<T>(self, name: &'static str, layer: T) -> Pipeline<Stack<T, L>> {
        self.push(LayerInfo::new(name), layer)
    }

    fn push<T>(mut self, info: LayerInfo, layer: T) -> Pipeline<Stack<T, L>> {
        self.layers.push(info);
        let Self { builder, name, destination, side, layers, consumer, sends } = self;
        Pipeline { builder: builder.layer(layer), name, destination, side, layers, consumer, sends }
    }

    /// Sets the address of the entity that the stack receives from or sends to, to be described with it. Without it, the
    /// address is the name.
    pub fn destination(mut self, address: impl Into<String>) -> Self {
        self.destination = Some(address.into());
        self
    }

    /// Sets the settings of the consumer in front of a receiving stack, to be checked and described with it.
    pub fn consumer(mut self, settings: &Settings) -> Self {
        self.consumer = Some(settings.clone());
        self
    }

    /// Sets the types that are sent through a sending stack, to be checked and described with it.
    pub fn sends<E: SendTypes>(mut self) -> Self {
        self.sends.push(const { &E::TYPES });
        self
    }

    /// The stack around this service, which is not described. Pass a router, or a [`Responder`](crate::rpc::Responder), to
    /// [`router`](Self::router).
    ///
    /// Errors: the first rule that is broken.
    pub fn service<S>(self, service: S) -> Result<Pipelined<L::Service>, BuildError>
    where
        L: Layer<S>,
    {
        self.build(service, None)
    }

    /// The stack around this router, or this [`Responder`](crate::rpc::Responder), which is described with it. Of a responder
    /// these are the requests that it takes, and which of them it answers. The types of its replies are not known.
    ///
    /// Errors: the first rule that is broken.
    pub fn router<R>(self, router: R) -> Result<Pipelined<L::Service>, BuildError>
    where
        R: BuiltRouter,
        L: Layer<R>,
    {
        let description = router.description();
        self.build(router, Some(description))
    }

    fn build<S>(self, service: S, router: Option<RouterDescription>) -> Result<Pipelined<L::Service>, BuildError>
    where
        L: Layer<S>,
    {
        self.check(router.is_some())?;
        #[cfg(any(feature = "encryption", feature = "signing"))]
        self.check_bound(router.as_ref())?;
        let Self { builder, name, destination, side, layers, consumer, sends } = self;
        let sends = sends.into_iter().copied().collect();
        let description = PipelineDescription { name, destination, side, consumer, layers, sends, router };
        Ok(Pipelined { service: builder.service(service), description })
    }

    fn check(&self, has_router: bool) -> Result<(), BuildError> {
        let other = match self.side {
            Side::Receiving => Side::Sending,
            Side::Sending => Side::Receiving,
        };
        let misplaced = |what: &str| {
            let advice =
                format!("`{what}` is for a {other} stack, and `{}` is {}: move it there", self.name, self.side);
            BuildError::new(Kind::WrongSide, advice)
        };
        let stray = match self.side {
            Side::Receiving => self.sends.first().map(|table| table.name()),
            Side::Sending if has_router => Some("router"),
            Side::Sending => self.consumer.as_ref().map(|_| "consumer"),
        };
        if let Some(stray) = stray {
            return Err(misplaced(stray));
        }
        for (at, layer) in self.layers.iter().enumerate() {
            if layer.side.is_some_and(|side| side != self.side) {
                return Err(misplaced(layer.name));
            }
            if layer.is_single && self.layers[..at].iter().any(|earlier| earlier.name == layer.name) {
                let advice = format!("`{}` stands twice: leave one of them", layer.name);
                return Err(BuildError::new(Kind::DuplicateLayer, advice));
            }
            self.check_order(at, layer)?;
            if let Some(problem) = &layer.problem {
                return Err(BuildError::new(Kind::LayerSetting, &**problem));
            }
        }
        if let Some(Err(error)) = self.consumer.as_ref().map(Settings::check) {
            return Err(error);
        }
        self.check_types()
    }

    fn check_order(&self, at: usize, layer: &LayerInfo) -> Result<(), BuildError> {
        for order in &layer.order {
            let (wrong, place) =
                if order.is_inside { (&self.layers[at + 1..], "inside") } else { (&self.layers[..at], "outside") };
            if wrong.iter().any(|other| other.name == order.other) {
                let advice = format!("put `{}` {place} of `{}`, or else {}", layer.name, order.other, order.why);
                return Err(BuildError::new(Kind::LayerOrder, advice));
            }
        }
        Ok(())
    }

    /// What decides how a body is read must not change without notice where bodies are authenticated.
    #[cfg(any(feature = "encryption", feature = "signing"))]
    fn check_bound(&self, router: Option<&RouterDescription>) -> Result<(), BuildError> {
        let received = router.into_iter().flat_map(|router| &router.types);
        for table in self.sends.iter().copied().chain(received) {
            for layer in &self.layers {
                let Some(property) = super::payload::keys::unbound(layer, table) else { continue };
                let (name, layer, call) = (
                    table.name(),
                    layer.name,
                    match self.side {
                        Side::Sending => "bind",
                        Side::Receiving => "require_bound",
                    },
                );
                let advice = format!(
                    "`{layer}` does not cover the property `{property}`, which says how a `{name}` is read: add \
                     `.{call}(\"{property}\")`"
                );
                return Err(BuildError::new(Kind::NotBound, advice));
            }
        }
        Ok(())
    }

    fn check_types(&self) -> Result<(), BuildError> {
        let Some(first) = self.sends.first() else { return Ok(()) };
        let Some(codecs) = self.layers.iter().find_map(|layer| layer.codecs.as_ref()) else {
            let advice = format!("`{}` is sent, and no layer encodes it: add `encode`", first.name());
            return Err(BuildError::new(Kind::NoEncode, advice));
        };
        for table in &self.sends {
            table.check(|name| codecs.codecs.iter().any(|codec| codec.name == name))?;
        }
        Ok(())
    }
}

impl<S> Pipelined<S> {
    /// Returns the description of the stack.
    pub fn describe(&self) -> &PipelineDescription {
        &self.description
    }

    /// The stack: for a consumer, or to send through.
    #[must_use]
    pub fn into_service(self) -> S {
        self.service
    }
}

impl<L> fmt::Debug for Pipeline<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline").field("name", &self.name).field("layers", &self.layers).finish_non_exhaustive()
    }
}
