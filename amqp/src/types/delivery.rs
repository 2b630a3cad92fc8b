use super::{DeliveryState, ReceiverSettleMode, Role, composite::composite};
use crate::value::Binary;

composite! {
    /// Transfers a message, or a part of one. The bytes of the message follow in the same frame.
    Transfer = 0x14 "amqp:transfer:list" {
        /// The number of the link. Mandatory.
        handle: mandatory u32,
        /// The number of the delivery in its session. Needed on the first transfer of a delivery.
        delivery_id: optional u32,
        /// The delivery tag, at most 32 bytes. Needed on the first transfer of a delivery.
        delivery_tag: optional Binary,
        /// The message format, such as [`message::FORMAT`](crate::message::FORMAT). Needed on the first transfer of a delivery.
        message_format: optional u32,
        /// Whether the sender has settled the delivery.
        settled: optional bool,
        /// Whether more transfers of the same delivery follow. False by default.
        more: default bool = false,
        /// Overrides the settle mode of the link for one delivery.
        rcv_settle_mode: optional ReceiverSettleMode,
        /// The state of the delivery at the sender.
        state: optional DeliveryState,
        /// Whether this resumes a delivery. False by default.
        resume: default bool = false,
        /// Whether the delivery is given up. False by default.
        aborted: default bool = false,
        /// Whether the receiver may delay its answer. False by default.
        batchable: default bool = false,
    }
}

composite! {
    /// Reports the state of deliveries.
    Disposition = 0x15 "amqp:disposition:list" {
        /// The end that sends this frame. Mandatory.
        role: mandatory Role,
        /// The first delivery. Mandatory.
        first: mandatory u32,
        /// The last delivery. None is the first.
        last: optional u32,
        /// Whether the deliveries are settled. False by default.
        settled: default bool = false,
        /// The state of the deliveries.
        state: optional DeliveryState,
        /// Whether the peer may delay its answer. False by default.
        batchable: default bool = false,
    }
}
