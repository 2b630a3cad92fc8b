//! Names of spans that live as long as the process, so that no span copies its name.

use std::{
    borrow::Cow,
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

/// The maximum of names that are kept. Others are copied for each span.
const MAX_NAMES: usize = 1_024;

static NAMES: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);

/// Returns the name as one that lives as long as the process, unless there are too many of them.
pub(crate) fn kept(name: String) -> Cow<'static, str> {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    keep(names.get_or_insert_with(HashSet::new), name, MAX_NAMES)
}

fn keep(names: &mut HashSet<&'static str>, name: String, most: usize) -> Cow<'static, str> {
    if let Some(known) = names.get(&*name) {
        return Cow::Borrowed(known);
    }
    if names.len() >= most {
        return Cow::Owned(name);
    }
    let name: &'static str = Box::leak(name.into_boxed_str());
    names.insert(name);
    Cow::Borrowed(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_number_of_names_is_kept() {
        let mut names = HashSet::new();
        let mut of = |name: &str| matches!(keep(&mut names, name.into(), 2), Cow::Borrowed(_));
        assert_eq!(["a", "b", "a", "c", "b", "c"].map(&mut of), [true, true, true, false, true, false]);
    }
}
