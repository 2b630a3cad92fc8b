use super::{Error, composite::composite};
use crate::value::{Map, Str, Symbol};

composite! {
    /// Opens a connection: the first frame behind the protocol header.
    Open = 0x10 "amqp:open:list" {
        /// The name of the container. Mandatory.
        container_id: mandatory Str,
        /// The host that the client has dialled.
        hostname: optional Str,
        /// The largest frame that the sender of this accepts, in bytes, at least 512. 4,294,967,295 by default.
        max_frame_size: default u32 = u32::MAX,
        /// The highest channel number that the sender of this accepts. 65,535 by default.
        channel_max: default u16 = u16::MAX,
        /// The connection is closed after so many milliseconds without a frame.
        idle_time_out: optional u32,
        /// Locales for the texts that the sender of this sends, by preference.
        outgoing_locales: multiple Symbol,
        /// Locales for the texts that the sender of this receives, by preference.
        incoming_locales: multiple Symbol,
        /// Extensions that the sender of this supports.
        offered_capabilities: multiple Symbol,
        /// Extensions that the sender of this uses if the peer supports them.
        desired_capabilities: multiple Symbol,
        /// Properties of the connection. Keys are symbols.
        properties: optional Map,
    }
}

composite! {
    /// Closes a connection.
    Close = 0x18 "amqp:close:list" {
        /// Why, if it is closed for an error.
        error: optional Error,
    }
}
