use bytes::Bytes;
use consign_amqp::{
    codec::{self, Decode, DecodeError, Decoder, Encode, Limits},
    frame::{Frame, FrameHeader},
    types::{Performative, SaslFrame},
};

use crate::shape;

/// The largest frame that is decoded.
const MAX_FRAME: u32 = 65_536;

/// Decodes bytes as a value within limits, as the body of a frame, and as a frame.
///
/// # Panics
/// What is decoded exceeds a limit, is not encoded in the fewest bytes, or is decoded again as something else.
pub fn codec(data: &[u8]) {
    let input = Bytes::copy_from_slice(data);
    let last = data.last().copied().unwrap_or(0);
    let tight = Limits::default().depth(1 + (last & 7)).elements(u32::from(last >> 3));
    for limits in [Limits::default(), Limits::default().depth(Limits::MAX_DEPTH), tight] {
        value(&input, limits);
    }
    composite::<Performative>(&input);
    composite::<SaslFrame>(&input);
    frame(&input);
}

/// A value at the front of the input. Something may follow it.
fn value(input: &Bytes, limits: Limits) {
    let mut decoder = Decoder::with_limits(input, limits);
    let value = match decoder.value() {
        Ok(value) => value,
        Err(error) => return refused(&error, input),
    };
    let end = decoder.offset();
    assert!(shape::depth(&value) <= usize::from(limits.depth), "{} levels", shape::depth(&value));
    assert!(shape::elements(&value) <= limits.elements as usize, "{} elements", shape::elements(&value));

    let mut skipped = Decoder::with_limits(input, limits);
    assert_eq!(skipped.skip().map(|()| skipped.offset()), Ok(end), "a value that is decoded can be skipped");

    let encoding = codec::encode(&value).expect("what is decoded is encoded");
    assert_eq!(encoding.len(), shape::size(&value), "the encoding is the smallest: {value:?}");
    assert!(encoding.len() <= end || shape::may_grow(&value), "the encoding is longer than the input: {value:?}");
    let mut decoder = Decoder::with_limits(&encoding, limits);
    let again = decoder.value().expect("what is encoded is decoded");
    decoder.finish().expect("what is encoded is one value");
    assert!(shape::same(&again, &value), "{again:?} instead of {value:?}");
}

fn refused(error: &DecodeError, input: &Bytes) {
    assert!(error.offset() <= input.len(), "{error} of {} bytes", input.len());
    assert!(!error.to_string().is_empty());
}

/// A composite type as the whole input.
fn composite<T: Decode + Encode + PartialEq + std::fmt::Debug>(input: &Bytes) {
    let value = match codec::decode::<T>(input) {
        Ok(value) => value,
        Err(error) => return refused(&error, input),
    };
    let encoding = codec::encode(&value).expect("what is decoded is encoded");
    let again = codec::decode::<T>(&encoding).expect("what is encoded is decoded");
    // A float that is not a number is not equal to itself.
    assert!(again == value || format!("{value:?}").contains("NaN"), "{again:?} instead of {value:?}");
    assert_eq!(codec::encode(&again), Ok(encoding), "{value:?}");
}

fn frame(input: &Bytes) {
    let Ok(Some(header)) = FrameHeader::decode(input, MAX_FRAME) else { return };
    let Some(bytes) = input.get(..header.size as usize).map(|bytes| input.slice_ref(bytes)) else { return };
    if let Ok(frame) = Frame::decode(header, &bytes, Limits::default()) {
        let Some(performative) = &frame.performative else { return };
        let mut out = Vec::new();
        Frame::encode(frame.channel, performative, &frame.payload, &mut out).expect("what is decoded is encoded");
        let header = FrameHeader::decode(&out, u32::MAX).expect("a header is encoded").expect("8 bytes");
        let again = Frame::decode(header, &out.into(), Limits::default()).expect("what is encoded is decoded");
        assert_eq!((again.channel, again.payload), (frame.channel, frame.payload));
    }
    let _ = SaslFrame::decode_frame(header, &bytes, Limits::default());
}
