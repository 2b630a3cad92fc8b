//! From JSON to the types of a schema.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use bytes::BytesMut;
use serde_json::{Map, Value};

use super::{
    AvroSchema, AvroSchemaError, AvroSchemaErrorKind as Kind, Enumeration, Field, Fixed, Id, Node, Parsed, Record,
    Unit, canonical,
};
use crate::formats::avro::write;

impl AvroSchema {
    /// Parses a schema from its JSON, such as the contents of an `.avsc` file.
    ///
    /// # Errors
    ///
    /// [`AvroSchemaError`] with the path of the attribute that breaks a rule of Avro.
    pub fn parse(json: &str) -> Result<Self, AvroSchemaError> {
        let value: Value = serde_json::from_str(json).map_err(|_| AvroSchemaError::new(Kind::Syntax, ""))?;
        let mut parser = Parser { nodes: Vec::new(), names: HashMap::new(), other_times: Vec::new() };
        let root = parser.node(&value, "", &Path::Root)?;
        let Parser { nodes, other_times, .. } = parser;
        let canonical = canonical::form(&nodes, root);
        let fingerprint = canonical::fingerprint(canonical.as_bytes());
        let schema = Self(Arc::new(Parsed { nodes, other_times, root, canonical, fingerprint }));
        check_defaults(&schema)?;
        Ok(schema)
    }
}

/// Writes each default once, which the writer may do for each value.
fn check_defaults(schema: &AvroSchema) -> Result<(), AvroSchemaError> {
    for node in schema.nodes() {
        let Node::Record(record) = node else { continue };
        for field in &record.fields {
            let Some(default) = &field.default else { continue };
            if write::default(schema, field.id, default, &mut BytesMut::new()).is_err() {
                return Err(AvroSchemaError::new(Kind::Default, format!("{}.{}", record.name, field.name)));
            }
        }
    }
    Ok(())
}

/// Where the parser is, outermost last.
enum Path<'p> {
    Root,
    Key(&'p Path<'p>, &'static str),
    Index(&'p Path<'p>, usize),
}

impl Path<'_> {
    fn text(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Key(outer, key) => format!("{}/{key}", outer.text()),
            Self::Index(outer, index) => format!("{}/{index}", outer.text()),
        }
    }

    #[cold]
    fn error(&self, kind: Kind) -> AvroSchemaError {
        AvroSchemaError::new(kind, self.text())
    }
}

struct Parser {
    nodes: Vec<Node>,
    names: HashMap<String, Id>,
    other_times: Vec<Id>,
}

