use super::{
    keyed::{
        CHANGES, HARMLESS, all_or_nothing, bound, further_properties, key, keys, missing_is_not_empty, refused,
        values_are_canonical,
    },
    stacks::{no_time_of_its_own, not_sent, received, sent},
};
use consign::{
    Message,
    message::{PropertyValue, Value},
    middleware::{
        keys::{Key, Keys},
        signing::{SignLayer, VerifyLayer},
    },
    transport::ErrorKind,
};

fn signed() -> Message {
    sent(&SignLayer::new(keys()), bound())
}

/// What stands before the digits.
const BEFORE: &str = "2:hmac-sha256:";
const WRONG: &str = "not authentic: the signature by the key `new` does not match";

/// Rules: H-30.
#[test]
fn a_signature_is_beside_the_body() {
    let message = signed();
    let property = |name| message.application_properties().get(name).and_then(PropertyValue::as_str);
    let digits = property(SignLayer::SIGNATURE).and_then(|text| text.strip_prefix(BEFORE)).unwrap();
    assert_eq!(digits.len(), 64);
    assert_eq!(property(SignLayer::KEY_ID), Some("new"));
    assert_eq!(property(SignLayer::BOUND), None);
    assert_eq!(message.body(), bound().body());
    let seen = received(&VerifyLayer::new(keys()), message).unwrap();
    assert_eq!((seen.body(), seen.properties()), (bound().body(), bound().properties()));
}

/// Rules: B-270.
#[test]
fn the_bytes_of_a_value_are_verified_and_passed_on_as_bytes() {
    let body = signed().payload().unwrap().to_vec();
    let text = String::from_utf8(body.clone()).unwrap();
    for value in [Value::from(bytes::Bytes::from(body)), Value::from(text)] {
        let seen = received(&VerifyLayer::new(keys()), signed().with_body(value)).unwrap();
        assert_eq!((seen.body(), seen.properties()), (bound().body(), bound().properties()));
    }
    let number = refused(&VerifyLayer::new(keys()), signed().with_body(Value::from(7)));
    assert!(number.starts_with("the body is an AMQP value or sequence"), "{number}");
}

/// Rules: H-31.
#[test]
fn an_unsigned_message_is_a_dead_letter_before_any_codec() {
    assert_eq!(refused(&VerifyLayer::new(keys()), bound()), "the message is not signed");
    let lenient = VerifyLayer::new(keys()).allow_unsigned();
    received(&lenient, bound()).unwrap();
    for name in [SignLayer::SIGNATURE, SignLayer::KEY_ID] {
        let mut pretends = signed();
        pretends.properties_mut().application_properties_mut().remove(name);
        refused(&lenient, pretends);
    }
}

/// Rules: H-32.
#[test]
fn each_bit_counts() {
    let layer = VerifyLayer::new(keys());
    let message = signed();
    let body = message.payload().unwrap().to_vec();
    for at in 0..body.len() {
        for bit in 0..8 {
            let mut changed = body.clone();
            changed[at] ^= 1 << bit;
            assert_eq!(refused(&layer, message.clone().with_body(changed)), WRONG, "bit {bit} of {at}");
        }
        assert_eq!(refused(&layer, message.clone().with_body(body[..at].to_vec())), WRONG, "{at}");
    }
    refused(&layer, message.clone().with_body(Value::from("text")));

    let text = message.application_properties().get(SignLayer::SIGNATURE).and_then(PropertyValue::as_str).unwrap();
    let signature = text.strip_prefix(BEFORE).unwrap();
    for at in 0..signature.len() {
        let mut digits = signature.as_bytes().to_vec();
        digits[at] = if digits[at] == b'0' { b'1' } else { b'0' };
        let mut forged = message.clone();
        let digits = String::from_utf8(digits).unwrap();
        forged.properties_mut().application_properties_mut().insert(SignLayer::SIGNATURE, format!("{BEFORE}{digits}"));
        assert_eq!(refused(&layer, forged), WRONG, "{at}");
    }
    let none = "the signature is not 64 hexadecimal digits in lower case";
    for text in [
        "",
        "00",
        &signature.to_uppercase(),
        &signature[1..],
        &format!("{signature}00"),
        &"é".repeat(32),
        &format!("+{}", &signature[1..]),
    ] {
        let mut forged = message.clone();
        forged.properties_mut().application_properties_mut().insert(SignLayer::SIGNATURE, format!("{BEFORE}{text}"));
        assert_eq!(refused(&layer, forged), none, "{text}");
    }
}

/// Rules: H-155.
#[test]
fn another_version_or_algorithm_is_an_error_of_its_own() {
    let layer = VerifyLayer::new(keys());
    let signed = signed();
    let text = signed.application_properties().get(SignLayer::SIGNATURE).and_then(PropertyValue::as_str).unwrap();
    let digits = text.strip_prefix(BEFORE).unwrap();
    let version = "the version of the signature's format is not 2";
    let algorithm = "the algorithm of the signature is not hmac-sha256";
    for (text, says) in [
        ("", version),
        (digits, version),
        (&format!("1:hmac-sha256:{digits}"), version),
        (&format!("3:hmac-sha256:{digits}"), version),
        (&format!("02:hmac-sha256:{digits}"), version),
        (&format!("2:{digits}"), algorithm),
        (&format!("2:hmac-sha512:{digits}"), algorithm),
    ] {
        let mut other = signed.clone();
        other.properties_mut().application_properties_mut().insert(SignLayer::SIGNATURE, text);
        assert_eq!(refused(&layer, other), says, "{text}");
    }
    let mut number = signed.clone();
    number.properties_mut().application_properties_mut().insert(SignLayer::SIGNATURE, 2);
    assert_eq!(refused(&layer, number), version);
}

