//! The type of a request's body does not implement `Deserialize`.

use consign::{
    Message,
    codecs::Codecs,
    message::EntityPath,
    routing::Body,
    rpc::{Reply, Responder},
    transport::{SendError, Sender},
};

struct Ask;

async fn quote(Body(ask): Body<Ask>) -> Reply<u64> {
    drop(ask);
    Reply(1)
}

fn serve<S: Sender + Clone>(sender: S) {
    let senders = move |_: &EntityPath| {
        let sender = sender.clone();
        Ok::<_, SendError>(tower::service_fn(move |reply: Message| sender.send(reply)))
    };
    let _ = Responder::builder(senders).codecs(Codecs::json()).answer("quote", quote).build();
}

fn main() {}
