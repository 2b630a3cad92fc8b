use crate::message::EntityPath;

/// The kind of an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntityKind {
    /// A queue.
    Queue,
    /// A topic.
    Topic,
    /// A subscription of a topic.
    Subscription,
}

impl EntityKind {
    /// Returns the name, in lower case: `queue`, `topic` or `subscription`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Topic => "topic",
            Self::Subscription => "subscription",
        }
    }
}

/// An entity of a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entity {
    /// Its path.
    pub path: EntityPath,
    /// Its kind.
    pub kind: EntityKind,
}

impl Entity {
    /// The entity of this kind at this path.
    #[must_use]
    pub fn new(path: EntityPath, kind: EntityKind) -> Self {
        Self { path, kind }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_kind_is_in_lower_case() {
        let names = [EntityKind::Queue, EntityKind::Topic, EntityKind::Subscription].map(EntityKind::name);
        assert_eq!(names, ["queue", "topic", "subscription"]);
    }
}
