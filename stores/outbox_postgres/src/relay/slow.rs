//! What a batch knows of its destinations.

use std::collections::HashSet;

/// The destinations of a batch that take long.
#[derive(Default)]
pub(super) struct Slow {
    /// Those of which a send took long and failed.
    pub(super) failed: HashSet<String>,
    /// Those whose last send took long.
    pub(super) last: HashSet<String>,
}

impl Slow {
    pub(super) fn ended(&mut self, destination: &str, is_slow: bool, is_failed: bool) {
        if !is_slow {
            self.last.remove(destination);
            return;
        }
        self.last.insert(destination.to_owned());
        if is_failed {
            self.failed.insert(destination.to_owned());
        }
    }
}
