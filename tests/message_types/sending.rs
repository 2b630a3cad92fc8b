use consign::{
    Message, MessageExt,
    codecs::{
        Cbor, CodecSet, Codecs, Decode, DecodeFailure, Decoded, Encode, EncodeError, Encoded, Json, MediaType,
        MessagePack, OwnFormat, Postcard,
    },
    message_types::{MessageTypes, TypeTable, read},
    middleware::encode::{EncodeLayer, OutboundBatch, OutboundMessage},
    testing::Recorder,
    transport::{ErrorKind, SendExt, SendService},
};
use serde::{Deserialize, Serialize};
use tower::ServiceBuilder;

use crate::events::{Created, Event, Shipped, codecs};

#[derive(Clone, Debug, PartialEq, MessageTypes)]
enum Letter {
    #[message("plain")]
    Plain(Text),
    #[message("packed", codec = "msgpack")]
    Packed(Text),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Text {
    text: String,
}

fn four() -> Codecs<impl CodecSet> {
    let codecs = Codecs::builder().with(Json::default()).with(MessagePack).with(Cbor).with(Postcard);
    codecs.build().unwrap()
}

fn entity(codec: Option<&'static str>) -> EncodeLayer<impl CodecSet> {
    let layer = EncodeLayer::new(four());
    match codec {
        Some(codec) => layer.codec(codec).unwrap(),
        None => layer,
    }
}

/// Rules: J-50.
/// Each level alone and with the ones below it.
#[tokio::test]
async fn the_codec_is_that_of_the_message_or_of_its_type_or_of_the_entity_or_the_first() {
    let text = || Text { text: "a letter".into() };
    for message in [None, Some("cbor")] {
        for of_type in [None, Some("msgpack")] {
            for of_entity in [None, Some("postcard")] {
                let recorder = Recorder::new();
                let sender = SendService::new(recorder.accepting());
                let mut stack = ServiceBuilder::new().layer(entity(of_entity)).service(sender);
                let letter = if of_type.is_some() { Letter::Packed(text()) } else { Letter::Plain(text()) };
                let mut outgoing = OutboundMessage::typed(letter.clone());
                if let Some(codec) = message {
                    outgoing = outgoing.codec(codec);
                }
                stack.send(outgoing).await.unwrap();
                let expected = message.or(of_type).or(of_entity).unwrap_or("json");
                let sent = recorder.assert_sent(|_| true);
                let codecs = four();
                assert_eq!(
                    sent.content_type(),
                    codecs.content_type_of(expected),
                    "{message:?} {of_type:?} {of_entity:?}"
                );
                // The bytes are what the ContentType says.
                let decoded: Decoded<Text> = sent.decode_traced(&codecs).unwrap();
                assert_eq!((decoded.by, decoded.value), (expected, text()));
                assert_eq!(read::<Letter, _>(&sent, &codecs).unwrap(), letter);
            }
        }
    }
}

/// Rules: J-51.
#[tokio::test]
async fn a_type_is_sent_under_its_name_in_its_newest_version() {
    let recorder = Recorder::new();
    let mut stack =
        ServiceBuilder::new().layer(EncodeLayer::new(codecs())).service(SendService::new(recorder.accepting()));
    let created = Event::Created(Created { id: 1, total: (250, "EUR".into()) });
    let all = [created, Event::Shipped(Shipped { id: 1 }), Event::Counted(vec![1]), Event::Closed];
    let batch: OutboundBatch<_> = all.iter().cloned().map(OutboundMessage::typed).collect();
    stack.send(batch).await.unwrap();
    let sent: Vec<Message> = recorder.sent().into_iter().map(|sent| sent.message).collect();
    let said = sent.iter().map(|message| {
        let version = message.application_properties().get(TypeTable::VERSION_PROPERTY).cloned();
        (message.subject().unwrap(), version, message.content_type().unwrap())
    });
    let expected = [
        ("order.created", Some(3_u32.into()), "application/json"),
        ("order.shipped", None, "application/msgpack"),
        ("stock.counted", Some(1_u32.into()), "application/json"),
        ("shop.closed", None, "application/json"),
    ];
    assert_eq!(said.collect::<Vec<_>>(), expected);
    let back: Vec<Event> = sent.iter().map(|message| read(message, &codecs()).unwrap()).collect();
    assert_eq!(back, all);
}

#[derive(MessageTypes)]
#[message("urn:door", property = "kind", version = 2, from(1 = u8))]
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Door(u16);

impl From<u8> for Door {
    fn from(old: u8) -> Self {
        Self(old.into())
    }
}

/// Rules: J-51.
#[test]
fn the_type_stands_where_its_table_says() {
    let outgoing = OutboundMessage::typed(Door(7)).subject("free");
    assert_eq!(outgoing.properties().subject(), Some("free"));
    assert_eq!(outgoing.properties().application_properties().get("kind"), Some(&"urn:door".into()));
    let old = Message::builder().property("kind", "urn:door").build("7").unwrap();
    assert_eq!(read::<Door, _>(&old, &Codecs::json()).unwrap(), Door(7));
}

/// One byte, whatever the set is.
#[derive(Debug, PartialEq)]
struct Byte(u8);

const BYTE: OwnFormat = OwnFormat::new("byte", &[MediaType::exact("application/x-byte")]);

impl Encode for Byte {
    fn encode_with<S: CodecSet>(&self, codecs: &Codecs<S>) -> Result<Encoded, EncodeError> {
        codecs.encode_own(&BYTE, |out| {
            out.extend_from_slice(&[self.0]);
            Ok(())
        })
    }
}

impl<'de> Decode<'de> for Byte {
    fn decode_from<S: CodecSet>(
        codecs: &Codecs<S>,
        content_type: Option<&str>,
        body: &'de [u8],
    ) -> Result<Decoded<Self>, DecodeFailure> {
        codecs.decode_own(&BYTE, content_type, body, |body, _| Ok(Self(body[0])))
    }
}

/// Rules: J-52.
#[tokio::test]
async fn a_format_of_its_own_stays_unless_the_message_names_a_codec() {
    let recorder = Recorder::new();
    let mut stack = ServiceBuilder::new().layer(entity(Some("cbor"))).service(SendService::new(recorder.accepting()));
    stack.send(OutboundMessage::new(Byte(7))).await.unwrap();
    assert_eq!(recorder.assert_sent(|_| true).content_type(), Some("application/x-byte"));
    for codec in ["json", "xml"] {
        let error = stack.send(OutboundMessage::new(Byte(7)).codec(codec)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Serialization, "{codec}");
    }
    let error = stack.send(OutboundMessage::new("text").codec("xml")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Serialization);
    recorder.assert_sent_count(1);
}

/// Rules: J-53.
#[test]
fn an_entity_cannot_name_a_codec_that_is_not_there() {
    let error = EncodeLayer::new(Codecs::json()).codec("xml").unwrap_err();
    assert_eq!(error.name(), "xml");
    assert_eq!(error.to_string(), "the set has no codec `xml`: add it, or name one of the set");
}
