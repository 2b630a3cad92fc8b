//! Tokens that are signed with a key of a rule of authorization.

use consign_broker::Broker;
use consign_core::administration::{AuthorizationRule, Metadata};

use super::{Denied, Grant, Rights, Token, covers, is_part, sas::Signature};
use crate::entities::{entity_of, path_of};

/// The longest path, in bytes, that is looked for: that of an entity, and of a message or a rule below it.
const MAX_PATH: usize = 1_024;

/// Authorizes a client by a token. None if no key of a rule of the entity has signed it.
pub(crate) fn authorize(broker: &Broker, token: &Token<'_>) -> Option<Result<Grant, Denied>> {
    let signature = Signature::parse(token.token)?;
    let entity = entity_of(token.audience);
    let (rules, below) = rules_of(broker, &entity).unwrap_or((Vec::new(), ""));
    let Some(rule) = rules.iter().find(|rule| *rule.name == *signature.key_name) else {
        // Otherwise the time would tell whether there is a rule of this name.
        for _ in 0..2 {
            signature.is_signed_with("");
        }
        return None;
    };
    let is_signed = |key: &String| !key.is_empty() && signature.is_signed_with(key);
    // Both are tried, so that the time does not tell which of them it was.
    if ![&rule.primary_key, &rule.secondary_key].map(is_signed).contains(&true) {
        return None;
    }
    if !signature.resource().is_some_and(|resource| covers(&resource, token.audience)) {
        let path = path_of(token.audience);
        return Some(Err(Denied::new(format!("InvalidAudience: The token is not for '{path}'."))));
    }
    let Some(valid_for) = signature.valid_for(broker.now()) else {
        return Some(Err(Denied::new("ExpiredToken: The token has expired.")));
    };
    Some(Ok(Grant::new(rights_of(rule, below)).valid_for(valid_for).of_entity()))
}

/// Returns the rules of the nearest entity of a path, and what is below it.
fn rules_of<'e>(broker: &Broker, entity: &'e str) -> Option<(Vec<AuthorizationRule>, &'e str)> {
    if entity.len() > MAX_PATH {
        return None;
    }
    let mut path = entity;
    loop {
        if let Some(metadata) = metadata_of(broker, path) {
            let below = entity[path.len()..].trim_start_matches('/');
            return is_part(below).then_some((metadata.authorization_rules, below));
        }
        path = path.rsplit_once('/')?.0;
    }
}

/// Returns the metadata of a queue or a topic.
fn metadata_of(broker: &Broker, path: &str) -> Option<Metadata> {
    let queue = broker.queue(path).ok().filter(|queue| !queue.path().is_sub_queue());
    match queue {
        // The rules are those of its topic.
        Some(queue) if queue.path().subscription().is_some() => None,
        Some(queue) => Some(queue.settings().ok()?.metadata),
        None => Some(broker.topic(path).ok()?.settings().ok()?.metadata),
    }
}

