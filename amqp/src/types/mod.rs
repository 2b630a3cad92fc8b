//! The composite types of AMQP 1.0: performatives, SASL, termini, delivery states, transactions.
//!
//! Each is decoded from its bytes and encoded to them directly, with no [`Value`](crate::value::Value) in between. A missing field
//! is its default, and fields beyond the last are skipped. The encoder writes every field.

pub(crate) mod composite;
mod connection;
mod delivery;
mod delivery_state;
mod descriptors;
mod error;
mod link;
mod performative;
mod sasl;
mod session;
mod terminus;
mod transaction;

pub(crate) use self::descriptors::code_of;
pub use self::{
    composite::Multiple,
    connection::{Close, Open},
    delivery::{Disposition, Transfer},
    delivery_state::{Accepted, DeliveryState, Modified, Received, Rejected, Released},
    error::{Error, condition},
    link::{Attach, AttachTarget, Detach, Flow, ReceiverSettleMode, Role, SenderSettleMode},
    performative::Performative,
    sasl::{SaslChallenge, SaslCode, SaslFrame, SaslInit, SaslMechanisms, SaslOutcome, SaslResponse},
    session::{Begin, End},
    terminus::{Source, Target, TerminusDurability},
    transaction::{Coordinator, Declare, Declared, Discharge, TransactionalState},
};
