use std::sync::Arc;

use crate::entities::Entity;

/// A node that answers requests.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// `$cbs`.
    Cbs,
    /// `$management` of an entity.
    Management { entity: Entity, key: Arc<str> },
}

impl Node {
    /// Returns whether an answer of `other` may go to a link of this node.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Cbs, Self::Cbs) => true,
            (Self::Management { key, .. }, Self::Management { key: other, .. }) => key == other,
            _ => false,
        }
    }
}