/// Rules: H-33, H-150.
#[test]
fn bound_properties_cannot_be_changed() {
    let layer = VerifyLayer::new(keys());
    for (n, change) in CHANGES.into_iter().enumerate() {
        let mut message = signed();
        change(&mut message);
        assert_eq!(refused(&layer, message), WRONG, "{n}");
    }
    let without_id = sent(&SignLayer::new(keys()), Message::new("body"));
    assert_eq!(without_id.message_id().map(str::len), Some(36));
    received(&layer, without_id).unwrap();
}

/// Rules: H-150, H-33.
#[test]
fn the_encryption_properties_are_signed() {
    let layer = VerifyLayer::new(keys());
    for name in ["x-encryption", "x-encryption-key", "x-encryption-bound"] {
        let mut message = bound();
        message.properties_mut().application_properties_mut().insert(name, "1");
        let signed = sent(&SignLayer::new(keys()), message);
        received(&layer, signed.clone()).unwrap();
        for value in [None, Some("2")] {
            let mut changed = signed.clone();
            let properties = changed.properties_mut().application_properties_mut();
            drop(match value {
                Some(value) => properties.insert(name, value),
                None => properties.remove(name),
            });
            assert_eq!(refused(&layer, changed), WRONG, "{name} {value:?}");
        }
    }
}

/// Rules: H-151.
#[test]
fn a_sender_binds_further_properties() {
    let (signing, verifying) = (SignLayer::new(keys()), VerifyLayer::new(keys()));
    let binding = signing.clone().bind("kind").bind("a,b%").bind("kind");
    let requiring = verifying.clone().require_bound("kind").require_bound("x-message-version");
    further_properties(&binding, &verifying, &requiring, &signing, SignLayer::BOUND);
}

/// Rules: H-152.
#[test]
fn a_missing_text_is_not_an_empty_one() {
    missing_is_not_empty(&SignLayer::new(keys()), &VerifyLayer::new(keys()));
}

/// Rules: H-153.
#[test]
fn a_value_is_bound_in_one_form() {
    values_are_canonical(&SignLayer::new(keys()), &VerifyLayer::new(keys()));
}

/// Rules: H-154.
#[test]
fn properties_of_brokers_and_retries_are_not_signed() {
    for (n, change) in HARMLESS.into_iter().enumerate() {
        let mut message = signed();
        change(&mut message);
        received(&VerifyLayer::new(keys()), message).unwrap_or_else(|letter| panic!("{n}: {}", letter.description));
    }
}

/// Rules: H-34.
#[test]
fn keys_rotate() {
    let (first, second) = (key("2025", 1), key("2026", 2));
    let before = sent(&SignLayer::new(Keys::new(first.clone())), bound());
    let after = sent(&SignLayer::new(Keys::new(second.clone()).and_old(first.clone())), bound());
    let both = VerifyLayer::new(Keys::new(first.clone()).and_old(second.clone()));
    received(&both, before.clone()).unwrap();
    received(&both, after.clone()).unwrap();
    assert_eq!(refused(&VerifyLayer::new(Keys::new(second)), before), "there is no key `2025` to verify with");
    assert_eq!(refused(&VerifyLayer::new(Keys::new(first)), after.clone()), "there is no key `2026` to verify with");
    let other = VerifyLayer::new(Keys::new(key("2026", 9)));
    assert_eq!(refused(&other, after.clone()), "not authentic: the signature by the key `2026` does not match");
    // A provider that has one key for every id.
    let any = VerifyLayer::new(|_: Option<&str>| Some(key("2026", 2)));
    received(&any, after.clone()).unwrap();
    let mut renamed = after;
    renamed.properties_mut().application_properties_mut().insert(SignLayer::KEY_ID, "2027");
    assert_eq!(refused(&any, renamed), "there is no key `2027` to verify with");
}

/// Rules: H-35.
#[test]
fn nothing_is_sent_unsigned() {
    let layer = SignLayer::new(keys());
    let none = SignLayer::new(|_: Option<&str>| None::<Key>);
    for message in all_or_nothing(&layer, &none) {
        received(&VerifyLayer::new(keys()), message).unwrap();
    }
}

/// Rules: H-35.
#[test]
fn a_signed_message_is_not_signed_again() {
    for name in [SignLayer::SIGNATURE, SignLayer::KEY_ID] {
        let mut message = signed();
        for other in [SignLayer::SIGNATURE, SignLayer::KEY_ID].into_iter().filter(|other| *other != name) {
            message.properties_mut().application_properties_mut().remove(other);
        }
        let error = not_sent(&SignLayer::new(keys()), message);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("the message is already signed"), "{error}");
    }
    let read = received(&VerifyLayer::new(keys()), signed()).unwrap();
    received(&VerifyLayer::new(keys()), sent(&SignLayer::new(keys()), read)).unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_layer_adds_no_wait_and_returns_errors() {
    let (sending, receiving) = (SignLayer::new(keys()), VerifyLayer::new(keys()));
    no_time_of_its_own(&receiving, bound(), signed(), &sending, bound()).await;
}
