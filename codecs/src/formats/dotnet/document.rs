//! The elements of a body, in the order of their start, with the text in them. Both encodings are read into it, so that a body is
//! checked as a whole before a type sees it.

use std::borrow::Cow;

use super::value::Value;
use crate::{DecodeError, DecodeErrorKind, Limits, Position, limits::text_position};

/// The namespace of bodies that are one value, and of the attributes of references.
pub(super) const SERIALIZATION: &str = "http://schemas.microsoft.com/2003/10/Serialization/";
/// The namespace of lists and dictionaries of such values.
pub(super) const ARRAYS: &str = "http://schemas.microsoft.com/2003/10/Serialization/Arrays";
/// The beginning of the namespaces that .NET makes of those of types.
pub(super) const CONTRACTS: &str = "http://schemas.datacontract.org/2004/07/";
/// The namespace of `nil` and `type`.
pub(super) const INSTANCE: &str = "http://www.w3.org/2001/XMLSchema-instance";

/// What an element's namespace means to a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Namespace {
    Serialization,
    Arrays,
    Contracts,
    Other,
}

impl Namespace {
    fn of(name: &str) -> Self {
        match name {
            SERIALIZATION => Self::Serialization,
            ARRAYS => Self::Arrays,
            _ if name.starts_with(CONTRACTS) => Self::Contracts,
            _ => Self::Other,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Element<'a> {
    pub(super) name: &'a str,
    pub(super) namespace: Namespace,
    pub(super) is_nil: bool,
    /// It stands for another element of the body.
    pub(super) is_reference: bool,
}

#[derive(Debug)]
pub(super) enum Kind<'a> {
    Element(Element<'a>),
    Value(Value<'a>),
}

#[derive(Debug)]
struct Node<'a> {
    /// Where it starts in the body.
    offset: usize,
    /// The number of the first node that is not inside.
    end: usize,
    kind: Kind<'a>,
}

/// A body: at least the outermost element, which is the first node.
#[derive(Debug)]
pub(super) struct Document<'a> {
    nodes: Vec<Node<'a>>,
    root_namespace: Cow<'a, str>,
    /// The body, if it is text: its positions are lines and columns.
    text: Option<&'a str>,
}

impl<'a> Document<'a> {
    /// Refuses an outermost element that no data contract has.
    pub(super) fn check_root(&self, roots: &[(&str, &str)]) -> Result<(), DecodeError> {
        let Some(root) = self.root() else { return Ok(()) };
        let is_listed = |(name, namespace): &(&str, &str)| *name == root.name && *namespace == self.root_namespace;
        if root.namespace != Namespace::Other || roots.iter().any(is_listed) {
            return Ok(());
        }
        let error = DecodeError::new(DecodeErrorKind::Type).with_detail("not the element of a data contract");
        let error = error.with_expected("an element in a namespace of .NET's serialization, or a listed one");
        Err(error.at(self.position(0)))
    }

    /// Returns the outermost element.
    pub(super) fn root(&self) -> Option<&Element<'a>> {
        self.element(0)
    }

    /// Returns the element of this number.
    pub(super) fn element(&self, node: usize) -> Option<&Element<'a>> {
        match self.nodes.get(node) {
            Some(Node { kind: Kind::Element(element), .. }) => Some(element),
            _ => None,
        }
    }

    /// Returns where a node starts.
    pub(super) fn position(&self, node: usize) -> Position {
        let offset = self.nodes.get(node).map_or(0, |node| node.offset);
        self.text.map_or(Position::Offset(offset), |text| text_position(text.as_bytes(), offset))
    }

    /// Returns the nodes directly inside of a node, with their numbers.
    pub(super) fn inside(&self, node: usize) -> Inside<'_, 'a> {
        Inside { document: self, next: node + 1, end: self.nodes.get(node).map_or(0, |node| node.end) }
    }
}

/// The nodes directly inside of a node.
#[derive(Clone, Debug)]
pub(super) struct Inside<'d, 'a> {
    document: &'d Document<'a>,
    next: usize,
    end: usize,
}

