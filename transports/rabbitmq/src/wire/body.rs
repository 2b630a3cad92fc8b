use bytes::Bytes;
use consign_amqp::{
    codec::EncodeError,
    message::{AmqpSequence, AmqpValue, BodyKind, Data, EncodedMessage, Section},
};
use consign_core::message::MessageBody;

use super::{malformed::Cause, value};

/// The value of the header [`BODY`](super::names::BODY) for a payload that is not the body itself.
pub(super) const SECTIONS: &str = "amqp-1.0";

/// Returns the payload, and whether it is written as sections of AMQP 1.0: one section of bytes is the payload unchanged.
pub(super) fn encode(body: &MessageBody) -> Result<(Bytes, bool), EncodeError> {
    let payload = match body {
        MessageBody::Data(data) => {
            if let [one] = data.sections() {
                return Ok((one.clone(), false));
            }
            let sections: Vec<Data> = data.sections().iter().map(|section| Data(section.clone().into())).collect();
            value::encode(&sections)?
        }
        MessageBody::Value(body) => value::encode(&[AmqpValue(value::to_amqp(body))])?,
        MessageBody::Sequence(sections) => {
            let sections: Vec<_> = sections.iter().map(|section| AmqpSequence(value::list_to_amqp(section))).collect();
            value::encode(&sections)?
        }
    };
    Ok((payload, true))
}

/// Returns the body that a payload was written from.
pub(super) fn decode(payload: Bytes) -> Result<MessageBody, Cause> {
    const OTHERS: [Section; 6] = [
        Section::Header,
        Section::DeliveryAnnotations,
        Section::MessageAnnotations,
        Section::Properties,
        Section::ApplicationProperties,
        Section::Footer,
    ];
    let limits = value::decoding(payload.len());
    let message = EncodedMessage::split_with(payload, limits)?;
    if let Some(section) = OTHERS.into_iter().find(|section| !message.encoded(*section).is_empty()) {
        return Err(Cause::Section(section));
    }
    Ok(match message.body_kind() {
        None => MessageBody::empty(),
        Some(BodyKind::Data) => {
            let sections = message.data().map(|data| Ok(data?.0.0));
            MessageBody::sections(sections.collect::<Result<Vec<_>, Cause>>()?)
        }
        Some(BodyKind::Sequence) => {
            let sections = message.sequences().map(|sequence| {
                let AmqpSequence(list) = sequence?;
                list.0.into_iter().map(value::from_amqp).collect()
            });
            MessageBody::Sequence(sections.collect::<Result<Vec<Vec<_>>, Cause>>()?.into())
        }
        Some(BodyKind::Value) => match message.value()? {
            Some(AmqpValue(value)) => MessageBody::from(value::from_amqp(value)?),
            None => MessageBody::empty(),
        },
    })
}

#[cfg(test)]
mod tests {
    use consign_amqp::codec::DecodeErrorKind;
    use consign_core::message::Value;

    use super::*;

    /// Rules: B-01.
    /// All of B-01 to B-04.
    #[test]
    fn bodies_come_back() {
        let bodies = [
            MessageBody::sections(vec![Bytes::from_static(b"ab"), Bytes::new(), Bytes::from_static(b"c")]),
            MessageBody::from(Value::List(vec![Value::from(1_i32), Value::Symbol("s".into())])),
            MessageBody::Sequence([vec![Value::from(1_i32)], vec![Value::from("two")]].into()),
        ];
        for body in bodies {
            let (payload, is_encoded) = encode(&body).unwrap();
            assert!(is_encoded);
            for end in 1..payload.len() {
                assert_ne!(decode(payload.slice(..end)).as_ref(), Ok(&body));
            }
            assert_eq!(decode(payload), Ok(body));
        }
        assert_eq!(encode(&MessageBody::from("plain")).unwrap(), (Bytes::from_static(b"plain"), false));
        assert_eq!(encode(&MessageBody::empty()).unwrap(), (Bytes::new(), false));
    }

    /// Rules: K-119.
    #[test]
    fn a_payload_that_is_not_a_body_is_refused_with_the_cause() {
        let refused = |bytes: &'static [u8]| decode(Bytes::from_static(bytes)).unwrap_err();
        let decoding = |bytes| match refused(bytes) {
            Cause::Decode(error) => (error.kind(), error.offset()),
            other => panic!("{other:?}"),
        };
        assert_eq!(decoding(b"text").0, DecodeErrorKind::Type);
        assert_eq!(decoding(b"\0\x53\x75\xb0\0\0\0\x07text"), (DecodeErrorKind::Size, 4));
        // Data after a value.
        assert_eq!(decoding(b"\0\x53\x77\x41\0\x53\x75\xa0\0"), (DecodeErrorKind::Order, 4));
        assert_eq!(refused(b"\0\x53\x70\x45"), Cause::Section(Section::Header));
        assert_eq!(
            refused(b"\0\x53\x77\x74\0\0\0\0").to_string(),
            "a value has the type decimal32, which a message does not have"
        );
    }
}
