use crate::{
    codec::{Decode, DecodeError, Decoder, Encode, Encoder},
    types::composite::{Composite, expect_descriptor},
    value::{Binary, List, Value},
};

macro_rules! body_sections {
    ($($(#[$doc:meta])* $name:ident($content:ty) = $code:literal $symbol:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name(pub $content);

        impl $name {
            /// The descriptor: the number behind the domain of AMQP 1.0, which is 0.
            pub const DESCRIPTOR: u8 = $code;

            /// The descriptor as a symbol.
            pub const NAME: &'static str = $symbol;
        }

        impl Composite for $name {
            const CODE: u8 = $code;

            fn decode_content(decoder: &mut Decoder<'_>) -> Result<Self, DecodeError> {
                <$content>::decode(decoder).map(Self).map_err(|error| error.within(stringify!($name)))
            }
        }

        impl Decode for $name {
            fn decode_after(decoder: &mut Decoder<'_>, code: u8) -> Result<Self, DecodeError> {
                expect_descriptor(decoder, code, Self::DESCRIPTOR, Self::NAME)?;
                Self::decode_content(decoder)
            }
        }

        impl Encode for $name {
            fn encode(&self, encoder: &mut Encoder<'_>) {
                encoder.descriptor(Self::DESCRIPTOR);
                self.0.encode(encoder);
            }
        }
    )*};
}

body_sections! {
    /// Bytes of a body. A body may have several such sections.
    Data(Binary) = 0x75 "amqp:data:binary";
    /// A list of a body. A body may have several such sections.
    AmqpSequence(List) = 0x76 "amqp:amqp-sequence:list";
    /// A body that is one value.
    AmqpValue(Value) = 0x77 "amqp:amqp-value:*";
}
