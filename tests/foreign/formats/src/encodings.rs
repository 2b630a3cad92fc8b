//! Python's `gzip`, `zlib` and `zstandard`.

use std::sync::{Arc, Mutex, PoisonError};

use base64::{Engine, engine::general_purpose::STANDARD};
use consign::{
    Disposition, Message,
    middleware::content_encoding::{CompressLayer, DecompressLayer, Encoding},
    transport::SendError,
};
use serde_json::json;
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};

use crate::environment::{Environment, same};

/// Lines that are alike, and not the same.
fn text() -> String {
    let line = |line| format!("{{\"line\":{line},\"sku\":\"sku-{}\"}}\n", line * 7_919 % 1_000);
    (0..2_000).map(line).collect::<Vec<_>>().concat()
}

fn encoding(name: &str) -> Encoding {
    match name {
        "gzip" => Encoding::Gzip,
        "deflate" => Encoding::Deflate,
        _ => Encoding::Zstd,
    }
}

/// The body that a service is called with.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<u8>>>);

impl Seen {
    fn set(&self, message: &Message) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = message.payload().unwrap_or_default().to_vec();
    }

    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(crate) async fn from_python(env: &Environment, name: &str, variant: &str) -> Result<(), BoxError> {
    let body = STANDARD.encode(text());
    let answer = env.python("compress", json!({ "encoding": name, "variant": variant, "body": body })).await?;
    let mut message = Message::new(STANDARD.decode(answer.as_str().unwrap_or_default())?);
    message.properties_mut().pass_through_mut().content_encoding = Some(name.to_owned().into());
    let seen = Seen::default();
    let handler = service_fn(|message: Message| {
        seen.set(&message);
        async { Ok::<_, BoxError>(Disposition::Complete) }
    });
    let layers = ServiceBuilder::new().layer(DecompressLayer::new([encoding(name)])).service(handler);
    let disposition = layers.oneshot(message).await?;
    same("the disposition", disposition, Disposition::Complete)?;
    same("the body is the same", seen.take() == text().as_bytes(), true)
}

pub(crate) async fn to_python(env: &Environment, name: &str) -> Result<(), BoxError> {
    let seen = Seen::default();
    let transport = service_fn(|message: Message| {
        seen.set(&message);
        async { Ok::<_, SendError>(()) }
    });
    let layers = ServiceBuilder::new().layer(CompressLayer::new(encoding(name))).service(transport);
    layers.oneshot(Message::new(text())).await?;
    let body = seen.take();
    same("the body is compressed", body.len() < text().len() / 2, true)?;
    let answer = env.python("decompress", json!({ "encoding": name, "body": STANDARD.encode(body) })).await?;
    same("the body is the same", STANDARD.decode(answer.as_str().unwrap_or_default())? == text().as_bytes(), true)
}
