//! A handler has nine arguments.

use consign::{
    codecs::Codecs,
    routing::{MessageId, Router},
};

async fn created(
    _: MessageId,
    _: MessageId,
    _: MessageId,
    _: MessageId,
    _: MessageId,
    _: MessageId,
    _: MessageId,
    _: MessageId,
    _: MessageId,
) {
}

fn main() {
    let _ = Router::new(Codecs::json()).route("order.created", created).build();
}
