//! A small tree of elements, and its XML.

use quick_xml::{
    NsReader, Writer, XmlVersion,
    events::{BytesEnd, BytesRef, BytesStart, BytesText, Event},
    name::ResolveResult,
};

use super::error::{DocumentError, DocumentErrorKind as Kind};

/// The namespaces of the documents.
pub(super) mod namespace {
    pub(in super::super) const ATOM: &str = "http://www.w3.org/2005/Atom";
    pub(in super::super) const COUNTS: &str = "http://schemas.microsoft.com/netservices/2011/06/servicebus";
    pub(in super::super) const INSTANCE: &str = "http://www.w3.org/2001/XMLSchema-instance";
    pub(in super::super) const SCHEMA: &str = "http://www.w3.org/2001/XMLSchema";
    pub(in super::super) const SERIALIZATION: &str = "http://schemas.microsoft.com/2003/10/Serialization/";
    pub(in super::super) const SERVICE_BUS: &str =
        "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect";
}

const MAX_SIZE: usize = 4 << 20;
const MAX_LEVELS: usize = 32;
const MAX_ELEMENTS: usize = 65_536;
const MAX_ATTRIBUTES: usize = 32;

/// An element. Of a document that was read, names are without prefixes, and declarations of namespaces are left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Element {
    pub(super) name: String,
    pub(super) attributes: Vec<(String, String)>,
    /// Whether an attribute `nil` of XML Schema is true.
    pub(super) nil: bool,
    /// The attribute `type` of XML Schema, without its prefix.
    pub(super) kind: Option<String>,
    pub(super) children: Vec<Self>,
    pub(super) text: String,
}

impl Element {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    pub(super) fn with_text(name: &str, text: impl Into<String>) -> Self {
        Self { name: name.to_owned(), text: text.into(), ..Self::default() }
    }

    pub(super) fn attribute(mut self, name: &str, value: impl Into<String>) -> Self {
        self.attributes.push((name.to_owned(), value.into()));
        self
    }

    pub(super) fn push(&mut self, child: Self) {
        self.children.push(child);
    }

    /// Returns the one child with a name.
    pub(super) fn child(&self, name: &str) -> Result<Option<&Self>, DocumentError> {
        let mut found = self.children.iter().filter(|child| child.name == name);
        let first = found.next();
        if found.next().is_some() { Err(DocumentError::of(Kind::Repeated, name)) } else { Ok(first) }
    }

    pub(super) fn get(&self, attribute: &str) -> Option<&str> {
        self.attributes.iter().find(|(name, _)| name == attribute).map(|(_, value)| &**value)
    }

    /// Reads a document.
    pub(super) fn read(document: &[u8]) -> Result<Self, DocumentError> {
        if document.len() > MAX_SIZE {
            return Err(DocumentError::new(Kind::TooLarge));
        }
        let document = document.strip_prefix(b"\xef\xbb\xbf").unwrap_or(document);
        let text = std::str::from_utf8(document).map_err(|_| DocumentError::new(Kind::Malformed))?;
        let mut reader = NsReader::from_str(text);
        let mut open: Vec<Self> = Vec::new();
        let mut root = None;
        let mut elements = 0;
        let malformed = || DocumentError::new(Kind::Malformed);
        loop {
            match reader.read_event().map_err(|_| malformed())? {
                Event::Start(start) => {
                    elements += 1;
                    if open.len() >= MAX_LEVELS || elements > MAX_ELEMENTS {
                        return Err(DocumentError::new(Kind::TooLarge));
                    }
                    if root.is_some() {
                        return Err(malformed());
                    }
                    open.push(begin(&reader, &start)?);
                }
                Event::Empty(start) => {
                    elements += 1;
                    if open.len() >= MAX_LEVELS || elements > MAX_ELEMENTS {
                        return Err(DocumentError::new(Kind::TooLarge));
                    }
                    let element = begin(&reader, &start)?;
                    end(&mut open, &mut root, element)?;
                }
                Event::End(_) => {
                    let element = open.pop().ok_or_else(malformed)?;
                    end(&mut open, &mut root, element)?;
                }
                Event::Text(text) => add_text(&mut open, &text.xml10_content())?,
                Event::CData(text) => add_text(&mut open, &text.xml10_content())?,
                Event::GeneralRef(reference) => {
                    let char = resolve(&reference)?;
                    add_text(&mut open, char.encode_utf8(&mut [0; 4]))?;
                }
                Event::DocType(_) => return Err(DocumentError::new(Kind::DocumentType)),
                Event::Decl(_) | Event::PI(_) | Event::Comment(_) => {}
                Event::Eof => break,
            }
        }
        if open.is_empty() { root.ok_or_else(malformed) } else { Err(malformed()) }
    }

