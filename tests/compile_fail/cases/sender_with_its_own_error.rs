//! The service that `EncodeLayer` wraps has an error of its own.
//! The response is `()`, and the error converts into `SendError`: use `.map_err(...)`, for example into a `BoxError`.

use consign::{
    Message,
    codecs::Codecs,
    middleware::encode::{EncodeLayer, OutboundMessage},
    transport::SendExt,
};
use tower::{ServiceBuilder, service_fn};

async fn publish(_: Message) -> Result<(), std::io::Error> {
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut stack = ServiceBuilder::new().layer(EncodeLayer::new(Codecs::json())).service(service_fn(publish));
    let _ = stack.send(OutboundMessage::new(1)).await;
}
