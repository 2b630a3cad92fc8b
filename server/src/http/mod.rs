//! The HTTP listener, feature `http`: messages, the administration of entities, and AMQP over WebSocket.
//!
//! [`Server::serve_http`](crate::Server::serve_http) serves it. The README of this crate has the requests.

mod administration;
mod authorization;
mod body;
mod call;
mod connections;
mod framing;
mod listener;
mod locks;
mod messages;
mod namespace;
mod options;
mod query;
mod refusal;
mod router;
mod stall;
mod web_socket;

pub use self::{listener::serve_routes, options::HttpOptions};

/// What the requests of a listener share.
struct Http {
    server: crate::Server,
    options: HttpOptions,
    locks: locks::Delivered,
}

/// What is escaped in the path of a URL. Clients read the names of entities without decoding, so the rest stays.
const ESCAPED: &percent_encoding::AsciiSet = &percent_encoding::CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'`')
    .add(b'{')
    .add(b'}');

/// The path of an entity, as a URL has it.
fn path_in_url(path: &consign_core::message::EntityPath) -> String {
    text_in_url(path.as_str()).to_string()
}

fn text_in_url(path: &str) -> percent_encoding::PercentEncode<'_> {
    percent_encoding::utf8_percent_encode(path, ESCAPED)
}
