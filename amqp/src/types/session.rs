use super::{Error, composite::composite};
use crate::value::{Map, Symbol};

composite! {
    /// Begins a session on a channel.
    Begin = 0x11 "amqp:begin:list" {
        /// The channel of the peer's begin that this answers. None begins a session.
        remote_channel: optional u16,
        /// The transfer id of the next transfer. Mandatory.
        next_outgoing_id: mandatory u32,
        /// How many transfers may be received now. Mandatory.
        incoming_window: mandatory u32,
        /// How many transfers may be sent now. Mandatory.
        outgoing_window: mandatory u32,
        /// The highest handle of a link. 4,294,967,295 by default.
        handle_max: default u32 = u32::MAX,
        /// Extensions that the sender of this supports.
        offered_capabilities: multiple Symbol,
        /// Extensions that the sender of this uses if the peer supports them.
        desired_capabilities: multiple Symbol,
        /// Properties of the session. Keys are symbols.
        properties: optional Map,
    }
}

composite! {
    /// Ends a session.
    End = 0x17 "amqp:end:list" {
        /// Why, if it is ended for an error.
        error: optional Error,
    }
}
