use super::{DeliveryState, composite::composite};
use crate::value::{Binary, Symbol, Value};

composite! {
    /// The target of a link that controls transactions.
    Coordinator = 0x30 "amqp:coordinator:list" {
        /// Extensions of the coordinator.
        capabilities: multiple Symbol,
    }
}

composite! {
    /// Begins a transaction: the body of a message to the coordinator.
    Declare = 0x31 "amqp:declare:list" {
        /// The id of a global transaction.
        global_id: optional Value,
    }
}

composite! {
    /// Ends a transaction: the body of a message to the coordinator.
    Discharge = 0x32 "amqp:discharge:list" {
        /// The transaction. Mandatory.
        txn_id: mandatory Binary,
        /// Whether it is rolled back. False by default.
        fail: default bool = false,
    }
}

composite! {
    /// The outcome of a declare: a transaction has begun.
    Declared = 0x33 "amqp:declared:list" {
        /// The transaction. Mandatory.
        txn_id: mandatory Binary,
    }
}

composite! {
    /// The state of a delivery within a transaction.
    TransactionalState = 0x34 "amqp:transactional-state:list" {
        /// The transaction. Mandatory.
        txn_id: mandatory Binary,
        /// The outcome that takes effect when the transaction is committed.
        outcome: optional Box<DeliveryState>,
    }
}
