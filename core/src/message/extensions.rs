use std::{
    any::{Any, TypeId, type_name},
    fmt,
    sync::Arc,
};

/// Values that layers add to a [`Message`](super::Message) for inner layers and for the handler, one of each type.
///
/// They stay in the process: a transport does not send them, a broker does not store them, and a redelivered message comes
/// without them. A message without any costs nothing. A clone of a message shares the values, and
/// an insert into one of the two clones does not change the other.
///
/// ```
/// use consign::Message;
///
/// #[derive(Debug, PartialEq)]
/// struct Tenant(u32);
///
/// let mut message = Message::new("body");
/// message.extensions_mut().insert(Tenant(7));
/// assert_eq!(message.extensions().get::<Tenant>(), Some(&Tenant(7)));
/// assert_eq!(message.without_received().extensions().get::<Tenant>(), None);
/// ```
#[derive(Clone, Default)]
pub struct Extensions(Option<Arc<Vec<Extension>>>);

#[derive(Clone)]
struct Extension {
    id: TypeId,
    name: &'static str,
    value: Arc<dyn Any + Send + Sync>,
}

impl Extensions {
    pub(super) const fn new() -> Self {
        Self(None)
    }

    /// Returns whether there is no value.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Adds a value, in place of the value of this type if there is one.
    pub fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        let extension = Extension { id: TypeId::of::<T>(), name: type_name::<T>(), value: Arc::new(value) };
        let all = Arc::make_mut(self.0.get_or_insert_default());
        match all.iter_mut().find(|it| it.id == extension.id) {
            Some(same) => *same = extension,
            None => all.push(extension),
        }
    }

    /// Returns the value of this type.
    #[must_use]
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<&T> {
        let id = TypeId::of::<T>();
        self.0.as_ref()?.iter().find(|it| it.id == id)?.value.downcast_ref()
    }
}

/// Shows the types, never the values.
impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().flat_map(|all| all.iter()).map(|it| it.name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_of_each_type_is_kept() {
        let mut extensions = Extensions::new();
        assert_eq!((extensions.is_empty(), extensions.get::<u32>()), (true, None));
        extensions.insert(1_u32);
        extensions.insert("text");
        extensions.insert(2_u32);
        assert_eq!((extensions.get::<u32>(), extensions.get::<&str>()), (Some(&2), Some(&"text")));
        assert_eq!((extensions.is_empty(), extensions.get::<u64>()), (false, None));
        assert_eq!(format!("{extensions:?}"), r#"["u32", "&str"]"#);
    }

    #[test]
    fn a_clone_does_not_see_later_inserts() {
        let mut first = Extensions::new();
        first.insert(1_u32);
        let mut second = first.clone();
        second.insert(2_u32);
        assert_eq!((first.get::<u32>(), second.get::<u32>()), (Some(&1), Some(&2)));
    }
}
