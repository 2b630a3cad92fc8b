mod golden;
mod random;

use consign_rules::RuleSet;

use super::malformed::Malformed;
use crate::engine::record::{
    BrokerRecord, CounterRecord, EntityKind, EntityRecord, IdRecord, MessageRecord, SessionRecord,
};

/// One of the kinds of records.
pub(super) enum Record {
    Broker(BrokerRecord),
    Entity(Box<EntityRecord>),
    Counter(Box<CounterRecord>),
    Session(SessionRecord),
    Id(IdRecord),
    Message(Box<MessageRecord>),
}

impl Record {
    fn encode(&self) -> Vec<u8> {
        // It is appended to what there is.
        let mut out = vec![0xee];
        match self {
            Self::Broker(record) => record.encode(&mut out),
            Self::Entity(record) => record.encode(&mut out),
            Self::Counter(record) => record.encode(&mut out),
            Self::Session(record) => record.encode(&mut out),
            Self::Id(record) => record.encode(&mut out),
            Self::Message(record) => record.encode(&mut out),
        }
        assert_eq!(out.remove(0), 0xee);
        out
    }

    /// A record of the same kind.
    fn decode(&self, bytes: &[u8]) -> Result<Self, Malformed> {
        Ok(match self {
            Self::Broker(_) => Self::Broker(BrokerRecord::decode(bytes)?),
            Self::Entity(_) => Self::Entity(EntityRecord::decode(bytes)?.into()),
            Self::Counter(_) => Self::Counter(CounterRecord::decode(bytes)?.into()),
            Self::Session(_) => Self::Session(SessionRecord::decode(bytes)?),
            Self::Id(_) => Self::Id(IdRecord::decode(bytes)?),
            Self::Message(_) => Self::Message(MessageRecord::decode(bytes)?.into()),
        })
    }
}

/// Of equal records every part is equal. A float that is no number is not equal to itself.
impl PartialEq for Record {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Broker(one), Self::Broker(other)) => one == other,
            (Self::Entity(one), Self::Entity(other)) => {
                let kinds = match (&one.kind, &other.kind) {
                    (EntityKind::Queue(one), EntityKind::Queue(other)) => one == other,
                    (EntityKind::Topic(one), EntityKind::Topic(other)) => one == other,
                    (
                        EntityKind::Subscription { settings, topic, rules },
                        EntityKind::Subscription { settings: others, topic: its, rules: theirs },
                    ) => {
                        let all = |rules: &RuleSet| {
                            rules.iter().map(|rule| (rule.clone(), rule.created())).collect::<Vec<_>>()
                        };
                        settings == others && topic == its && all(rules) == all(theirs)
                    }
                    _ => false,
                };
                kinds && one.path.as_str() == other.path.as_str() && one.secret == other.secret
            }
            (Self::Counter(one), Self::Counter(other)) => one == other,
            (Self::Session(one), Self::Session(other)) => one == other,
            (Self::Id(one), Self::Id(other)) => one == other,
            (Self::Message(one), Self::Message(other)) => {
                let parts = |of: &MessageRecord| {
                    let message = &of.message;
                    let source = message.dead_letter_source().map(str::to_owned);
                    (of.state, message.properties().clone(), message.body().clone(), source)
                };
                parts(one) == parts(other)
            }
            _ => false,
        }
    }
}