/// The names of messages are below an entity, but a path of the administration may be too: it would be another entity.
fn rights_of(rule: &AuthorizationRule, below: &str) -> Rights {
    if rule.manage && !below.starts_with("messages") {
        return Rights::MANAGE;
    }
    let send = if rule.send { Rights::SEND } else { Rights::NONE };
    let listen = if rule.listen { Rights::LISTEN } else { Rights::NONE };
    send | listen
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use consign_core::{
        administration::{QueueSettings, SubscriptionSettings, TopicSettings},
        time::{ManualClock, Timestamp},
    };

    use super::*;
    use crate::auth::sas::sign;

    const NOW: u64 = 1_800_000_000;

    fn key(byte: char) -> String {
        byte.to_string().repeat(43) + "="
    }

    fn metadata(byte: char) -> Metadata {
        let rule = |name, byte: char| AuthorizationRule::new(name, key(byte), key(byte.to_ascii_uppercase()));
        let mut metadata = Metadata::default();
        metadata.authorization_rules =
            vec![rule("listen", byte).listen(true), rule("all", byte).send(true).listen(true).manage(true)];
        metadata
    }

    /// The queues `q` and `q/other` and the topic `t` have rules of the same names, and keys of their own.
    fn broker() -> Broker {
        let broker = Broker::with_clock(ManualClock::new(Timestamp::from_millis(NOW.cast_signed() * 1_000)));
        broker.create_queue("Q", QueueSettings::default().metadata(metadata('q'))).unwrap();
        broker.create_queue("q/other", QueueSettings::default().metadata(metadata('o'))).unwrap();
        let topic = broker.create_topic("t", TopicSettings::default().metadata(metadata('t'))).unwrap();
        topic.create_subscription("s", SubscriptionSettings::default()).unwrap();
        broker
    }

    fn grant(audience: &str, resource: &str, expiry: u64, name: &str, key: &str) -> Option<Result<Grant, String>> {
        let token = sign(resource, expiry, name, key);
        let granted = authorize(&broker(), &Token::new("servicebus.windows.net:sastoken", audience, &token));
        granted.map(|granted| granted.map_err(|denied| denied.to_string()))
    }

    fn rights(path: &str, name: &str, key: &str) -> Option<Rights> {
        grant(&format!("sb://h/{path}"), "sb://h", NOW + 60, name, key).map(|granted| granted.unwrap().rights)
    }

    /// Rules: G-55.
    #[test]
    fn both_keys_of_a_rule_sign_tokens_for_its_entity() {
        let expected = Grant::new(Rights::LISTEN).valid_for(Duration::from_secs(60)).of_entity();
        for key in [key('q'), key('Q')] {
            assert_eq!(grant("amqps://h/q", "sb://h/Q/", NOW + 60, "listen", &key), Some(Ok(expected.clone())));
            assert_eq!(rights("q", "all", &key), Some(Rights::MANAGE));
        }
        for part in ["q/$management", "q/$DeadLetterQueue", "q/$Transfer/$deadletterqueue"] {
            assert_eq!(rights(part, "all", &key('q')), Some(Rights::MANAGE), "{part}");
        }
        for part in ["t", "t/Subscriptions", "t/subscriptions/s/$management", "t/Subscriptions/s/Rules/r"] {
            assert_eq!(rights(part, "all", &key('t')), Some(Rights::MANAGE), "{part}");
        }
        for part in ["q/messages", "q/messages/head", "t/subscriptions/s/messages/1/2"] {
            let granted = rights(part, "all", &key(part.chars().next().unwrap())).unwrap();
            assert!(granted.contains(Rights::SEND | Rights::LISTEN), "{part}");
        }
        assert!(!rights("q/messages", "all", &key('q')).unwrap().contains(Rights::MANAGE));
    }

    /// Rules: G-55.
    /// Attacks: 76, 79.
    #[test]
    fn a_key_is_for_no_other_entity_and_a_token_has_its_resource_and_its_time() {
        for path in ["", "q/other", "q/new", "q2", "none", "t", "q/$other", "$cbs", &"q/messages/".repeat(100)] {
            assert_eq!(rights(path, "all", &key('q')), None, "{path}");
        }
        assert_eq!(rights("q/other", "all", &key('o')), Some(Rights::MANAGE));
        for (name, key) in [("all", key('x')), ("none", key('q')), ("", key('q')), ("all", String::new())] {
            assert_eq!(rights("q", name, &key), None, "{name}");
        }
        let refused = |resource, expiry| grant("sb://h/q", resource, expiry, "all", &key('q')).unwrap().unwrap_err();
        assert!(refused("sb://h/q/other", NOW + 60).starts_with("InvalidAudience"));
        assert!(refused("sb://h/q", NOW).starts_with("ExpiredToken"));
        assert!(!refused("sb://h/q", NOW).contains("qqq"));
    }
}
