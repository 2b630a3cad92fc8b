use consign::{
    BuildErrorKind, Message,
    message::{MessageBody, PropertyValue, Value},
    middleware::{
        content_encoding::{CompressLayer, DecompressLayer, Encoding},
        encryption::{DecryptLayer, EncryptLayer},
        keys::{Key, Keys},
    },
    transport::ErrorKind,
};
use proptest::{collection::vec, prelude::*};
use tower::ServiceBuilder;

use super::{
    keyed::{
        self, CHANGES, HARMLESS, all_or_nothing, further_properties, key, keys, missing_is_not_empty, refused,
        values_are_canonical,
    },
    random::{explain, runner},
    stacks::{no_time_of_its_own, not_sent, received, sent},
};

/// Its content encoding is bound too.
fn bound() -> Message {
    let mut message = keyed::bound();
    message.properties_mut().pass_through_mut().content_encoding = Some("identity".into());
    message
}

fn encrypted() -> Message {
    sent(&EncryptLayer::new(keys()), bound())
}

fn bytes(message: &Message) -> Vec<u8> {
    message.payload().unwrap().to_vec()
}

/// Rules: H-20.
#[test]
fn an_encrypted_body_comes_back_and_says_by_which_key() {
    let message = encrypted();
    let property = |name| message.application_properties().get(name).and_then(PropertyValue::as_str);
    assert_eq!(property(EncryptLayer::ALGORITHM), Some("2:xchacha20poly1305"));
    assert_eq!(property(EncryptLayer::KEY_ID), Some("new"));
    assert_eq!(message.body().size(), 8 + 40);
    assert!(!bytes(&message).windows(4).any(|window| window == br#""id""#));

    let seen = received(&DecryptLayer::new(keys()), message).unwrap();
    assert_eq!((seen.body(), seen.properties()), (bound().body(), bound().properties()));
}

/// Rules: H-20.
#[test]
fn any_body_comes_back() {
    let result = runner(100).run(&vec(vec(any::<u8>(), 0..300), 0..4), |sections| {
        let body = MessageBody::sections(sections.iter().cloned().map(Into::into).collect());
        let seen = received(&DecryptLayer::new(keys()), sent(&EncryptLayer::new(keys()), Message::new(body)));
        prop_assert_eq!(bytes(&seen.unwrap()), sections.concat());
        Ok(())
    });
    explain(result, "any_body_comes_back");
}

/// Rules: B-270.
#[test]
fn the_bytes_of_a_value_are_decrypted() {
    let message = encrypted();
    let value = Value::from(bytes::Bytes::from(bytes(&message)));
    let seen = received(&DecryptLayer::new(keys()), message.with_body(value)).unwrap();
    assert_eq!((seen.body(), seen.properties()), (bound().body(), bound().properties()));
    let number = refused(&DecryptLayer::new(keys()), encrypted().with_body(Value::from(7)));
    assert!(number.starts_with("the body is an AMQP value or sequence"), "{number}");
}

/// Rules: H-20.
#[test]
fn no_two_nonces_are_the_same() {
    let nonces: std::collections::HashSet<_> = (0..1_000).map(|_| bytes(&encrypted())[..24].to_vec()).collect();
    assert_eq!(nonces.len(), 1_000);
}

/// Rules: H-21.
#[test]
fn a_message_without_encryption_is_a_dead_letter_before_any_codec() {
    assert_eq!(refused(&DecryptLayer::new(keys()), bound()), "the message is not encrypted");
    // Unless it is allowed, and then only what does not pretend.
    let lenient = DecryptLayer::new(keys()).allow_plaintext();
    assert_eq!(received(&lenient, bound()).unwrap().body(), bound().body());
    for name in [EncryptLayer::ALGORITHM, EncryptLayer::KEY_ID] {
        let mut pretends = encrypted();
        pretends.properties_mut().application_properties_mut().remove(name);
        refused(&lenient, pretends);
    }
    received(&lenient, encrypted()).unwrap();
}

/// Rules: H-22.
#[test]
fn each_bit_counts() {
    let layer = DecryptLayer::new(keys());
    let message = encrypted();
    let body = bytes(&message);
    for at in 0..body.len() {
        for bit in 0..8 {
            let mut changed = body.clone();
            changed[at] ^= 1 << bit;
            assert_eq!(
                refused(&layer, message.clone().with_body(changed)),
                "not authentic: the encryption by the key `new` does not match",
                "bit {bit} of {at}"
            );
        }
        let shorter = refused(&layer, message.clone().with_body(body[..at].to_vec()));
        assert_eq!(shorter == "the body is too short to be encrypted", at < 40, "{at}");
    }
    refused(&layer, message.clone().with_body([&body[..], b"\0"].concat()));
    refused(&layer, message.with_body(Value::from("text")));
}

/// Rules: H-23, H-150.
#[test]
fn bound_properties_cannot_be_changed() {
    let layer = DecryptLayer::new(keys());
    let no_encoding: fn(&mut Message) = |m| m.properties_mut().pass_through_mut().content_encoding = None;
    for (n, change) in CHANGES.into_iter().chain([no_encoding]).enumerate() {
        let mut message = encrypted();
        change(&mut message);
        assert_eq!(refused(&layer, message), "not authentic: the encryption by the key `new` does not match", "{n}");
    }
}

/// Rules: H-151.
#[test]
fn a_sender_binds_further_properties() {
    let (encrypting, decrypting) = (EncryptLayer::new(keys()), DecryptLayer::new(keys()));
    let binding = encrypting.clone().bind("kind").bind("a,b%").bind("kind");
    let requiring = decrypting.clone().require_bound("kind").require_bound("x-message-version");
    further_properties(&binding, &decrypting, &requiring, &encrypting, EncryptLayer::BOUND);
}

/// Rules: H-152.
#[test]
fn a_missing_text_is_not_an_empty_one() {
    missing_is_not_empty(&EncryptLayer::new(keys()), &DecryptLayer::new(keys()));
}

/// Rules: H-153.
#[test]
fn a_value_is_bound_in_one_form() {
    values_are_canonical(&EncryptLayer::new(keys()), &DecryptLayer::new(keys()));
}

/// Rules: H-154.
#[test]
fn properties_of_brokers_and_retries_are_not_bound() {
    for (n, change) in HARMLESS.into_iter().enumerate() {
        let mut message = encrypted();
        change(&mut message);
        received(&DecryptLayer::new(keys()), message).unwrap_or_else(|letter| panic!("{n}: {}", letter.description));
    }
}

/// Rules: H-155.
#[test]
fn another_version_or_algorithm_is_an_error_of_its_own() {
    let layer = DecryptLayer::new(keys());
    let version = "the version of the encryption's format is not 2";
    let algorithm = "the algorithm of the encryption is not xchacha20poly1305";
    for (text, says) in [
        ("", version),
        ("xchacha20poly1305", version),
        ("1:xchacha20poly1305", version),
        ("3:xchacha20poly1305", version),
        ("2:", algorithm),
        ("2:aes256gcm", algorithm),
        ("2:xchacha20poly1305:", algorithm),
    ] {
        let mut other = encrypted();
        other.properties_mut().application_properties_mut().insert(EncryptLayer::ALGORITHM, text);
        assert_eq!(refused(&layer, other), says, "{text}");
    }
}

/// Rules: H-23.
#[test]
fn a_message_without_an_id_is_given_one() {
    let message = sent(&EncryptLayer::new(keys()), Message::new("body"));
    assert_eq!(message.message_id().map(str::len), Some(36));
    received(&DecryptLayer::new(keys()), message).unwrap();
}

/// Rules: H-24.
#[test]
fn keys_rotate() {
    let (first, second) = (key("2025", 1), key("2026", 2));
    let receivers = [
        DecryptLayer::new(Keys::new(first.clone())),
        DecryptLayer::new(Keys::new(first.clone()).and_old(second.clone())),
        DecryptLayer::new(Keys::new(second.clone()).and_old(first.clone())),
        DecryptLayer::new(Keys::new(second.clone())),
    ];
    let senders = [EncryptLayer::new(Keys::new(first.clone())), EncryptLayer::new(Keys::new(second).and_old(first))];
    for (sender, reads) in senders.iter().zip([[true, true, true, false], [false, true, true, true]]) {
        for (receiver, reads) in receivers.iter().zip(reads) {
            let result = received(receiver, sent(sender, bound()));
            assert_eq!(result.is_ok(), reads);
        }
    }
    let gone = refused(&receivers[3], sent(&senders[0], bound()));
    assert_eq!(gone, "there is no key `2025` to decrypt with");
    // The same id, and another secret.
    let other = DecryptLayer::new(Keys::new(key("2025", 9)));
    assert_eq!(
        refused(&other, sent(&senders[0], bound())),
        "not authentic: the encryption by the key `2025` does not match"
    );
    // From wherever they come, at the time of the call.
    let now = std::sync::Arc::new(std::sync::Mutex::new(key("a", 1)));
    let provider = std::sync::Arc::clone(&now);
    let layer = EncryptLayer::new(move |_: Option<&str>| Some(provider.lock().unwrap().clone()));
    let id = |message: &Message| {
        message.application_properties().get(EncryptLayer::KEY_ID).and_then(|id| id.as_str().map(String::from))
    };
    assert_eq!(id(&sent(&layer, bound())).as_deref(), Some("a"));
    *now.lock().unwrap() = key("b", 2);
    assert_eq!(id(&sent(&layer, bound())).as_deref(), Some("b"));
    // A provider that answers with a key that was not asked for.
    let careless = DecryptLayer::new(|_: Option<&str>| Some(key("x", 1)));
    assert_eq!(refused(&careless, encrypted()), "there is no key `new` to decrypt with");
}

/// Rules: H-24.
#[test]
fn a_key_has_an_id_that_can_travel_and_a_secret_that_does_not_show() {
    for id in ["", "with space", "é", "line\n", &"x".repeat(65)] {
        let refused = Key::new(id, [0; 32]).unwrap_err();
        assert_eq!(refused.kind(), BuildErrorKind::InvalidKeyId);
        assert!(refused.to_string().contains("64"), "{refused}");
    }
    let shown = format!("{:?} {:?} {:?}", key("id", 77), keys(), EncryptLayer::new(keys()));
    assert!(shown.contains("id") && !shown.contains("77"), "{shown}");
    let mut forged = encrypted();
    forged.properties_mut().application_properties_mut().insert(EncryptLayer::KEY_ID, "\u{1b}[31m".repeat(100));
    let description = refused(&DecryptLayer::new(keys()), forged);
    assert!(description.len() < 500 && !description.contains('\u{1b}'), "{description}");
}

/// Rules: H-25.
#[test]
fn nothing_is_sent_in_the_clear() {
    let layer = EncryptLayer::new(keys());
    let none = EncryptLayer::new(|_: Option<&str>| None::<Key>);
    for message in all_or_nothing(&layer, &none) {
        received(&DecryptLayer::new(keys()), message).unwrap();
    }
}

/// Rules: H-25.
#[test]
fn an_encrypted_message_is_not_encrypted_again() {
    for name in [EncryptLayer::ALGORITHM, EncryptLayer::KEY_ID] {
        let mut message = encrypted();
        for other in [EncryptLayer::ALGORITHM, EncryptLayer::KEY_ID].into_iter().filter(|other| *other != name) {
            message.properties_mut().application_properties_mut().remove(other);
        }
        let error = not_sent(&EncryptLayer::new(keys()), message);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("the message is already encrypted"), "{error}");
    }
    let read = received(&DecryptLayer::new(keys()), encrypted()).unwrap();
    received(&DecryptLayer::new(keys()), sent(&EncryptLayer::new(keys()), read)).unwrap();
}

/// Rules: H-26.
#[test]
fn compression_is_inside() {
    let lines = "a line that comes again and again\n".repeat(50);
    let out = ServiceBuilder::new().layer(CompressLayer::new(Encoding::Gzip)).layer(EncryptLayer::new(keys()));
    let message = sent(&out.into_inner(), Message::new(lines.clone()));
    assert!(message.body().size() < 200);
    let into = ServiceBuilder::new().layer(DecryptLayer::new(keys())).layer(DecompressLayer::new([Encoding::Gzip]));
    let seen = received(&into.into_inner(), message).unwrap();
    assert_eq!(seen.payload(), Some(lines.as_bytes()));
}

#[tokio::test(start_paused = true)]
async fn the_layer_adds_no_wait_and_returns_errors() {
    let (sending, receiving) = (EncryptLayer::new(keys()), DecryptLayer::new(keys()));
    no_time_of_its_own(&receiving, bound(), encrypted(), &sending, bound()).await;
}
