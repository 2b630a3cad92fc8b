use std::{fmt, sync::Arc};

use super::{Field, InvalidArgument, Problem, limits};

const DEAD_LETTER: &str = "$deadletterqueue";
const TRANSFER: &str = "$Transfer";
const SUBSCRIPTIONS: &str = "Subscriptions";

/// The path of an entity: `orders`, a subscription `prices/Subscriptions/audit`, or a sub-queue of one:
/// `orders/$deadletterqueue`, `orders/$Transfer/$deadletterqueue`. Case does not matter when paths are compared.
#[derive(Clone)]
pub struct EntityPath {
    /// As it was written, without slashes at the ends.
    text: Arc<str>,
    /// The length of the part before the sub-queue.
    main: usize,
    sub_queue: SubQueue,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SubQueue {
    None,
    DeadLetter,
    TransferDeadLetter,
}

impl EntityPath {
    /// Longest path: UTF-16 code units.
    pub const MAX_LENGTH: usize = 260;
    /// Longest name of a subscription: UTF-16 code units.
    pub const MAX_SUBSCRIPTION_LENGTH: usize = 50;

    /// Parses a path: segments divided by `/`, none of them empty; at most 260 UTF-16 code units in all and 50 in the
    /// name of a subscription; no `@`, `?`, `#`, `*`, no backslash, no control, bidirectional or invisible character; no segment begins
    /// with `$`, which is the broker's, but for `$deadletterqueue` or `$Transfer/$deadletterqueue` at the end.
    pub fn new(path: &str) -> Result<Self, InvalidArgument> {
        let text = path.strip_prefix('/').unwrap_or(path);
        let text = text.strip_suffix('/').unwrap_or(text);
        if text.is_empty() {
            return Err(InvalidArgument::new(Field::EntityPath, Problem::Empty));
        }
        if limits::is_longer_than(text, Self::MAX_LENGTH) {
            return Err(InvalidArgument::new(Field::EntityPath, Problem::TooLong { limit: Self::MAX_LENGTH }));
        }
        if let Some(found) = text.chars().find(|&char| is_forbidden(char)) {
            return Err(InvalidArgument::new(Field::EntityPath, Problem::ForbiddenCharacter(found)));
        }
        let (main, sub_queue) = match text.rsplit_once('/') {
            Some((main, last)) if last.eq_ignore_ascii_case(DEAD_LETTER) => match main.rsplit_once('/') {
                Some((main, last)) if last.eq_ignore_ascii_case(TRANSFER) => (main, SubQueue::TransferDeadLetter),
                _ => (main, SubQueue::DeadLetter),
            },
            _ => (text, SubQueue::None),
        };
        for name in main.split('/') {
            if name.is_empty() {
                return Err(InvalidArgument::new(Field::EntityName, Problem::Empty));
            }
            if name.starts_with('$') {
                return Err(InvalidArgument::new(Field::EntityName, Problem::ForbiddenCharacter('$')));
            }
        }
        let path = Self { main: main.len(), sub_queue, text: text.into() };
        match path.subscription() {
            Some((_, name)) if limits::is_longer_than(name, Self::MAX_SUBSCRIPTION_LENGTH) => {
                let limit = Self::MAX_SUBSCRIPTION_LENGTH;
                Err(InvalidArgument::new(Field::EntityName, Problem::TooLong { limit }))
            }
            _ => Ok(path),
        }
    }

    /// Returns the path of a subscription of the topic that has this path. Errors: a name that is empty, longer than 50
    /// UTF-16 code units, or that has a character which a path must not have, or a slash.
    pub fn subscription_of(&self, name: &str) -> Result<Self, InvalidArgument> {
        if name.contains('/') {
            return Err(InvalidArgument::new(Field::EntityName, Problem::ForbiddenCharacter('/')));
        }
        if name.is_empty() {
            return Err(InvalidArgument::new(Field::EntityName, Problem::Empty));
        }
        let path = Self::new(&format!("{}/{SUBSCRIPTIONS}/{name}", self.text))?;
        if path.is_sub_queue() {
            return Err(InvalidArgument::new(Field::EntityName, Problem::ForbiddenCharacter('$')));
        }
        Ok(path)
    }

    /// Returns the path as it was written, without slashes at the ends.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether this is the dead-letter sub-queue of an entity.
    #[must_use]
    pub fn is_dead_letter(&self) -> bool {
        self.sub_queue == SubQueue::DeadLetter
    }

    /// Returns whether this is the transfer dead-letter sub-queue of an entity.
    #[must_use]
    pub fn is_transfer_dead_letter(&self) -> bool {
        self.sub_queue == SubQueue::TransferDeadLetter
    }

    /// Returns whether this is a sub-queue of either kind.
    #[must_use]
    pub fn is_sub_queue(&self) -> bool {
        self.sub_queue != SubQueue::None
    }

