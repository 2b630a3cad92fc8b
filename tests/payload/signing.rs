use super::{
    keyed::{CHANGES, all_or_nothing, bound, key, keys, refused},
    stacks::{no_time_of_its_own, received, sent},
};
use consign::{
    Message,
    message::{PropertyValue, Value},
    middleware::{
        keys::{Key, Keys},
        signing::{SignLayer, VerifyLayer},
    },
};

fn signed() -> Message {
    sent(&SignLayer::new(keys()), bound())
}

const WRONG: &str = "not what was signed by the key `new`";

/// The signature was made by `hmac.new(bytes([1] * 32), fields + body, "sha256")` of Python.
#[test]
fn h_30_a_signature_is_that_of_the_documented_bytes() {
    let message = signed();
    let property = |name| message.application().get(name).and_then(PropertyValue::as_str);
    assert_eq!(
        property(SignLayer::SIGNATURE),
        Some("1d4b3f25d7b5baaeb3fc489142aa01c97177fb472b1ebae6c48ba504662339a5")
    );
    assert_eq!(property(SignLayer::KEY_ID), Some("new"));
    assert_eq!(message.body(), bound().body());
    let seen = received(&VerifyLayer::new(keys()), message).unwrap();
    assert_eq!((seen.body(), seen.properties()), (bound().body(), bound().properties()));
}

#[test]
fn h_31_what_is_not_signed_is_a_dead_letter_before_any_codec() {
    assert_eq!(refused(&VerifyLayer::new(keys()), bound()), "the message is not signed");
    let lenient = VerifyLayer::new(keys()).allow_unsigned();
    received(&lenient, bound()).unwrap();
    for name in [SignLayer::SIGNATURE, SignLayer::KEY_ID] {
        let mut pretends = signed();
        pretends.properties_mut().application_mut().remove(name);
        refused(&lenient, pretends);
    }
}

#[test]
fn h_32_each_bit_counts() {
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

    let signature = message.application().get(SignLayer::SIGNATURE).and_then(PropertyValue::as_str).unwrap();
    for at in 0..signature.len() {
        let mut digits = signature.as_bytes().to_vec();
        digits[at] = if digits[at] == b'0' { b'1' } else { b'0' };
        let mut forged = message.clone();
        let digits = String::from_utf8(digits).unwrap();
        forged.properties_mut().application_mut().insert(SignLayer::SIGNATURE, digits);
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
        forged.properties_mut().application_mut().insert(SignLayer::SIGNATURE, text.to_owned());
        assert_eq!(refused(&layer, forged), none, "{text}");
    }
}

#[test]
fn h_33_bound_properties_cannot_be_changed() {
    let layer = VerifyLayer::new(keys());
    for (n, change) in CHANGES.into_iter().enumerate() {
        let mut message = signed();
        change(&mut message);
        assert_eq!(refused(&layer, message), WRONG, "{n}");
    }
    let mut message = signed();
    message.properties_mut().application_mut().insert("free", 2);
    received(&layer, message).unwrap();
    let without_id = sent(&SignLayer::new(keys()), Message::new("body"));
    assert_eq!(without_id.message_id().map(str::len), Some(36));
    received(&layer, without_id).unwrap();
}

#[test]
fn h_34_keys_rotate() {
    let (first, second) = (key("2025", 1), key("2026", 2));
    let before = sent(&SignLayer::new(Keys::new(first.clone())), bound());
    let after = sent(&SignLayer::new(Keys::new(second.clone()).and_old(first.clone())), bound());
    let both = VerifyLayer::new(Keys::new(first.clone()).and_old(second.clone()));
    received(&both, before.clone()).unwrap();
    received(&both, after.clone()).unwrap();
    assert_eq!(refused(&VerifyLayer::new(Keys::new(second)), before), "no key `2025` to verify by");
    assert_eq!(refused(&VerifyLayer::new(Keys::new(first)), after.clone()), "no key `2026` to verify by");
    let other = VerifyLayer::new(Keys::new(key("2026", 9)));
    assert_eq!(refused(&other, after.clone()), "not what was signed by the key `2026`");
    // A provider that has one key for every id.
    let any = VerifyLayer::new(|_: Option<&str>| Some(key("2026", 2)));
    received(&any, after.clone()).unwrap();
    let mut renamed = after;
    renamed.properties_mut().application_mut().insert(SignLayer::KEY_ID, "2027");
    assert_eq!(refused(&any, renamed), "no key `2027` to verify by");
}

#[test]
fn h_35_nothing_is_sent_unsigned() {
    let layer = SignLayer::new(keys());
    let none = SignLayer::new(|_: Option<&str>| None::<Key>);
    for message in all_or_nothing(&layer, &none) {
        received(&VerifyLayer::new(keys()), message).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn it_takes_no_time_of_its_own_and_passes_errors_on() {
    let (sending, receiving) = (SignLayer::new(keys()), VerifyLayer::new(keys()));
    no_time_of_its_own(&receiving, bound(), signed(), &sending, bound()).await;
}
