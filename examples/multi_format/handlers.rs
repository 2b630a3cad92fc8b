//! The consumer's side: the codecs, and a handler for each kind of event.

use std::sync::Arc;

use consign::{
    BuildError, Disposition, Message,
    broker::QueueSender,
    codecs::{Bincode, Cbor, CodecSet, Codecs, ConfigError, Decoded, Json, MessagePack},
    middleware::from_fn::from_fn,
    routing::{Payload, Router, State},
    settlement::Undecodable,
};
use tower::{BoxError, Service, ServiceBuilder};

use crate::{
    events::{Event, Typed},
    format::Format,
    ledger::Ledger,
    payloads::{Anything, Issues, PullRequest, Push},
    store,
};

type Books = State<Arc<Ledger>>;

/// JSON unless something else is declared; then whatever describes itself. bincode does not, and so is read only where
/// it is declared.
pub fn codecs() -> Result<Codecs<impl CodecSet>, ConfigError> {
    Codecs::builder()
        .with(Json::default())
        .with(MessagePack)
        .with(Cbor)
        .with(Bincode::fixint())
        .fallback(["json", "msgpack", "cbor"])
        .build()
}

/// The receiving stack.
pub fn stack<C: CodecSet>(
    codecs: Codecs<C>,
    ledger: Arc<Ledger>,
    books: Option<QueueSender>,
) -> Result<impl Service<Message, Response = Disposition, Error = BoxError, Future: Send> + Clone + Send, BuildError> {
    let router = Router::with_state(codecs, Arc::clone(&ledger))
        .fallback(anything)
        .route("push", push)
        .route("issues", issues)
        .route("pull_request", pull_request)
        .build()?;
    let note = from_fn(move |message: Message, next| {
        ledger.delivered(&message);
        let written = books.clone().map(|books| (books, Arc::clone(&ledger), message.clone()));
        async move {
            let disposition = next.run(message).await?;
            if let Some((books, ledger, message)) = written
                && let Some(entry) = ledger.unwritten(&message)
            {
                store::write(&books, &entry).await?;
            }
            Ok(disposition)
        }
    });
    Ok(ServiceBuilder::new().layer(note).service(router))
}

/// Borrows from the message, which it therefore takes whole.
async fn push<C: CodecSet>(payload: Payload<C>, State(ledger): Books) -> Result<(), Undecodable> {
    let push = payload.decode_traced::<Push<'_>>()?;
    let sent = sent(&ledger, &payload);
    let is_right = matches!(sent, Some((_, Event { typed: Some(Typed::Push(sent)), .. })) if *sent == push.value);
    ledger.handled(&payload, &push, is_right);
    Ok(())
}

async fn issues(issues: Decoded<Issues>, message: Message, State(ledger): Books) {
    let sent = sent(&ledger, &message);
    let is_right = matches!(sent, Some((_, Event { typed: Some(Typed::Issues(sent)), .. })) if *sent == issues.value);
    ledger.handled(&message, &issues, is_right);
}

async fn pull_request(pull: Decoded<PullRequest>, message: Message, State(ledger): Books) {
    let sent = sent(&ledger, &message);
    let is_right =
        matches!(sent, Some((_, Event { typed: Some(Typed::PullRequest(sent)), .. })) if **sent == pull.value);
    ledger.handled(&message, &pull, is_right);
}

/// Every other kind. Noise that happens to be a map is a value like any other.
async fn anything(map: Decoded<Anything>, message: Message, State(ledger): Books) {
    let is_right = match sent(&ledger, &message) {
        Some((Format::Noise, _)) => true,
        Some((_, event)) => event.payload.keys().eq(map.value.keys()),
        None => false,
    };
    ledger.handled(&message, &map, is_right);
}

/// What this message was made of.
fn sent<'l>(ledger: &'l Ledger, message: &Message) -> Option<(Format, &'l Event)> {
    let number = ledger.plan().number(message)?;
    Some((ledger.plan().format(number), ledger.plan().event(number)))
}