impl Parser {
    fn push(&mut self, node: Node) -> Id {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// Parses a type inside of the namespace of the type around it.
    fn node(&mut self, schema: &Value, namespace: &str, path: &Path<'_>) -> Result<Id, AvroSchemaError> {
        match schema {
            Value::String(name) => self.named(name, namespace, path),
            Value::Array(branches) => self.union(branches, namespace, path),
            Value::Object(object) => self.object(object, namespace, path),
            _ => Err(path.error(Kind::Type)),
        }
    }

    fn named(&mut self, name: &str, namespace: &str, path: &Path<'_>) -> Result<Id, AvroSchemaError> {
        if let Some(node) = primitive(name) {
            return Ok(self.push(node));
        }
        let full = full_name(name, namespace);
        self.names.get(&full).copied().ok_or_else(|| path.error(Kind::UnknownName))
    }

    fn union(&mut self, branches: &[Value], namespace: &str, path: &Path<'_>) -> Result<Id, AvroSchemaError> {
        let (mut ids, mut kinds) = (Vec::with_capacity(branches.len()), HashSet::new());
        for (index, branch) in branches.iter().enumerate() {
            let path = Path::Index(path, index);
            let id = self.node(branch, namespace, &path)?;
            let node = &self.nodes[id];
            // A type that contains this union is not parsed yet, and has a name.
            let name = self.names.iter().find(|&(_, &named)| named == id).map(|(name, _)| name.as_str());
            let kind = name.unwrap_or_else(|| node.kind()).to_owned();
            if (name.is_none() && matches!(node, Node::Union(_))) || !kinds.insert(kind) {
                return Err(path.error(Kind::Union));
            }
            ids.push(id);
        }
        if ids.is_empty() { Err(path.error(Kind::Union)) } else { Ok(self.push(Node::Union(ids))) }
    }

    fn object(&mut self, object: &Map<String, Value>, namespace: &str, path: &Path<'_>) -> Result<Id, AvroSchemaError> {
        let kind = match object.get("type") {
            Some(Value::String(kind)) => kind.as_str(),
            // `{"type": {"type": "array", ..}}`, which some tools write.
            Some(inner @ (Value::Object(_) | Value::Array(_))) => {
                return self.node(inner, namespace, &Path::Key(path, "type"));
            }
            _ => return Err(path.error(Kind::Attribute)),
        };
        match kind {
            "array" => {
                let items = self.inner(object, "items", namespace, path)?;
                Ok(self.push(Node::Array(items)))
            }
            "map" => {
                let values = self.inner(object, "values", namespace, path)?;
                Ok(self.push(Node::Map(values)))
            }
            "record" | "error" => self.record(object, namespace, path),
            "enum" => {
                let (name, id) = self.declare(object, namespace, path)?;
                let symbols = symbols(object, &Path::Key(path, "symbols"))?;
                self.nodes[id] = Node::Enum(Enumeration { name, symbols });
                Ok(id)
            }
            "fixed" => {
                let (name, id) = self.declare(object, namespace, path)?;
                let size = object.get("size").and_then(Value::as_u64).and_then(|size| usize::try_from(size).ok());
                let size = size.ok_or_else(|| Path::Key(path, "size").error(Kind::Attribute))?;
                self.nodes[id] = Node::Fixed(Fixed { name, size });
                Ok(id)
            }
            "int" | "long" => {
                let logical = object.get("logicalType").and_then(Value::as_str).unwrap_or("");
                let node = if kind == "int" { Node::Int } else { Node::Long(unit(logical)) };
                let id = self.push(node);
                if is_other_time(logical) {
                    self.other_times.push(id);
                }
                Ok(id)
            }
            name => self.named(name, namespace, &Path::Key(path, "type")),
        }
    }

    fn inner(
        &mut self,
        object: &Map<String, Value>,
        key: &'static str,
        namespace: &str,
        path: &Path<'_>,
    ) -> Result<Id, AvroSchemaError> {
        let path = Path::Key(path, key);
        let schema = object.get(key).ok_or_else(|| path.error(Kind::Attribute))?;
        self.node(schema, namespace, &path)
    }

    /// Gives a type its name and its place before its contents are parsed, which may refer to it.
    fn declare(
        &mut self,
        object: &Map<String, Value>,
        namespace: &str,
        path: &Path<'_>,
    ) -> Result<(String, Id), AvroSchemaError> {
        let path = Path::Key(path, "name");
        let name = object.get("name").and_then(Value::as_str).ok_or_else(|| path.error(Kind::Attribute))?;
        let namespace = match object.get("namespace") {
            Some(Value::String(own)) => own,
            _ => namespace,
        };
        let full = full_name(name, namespace);
        if !full.split('.').all(is_name) || primitive(&full).is_some() {
            return Err(path.error(Kind::Name));
        }
        let id = self.push(Node::Null);
        if self.names.insert(full.clone(), id).is_some() {
            return Err(path.error(Kind::DuplicateName));
        }
        Ok((full, id))
    }

    fn record(&mut self, object: &Map<String, Value>, namespace: &str, path: &Path<'_>) -> Result<Id, AvroSchemaError> {
        let (name, id) = self.declare(object, namespace, path)?;
        let namespace = name.rsplit_once('.').map_or("", |(namespace, _)| namespace).to_owned();
        let path = Path::Key(path, "fields");
        let declared = object.get("fields").and_then(Value::as_array).ok_or_else(|| path.error(Kind::Attribute))?;
        let mut fields: Vec<Field> = Vec::with_capacity(declared.len());
        for (index, field) in declared.iter().enumerate() {
            let path = Path::Index(&path, index);
            let field = field.as_object().ok_or_else(|| path.error(Kind::Attribute))?;
            let field_name = field.get("name").and_then(Value::as_str).filter(|name| is_name(name));
            let field_name = field_name.ok_or_else(|| Path::Key(&path, "name").error(Kind::Name))?;
            if fields.iter().any(|other| other.name == field_name) {
                return Err(Path::Key(&path, "name").error(Kind::DuplicateName));
            }
            let id = self.inner(field, "type", &namespace, &path)?;
            fields.push(Field { name: field_name.to_owned(), id, default: field.get("default").cloned() });
        }
        self.nodes[id] = Node::Record(Record { name, fields });
        Ok(id)
    }
}

fn symbols(object: &Map<String, Value>, path: &Path<'_>) -> Result<Vec<String>, AvroSchemaError> {
    let declared = object.get("symbols").and_then(Value::as_array).ok_or_else(|| path.error(Kind::Attribute))?;
    let mut symbols: Vec<String> = Vec::with_capacity(declared.len());
    for (index, symbol) in declared.iter().enumerate() {
        let symbol = symbol.as_str().filter(|symbol| is_name(symbol));
        let symbol = symbol.ok_or_else(|| Path::Index(path, index).error(Kind::Name))?;
        if symbols.iter().any(|other| other == symbol) {
            return Err(Path::Index(path, index).error(Kind::DuplicateName));
        }
        symbols.push(symbol.to_owned());
    }
    Ok(symbols)
}

fn primitive(name: &str) -> Option<Node> {
    Some(match name {
        "null" => Node::Null,
        "boolean" => Node::Boolean,
        "int" => Node::Int,
        "long" => Node::Long(None),
        "float" => Node::Float,
        "double" => Node::Double,
        "bytes" => Node::Bytes,
        "string" => Node::String,
        _ => return None,
    })
}

/// Other logical types are read and written as the type below them.
fn unit(logical: &str) -> Option<Unit> {
    match logical {
        "timestamp-millis" => Some(Unit::Millis),
        "timestamp-micros" => Some(Unit::Micros),
        "timestamp-nanos" => Some(Unit::Nanos),
        _ => None,
    }
}

/// Whether a logical type is a day, a time of day, or a time without a zone: none of them is an instant.
fn is_other_time(logical: &str) -> bool {
    logical == "date" || logical.starts_with("time-") || logical.starts_with("local-timestamp-")
}

fn full_name(name: &str, namespace: &str) -> String {
    if name.contains('.') || namespace.is_empty() { name.to_owned() } else { format!("{namespace}.{name}") }
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
