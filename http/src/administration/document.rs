use consign_core::time::Timestamp;

use super::{
    Description, DocumentError, DocumentErrorKind as Kind,
    fields::{Field, TextField},
    xml::{Element, namespace},
};

/// A document.
#[expect(clippy::large_enum_variant, reason = "there are few at a time")]
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Document {
    /// One entity.
    Entry(Entry),
    /// A page of a list. A client also gets one without entries for an entity that does not exist.
    Feed(Feed),
    /// An error.
    Error(ErrorDocument),
}

/// One entity.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Entry {
    /// The URL of the entity. Clients read the names of a rule and its subscription from it.
    pub id: Option<String>,
    /// The name.
    pub title: Option<String>,
    /// When the entity was created.
    pub published: Option<Timestamp>,
    /// When the entity was changed.
    pub updated: Option<Timestamp>,
    /// The entity.
    pub description: Description,
}

/// A page of a list.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Feed {
    /// The URL of the list.
    pub id: Option<String>,
    /// The name of the list.
    pub title: Option<String>,
    /// When the page was made.
    pub updated: Option<Timestamp>,
    /// The URL of the next page, if there is one.
    pub next: Option<String>,
    /// The entities.
    pub entries: Vec<Entry>,
}

/// Why a request was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ErrorDocument {
    /// The status of HTTP.
    pub code: u16,
    /// A text.
    pub detail: String,
}

/// Reads a document.
///
/// # Errors
/// XML that is malformed or too large, and elements that the document does not have.
pub fn read(document: &[u8]) -> Result<Document, DocumentError> {
    let root = Element::read(document)?;
    Ok(match &*root.name {
        "entry" => Document::Entry(Entry::read(&root)?),
        "feed" => Document::Feed(Feed::read(&root)?),
        "Error" => Document::Error(ErrorDocument::read(&root)?),
        other => return Err(DocumentError::of(Kind::Unexpected, other)),
    })
}

fn text(element: &Element, name: &str) -> Result<Option<String>, DocumentError> {
    Ok(element.child(name)?.map(|child| child.text.trim().to_owned()))
}

fn time(element: &Element, name: &str) -> Result<Option<Timestamp>, DocumentError> {
    element.child(name)?.map(Timestamp::read).transpose()
}

impl Entry {
    /// Creates the entry of a request, which has a description only.
    #[must_use]
    pub fn new(description: impl Into<Description>) -> Self {
        Self { id: None, title: None, published: None, updated: None, description: description.into() }
    }

    /// Writes the document.
    #[must_use]
    pub fn to_xml(&self) -> Vec<u8> {
        self.write().attribute("xmlns", namespace::ATOM).write()
    }

    fn read(element: &Element) -> Result<Self, DocumentError> {
        let content = element.child("content")?.ok_or_else(|| DocumentError::of(Kind::Missing, "content"))?;
        let description = match &*content.children {
            [one] => Description::read(one)?,
            [] => return Err(DocumentError::of(Kind::Missing, "QueueDescription")),
            [_, second, ..] => return Err(DocumentError::of(Kind::Unexpected, &second.name)),
        };
        Ok(Self {
            id: text(element, "id")?,
            title: text(element, "title")?,
            published: time(element, "published")?,
            updated: time(element, "updated")?,
            description,
        })
    }

    fn write(&self) -> Element {
        let mut element = Element::new("entry");
        if let Some(id) = &self.id {
            element.push(Element::with_text("id", &**id));
        }
        if let Some(title) = &self.title {
            element.push(Element::with_text("title", &**title).attribute("type", "text"));
        }
        if let Some(published) = &self.published {
            element.push(Element::with_text("published", published.text()));
        }
        if let Some(updated) = &self.updated {
            element.push(Element::with_text("updated", updated.text()));
        }
        if let Some(id) = &self.id {
            element.push(link("self", id));
        }
        let mut content = Element::new("content").attribute("type", "application/xml");
        content.push(self.description.write());
        element.push(content);
        element
    }
}

fn link(rel: &str, href: &str) -> Element {
    Element::new("link").attribute("rel", rel).attribute("href", href)
}

impl Feed {
    /// Writes the document.
    #[must_use]
    pub fn to_xml(&self) -> Vec<u8> {
        let mut element = Element::new("feed").attribute("xmlns", namespace::ATOM);
        let title = self.title.as_deref().unwrap_or_default();
        element.push(Element::with_text("title", title).attribute("type", "text"));
        if let Some(id) = &self.id {
            element.push(Element::with_text("id", &**id));
        }
        if let Some(updated) = &self.updated {
            element.push(Element::with_text("updated", updated.text()));
        }
        if let Some(id) = &self.id {
            element.push(link("self", id));
        }
        // Clients take the second link for the next page.
        if let Some(next) = &self.next {
            element.push(link("next", next));
        }
        for entry in &self.entries {
            element.push(entry.write());
        }
        element.write()
    }

    fn read(element: &Element) -> Result<Self, DocumentError> {
        let of = |name: &'static str| element.children.iter().filter(move |child| child.name == name);
        let next = of("link").find(|link| link.get("rel") == Some("next")).and_then(|link| link.get("href"));
        Ok(Self {
            id: text(element, "id")?,
            title: text(element, "title")?,
            updated: time(element, "updated")?,
            next: next.map(str::to_owned),
            entries: of("entry").map(Entry::read).collect::<Result<_, _>>()?,
        })
    }
}

impl ErrorDocument {
    /// Creates an error.
    #[must_use]
    pub fn new(code: u16, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into() }
    }

    /// Writes the document.
    #[must_use]
    pub fn to_xml(&self) -> Vec<u8> {
        let mut element = Element::new("Error");
        element.push(Element::with_text("Code", self.code.to_string()));
        element.push(Element::with_text("Detail", &*self.detail));
        element.write()
    }

    fn read(element: &Element) -> Result<Self, DocumentError> {
        let code = element.child("Code")?.and_then(|code| code.text.trim().parse().ok());
        Ok(Self {
            code: code.ok_or_else(|| DocumentError::of(Kind::Missing, "Code"))?,
            detail: text(element, "Detail")?.unwrap_or_default(),
        })
    }
}