    /// The dead-letter sub-queue of this entity; a sub-queue answers with that of its entity.
    #[must_use]
    pub fn dead_letter(&self) -> Self {
        let text = format!("{}/{DEAD_LETTER}", &self.text[..self.main]).into();
        Self { main: self.main, sub_queue: SubQueue::DeadLetter, text }
    }

    /// The transfer dead-letter sub-queue of this entity; a sub-queue answers with that of its entity.
    #[must_use]
    pub fn transfer_dead_letter(&self) -> Self {
        let text = format!("{}/{TRANSFER}/{DEAD_LETTER}", &self.text[..self.main]).into();
        Self { main: self.main, sub_queue: SubQueue::TransferDeadLetter, text }
    }

    /// The entity that a sub-queue belongs to; any other entity is its own.
    #[must_use]
    pub fn parent(&self) -> Self {
        if !self.is_sub_queue() {
            return self.clone();
        }
        Self { main: self.main, sub_queue: SubQueue::None, text: self.text[..self.main].into() }
    }

    /// Returns the topic and the name, if this is the path of a subscription or of a sub-queue of one.
    #[must_use]
    pub fn subscription(&self) -> Option<(&str, &str)> {
        let (rest, name) = self.text[..self.main].rsplit_once('/')?;
        let (topic, word) = rest.rsplit_once('/')?;
        word.eq_ignore_ascii_case(SUBSCRIPTIONS).then_some((topic, name))
    }

    /// Returns the path in lower case, which is the same for equal paths.
    #[doc(hidden)]
    #[must_use]
    pub fn key(&self) -> Box<str> {
        self.text.to_lowercase().into()
    }
}

/// Returns whether a character could make a path look like another one, or has a meaning in a URL or a log.
#[doc(hidden)]
#[must_use]
pub fn is_forbidden(char: char) -> bool {
    matches!(char, '@' | '?' | '#' | '*' | '\\') || is_hidden(char) || char.is_control()
}

/// Returns whether a character is invisible (`Default_Ignorable_Code_Point` of Unicode), breaks a line, or changes the direction
/// of text.
#[doc(hidden)]
#[must_use]
pub fn is_hidden(char: char) -> bool {
    matches!(
        char,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fff8}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

impl PartialEq for EntityPath {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for EntityPath {}

impl fmt::Display for EntityPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for EntityPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.text, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules: S-100.
    #[test]
    fn a_dead_letter_address_is_read_in_any_case() {
        let queue = EntityPath::new("Orders").unwrap();
        let dead = EntityPath::new("orders/$DeadLetterQueue").unwrap();
        assert_eq!(queue.dead_letter(), dead);
        assert_eq!(queue.dead_letter().as_str(), "Orders/$deadletterqueue");
        assert!(dead.is_dead_letter() && !queue.is_dead_letter());
        assert_eq!(dead.parent(), queue);
    }

    /// Rules: V-13.
    #[test]
    fn paths_and_names_are_bounded() {
        let longest = EntityPath::new(&"x".repeat(260)).unwrap();
        assert!(longest.dead_letter().is_dead_letter());
        for long in ["x".repeat(261), vec!["x".repeat(50); 6].join("/")] {
            assert_eq!(EntityPath::new(&long).unwrap_err().field(), &Field::EntityPath);
        }
        let topic = EntityPath::new("events").unwrap();
        topic.subscription_of(&"x".repeat(50)).unwrap();
        for dead in ["", "/$deadletterqueue"] {
            let path = format!("events/subscriptions/{}{dead}", "x".repeat(51));
            assert_eq!(EntityPath::new(&path).unwrap_err().field(), &Field::EntityName);
        }
        for bad in ["a@b", "a?b", "a#b", "a*b", "", "/", "a//b", "a\nb", "$a", "a/$deadletterqueue/b"] {
            EntityPath::new(bad).unwrap_err();
        }
    }

    /// Attacks: 49.
    #[test]
    fn characters_that_hide_are_refused() {
        for bad in ["a\u{202e}b", "a\u{200b}b", "a\u{feff}b"] {
            EntityPath::new(bad).unwrap_err();
        }
        let others = "\u{115f}\u{1160}\u{17b4}\u{17b5}\u{180b}\u{180f}\u{206a}\u{206f}\u{3164}\u{ffa0}\u{fff0}\u{fff8}\u{1bca0}\u{1bca3}\u{1d173}\u{1d17a}\u{e0000}\u{e0fff}\u{ad}\u{34f}\u{180e}\u{2028}\u{2029}\u{fe00}\u{fe0f}\u{e0100}\u{e01ef}";
        for hidden in others.chars() {
            let error = EntityPath::new(&format!("a{hidden}b")).unwrap_err();
            assert_eq!(error.problem(), &Problem::ForbiddenCharacter(hidden));
        }
    }
}
