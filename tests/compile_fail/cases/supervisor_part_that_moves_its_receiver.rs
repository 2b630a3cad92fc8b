//! The function that makes a consumer moves its receiver.
//!
//! Make the receiver in the closure: `move || Consumer::new(queue.receiver(), handle)`.

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
    Supervisor::new().consumer("orders", move || Consumer::new(receiver, handle)).run().await
}

fn main() {}
