use consign_amqp::{
    codec::{EncodeError, Limits},
    frame::{FRAME_HEADER_SIZE, Frame, FrameError, FrameHeader, FrameType, ProtocolHeader},
    types::{Accepted, Disposition, Performative, SaslFrame, SaslOutcome, Transfer},
};

use crate::hex;

#[test]
fn protocol_headers_are_eight_bytes() {
    for header in [ProtocolHeader::Amqp, ProtocolHeader::Tls, ProtocolHeader::Sasl] {
        assert_eq!(ProtocolHeader::from_bytes(header.to_bytes()), Some(header));
    }
    assert_eq!(ProtocolHeader::Sasl.to_bytes(), *b"AMQP\x03\x01\x00\x00");
    // AMQP 0-9-1.
    assert_eq!(ProtocolHeader::from_bytes(*b"AMQP\x00\x00\x09\x01"), None);
}

/// Rules: A-47.
/// Attacks: 83.
#[test]
fn a_frame_header_is_checked_before_the_frame_is_read() {
    let decode = |digits: &str| FrameHeader::decode(&hex(digits), 512);
    assert_eq!(decode("0000000802000"), Ok(None));
    let header = FrameHeader { size: 512, body: 12, frame_type: FrameType::Amqp, channel: 0x102 };
    assert_eq!(decode("00000200 03 00 0102"), Ok(Some(header)));
    assert_eq!(decode("00000201 02 00 0000"), Err(FrameError::TooLarge { size: 513, max: 512 }));
    assert_eq!(decode("ffffffff 02 00 0000"), Err(FrameError::TooLarge { size: u32::MAX, max: 512 }));
    assert_eq!(decode("00000007 02 00 0000"), Err(FrameError::Offset { size: 7, offset: 8 }));
    assert_eq!(decode("00000010 01 00 0000"), Err(FrameError::Offset { size: 16, offset: 4 }));
    assert_eq!(decode("00000010 05 00 0000"), Err(FrameError::Offset { size: 16, offset: 20 }));
    assert_eq!(decode("00000010 02 02 0000"), Err(FrameError::Type(2)));
}

#[test]
fn a_frame_round_trips_behind_an_extended_header() {
    let performative: Performative =
        Disposition { first: 7, state: Some(Accepted {}.into()), ..Disposition::default() }.into();
    let mut plain = Vec::new();
    Frame::encode(9, &performative, b"", &mut plain).unwrap();
    let mut extended = plain.clone();
    extended.splice(8..8, *b"more");
    extended[3] += 4;
    extended[4] = 3;
    for bytes in [plain, extended] {
        let header = FrameHeader::decode(&bytes, 512).unwrap().unwrap();
        let frame = Frame::decode(header, &bytes.into(), Limits::default()).unwrap();
        assert_eq!((frame.channel, frame.performative.as_ref()), (9, Some(&performative)));
        assert!(frame.payload.is_empty());
    }
}

#[test]
fn a_payload_may_be_written_behind_the_head_of_its_frame() {
    let transfer: Performative = Transfer { handle: 1, ..Transfer::default() }.into();
    let (mut whole, mut head) = (Vec::new(), b"before".to_vec());
    Frame::encode(1, &transfer, b"payload", &mut whole).unwrap();
    Frame::encode_head(1, &transfer, b"payload".len(), &mut head).unwrap();
    assert_eq!([&head[6..], b"payload"].concat(), whole);
    head.truncate(6);
    assert_eq!(Frame::encode_head(1, &transfer, u32::MAX as usize, &mut head), Err(EncodeError::TooLong));
    assert_eq!(head, b"before");
}

#[test]
fn an_empty_frame_has_no_performative() {
    let mut bytes = Vec::new();
    Frame::encode_empty(&mut bytes);
    let header = FrameHeader::decode(&bytes, 512).unwrap().unwrap();
    assert_eq!((header.size as usize, bytes.len()), (FRAME_HEADER_SIZE, FRAME_HEADER_SIZE));
    assert_eq!(Frame::decode(header, &bytes.into(), Limits::default()).unwrap().performative, None);
}

#[test]
fn a_frame_of_another_type_or_size_is_refused() {
    let mut bytes = Vec::new();
    SaslFrame::from(SaslOutcome::default()).encode_frame(&mut bytes).unwrap();
    let header = FrameHeader::decode(&bytes, 512).unwrap().unwrap();
    let bytes = bytes.into();
    assert!(SaslFrame::decode_frame(header, &bytes, Limits::default()).is_ok());
    assert_eq!(Frame::decode(header, &bytes, Limits::default()), Err(FrameError::Type(1)));
    assert!(SaslFrame::decode_frame(header, &bytes.slice(1..), Limits::default()).is_err());
    assert!(SaslFrame::decode_frame(FrameHeader { body: 200, ..header }, &bytes, Limits::default()).is_err());
}
