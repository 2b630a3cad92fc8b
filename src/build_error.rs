use std::{error, fmt, sync::Arc};

use crate::message::InvalidArgument;

/// A part of a service that is not built: a router, a pipeline, a layer, a table of types, a requester, the settings of a
/// consumer, or a document. `Display` states in one sentence what to change.
#[derive(Clone)]
pub struct BuildError {
    kind: BuildErrorKind,
    name: Box<str>,
    advice: Box<str>,
    source: Option<Arc<dyn error::Error + Send + Sync>>,
}

/// The rule that a part of a service breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BuildErrorKind {
    /// Two routes have one subject.
    DuplicateRoute,
    /// Two handlers take the messages without a route.
    SeveralFallbacks,
    /// A handler of types has no enum of types among its arguments.
    NoTypes,
    /// A handler has two enums of types among its arguments, and a message is of one type.
    SeveralTypes,
    /// A route has the subject of a type that another handler takes, or two handlers take one type.
    TypeTakenTwice,
    /// Two enums have their types in different places of a message.
    SeveralProperties,
    /// A handler of types is in routes that are nested: its types have their own names, without the prefix.
    NestedTypes,
    /// A table of types has no type.
    NoType,
    /// A name, or another name, of a type is not valid.
    InvalidName,
    /// Two types have one name.
    DuplicateName,
    /// Another name of a type is a name of it or of another one.
    DuplicateAlias,
    /// A version of a type is 0.
    InvalidVersion,
    /// A version of a type occurs twice.
    DuplicateVersion,
    /// A step leads back to an older version, as in a cycle.
    VersionOrder,
    /// No step leads to a version from the one before it.
    VersionGap,
    /// The application property of the type or of the version has no name, or both have one.
    InvalidProperty,
    /// A layer or a type names a codec that the set has not.
    UnknownCodec,
    /// A consumer handles no message at once.
    NoConcurrency,
    /// A consumer handles more messages at once than
    /// [`MAX_CONCURRENCY`](crate::consumer::Settings::MAX_CONCURRENCY).
    TooMuchConcurrency,
    /// A consumer locks more messages ahead than [`MAX_CONCURRENCY`](crate::consumer::Settings::MAX_CONCURRENCY).
    TooMuchPrefetch,
    /// A consumer renews a lock for less time than passes before its first renewal.
    RenewalTooShort,
    /// A consumer waits for its transport for less than 1 ms, or for more than a year.
    OperationTimeout,
    /// A layer, or a part of a pipeline, belongs into a stack of the other side.
    WrongSide,
    /// A layer that is allowed once is added twice.
    DuplicateLayer,
    /// Two layers are in an order in which one of them does not work.
    LayerOrder,
    /// A setting of a layer is wrong.
    LayerSetting,
    /// A pipeline sends types, and no layer encodes them.
    NoEncode,
    /// An application property names the type or the version of a body, and a layer that signs, verifies, encrypts or
    /// decrypts does not bind it.
    NotBound,
    /// A schema of a document is registered for a message that no pipeline has.
    UnknownMessage,
    /// Two schemas of a document are registered for one message.
    DuplicateSchema,
    /// Two servers of a document have one name.
    DuplicateServer,
    /// The host of a server of a document has a scheme, a path or credentials.
    Host,
    /// Two pipelines of one side have one destination.
    DuplicateOperation,
    /// The address of the replies is empty, so no responder would answer.
    NoReplyAddress,
    /// Other clients receive from the reply entity too, and it has no sessions that separate the replies: each would take
    /// the replies of the others.
    SharedWithoutSessions,
    /// The timeout or the session's id of a requester breaks a rule: the source is the [`InvalidArgument`].
    InvalidArgument,
    /// A JSON Schema cannot be compiled: the source has the reason.
    JsonSchema,
    /// The id of a key has not 1 to 64 visible US-ASCII characters.
    InvalidKeyId,
}

impl BuildError {
    #[cold]
    pub(crate) fn new(kind: BuildErrorKind, advice: impl Into<Box<str>>) -> Self {
        Self { kind, name: "".into(), advice: advice.into(), source: None }
    }

    pub(crate) fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    pub(crate) fn caused_by(mut self, source: impl error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Returns the rule that is broken.
    #[must_use]
    pub fn kind(&self) -> BuildErrorKind {
        self.kind
    }

    /// Returns the subject, the type, the enum, the codec or the schema that the error is about. It is empty if the error has none.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The sources, which are not compared, determine the advice.
impl PartialEq for BuildError {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, &self.name, &self.advice) == (other.kind, &other.name, &other.advice)
    }
}

impl Eq for BuildError {}

impl From<InvalidArgument> for BuildError {
    fn from(invalid: InvalidArgument) -> Self {
        let error = Self::new(BuildErrorKind::InvalidArgument, invalid.to_string());
        error.caused_by(invalid)
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.advice)
    }
}

impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BuildError({:?}: {})", self.kind, self.advice)
    }
}

impl error::Error for BuildError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
