use bytes::{Buf, BufMut, Bytes, BytesMut};
use consign_core::message::{MessageBody, Value, limits};

use super::value;

/// The value of the header [`BODY`](super::names::BODY) for a payload that is not the body itself.
pub(super) const SECTIONS: &str = "amqp-1.0";

const DATA: u8 = 0x75;
const SEQUENCE: u8 = 0x76;
const VALUE: u8 = 0x77;

/// Returns the payload, and whether it is written as sections of AMQP 1.0: one section of bytes is the payload unchanged.
/// `None` for a kind of body or of value that a later version of the core has.
pub(super) fn encode(body: &MessageBody) -> Option<(Bytes, bool)> {
    let mut out = BytesMut::new();
    match body {
        MessageBody::Data(data) => {
            if let [one] = data.sections() {
                return Some((one.clone(), false));
            }
            for section in data.sections() {
                begin(DATA, &mut out);
                value::variable(0xb0, section, &mut out);
            }
        }
        MessageBody::Value(value) => {
            begin(VALUE, &mut out);
            value::encode(value, &mut out)?;
        }
        MessageBody::Sequence(sections) => {
            for section in sections {
                begin(SEQUENCE, &mut out);
                value::encode_list(section.iter(), &mut out)?;
            }
        }
    }
    Some((out.freeze(), true))
}

/// A section begins with its descriptor, a small ulong.
fn begin(section: u8, out: &mut BytesMut) {
    out.put_slice(&[0x00, 0x53, section]);
}

/// Returns the body that a payload was written from; `None` if the payload is not one.
pub(super) fn decode(mut payload: Bytes) -> Option<MessageBody> {
    let mut data = Vec::new();
    let mut sequences = Vec::new();
    while payload.has_remaining() {
        let [0x00, 0x53, section] = *payload.get(..3)? else { return None };
        payload.advance(3);
        match (section, payload.first()?) {
            (DATA, 0xb0) => {
                payload.advance(1);
                data.push(value::take_variable(&mut payload)?);
            }
            (SEQUENCE, _) => match value::decode(&mut payload, limits::VALUE_LEVELS + 1)? {
                Value::List(values) => sequences.push(values),
                _ => return None,
            },
            (VALUE, _) => {
                let value = value::decode(&mut payload, limits::VALUE_LEVELS)?;
                return payload.is_empty().then(|| MessageBody::from(value));
            }
            _ => return None,
        }
    }
    match (data.is_empty(), sequences.is_empty()) {
        (false, true) => Some(MessageBody::sections(data)),
        (true, false) => Some(MessageBody::Sequence(sequences.into())),
        (true, true) => Some(MessageBody::empty()),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
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
                assert_ne!(decode(payload.slice(..end)).as_ref(), Some(&body));
            }
            assert_eq!(decode(payload), Some(body));
        }
        assert_eq!(encode(&MessageBody::from("plain")).unwrap(), (Bytes::from_static(b"plain"), false));
        assert_eq!(encode(&MessageBody::empty()).unwrap(), (Bytes::new(), false));
    }
}
