//! Values of AMQP 1.0 that are bytes.

use std::{fmt::Debug, iter};

use consign_codecs::{
    DecodeError, DecodeErrorKind as Kind, Limits,
    amqp_value::{Node, Scalar, View, from_value},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_bytes::ByteBuf;
use serde_json::Value;

/// A value without other values in it.
#[derive(Clone, Copy, Debug)]
struct Leaf<'v>(Scalar<'v>);

impl<'v> Node<'v> for Leaf<'v> {
    type List = iter::Empty<Self>;
    type Map = iter::Empty<(Self, Self)>;

    fn view(self) -> View<'v, Self> {
        View::Scalar(self.0)
    }
}

fn read<T: DeserializeOwned>(scalar: Scalar<'_>) -> Result<T, DecodeError> {
    from_value(Leaf(scalar), &Limits::default())
}

#[track_caller]
fn refuses<T: Debug + DeserializeOwned>(scalar: Scalar<'_>) {
    let error = read::<T>(scalar).unwrap_err();
    assert_eq!(error.kind(), Kind::Type, "{error}");
}

/// Rules: P-67, P-103.
#[test]
fn bytes_are_a_sequence_of_u8_and_of_nothing_else() {
    #[derive(Debug, Deserialize, PartialEq)]
    struct Octet(u8);

    let numbers = [0_u8, 0, 0xc0, 0x3f];
    for scalar in [Scalar::Binary(&numbers), Scalar::Decimal(&numbers)] {
        assert_eq!(read(scalar), Ok(numbers.to_vec()));
        assert_eq!(read(scalar), Ok(Some(numbers)));
        assert_eq!(read(scalar), Ok((0_u8, 0_u8, Octet(0xc0), 0x3f_u8)));
        assert_eq!(read(scalar), Ok(ByteBuf::from(numbers)));
        refuses::<Vec<f32>>(scalar);
        refuses::<Vec<u16>>(scalar);
        refuses::<Vec<Value>>(scalar);
        refuses::<[u8; 5]>(scalar);
        let error = read::<[u8; 3]>(scalar).unwrap_err();
        assert_eq!((error.kind(), error.detail()), (Kind::Type, Some("the type did not read the whole value")));
    }
    let digits = *b"\x00\x09\x0a\x0f\x90\xa0\xf0\xff\x12\x34\x56\x78\x9a\xbc\xde\xf1";
    assert_eq!(read(Scalar::Uuid(digits)), Ok("00090a0f-90a0-f0ff-1234-56789abcdef1".to_owned()));
    let uuid = Scalar::Uuid([7; 16]);
    assert_eq!(read(uuid), Ok([7_u8; 16]));
    refuses::<Vec<u32>>(uuid);
    refuses::<[u8; 15]>(uuid);
}
