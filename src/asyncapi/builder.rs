use std::{collections::HashMap, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::{AsyncApiDocument, channel::messages};
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
    schemas: Vec<Registered>,
    generator: SchemaGenerator,
}

/// A schema, and the messages that have it.
#[derive(Debug)]
struct Registered {
    /// The destination of the messages; any if there is none.
    destination: Option<String>,
    message: String,
    schema: Schema,
}

impl Registered {
    fn key(&self) -> (Option<&str>, &str) {
        (self.destination.as_deref(), &self.message)
    }
}

/// For people.
impl fmt::Display for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.message)?;
        match &self.destination {
            Some(destination) => write!(f, " of `{destination}`"),
            None => Ok(()),
        }
    }
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
        let settings = SchemaSettings::draft07().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        Self {
            info,
            servers: Vec::new(),
            pipelines: Vec::new(),
            schemas: Vec::new(),
            generator: settings.into_generator(),
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
    /// type at each of them.
    pub fn schema<T: JsonSchema>(mut self, message: impl Into<String>) -> Self {
        let schema = self.generator.subschema_for::<T>();
        self.register(None, message.into(), schema)
    }

    /// Registers the schema of a type for the messages with this name of one destination: the
    /// [address](PipelineDescription::address) of a pipeline. There it takes precedence over that of [`schema`](Self::schema).
    pub fn schema_for<T: JsonSchema>(mut self, destination: impl Into<String>, message: impl Into<String>) -> Self {
        let schema = self.generator.subschema_for::<T>();
        self.register(Some(destination.into()), message.into(), schema)
    }

    /// Registers a schema of draft 7 for the messages with this name, for a type that does not implement `JsonSchema`. It
    /// may refer to the schemas of the document by `#/components/schemas/NAME`. It is embedded as it is, so a reference to a part of
    /// itself, such as `#/definitions/NAME`, has no target in the document.
    pub fn schema_value(self, message: impl Into<String>, schema: Schema) -> Self {
        self.register(None, message.into(), schema)
    }

    /// As [`schema_value`](Self::schema_value), for one destination, as [`schema_for`](Self::schema_for).
    pub fn schema_value_for(self, destination: impl Into<String>, message: impl Into<String>, schema: Schema) -> Self {
        self.register(Some(destination.into()), message.into(), schema)
    }

    fn register(mut self, destination: Option<String>, message: String, schema: Schema) -> Self {
        self.schemas.push(Registered { destination, message, schema });
        self
    }

    /// Builds the document.
    ///
    /// # Errors
    ///
    /// The first rule that is broken: see [`BuildErrorKind`](crate::BuildErrorKind).
    pub fn build(mut self) -> Result<AsyncApiDocument, BuildError> {
        let mut document = json!({ "asyncapi": "3.0.0", "info": self.info });
        let servers = self.build_servers()?;
        if !servers.is_empty() {
            document["servers"] = servers.into();
        }
        let (mut channels, mut operations) = (Map::new(), Map::new());
        let mut schemas = HashMap::new();
        for (place, schema) in self.schemas.iter().enumerate() {
            if schemas.insert(schema.key(), place).is_some() {
                return Err(BuildError::new(Kind::DuplicateSchema, format!("{schema} has two schemas: register one")));
            }
        }
        let mut is_used = vec![false; self.schemas.len()];
        // Whether there is a message of this name, and one that stands for all others: at a destination, and anywhere.
        let mut others: HashMap<Option<&str>, (bool, bool)> = HashMap::new();
        for pipeline in &self.pipelines {
            let (address, action) = (
                pipeline.address(),
                match pipeline.side {
                    Side::Receiving => "receive",
                    Side::Sending => "send",
                },
            );
            let channel = channel_of(&mut channels, address);
            let operation = format!("{action}.{channel}");
            if operations.contains_key(&operation) {
                let advice = format!("two pipelines {action} at `{address}`: describe one, or set their destinations");
                return Err(BuildError::new(Kind::DuplicateOperation, advice));
            }
            let entry = &mut channels[&channel];
            let mut references = Vec::new();
            for mut message in messages(pipeline) {
                // That of the destination takes precedence.
                for of in [None, Some(address)] {
                    // What the name alone stands for is only told from messages that would get that schema.
                    let is_own = of.is_none() && schemas.contains_key(&(Some(address), message.name.as_str()));
                    if message.name == Self::OTHER && !is_own {
                        let (named, fallback) = others.entry(of).or_default();
                        *(if message.is_fallback { fallback } else { named }) = true;
                    }
                    if let Some(&place) = schemas.get(&(of, message.name.as_str())) {
                        is_used[place] = true;
                        message.value.insert("payload".into(), self.schemas[place].schema.as_value().clone());
                    }
                }
                let id = insert(&mut entry["messages"], &message.name, message.value.into());
                references.push(json!({ "$ref": format!("#/channels/{channel}/messages/{id}") }));
            }
            let mut value = json!({
                "action": action,
                "channel": { "$ref": format!("#/channels/{channel}") },
                "title": pipeline.name,
            });
            if !references.is_empty() {
                value["messages"] = references.into();
            }
            operations.insert(operation, value);
        }
        if others.iter().any(|(of, both)| *both == (true, true) && schemas.contains_key(&(*of, Self::OTHER))) {
            let advice = format!(
                "`{}` is a subject and the name of all other messages: leave the schema out, or rename the subject",
                Self::OTHER
            );
            return Err(BuildError::new(Kind::DuplicateSchema, advice));
        }
        let unused = self.schemas.iter().zip(&is_used).filter(|(_, is_used)| !**is_used).map(|(schema, _)| schema);
        if let Some(schema) = unused.min_by_key(|schema| (&schema.message, &schema.destination)) {
            let advice = format!(
                "a schema is registered for {schema}, and no pipeline has that message: name one of its messages"
            );
            return Err(BuildError::new(Kind::UnknownMessage, advice));
        }
        document["channels"] = channels.into();
        document["operations"] = operations.into();
        let definitions = self.generator.take_definitions(true);
        if !definitions.is_empty() {
            document["components"] = json!({ "schemas": definitions });
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

/// The key of the channel with this address, which is added if it is new.
fn channel_of(channels: &mut Map<String, Value>, address: &str) -> String {
    let id = free_key(address, |id| channels.get(id).is_none_or(|other| other["address"] == address));
    channels.entry(&*id).or_insert_with(|| json!({ "address": address, "messages": {} }));
    id
}

/// Inserts a message under a key made of its name. Returns the key. An equal message of another pipeline of the
/// channel has the same key.
fn insert(messages: &mut Value, name: &str, value: Value) -> String {
    let id = free_key(name, |id| messages.get(id).is_none_or(|other| *other == value));
    messages[&id] = value;
    id
}

/// The first key of this name that is free: names that differ may have one key.
fn free_key(name: &str, is_free: impl Fn(&str) -> bool) -> String {
    let first = key(name);
    let mut id = first.clone();
    let mut count = 1;
    while !is_free(&id) {
        count += 1;
        id = format!("{first}.{count}");
    }
    id
}

/// AsyncAPI has keys of these characters.
fn key(name: &str) -> String {
    let key = name.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' });
    key.collect()
}
