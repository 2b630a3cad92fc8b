use super::{
    Coordinator, Error, Source, Target,
    composite::{choice, composite, one_of},
};
use crate::value::{Map, Str, Symbol};

choice! {
    /// The end of a link.
    Role: bool, "role" {
        /// The end that sends deliveries.
        Sender = false,
        /// The end that receives deliveries.
        Receiver = true,
    }
}

choice! {
    /// Which deliveries a sender settles as it sends them.
    SenderSettleMode: u8, "sender settle mode" {
        /// None.
        Unsettled = 0,
        /// All.
        Settled = 1,
        /// Some.
        Mixed = 2,
    }
}

choice! {
    /// Which end settles a delivery first.
    ReceiverSettleMode: u8, "receiver settle mode" {
        /// The receiver, without waiting for the sender.
        First = 0,
        /// The sender, after the receiver has reported the outcome.
        Second = 1,
    }
}

one_of! {
    /// Where the messages of a link go: a node, or the coordinator of transactions.
    AttachTarget "target or coordinator" {
        /// A node.
        Target(Box<Target>) of Target,
        /// The coordinator of transactions.
        Coordinator(Coordinator) of Coordinator,
    }
}

composite! {
    /// Attaches a link to a session.
    Attach = 0x12 "amqp:attach:list" {
        /// The name of the link, unique between two containers in one direction. Mandatory.
        name: mandatory Str,
        /// The number of the link in its session. Mandatory.
        handle: mandatory u32,
        /// The end that sends this frame. Mandatory.
        role: mandatory Role,
        /// Which deliveries the sender settles as it sends them. Mixed by default.
        snd_settle_mode: default SenderSettleMode = SenderSettleMode::Mixed,
        /// Which end settles first. The receiver by default.
        rcv_settle_mode: default ReceiverSettleMode = ReceiverSettleMode::First,
        /// Where messages come from.
        source: optional Box<Source>,
        /// Where messages go.
        target: optional AttachTarget,
        /// Unsettled deliveries: delivery tags, and the states of the deliveries or null.
        unsettled: optional Map,
        /// Whether `unsettled` lacks deliveries because they did not fit into the frame.
        incomplete_unsettled: default bool = false,
        /// The delivery count at which the sender begins. Some clients leave it out where AMQP 1.0 demands it.
        initial_delivery_count: optional u32,
        /// The largest message that the sender of this accepts, in bytes. Zero or none: no limit.
        max_message_size: optional u64,
        /// Extensions that the sender of this supports.
        offered_capabilities: multiple Symbol,
        /// Extensions that the sender of this uses if the peer supports them.
        desired_capabilities: multiple Symbol,
        /// Properties of the link. Keys are symbols.
        properties: optional Map,
    }
}

composite! {
    /// Detaches a link, or closes it.
    Detach = 0x16 "amqp:detach:list" {
        /// The number of the link. Mandatory.
        handle: mandatory u32,
        /// Whether the link is closed: its state is discarded. False by default.
        closed: default bool = false,
        /// Why, if it is detached for an error.
        error: optional Error,
    }
}

composite! {
    /// Updates the windows of a session, and the credit of a link if it names one.
    Flow = 0x13 "amqp:flow:list" {
        /// The transfer id that the peer's next transfer should have. None before the peer's begin.
        next_incoming_id: optional u32,
        /// How many transfers may be received now. Mandatory.
        incoming_window: mandatory u32,
        /// The transfer id of the next transfer. Mandatory.
        next_outgoing_id: mandatory u32,
        /// How many transfers may be sent now. Mandatory.
        outgoing_window: mandatory u32,
        /// The link. None is the session alone.
        handle: optional u32,
        /// The delivery count of the link's sender, as far as it is known.
        delivery_count: optional u32,
        /// How many deliveries the receiver accepts from that delivery count on.
        link_credit: optional u32,
        /// How many messages the sender has ready.
        available: optional u32,
        /// Whether the sender uses up its credit now. False by default.
        drain: default bool = false,
        /// Whether the peer answers with a flow. False by default.
        echo: default bool = false,
        /// Properties of the link. Keys are symbols.
        properties: optional Map,
    }
}