    /// Writes a document.
    pub(super) fn write(&self) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new());
        // Writing to memory does not fail.
        let _ = self.write_to(&mut writer);
        writer.into_inner()
    }

    fn write_to(&self, writer: &mut Writer<Vec<u8>>) -> std::io::Result<()> {
        let mut start = BytesStart::new(&*self.name);
        for (name, value) in &self.attributes {
            start.push_attribute((&**name, &*allowed(value)));
        }
        if self.children.is_empty() && self.text.is_empty() {
            return writer.write_event(Event::Empty(start));
        }
        writer.write_event(Event::Start(start))?;
        if !self.text.is_empty() {
            writer.write_event(Event::Text(BytesText::new(&allowed(&self.text))))?;
        }
        for child in &self.children {
            child.write_to(writer)?;
        }
        writer.write_event(Event::End(BytesEnd::new(&*self.name)))
    }
}

/// A character that XML cannot represent becomes U+FFFD.
fn allowed(text: &str) -> std::borrow::Cow<'_, str> {
    let is_allowed =
        |char: char| !matches!(char, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}');
    if text.chars().all(is_allowed) {
        return text.into();
    }
    text.chars().map(|char| if is_allowed(char) { char } else { '\u{fffd}' }).collect::<String>().into()
}

fn begin(reader: &NsReader<&[u8]>, start: &BytesStart<'_>) -> Result<Element, DocumentError> {
    let mut element = Element::new(start.local_name().as_ref());
    for attribute in start.attributes().with_checks(false) {
        let attribute = attribute.map_err(|_| DocumentError::new(Kind::Malformed))?;
        if element.attributes.len() >= MAX_ATTRIBUTES {
            return Err(DocumentError::new(Kind::TooLarge));
        }
        let (namespace, name) = reader.resolver().resolve_attribute(attribute.key);
        let value =
            attribute.normalized_value(XmlVersion::Implicit1_0).map_err(|_| DocumentError::new(Kind::Malformed))?;
        let is_instance = matches!(&namespace, ResolveResult::Bound(namespace) if namespace.0 == namespace::INSTANCE);
        match name.as_ref() {
            "type" if is_instance => {
                element.kind = Some(value.rsplit_once(':').map_or(&*value, |(_, name)| name).to_owned());
            }
            "nil" if is_instance => element.nil = matches!(&*value, "true" | "1"),
            name => element.attributes.push((name.to_owned(), value.into_owned())),
        }
    }
    Ok(element)
}

fn end(open: &mut [Element], root: &mut Option<Element>, element: Element) -> Result<(), DocumentError> {
    match open.last_mut() {
        Some(parent) => parent.children.push(element),
        None if root.is_none() => *root = Some(element),
        None => return Err(DocumentError::new(Kind::Malformed)),
    }
    Ok(())
}

fn add_text(open: &mut [Element], text: &str) -> Result<(), DocumentError> {
    match open.last_mut() {
        Some(element) => element.text.push_str(text),
        None if text.trim().is_empty() => {}
        None => return Err(DocumentError::new(Kind::Malformed)),
    }
    Ok(())
}

fn resolve(reference: &BytesRef<'_>) -> Result<char, DocumentError> {
    if let Some(char) = reference.resolve_char_ref().map_err(|_| DocumentError::new(Kind::Malformed))? {
        return Ok(char);
    }
    match &*reference.xml10_content() {
        "amp" => Ok('&'),
        "lt" => Ok('<'),
        "gt" => Ok('>'),
        "quot" => Ok('"'),
        "apos" => Ok('\''),
        _ => Err(DocumentError::new(Kind::DocumentType)),
    }
}