impl<'d, 'a> Iterator for Inside<'d, 'a> {
    /// The number of the node, and what it is.
    type Item = (usize, &'d Kind<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.next;
        let node = self.document.nodes.get(at).filter(|_| at < self.end)?;
        self.next = node.end;
        Some((at, &node.kind))
    }
}

/// An attribute with the prefix of its name.
pub(super) struct Attribute<'a> {
    pub(super) prefix: &'a str,
    pub(super) name: &'a str,
    /// Whether its value is true. No reader needs another value.
    pub(super) is_true: bool,
}

/// The declaration of a prefix; the empty one is that of names without a prefix.
struct Declaration<'a> {
    prefix: &'a str,
    namespace: Cow<'a, str>,
    /// The number of the element that declares it.
    element: usize,
}

/// A start tag whose attributes are being read.
struct Tag<'a> {
    prefix: &'a str,
    name: &'a str,
    /// The name with its prefix, if end tags have it.
    full: &'a str,
    offset: usize,
}

/// Builds a [`Document`] within limits.
pub(super) struct Builder<'a> {
    nodes: Vec<Node<'a>>,
    /// The open elements, each with its name as an end tag has it.
    open: Vec<(usize, &'a str)>,
    declared: Vec<Declaration<'a>>,
    root_namespace: Cow<'a, str>,
    max_depth: usize,
    /// How many more elements the body may have.
    elements: usize,
    /// What the start tag being read has so far.
    attributes: Vec<Attribute<'a>>,
    tag: Option<Tag<'a>>,
    /// Whether the last thing in the open element is an element.
    is_after_element: bool,
}

/// How many prefixes may be declared at a time, and how many attributes an element may have. Each prefix is searched for.
const MAX_NAMES: usize = 64;

