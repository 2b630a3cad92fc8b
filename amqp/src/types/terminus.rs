use super::{
    DeliveryState,
    composite::{choice, composite},
};
use crate::value::{Map, Str, Symbol};

choice! {
    /// What of a terminus survives a restart of its container.
    TerminusDurability: u32, "terminus durability" {
        /// Nothing.
        None = 0,
        /// That it exists, and its configuration.
        Configuration = 1,
        /// Its unsettled deliveries too.
        UnsettledState = 2,
    }
}

/// The default expiry policy of a terminus: it expires with its session.
const SESSION_END: Symbol = Symbol::from_static("session-end");

composite! {
    /// Where the messages of a link come from.
    Source = 0x28 "amqp:source:list" {
        /// The address of the node.
        address: optional Str,
        /// What survives a restart. Nothing by default.
        durable: default TerminusDurability = TerminusDurability::None,
        /// When the source expires: `link-detach`, `session-end`, `connection-close` or `never`. `session-end` by default.
        expiry_policy: default Symbol = SESSION_END,
        /// How long the source stays after that, in seconds. 0 by default.
        timeout: default u32 = 0,
        /// Whether a node is created for the link. False by default.
        dynamic: default bool = false,
        /// Properties of the node that is created. Keys are symbols.
        dynamic_node_properties: optional Map,
        /// `move` or `copy`: whether a delivered message stays on the node.
        distribution_mode: optional Symbol,
        /// Filters: names, and described values.
        filter: optional Map,
        /// The outcome of deliveries that end without one.
        default_outcome: optional DeliveryState,
        /// The outcomes that may occur, as names of descriptors.
        outcomes: multiple Symbol,
        /// Extensions of the source.
        capabilities: multiple Symbol,
    }
}

composite! {
    /// Where the messages of a link go.
    Target = 0x29 "amqp:target:list" {
        /// The address of the node.
        address: optional Str,
        /// What survives a restart. Nothing by default.
        durable: default TerminusDurability = TerminusDurability::None,
        /// When the target expires: `link-detach`, `session-end`, `connection-close` or `never`. `session-end` by default.
        expiry_policy: default Symbol = SESSION_END,
        /// How long the target stays after that, in seconds. 0 by default.
        timeout: default u32 = 0,
        /// Whether a node is created for the link. False by default.
        dynamic: default bool = false,
        /// Properties of the node that is created. Keys are symbols.
        dynamic_node_properties: optional Map,
        /// Extensions of the target.
        capabilities: multiple Symbol,
    }
}
