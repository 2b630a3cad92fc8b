//! Signed and encrypted messages arrive as they were sent, beside the plain headers that other clients read.

use consign::{
    Message,
    message::PropertyValue,
    middleware::{
        encryption::{DecryptLayer, EncryptLayer},
        keys::{Key, Keys},
        signing::{SignLayer, VerifyLayer},
    },
    time::Timestamp,
    transport::{ReceiverExt, SendService},
};
use consign_nats::QueueSettings;
use tower::{ServiceBuilder, ServiceExt};

use crate::{LONG, queue};

fn keys(byte: u8) -> Keys {
    Keys::new(Key::new("2026", [byte; 32]).expect("a valid id"))
}

/// Rules: H-152, H-153.
#[tokio::test]
async fn bound_properties_arrive_unchanged() {
    let Some((nats, path)) = queue(QueueSettings::default()).await else { return };
    let sealing = ServiceBuilder::new().layer(EncryptLayer::new(keys(2)).bind("Kind").bind("a,b%"));
    let sealing = sealing.layer(SignLayer::new(keys(1)).bind("Kind").bind("a,b%"));
    let mut receiver = nats.receiver(&path).await.unwrap();
    let texts = ["", " a ", "%41", "\"語\"\r\n", "application/json"];
    let values: [PropertyValue; 8] = [
        PropertyValue::Null,
        u64::MAX.into(),
        i8::MIN.into(),
        1.5_f32.into(),
        f64::NAN.into(),
        PropertyValue::DateTime(Timestamp::from_millis(-1)),
        PropertyValue::Uuid([7; 16]),
        PropertyValue::Uri("urn:a".into()),
    ];
    for value in texts.into_iter().map(PropertyValue::from).chain(values) {
        let text = value.as_str().unwrap_or_default();
        let mut message = Message::builder()
            .content_type(text.to_owned())
            .subject(text.to_owned())
            .correlation_id(text.to_owned())
            .reply_to(text.to_owned())
            .reply_to_session_id(text.to_owned())
            .property("Kind", value.clone())
            .property("a,b%", bytes::Bytes::from_static(b"\xff"))
            .property("x-message-version", value.clone())
            .property("ce-type", value.clone())
            .property("Ce-Subject", value.clone())
            .property("cloudEvents_time", value.clone())
            .property("traceparent", "00-00000000000000000000000000000001-0000000000000001-01")
            .build("body")
            .unwrap();
        message.properties_mut().pass_through_mut().content_encoding = Some(text.to_owned().into());
        let sender = sealing.service(SendService::new(nats.sender(&path).await.unwrap()));
        sender.oneshot(message).await.unwrap();
        let delivery = receiver.receive_within(LONG).await.unwrap();
        let verify = VerifyLayer::new(keys(1)).require_bound("Kind");
        let decrypt = DecryptLayer::new(keys(2)).require_bound("a,b%");
        let verified = verify.verify(delivery.message.clone()).unwrap_or_else(|error| panic!("{value:?}: {error}"));
        assert_eq!(decrypt.decrypt(verified).unwrap().payload(), Some(&b"body"[..]), "{value:?}");
        delivery.complete().await.unwrap();
    }
}
