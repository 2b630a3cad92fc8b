use std::fmt;

use serde::Serialize;

use super::{LayerInfo, Side};
use crate::{consumer::Settings, message_types::TypeTable, routing::RouterDescription};

/// A whole pipeline, as data, and by `Display` as text for people. The text is stable: one pipeline has one text.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PipelineDescription {
    /// The name of the stack.
    pub name: String,
    /// The address of the entity that it receives from or sends to, if given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// The direction of messages.
    pub side: Side,
    /// The settings of the consumer in front of it, if given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer: Option<Settings>,
    /// The layers, the outermost first.
    pub layers: Vec<LayerInfo>,
    /// The types that are sent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sends: Vec<TypeTable>,
    /// The router, if that is inside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router: Option<RouterDescription>,
}

impl PipelineDescription {
    /// Returns the address of the entity: its destination, or else its name.
    #[must_use]
    pub fn address(&self) -> &str {
        self.destination.as_deref().unwrap_or(&self.name)
    }
}

impl fmt::Display for PipelineDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.name, self.side)?;
        if let Some(destination) = &self.destination {
            write!(f, "\ndestination: {destination}")?;
        }
        if let Some(consumer) = &self.consumer {
            write!(f, "\nconsumer: {consumer}")?;
        }
        write!(f, "\nlayers, outer to inner")?;
        if self.layers.is_empty() {
            write!(f, ": none")?;
        }
        for (at, layer) in self.layers.iter().enumerate() {
            write!(f, "\n  {} {layer}", at + 1)?;
        }
        for table in &self.sends {
            write!(f, "\nsends {table}")?;
        }
        for table in self.layers.iter().filter_map(|layer| layer.codecs.as_ref()) {
            write!(f, "\n{table}")?;
        }
        match &self.router {
            Some(router) => write!(f, "\n{router}"),
            None => Ok(()),
        }
    }
}
