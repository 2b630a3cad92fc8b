//! Which server the tests use.

use std::{env, net::TcpStream};

use consign_conformance::left_out;

/// The address of the server. `None` if no server was named and there is none where one would be.
pub(crate) fn url() -> Option<String> {
    if let Ok(url) = env::var("CONSIGN_NATS") {
        return Some(url);
    }
    if TcpStream::connect("127.0.0.1:4222").is_err() {
        left_out("tests on NATS: none at 127.0.0.1:4222; scripts/brokers starts one");
        return None;
    }
    Some("nats://127.0.0.1:4222".into())
}
