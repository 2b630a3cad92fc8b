//! Methods that senders look for and do not have: their properties are set by the broker.
//!
//! No type implements the bound of their argument, so a call does not compile, and the compiler says why. Without them it would
//! report a missing method.

use super::Properties;

/// The argument of a setter that no sender has.
#[diagnostic::on_unimplemented(
    message = "a sender cannot set this property: remove the call, because the broker sets it",
    label = "the broker sets it",
    note = "`message.received()` has it: `received.sequence_number`, `received.delivery_count`; in a handler, the argument `Received`",
    note = "for a message on which a test calls a handler, use `Message::with_received`"
)]
pub trait SetBySender {}

/// Implements the setters of `Properties`.
macro_rules! set_by_broker {
    ($($set:ident)*) => {
        impl Properties {$(
            #[doc(hidden)]
            pub fn $set(&mut self, _: impl SetBySender) -> &mut Self {
                self
            }
        )*}
    };
}

set_by_broker! {
    set_sequence_number
    set_enqueued_sequence_number
    set_enqueued_time
    set_delivery_count
    set_locked_until
    set_dead_letter_source
}