impl<'a> Builder<'a> {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            nodes: Vec::new(),
            open: Vec::new(),
            declared: Vec::new(),
            root_namespace: Cow::Borrowed(""),
            max_depth: limits.depth.min(Limits::MAX_DEPTH),
            elements: limits.elements.min(Limits::MAX_ELEMENTS),
            attributes: Vec::new(),
            tag: None,
            is_after_element: false,
        }
    }

    /// Whether the outermost element has ended.
    pub(super) fn is_done(&self) -> bool {
        self.open.is_empty() && self.tag.is_none() && !self.nodes.is_empty()
    }

    /// Whether no element has started.
    pub(super) fn is_new(&self) -> bool {
        self.nodes.is_empty() && self.tag.is_none()
    }

    /// Whether attributes may follow.
    pub(super) fn is_in_tag(&self) -> bool {
        self.tag.is_some()
    }

    fn count(&mut self) -> Result<(), DecodeErrorKind> {
        self.elements = self.elements.checked_sub(1).ok_or(DecodeErrorKind::Count)?;
        Ok(())
    }

    /// How many more elements the body may have.
    pub(super) fn room(&self) -> usize {
        self.elements
    }

    /// Starts an element; its attributes follow, then [`content`](Self::content).
    /// `full` is the name with its prefix.
    pub(super) fn start(
        &mut self,
        prefix: &'a str,
        name: &'a str,
        full: &'a str,
        offset: usize,
    ) -> Result<(), DecodeErrorKind> {
        if self.is_done() {
            return Err(DecodeErrorKind::Trailing);
        }
        if self.open.len() > self.max_depth {
            return Err(DecodeErrorKind::Depth);
        }
        // The outermost element is not an element of anything.
        if !self.open.is_empty() {
            self.count()?;
        }
        self.tag = Some(Tag { prefix, name, full, offset });
        Ok(())
    }

    pub(super) fn declare(&mut self, prefix: &'a str, namespace: Cow<'a, str>) -> Result<(), DecodeErrorKind> {
        if self.declared.len() >= MAX_NAMES {
            return Err(DecodeErrorKind::Count);
        }
        let element = self.nodes.len();
        if self.declared.iter().any(|known| known.element == element && known.prefix == prefix) {
            return Err(DecodeErrorKind::Syntax);
        }
        self.declared.push(Declaration { prefix, namespace, element });
        Ok(())
    }

    pub(super) fn attribute(&mut self, attribute: Attribute<'a>) -> Result<(), DecodeErrorKind> {
        if self.attributes.len() >= MAX_NAMES {
            return Err(DecodeErrorKind::Count);
        }
        if self.attributes.iter().any(|known| (known.prefix, known.name) == (attribute.prefix, attribute.name)) {
            return Err(DecodeErrorKind::Syntax);
        }
        self.attributes.push(attribute);
        Ok(())
    }

    fn find(&self, prefix: &str) -> Result<&str, DecodeErrorKind> {
        match self.declared.iter().rev().find(|known| known.prefix == prefix) {
            Some(known) => Ok(&known.namespace),
            None if prefix.is_empty() || prefix == "xml" => Ok(""),
            None => Err(DecodeErrorKind::Syntax),
        }
    }

    /// Ends the attributes of an element that has started.
    pub(super) fn content(&mut self) -> Result<(), DecodeErrorKind> {
        let Some(Tag { prefix, name, full, offset }) = self.tag.take() else { return Ok(()) };
        let namespace = self.find(prefix)?;
        let mut element = Element { name, namespace: Namespace::of(namespace), is_nil: false, is_reference: false };
        if self.nodes.is_empty() {
            self.root_namespace = Cow::Owned(namespace.to_owned());
        }
        for attribute in &self.attributes {
            // An attribute without a prefix has no namespace.
            let namespace = if attribute.prefix.is_empty() { "" } else { self.find(attribute.prefix)? };
            match (namespace, attribute.name) {
                (INSTANCE, "nil") => element.is_nil = attribute.is_true,
                (SERIALIZATION, "Ref") => element.is_reference = true,
                _ => {}
            }
        }
        self.attributes.clear();
        self.is_after_element = false;
        self.open.push((self.nodes.len(), full));
        self.nodes.push(Node { offset, end: 0, kind: Kind::Element(element) });
        Ok(())
    }

    /// Starts another element of the name and the attributes of the one that ended last, which had one text.
    pub(super) fn start_again(&mut self, offset: usize) -> Result<(), DecodeErrorKind> {
        self.count()?;
        let at = self.nodes.len();
        let last = at.checked_sub(2).and_then(|last| self.nodes.get(last));
        let Some(Node { kind: Kind::Element(element), .. }) = last else { return Err(DecodeErrorKind::Syntax) };
        let kind = Kind::Element(*element);
        self.is_after_element = false;
        self.open.push((at, ""));
        self.nodes.push(Node { offset, end: 0, kind });
        Ok(())
    }

    /// Adds text to the open element. All but the first text of an element count as elements; white space after an element
    /// inside is dropped.
    pub(super) fn value(&mut self, value: Value<'a>, offset: usize) -> Result<(), DecodeErrorKind> {
        let Some(&(open, _)) = self.open.last() else { return Err(DecodeErrorKind::Syntax) };
        if self.is_after_element && value.is_blank() {
            return Ok(());
        }
        let at = self.nodes.len();
        if open + 1 != at {
            self.count()?;
        }
        self.nodes.push(Node { offset, end: at + 1, kind: Kind::Value(value) });
        self.is_after_element = false;
        Ok(())
    }

    /// Returns the name of the open element, with its prefix.
    pub(super) fn open_name(&self) -> Option<&'a str> {
        self.open.last().map(|&(_, name)| name)
    }

    /// Ends the open element.
    pub(super) fn end(&mut self) -> Result<(), DecodeErrorKind> {
        let (open, _) = self.open.pop().ok_or(DecodeErrorKind::Syntax)?;
        self.is_after_element = true;
        let end = self.nodes.len();
        if let Some(node) = self.nodes.get_mut(open) {
            node.end = end;
        }
        while self.declared.last().is_some_and(|known| known.element >= open) {
            self.declared.pop();
        }
        Ok(())
    }

    /// Returns the document; `text` is the body if it is text.
    pub(super) fn finish(self, text: Option<&'a str>) -> Document<'a> {
        Document { nodes: self.nodes, root_namespace: self.root_namespace, text }
    }
}
