//! A supervisor is given a consumer instead of a function that makes one.
//!
//! Pass a closure, `move || Consumer::new(...)`: a supervisor makes the consumer again after a failure.

use consign::{
    Disposition, Message,
    broker::QueueReceiver,
    consumer::Consumer,
    supervisor::{Supervisor, SupervisorError},
};

async fn handle(_: Message) -> Disposition {
    Disposition::Complete
}

async fn supervise(receiver: QueueReceiver) -> Result<(), SupervisorError> {
    Supervisor::new().consumer("orders", Consumer::new(receiver, handle)).run().await
}

fn main() {}
