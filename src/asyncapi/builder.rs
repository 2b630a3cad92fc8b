use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use super::{
    AsyncApiDocument,
    channel::{ChannelMessage, messages},
    definitions::{Direction, Generators},
    keys::{channel_of, channel_of_replies, free_key, insert},
    reply,
    schemas::{Of, Schemas},
};
use crate::{
    BuildError, BuildErrorKind as Kind,
    pipeline::{PipelineDescription, Side},
};

/// Collects what is in an AsyncAPI document; see the [module](super).
#[derive(Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct AsyncApi {
    info: Map<String, Value>,
    servers: Vec<(String, Value)>,
    pipelines: Vec<PipelineDescription>,
    schemas: Schemas,
    replies: Schemas,
    generators: Generators,
}

impl AsyncApi {
    /// The name of the message that stands for all others, which the [fallback](crate::routing::RouterBuilder::fallback) of
    /// a router gets.
    pub const OTHER: &'static str = "other";

    /// Starts the document of a service with this title and version, which are for people.
    pub fn new(title: impl Into<String>, version: impl Into<String>) -> Self {
        let mut info = Map::new();
        info.insert("title".into(), title.into().into());
        info.insert("version".into(), version.into().into());
        Self {
            info,
            servers: Vec::new(),
            pipelines: Vec::new(),
            schemas: Schemas::new(Of::Messages),
            replies: Schemas::new(Of::Replies),
            generators: Generators::new(),
        }
    }

