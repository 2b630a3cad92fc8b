//! The schemas of types, and those of them that a document has in its components.

use std::collections::{BTreeSet, HashMap};

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value};

use super::keys::{free_key, key};

const PLACE: &str = "#/components/schemas/";

/// Whether a body is read or written. serde may have other members for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Direction {
    Read,
    Written,
}

/// The schema of a body in both directions.
#[derive(Debug)]
pub(super) struct BothSchemas {
    read: Schema,
    written: Schema,
}

#[derive(Debug)]
pub(super) struct Generators {
    read: SchemaGenerator,
    written: SchemaGenerator,
}

/// The schemas that others refer to, by the names of their types. The document has those that its messages need.
#[derive(Debug)]
pub(super) struct Definitions {
    read: Map<String, Value>,
    written: Map<String, Value>,
    /// The names with one schema in both directions.
    equal: BTreeSet<String>,
    keys: HashMap<(Direction, String), String>,
    components: Map<String, Value>,
}

impl BothSchemas {
    pub(super) fn of(&self, direction: Direction) -> &Value {
        match direction {
            Direction::Read => self.read.as_value(),
            Direction::Written => self.written.as_value(),
        }
    }
}

impl From<Schema> for BothSchemas {
    fn from(schema: Schema) -> Self {
        Self { read: schema.clone(), written: schema }
    }
}

impl Generators {
    pub(super) fn new() -> Self {
        let settings = SchemaSettings::draft07().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        let written = settings.clone().for_serialize();
        Self { read: settings.into_generator(), written: written.into_generator() }
    }

    pub(super) fn schema_of<T: JsonSchema>(&mut self) -> BothSchemas {
        BothSchemas { read: generate::<T>(&mut self.read), written: generate::<T>(&mut self.written) }
    }

    pub(super) fn finish(mut self) -> Definitions {
        let (read, written) = (self.read.take_definitions(true), self.written.take_definitions(true));
        let equal = equal(&read, &written);
        Definitions { read, written, equal, keys: HashMap::new(), components: Map::new() }
    }
}

impl Definitions {
    /// Returns the schema as it is in the document, and adds those that it refers to.
    pub(super) fn embed(&mut self, schema: &BothSchemas, direction: Direction) -> Value {
        let mut schema = schema.of(direction).clone();
        self.refer(&mut schema, direction);
        schema
    }

    /// Returns what has been added.
    pub(super) fn into_components(self) -> Map<String, Value> {
        self.components
    }

    fn refer(&mut self, schema: &mut Value, direction: Direction) {
        match schema {
            Value::Object(members) => {
                if let Some(Value::String(target)) = members.get_mut("$ref")
                    && let Some(name) = target.strip_prefix(PLACE).and_then(decode)
                    && let Some(key) = self.key_of(&name, direction)
                {
                    *target = format!("{PLACE}{key}");
                }
                members.values_mut().for_each(|member| self.refer(member, direction));
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.refer(item, direction)),
            _ => {}
        }
    }

    /// The key of the schema of this name, which is added if it is new. A schema of the user may name the key.
    fn key_of(&mut self, name: &str, direction: Direction) -> Option<String> {
        let schemas = if direction == Direction::Read { &self.read } else { &self.written };
        let (name, schema) = schemas.get_key_value(name).or_else(|| schemas.iter().find(|(of, _)| key(of) == name))?;
        let direction = if self.equal.contains(name) { Direction::Read } else { direction };
        let place = (direction, name.clone());
        if let Some(key) = self.keys.get(&place) {
            return Some(key.clone());
        }
        let mut schema = schema.clone();
        let key = free_key(name, |key| !self.components.contains_key(key));
        // Before its references: it may refer to itself.
        self.keys.insert(place, key.clone());
        self.components.insert(key.clone(), Value::Null);
        self.refer(&mut schema, direction);
        self.components.insert(key.clone(), schema);
        Some(key)
    }
}

/// Only the definitions of a generator, and its root schemas, are those of its draft.
fn generate<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = generator.subschema_for::<T>();
    for transform in generator.transforms_mut() {
        transform.transform(&mut schema);
    }
    schema
}

/// The names with one schema in both maps, which refers to such names only.
fn equal(read: &Map<String, Value>, written: &Map<String, Value>) -> BTreeSet<String> {
    let same = read.iter().filter(|(name, schema)| written.get(*name) == Some(schema));
    let mut equal: BTreeSet<_> = same.map(|(name, _)| name.clone()).collect();
    loop {
        let differs = |name: &&String| read.get(*name).is_some_and(|schema| !refers_only_to(schema, &equal));
        let differing: Vec<_> = equal.iter().filter(differs).cloned().collect();
        if differing.is_empty() {
            return equal;
        }
        for name in &differing {
            equal.remove(name);
        }
    }
}

fn refers_only_to(schema: &Value, names: &BTreeSet<String>) -> bool {
    match schema {
        Value::Object(members) => members.iter().all(|(member, value)| match value {
            Value::String(target) if member == "$ref" => {
                target.strip_prefix(PLACE).and_then(decode).is_none_or(|name| names.contains(&name))
            }
            _ => refers_only_to(value, names),
        }),
        Value::Array(items) => items.iter().all(|item| refers_only_to(item, names)),
        _ => true,
    }
}

/// The name in a reference: a token of a JSON Pointer in a fragment of a URI.
fn decode(token: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(token.len());
    let mut rest = token.bytes();
    while let Some(byte) = rest.next() {
        let hex = |digit: Option<u8>| u8::try_from(char::from(digit?).to_digit(16)?).ok();
        bytes.push(if byte == b'%' { hex(rest.next())? << 4 | hex(rest.next())? } else { byte });
    }
    let name = String::from_utf8(bytes).ok()?;
    Some(name.replace("~1", "/").replace("~0", "~"))
}
