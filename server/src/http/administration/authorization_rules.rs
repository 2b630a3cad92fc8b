//! What the service sets in rules of authorization.

use base64::{Engine, engine::general_purpose::STANDARD};
use consign_core::{
    administration::{AuthorizationRule, Metadata},
    time::Timestamp,
};
use uuid::Uuid;

/// Sets the times of rules, and the keys that the client has left out: those that a rule of this name has, or new ones.
pub(super) fn complete(metadata: &mut Metadata, before: &Metadata, now: Timestamp) {
    for rule in &mut metadata.authorization_rules {
        let before = before.authorization_rules.iter().find(|before| before.name == rule.name);
        let key = |of: fn(&AuthorizationRule) -> &String| before.map_or_else(new_key, |before| of(before).clone());
        if rule.primary_key.is_empty() {
            rule.primary_key = key(|rule| &rule.primary_key);
        }
        if rule.secondary_key.is_empty() {
            rule.secondary_key = key(|rule| &rule.secondary_key);
        }
        rule.created = before.and_then(|before| before.created).or(Some(now));
        let unchanged = before.filter(|before| before.is_same(rule));
        rule.modified = unchanged.and_then(|before| before.modified).or(Some(now));
    }
}

fn new_key() -> String {
    let bytes = [Uuid::new_v4(), Uuid::new_v4()].map(Uuid::into_bytes);
    STANDARD.encode(bytes.concat())
}