    /// Sets the description of the service: text, or Markdown.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.info.insert("description".into(), text.into().into());
        self
    }

    /// Adds a server. The `host` may have a port, and nothing else. The `protocol` is a name of AsyncAPI, such as `amqps` or
    /// `nats`.
    pub fn server(mut self, name: impl Into<String>, host: impl Into<String>, protocol: impl Into<String>) -> Self {
        let server = json!({ "host": host.into(), "protocol": protocol.into() });
        self.servers.push((name.into(), server));
        self
    }

    /// Adds a pipeline: its destination is a channel, and it is an operation.
    pub fn pipeline(mut self, pipeline: &PipelineDescription) -> Self {
        self.pipelines.push(pipeline.clone());
        self
    }

    /// Registers the schema of a type for the messages with this name: a subject, the name of a type, or
    /// [`OTHER`](Self::OTHER). It holds for all destinations: use [`schema_for`](Self::schema_for) where a name has another
    /// type at each of them. A message that is received has the schema of bodies that serde reads, and one that is sent that of
    /// bodies that it writes.
    pub fn schema<T: JsonSchema>(mut self, message: impl Into<String>) -> Self {
        let schema = self.generators.schema_of::<T>();
        self.schemas.register(None, message.into(), schema);
        self
    }

    /// Registers the schema of a type for the messages with this name of one destination: the
    /// [address](PipelineDescription::address) of a pipeline. There it takes precedence over that of [`schema`](Self::schema).
    pub fn schema_for<T: JsonSchema>(mut self, destination: impl Into<String>, message: impl Into<String>) -> Self {
        let schema = self.generators.schema_of::<T>();
        self.schemas.register(Some(destination.into()), message.into(), schema);
        self
    }

    /// Registers a schema of draft 7 for the messages with this name, for a type that does not implement `JsonSchema`. It
    /// may refer to the schemas of registered types by `#/components/schemas/NAME`: as they are read in a message that is received,
    /// and as they are written in one that is sent. The rest is embedded as it is, so a reference to a part of itself, such as
    /// `#/definitions/NAME`, has no target in the document.
    pub fn schema_value(mut self, message: impl Into<String>, schema: Schema) -> Self {
        self.schemas.register(None, message.into(), schema.into());
        self
    }

    /// As [`schema_value`](Self::schema_value), for one destination, as [`schema_for`](Self::schema_for).
    pub fn schema_value_for(
        mut self,
        destination: impl Into<String>,
        message: impl Into<String>,
        schema: Schema,
    ) -> Self {
        self.schemas.register(Some(destination.into()), message.into(), schema.into());
        self
    }

    /// Registers the schema of a type for the replies of a [`Responder`](crate::rpc::Responder) to the messages with this name:
    /// the subject that [`answer`](crate::rpc::HandlersBuilder::answer) has, or [`OTHER`](Self::OTHER) for its
    /// [fallback](crate::rpc::HandlersBuilder::fallback). A handler that returns `Reply<T>`, or `Result<T, E>`, replies by `T`.
    ///
    /// The schema is that of a `T` that serde writes.
    pub fn reply<T: JsonSchema>(mut self, message: impl Into<String>) -> Self {
        let schema = self.generators.schema_of::<T>();
        self.replies.register(None, message.into(), schema);
        self
    }

    /// As [`reply`](Self::reply), for the messages of one destination, as [`schema_for`](Self::schema_for).
    pub fn reply_for<T: JsonSchema>(mut self, destination: impl Into<String>, message: impl Into<String>) -> Self {
        let schema = self.generators.schema_of::<T>();
        self.replies.register(Some(destination.into()), message.into(), schema);
        self
    }

    /// As [`reply`](Self::reply), by a schema, as [`schema_value`](Self::schema_value).
    pub fn reply_value(mut self, message: impl Into<String>, schema: Schema) -> Self {
        self.replies.register(None, message.into(), schema.into());
        self
    }

    /// As [`reply_value`](Self::reply_value), for one destination, as [`schema_for`](Self::schema_for).
    pub fn reply_value_for(
        mut self,
        destination: impl Into<String>,
        message: impl Into<String>,
        schema: Schema,
    ) -> Self {
        self.replies.register(Some(destination.into()), message.into(), schema.into());
        self
    }

    /// Builds the document.
    ///
    /// # Errors
    ///
    /// The first rule that is broken: see [`BuildErrorKind`](crate::BuildErrorKind).
    pub fn build(self) -> Result<AsyncApiDocument, BuildError> {
        let mut document = json!({ "asyncapi": "3.0.0", "info": self.info });
        let servers = self.build_servers()?;
        if !servers.is_empty() {
            document["servers"] = servers.into();
        }
        let (mut channels, mut operations) = (Map::new(), Map::new());
        let (mut schemas, mut replies) = (self.schemas.matching()?, self.replies.matching()?);
        let mut definitions = self.generators.finish();
        for pipeline in &self.pipelines {
            let address = pipeline.address();
            let (action, direction) = match pipeline.side {
                Side::Receiving => ("receive", Direction::Read),
                Side::Sending => ("send", Direction::Written),
            };
            let channel = channel_of(&mut channels, address);
            let operation = format!("{action}.{channel}");
            if operations.contains_key(&operation) {
                let advice = format!("two pipelines {action} at `{address}`: describe one, or set their destinations");
                return Err(BuildError::new(Kind::DuplicateOperation, advice));
            }
            let mut value = json!({ "action": action, "channel": reference(&channel), "title": pipeline.name });
            let mut references = Vec::new();
            for message in messages(pipeline) {
                let schema = schemas.find(address, &message.name, message.is_fallback);
                let message = with_payload(message, schema.map(|schema| definitions.embed(schema, direction)));
                references.push(insert(&mut channels, &channel, message));
            }
            if !references.is_empty() {
                value["messages"] = references.into();
            }
            if let Some(router) = &pipeline.router
                && let Some(described) = &router.replies
            {
                let channel = channel_of_replies(&mut channels, address);
                let mut references = Vec::new();
                for message in reply::replies(router, described) {
                    let schema = replies.find(address, &message.name, message.is_fallback);
                    let message =
                        with_payload(message, schema.map(|schema| definitions.embed(schema, Direction::Written)));
                    references.push(insert(&mut channels, &channel, message));
                }
                references.push(insert(&mut channels, &channel, reply::fault(described)));
                let (to, channel) = (reply::address(), reference(&channel));
                value["reply"] = json!({ "address": to, "channel": channel, "messages": references });
            }
            operations.insert(operation, value);
        }
        schemas.finish()?;
        replies.finish()?;
        document["channels"] = channels.into();
        document["operations"] = operations.into();
        let components = definitions.into_components();
        if !components.is_empty() {
            document["components"] = json!({ "schemas": components });
        }
        Ok(AsyncApiDocument(document))
    }

    fn build_servers(&self) -> Result<Map<String, Value>, BuildError> {
        let mut servers = Map::new();
        for (index, (name, server)) in self.servers.iter().enumerate() {
            let host = server["host"].as_str().unwrap_or_default();
            if host.is_empty() || host.contains(['/', '@', '?', '#', ' ']) {
                // The host may have a password, so it is not shown.
                let advice = format!("the host of the server `{name}` has to be a name or an address, and a port");
                return Err(BuildError::new(Kind::Host, advice));
            }
            if self.servers[..index].iter().any(|(other, _)| other == name) {
                return Err(BuildError::new(Kind::DuplicateServer, format!("two servers are called `{name}`")));
            }
            let id = free_key(name, |id| !servers.contains_key(id));
            servers.insert(id, server.clone());
        }
        Ok(servers)
    }
}

fn reference(channel: &str) -> Value {
    json!({ "$ref": format!("#/channels/{channel}") })
}

fn with_payload(message: ChannelMessage, payload: Option<Value>) -> Map<String, Value> {
    let mut value = message.value;
    if let Some(payload) = payload {
        value.insert("payload".into(), payload);
    }
    value
}
