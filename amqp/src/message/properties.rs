use super::MessageId;
use crate::{
    types::composite::composite,
    value::{Binary, Str, Symbol, Timestamp},
};

composite! {
    /// How a message is delivered. An intermediary may change it.
    Header = 0x70 "amqp:header:list" {
        /// Whether the message survives a restart of its node. False by default.
        durable: elided bool = false,
        /// From 0, the lowest. 4 by default.
        priority: elided u8 = 4,
        /// How long the message is live, in milliseconds.
        ttl: optional u32,
        /// Whether no other receiver has acquired the message before. False by default.
        first_acquirer: elided bool = false,
        /// How many deliveries have failed before. 0 by default; it is always encoded.
        delivery_count: default u32 = 0,
    }
}

composite! {
    /// The properties of a message, which intermediaries do not change.
    Properties = 0x73 "amqp:properties:list" {
        /// The id of the message.
        message_id: optional MessageId,
        /// The identity of the user that produced the message.
        user_id: optional Binary,
        /// The address of the node that the message is for.
        to: optional Str,
        /// What the message is about.
        subject: optional Str,
        /// The address of the node that replies are for.
        reply_to: optional Str,
        /// The id of the message that this one belongs to.
        correlation_id: optional MessageId,
        /// The media type of the data sections.
        content_type: optional Symbol,
        /// The encodings of the data sections, such as compression.
        content_encoding: optional Symbol,
        /// When the message expires.
        absolute_expiry_time: optional Timestamp,
        /// When the message was created.
        creation_time: optional Timestamp,
        /// The group of the message. On Service Bus, the session.
        group_id: optional Str,
        /// The position in the group.
        group_sequence: optional u32,
        /// The group that replies are for.
        reply_to_group_id: optional Str,
    }
}
