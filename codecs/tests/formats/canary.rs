use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::support::{ALL, Order, SELF_DESCRIBING, Which};

const CANARY: &str = "CANARY";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Strict {
    #[serde(rename = "a")]
    _a: u32,
}

#[derive(Debug, Deserialize)]
enum Variants {
    #[serde(rename = "x")]
    _X,
}

#[derive(Debug, Deserialize)]
enum NoVariants {}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
#[allow(dead_code)]
enum Untagged {
    _A(u32),
    _B(Vec<u32>),
}

#[derive(Debug, Deserialize)]
#[serde(tag = "a")]
enum Tagged {
    _X { _b: u32 },
}

/// A type whose own message quotes what it was given.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct Quoting;

impl TryFrom<String> for Quoting {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Err(format!("no such thing: {text}"))
    }
}

/// How many errors were looked at: 0 or 1.
fn check<'de, T: Deserialize<'de> + std::fmt::Debug>(codec: Which, body: &'de [u8]) -> usize {
    let Err(error) = codec.decode::<T>(body) else { return 0 };
    let (display, debug) = (error.to_string(), format!("{error:?}"));
    assert!(!display.contains(CANARY), "{codec:?}: {display}");
    assert!(!debug.contains(CANARY), "{codec:?}: {debug}");
    // The bytes as numbers: what a binary decoder would quote.
    assert!(!display.contains("67, 65, 78") && !debug.contains("67, 65, 78"), "{codec:?}: {display} {debug}");
    1
}

fn check_all(codec: Which, body: &[u8]) -> usize {
    [
        check::<Order>(codec, body),
        check::<Strict>(codec, body),
        check::<Variants>(codec, body),
        check::<NoVariants>(codec, body),
        check::<Untagged>(codec, body),
        check::<Tagged>(codec, body),
        check::<Quoting>(codec, body),
        check::<Vec<Quoting>>(codec, body),
        check::<BTreeMap<u32, u32>>(codec, body),
        check::<Vec<u32>>(codec, body),
        check::<(u32, Variants)>(codec, body),
        check::<char>(codec, body),
        check::<bool>(codec, body),
        check::<()>(codec, body),
        check::<&[u8]>(codec, body),
    ]
    .into_iter()
    .sum()
}

#[test]
fn no_body_stands_in_an_error() {
    /// Adds up the errors that were looked at, by reader.
    fn bodies<T: Serialize>(errors: &mut [usize; ALL.len()], value: &T) {
        for writer in ALL {
            let Ok(body) = writer.encode(value) else { continue };
            for (reader, errors) in ALL.into_iter().zip(&mut *errors) {
                *errors += check_all(reader, &body);
                *errors += check_all(reader, &body[..body.len() - 1]);
                *errors += check_all(reader, &[&body[..], CANARY.as_bytes()].concat());
            }
        }
    }
    let mut errors = [0; ALL.len()];
    for canary in [
        CANARY,
        "CANARY, expected CANARY",
        "`CANARY`",
        "missing field `CANARY`",
        "x, expected `CANARY`, there are no variants",
    ] {
        bodies(&mut errors, &canary);
        bodies(&mut errors, &vec![canary]);
        bodies(&mut errors, &(1, canary));
        bodies(&mut errors, &BTreeMap::from([(canary, 1)]));
        bodies(&mut errors, &BTreeMap::from([(canary, canary)]));
        bodies(&mut errors, &BTreeMap::from([("a", canary)]));
        bodies(&mut errors, &BTreeMap::from([("id", canary), ("sku", canary), ("qty", canary)]));
        bodies(&mut errors, &serde_bytes::ByteBuf::from(canary));
        bodies(&mut errors, &Some(vec![BTreeMap::from([("a", Some(canary))])]));
    }
    for (reader, errors) in ALL.into_iter().zip(errors) {
        assert!(errors > 1_000, "{reader:?}: {errors}");
    }
}

#[test]
fn an_error_has_the_expectation_of_the_type() {
    for codec in SELF_DESCRIBING {
        let body = codec.encode(&BTreeMap::from([("id", 1)])).unwrap();
        let error = codec.decode::<Order>(&body).unwrap_err();
        assert_eq!(error.detail(), Some("missing field `sku`"), "{codec:?}");
        let body = codec.encode(&BTreeMap::from([(CANARY, 1)])).unwrap();
        let error = codec.decode::<Strict>(&body).unwrap_err();
        assert_eq!((error.detail(), error.expected()), (Some("unknown field"), Some("`a`")), "{codec:?}");
    }
}
