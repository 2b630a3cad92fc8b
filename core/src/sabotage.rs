//! Defects that tests must detect. `cargo xtask sabotage` builds with `--cfg sabotage`, and no other build has this module.

use std::sync::OnceLock;

/// Returns whether this process has a defect: the one that the environment variable `CONSIGN_SABOTAGE` names.
#[must_use]
pub fn has(defect: &str) -> bool {
    static CHOSEN: OnceLock<Option<String>> = OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var("CONSIGN_SABOTAGE").ok()).as_deref() == Some(defect)
}
