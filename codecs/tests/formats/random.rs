use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*};
use serde::{Deserialize, de::IgnoredAny};
use serde_bytes::ByteBuf;
use serde_json::Value;

use crate::support::{ALL, Node, Order, Which, explain, order, runner};

#[derive(Debug, Deserialize)]
#[allow(dead_code)]
enum Event {
    Stopped,
    Moved(i64),
    Split(u8, String),
    Placed { id: u64, note: Option<char> },
}

/// Reads the body as one type after another. What comes out does not matter: that something comes out does.
fn read_as_everything(codec: Which, body: &[u8]) {
    let _ = codec.decode::<Order>(body);
    let _ = codec.decode::<Value>(body);
    let _ = codec.decode::<Event>(body);
    let _ = codec.decode::<Node>(body);
    let _ = codec.decode::<BTreeMap<String, Vec<Option<u32>>>>(body);
    let _ = codec.decode::<(f32, i128, &str)>(body);
    let _ = codec.decode::<Vec<()>>(body);
    let _ = codec.decode::<ByteBuf>(body);
    let _ = codec.decode::<String>(body);
    let _ = codec.decode::<IgnoredAny>(body);
}

/// Rules: P-45.
#[test]
fn random_bytes_panic_no_codec() {
    let result = runner(1_000).run(&vec(any::<u8>(), 0..64), |body| {
        for codec in ALL {
            read_as_everything(codec, &body);
        }
        Ok(())
    });
    explain(result, "random_bytes_panic_no_codec");
}

/// Rules: P-45.
/// Bytes near a valid body come further than random ones.
#[test]
fn random_bytes_in_a_valid_body_panic_no_codec() {
    let changes = vec((any::<prop::sample::Index>(), any::<u8>()), 1..4);
    let result = runner(2_000).run(&changes, |changes| {
        for codec in ALL {
            let Ok(mut body) = codec.encode(&order()) else { continue };
            for (at, byte) in &changes {
                let at = at.index(body.len());
                body[at] = *byte;
            }
            read_as_everything(codec, &body);
        }
        Ok(())
    });
    explain(result, "random_bytes_in_a_valid_body_panic_no_codec");
}
