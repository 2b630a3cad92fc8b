//! I24: a session has one holder, and its messages come in order, whoever else wants them and whatever breaks.

#[path = "../support/mod.rs"]
mod support;

mod foreign;
mod locks;
mod older;
mod order;
mod state;

use std::time::Duration;

use consign::{
    Message,
    transport::{Delivery, ErrorKind, ReceiverExt, Sender as _},
};
use consign_rabbitmq::{Options, QueueSettings, RabbitMq, RabbitMqLease, RabbitMqSession};
use tokio::time::timeout;

/// For what happens at once, on a machine that is busy.
const SOON: Duration = Duration::from_secs(40);
const MOMENT: Duration = Duration::from_millis(300);

fn by_session(slots: u16) -> QueueSettings {
    let mut settings = QueueSettings::default();
    settings.requires_session = true;
    settings.session_slots = slots;
    settings
}

/// The same, with locks that are not renewed and outlast a loop on a machine that is busy.
fn by_long_session(slots: u16) -> QueueSettings {
    let mut settings = by_session(slots);
    settings.lock_duration = Duration::from_secs(300);
    settings
}

struct Bench {
    rabbit: RabbitMq,
    queue: String,
}

impl Bench {
    async fn new(settings: QueueSettings) -> Option<Self> {
        Self::with(support::options(), settings).await
    }

    async fn with(options: Options, settings: QueueSettings) -> Option<Self> {
        let rabbit = support::connect(options).await?;
        Some(Self::on(rabbit, settings).await)
    }

    async fn at(options: Options, address: &str, settings: QueueSettings) -> Self {
        Self::on(options.connect(address).await.expect("a broker that answers"), settings).await
    }

    async fn on(rabbit: RabbitMq, settings: QueueSettings) -> Self {
        let queue = support::unique("sessions");
        rabbit.create_queue(&queue, settings).await.expect("a broker that answers");
        Self { rabbit, queue }
    }

    /// What another process would be.
    async fn other(&self, options: Options, address: &str) -> RabbitMq {
        options.connect(address).await.expect("a broker that answers")
    }

    async fn send(&self, id: &str, body: &str) {
        let message =
            Message::builder().session_id(id.to_owned()).build(body.to_owned()).expect("a broker that answers");
        self.rabbit
            .sender(&self.queue)
            .expect("a broker that answers")
            .send(message)
            .await
            .expect("a broker that answers");
    }

    async fn accept(&self, id: &str) -> RabbitMqSession {
        self.rabbit.accept_session(&self.queue, id).await.expect("a broker that answers")
    }

    async fn end(self) {
        self.rabbit.delete(&self.queue).await.expect("a broker that answers");
        self.rabbit.close().await.expect("an open connection");
    }
}

fn text(delivery: &Delivery<RabbitMqLease>) -> String {
    String::from_utf8_lossy(delivery.message.payload().expect("a broker that answers")).into_owned()
}

fn count(delivery: &Delivery<RabbitMqLease>) -> u32 {
    delivery.message.received().expect("a broker that answers").delivery_count
}

/// The next message, with its delivery count.
async fn next(session: &mut RabbitMqSession) -> (String, u32, Delivery<RabbitMqLease>) {
    let delivery = session.receive_within(SOON).await.expect("a broker that answers");
    (text(&delivery), count(&delivery), delivery)
}

async fn expect(session: &mut RabbitMqSession, expected: &[(&str, u32)]) {
    for (body, deliveries) in expected {
        let (text, count, delivery) = next(session).await;
        assert_eq!((text.as_str(), count), (*body, *deliveries));
        delivery.complete().await.expect("a broker that answers");
    }
    assert!(session.receive_within(MOMENT).await.is_err());
}

/// The session, when another has given it up, well before its lock ends.
async fn accept_soon(rabbit: &RabbitMq, queue: &str, id: &str) -> RabbitMqSession {
    let accepting = async {
        loop {
            match rabbit.accept_session(queue, id).await {
                Err(error) if error.kind() == ErrorKind::SessionCannotBeLocked => tokio::task::yield_now().await,
                accepted => break accepted.expect("a broker that answers"),
            }
        }
    };
    timeout(SOON, accepting).await.expect("no lock is left")
}
