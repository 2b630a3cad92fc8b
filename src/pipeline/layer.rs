use std::fmt;

use consign_codecs::DecisionTable;
use serde::Serialize;

/// A layer that describes its name, and its allowed position in a stack.
///
/// ```
/// use consign::pipeline::{Describe, LayerInfo};
///
/// struct SealLayer {
///     key: &'static str,
/// }
///
/// impl Describe for SealLayer {
///     fn info(&self) -> LayerInfo {
///         let why = "sealed bytes cannot be made smaller";
///         LayerInfo::new("seal").setting("key", self.key).inside_of("compress", why).once()
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no description: add it by `.other(\"name\", layer)`, or implement `Describe` for it",
    note = "implement `Describe` for it, or give it a name: `.other(\"timeout\", layer)`"
)]
pub trait Describe {
    /// Returns the description of the layer.
    fn info(&self) -> LayerInfo;
}

impl<L: Describe + ?Sized> Describe for &L {
    fn info(&self) -> LayerInfo {
        (**self).info()
    }
}

/// The direction of messages through a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// A receiving stack, from the broker to a handler.
    Receiving,
    /// A sending stack, from the application to the broker.
    Sending,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Receiving => "receiving",
            Self::Sending => "sending",
        })
    }
}

/// The description of a layer.
#[derive(Clone, Debug, Serialize)]
pub struct LayerInfo {
    pub(super) name: &'static str,
    pub(super) settings: Vec<Setting>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) codecs: Option<DecisionTable>,
    #[serde(skip)]
    pub(super) side: Option<Side>,
    #[serde(skip)]
    pub(super) is_single: bool,
    #[serde(skip)]
    pub(super) order: Vec<Order>,
    #[serde(skip)]
    pub(super) problem: Option<String>,
    /// The application properties that the layer authenticates in addition, if it authenticates any.
    #[cfg(any(feature = "encryption", feature = "signing"))]
    #[serde(skip)]
    pub(super) bound: Option<Vec<Box<str>>>,
}

/// One setting of a layer, as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// The value of the setting.
    pub value: String,
}

/// Where a layer stands to another one, if that is there.
#[derive(Clone, Debug)]
pub(super) struct Order {
    pub(super) other: &'static str,
    pub(super) is_inside: bool,
    pub(super) why: &'static str,
}

impl LayerInfo {
    /// Describes a layer of this name, for both sides, at any position, any number of times.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            settings: Vec::new(),
            codecs: None,
            side: None,
            is_single: false,
            order: Vec::new(),
            problem: None,
            #[cfg(any(feature = "encryption", feature = "signing"))]
            bound: None,
        }
    }

    /// Restricts the layer to stacks of this side.
    #[must_use]
    pub fn only(mut self, side: Side) -> Self {
        self.side = Some(side);
        self
    }

    /// At most once in a stack.
    #[must_use]
    pub fn once(mut self) -> Self {
        self.is_single = true;
        self
    }

    /// Shown as `name value`. It must not be a secret.
    #[must_use]
    pub fn setting(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.settings.push(Setting { name, value: value.to_string() });
        self
    }

    /// Sets the codecs that it works with.
    #[must_use]
    pub fn codecs(mut self, table: DecisionTable) -> Self {
        self.codecs = Some(table);
        self
    }

    /// Declares that the layer has to be inside of every layer `other`, if there is one; `why` ends the sentence "or else".
    #[must_use]
    pub fn inside_of(mut self, other: &'static str, why: &'static str) -> Self {
        self.order.push(Order { other, is_inside: true, why });
        self
    }

    /// Declares that the layer has to be outside of every layer `other`, if there is one; `why` ends the sentence "or
    /// else".
    #[must_use]
    pub fn outside_of(mut self, other: &'static str, why: &'static str) -> Self {
        self.order.push(Order { other, is_inside: false, why });
        self
    }

    /// Reports a wrong setting, in one sentence that states what to change: the pipeline is not
    /// built.
    #[must_use]
    pub fn problem(mut self, advice: impl Into<String>) -> Self {
        self.problem = Some(advice.into());
        self
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the codecs that it works with, if it has any.
    #[must_use]
    pub fn decision_table(&self) -> Option<&DecisionTable> {
        self.codecs.as_ref()
    }

    /// Returns the settings, in order.
    #[must_use]
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }
}

/// One line.
impl fmt::Display for LayerInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        for (at, Setting { name, value }) in self.settings.iter().enumerate() {
            write!(f, "{}{name} {value}", if at == 0 { ": " } else { ", " })?;
        }
        Ok(())
    }
}
