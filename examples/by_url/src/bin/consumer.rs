//! One consumer, on the broker of a URL: `cargo run --package consign-by-url --bin consumer -- nats://127.0.0.1:4222`.

use consign::{
    Disposition, Message,
    codecs::Codecs,
    consumer::Consumer,
    message::PropertyValue,
    routing::{Body, Router},
    settlement::DeadLetter,
    transport::{ReceiverExt, Sender},
};
use consign_by_url::{Place, Visitor};
use tokio::sync::mpsc;
use tower::BoxError;

/// Sends three orders, one of them unreadable, handles two, and says why the third is dead.
struct Orders;

impl Visitor for Orders {
    type Output = Vec<String>;

    async fn visit<P: Place>(self, place: P) -> Result<Vec<String>, BoxError> {
        let sender = place.sender().await?;
        for body in [r#"["bolt",12]"#, "not JSON", r#"["nut",7]"#] {
            sender.send(Message::builder().content_type("application/json").build(body)?).await?;
        }

        let (handled, mut orders) = mpsc::channel(4);
        let order = move |Body((article, pieces)): Body<(String, u32)>| {
            let handled = handled.clone();
            async move {
                let _ = handled.send(format!("{pieces} of {article}")).await;
                Disposition::Complete
            }
        };
        let stack = Router::new(Codecs::json()).otherwise(order).build()?;
        let mut said = Vec::new();
        let until_two = async {
            while said.len() < 2 {
                said.extend(orders.recv().await);
            }
        };
        Consumer::new(place.receiver().await?, stack).run_until(until_two).await?;

        let dead = place.dead_letters().await?.receive().await?;
        let why = dead.message.application().get(DeadLetter::REASON).and_then(PropertyValue::as_str);
        said.push(format!("dead: {}", why.unwrap_or("without a reason")));
        dead.complete().await?;
        place.delete().await?;
        Ok(said)
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    let queue = format!("orders-{:08x}", fastrand::u32(..));
    for line in consign_by_url::visit(&url, &queue, Orders).await? {
        println!("{line}");
    }
    Ok(())
}
