use std::fmt::Write;

use crate::DecodeError;

/// One step from a value to one inside it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    place: Place,
    label: Label,
}

/// The place of a step in the body.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// The element of this number.
    Element(usize),
    /// The key of the entry of this number.
    Key(usize),
    /// The value of the entry of this number.
    Value(usize),
}

/// The label of a step in a path.
#[derive(Clone, Copy, Debug)]
enum Label {
    Place,
    Name(&'static str),
    /// Nothing: the key of a field is a part of its struct.
    Hidden,
}

impl Step {
    pub(super) const fn to(place: Place) -> Self {
        Self { place, label: Label::Place }
    }

    pub(super) const fn hidden(place: Place) -> Self {
        Self { place, label: Label::Hidden }
    }

    /// Returns the same step by a name of the type.
    pub(super) const fn named(self, name: &'static str) -> Self {
        Self { label: Label::Name(name), ..self }
    }

    #[cfg(feature = "msgpack")]
    pub(crate) const fn place(&self) -> Place {
        self.place
    }

    fn write(self, out: &mut String) {
        // Writing to a string does not fail.
        let _ = match (self.label, self.place) {
            (Label::Hidden, _) => Ok(()),
            (Label::Name(name), _) if is_plain(name) => write!(out, ".{name}"),
            (Label::Name(name), _) => write!(out, "[\"{}\"]", name.escape_debug()),
            (Label::Place, Place::Element(at)) => write!(out, "[{at}]"),
            (Label::Place, Place::Value(at)) => write!(out, "{{{at}}}"),
            (Label::Place, Place::Key(at)) => write!(out, "{{{at}:key}}"),
        };
    }
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
}

/// Returns the path as [`DecodeError::path`] describes it; `None` for the outermost value.
pub(super) fn text(steps: &[Step]) -> Option<String> {
    let parts: Vec<_> = steps
        .iter()
        .map(|step| {
            let mut part = String::new();
            step.write(&mut part);
            part
        })
        .collect();
    // The deepest steps matter most, so a long path loses its beginning.
    let mut room = DecodeError::MAX_TEXT - 2;
    let kept = parts.iter().rev().take_while(|part| room.checked_sub(part.len()).map(|left| room = left).is_some());
    let from = parts.len() - kept.count();
    let text = parts[from..].concat();
    if from > 0 {
        return Some(format!("..{text}"));
    }
    let text = text.strip_prefix('.').unwrap_or(&text);
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn name(name: &'static str) -> Step {
        Step::to(Place::Value(0)).named(name)
    }

    /// Rules: P-121.
    #[test]
    fn a_path_has_names_of_the_type_and_numbers() {
        let steps = [name("lines"), Step::to(Place::Element(3)), name("price")];
        assert_eq!(text(&steps).as_deref(), Some("lines[3].price"));
        assert_eq!(text(&steps[1..]).as_deref(), Some("[3].price"));
        assert_eq!(text(&[Step::to(Place::Value(2)), Step::to(Place::Key(1))]).as_deref(), Some("{2}{1:key}"));
        assert_eq!(text(&[name("a"), Step::hidden(Place::Key(0))]).as_deref(), Some("a"));
        assert_eq!(text(&[]), None);
        assert_eq!(text(&[Step::hidden(Place::Key(0))]), None);
    }

    /// Rules: P-121.
    #[test]
    fn odd_names_are_quoted() {
        assert_eq!(text(&[name("a"), name("unit price")]).as_deref(), Some(r#"a["unit price"]"#));
        assert_eq!(text(&[name("x.y")]).as_deref(), Some(r#"["x.y"]"#));
        assert_eq!(text(&[name("\"\n")]).as_deref(), Some(r#"["\"\n"]"#));
        assert_eq!(text(&[name("größe")]).as_deref(), Some("größe"));
    }

    /// Rules: P-121.
    #[test]
    fn a_long_path_loses_its_beginning() {
        let mut steps = vec![name("children"); 100];
        steps.push(name("price"));
        let path = text(&steps).unwrap();
        assert!(path.len() <= DecodeError::MAX_TEXT, "{}", path.len());
        assert!(path.starts_with("...children.children") && path.ends_with(".children.price"), "{path}");
    }
}
