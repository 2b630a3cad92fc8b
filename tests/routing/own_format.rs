//! Types that read and write their own bytes, as arguments of a handler.

use consign::{
    Disposition, Message,
    codecs::{
        CodecSet, Codecs, Decode, DecodeError, DecodeErrorKind, DecodeFailure, Decoded, Encode, EncodeError, Encoded,
        MediaType, OwnFormat, Protobuf,
    },
    routing::{Body, State},
    settlement::DeadLetterReason,
};

use crate::support::{Seen, codecs, dead, handle, note, taken};

#[derive(Clone, PartialEq, prost::Message)]
struct Quote {
    #[prost(string, tag = "1")]
    sku: String,
    #[prost(uint64, tag = "2")]
    cents: u64,
}

/// A reading of a sensor: four bytes, big-endian.
#[derive(Debug, PartialEq)]
struct Temperature(i32);

const FORMAT: OwnFormat = OwnFormat::new("temperature", &[MediaType::exact("application/x-temperature")]);

impl<'de> Decode<'de> for Temperature {
    fn decode_from<S: CodecSet>(
        codecs: &Codecs<S>,
        content_type: Option<&str>,
        body: &'de [u8],
    ) -> Result<Decoded<Self>, DecodeFailure> {
        codecs.decode_own(&FORMAT, content_type, body, |body, _| match body.try_into() {
            Ok(bytes) => Ok(Self(i32::from_be_bytes(bytes))),
            Err(_) => Err(DecodeError::new(DecodeErrorKind::Type)),
        })
    }
}

impl Encode for Temperature {
    fn encode_with<S: CodecSet>(&self, codecs: &Codecs<S>) -> Result<Encoded, EncodeError> {
        codecs.encode_own(&FORMAT, |out| {
            out.extend_from_slice(&self.0.to_be_bytes());
            Ok(())
        })
    }
}

fn message(encoded: Encoded) -> Message {
    Message::builder().content_type(encoded.content_type).build(encoded.body).unwrap()
}

/// Rules: P-38.
#[tokio::test]
async fn a_prost_message_is_a_body() {
    let seen = Seen::default();
    let handler = |Body(Protobuf(quote)): Body<Protobuf<Quote>>, State(seen): State<Seen>| async move {
        note(&seen, format!("{} {}", quote.sku, quote.cents));
    };
    let quote = Protobuf(Quote { sku: "nail".into(), cents: 1_990 });
    let encoded = codecs().encode(&quote).unwrap();
    assert_eq!(encoded.content_type, "application/protobuf");
    let body = encoded.body.clone();
    assert_eq!(handle(codecs(), &seen, handler, message(encoded)).await, Disposition::Complete);
    for alias in ["application/x-protobuf", "application/vnd.google.protobuf"] {
        let message = Message::builder().content_type(alias).build(body.clone()).unwrap();
        assert_eq!(handle(codecs(), &seen, handler, message).await, Disposition::Complete, "{alias}");
    }
    assert_eq!(taken(&seen), ["nail 1990"; 3]);

    let json = Message::builder().content_type("application/json").build("{}").unwrap();
    let found = dead(handle(codecs(), &seen, handler, json).await);
    let text = "the type has a format of its own, which does not read the ContentType `application/json`: expected application/protobuf, \
                application/x-protobuf, application/vnd.google.protobuf";
    assert_eq!(found, (DeadLetterReason::UnsupportedContentType, text.to_owned()));
}

/// Rules: P-38.
#[tokio::test]
async fn a_format_of_the_users_own_is_a_body() {
    let seen = Seen::default();
    let handler = |decoded: Decoded<Temperature>, State(seen): State<Seen>| async move {
        note(&seen, format!("{} by {}", decoded.value.0, decoded.by));
    };
    let encoded = codecs().encode(&Temperature(21_500)).unwrap();
    assert_eq!(handle(codecs(), &seen, handler, message(encoded)).await, Disposition::Complete);
    assert_eq!(taken(&seen), ["21500 by temperature"]);

    let short = Message::builder().content_type("application/x-temperature").build("123").unwrap();
    let (reason, text) = dead(handle(codecs(), &seen, handler, short).await);
    assert_eq!(reason, DeadLetterReason::DeserializationFailed);
    assert_eq!(text, "temperature: the value is not of the expected type");
}

/// Rules: P-38.
/// Both doors in one handler.
#[tokio::test]
async fn both_doors_in_one_handler() {
    let seen = Seen::default();
    let handler = |Body(own): Body<Temperature>, Body(raw): Body<Option<()>>| async move {
        let _ = (own, raw);
    };
    let encoded = codecs().encode(&Temperature(1)).unwrap();
    // The second argument is read by the set, which does not have the type.
    let (reason, _) = dead(handle(codecs(), &seen, handler, message(encoded)).await);
    assert_eq!(reason, DeadLetterReason::DeserializationFailed);
}
