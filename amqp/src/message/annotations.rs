use crate::{
    codec::{Decode, DecodeError, DecodeErrorKind, Decoder, Encode, Encoder, Fields, RESERVED, codes},
    types::composite::{Composite, expect_descriptor},
    value::{Map, Str, Symbol, Value},
};

/// Pairs of symbols and values, in the order of the encoding. A key that occurs twice is kept twice.
///
/// A key that is a string is decoded as the symbol: some clients write it so. AMQP 1.0 reserves numbers as keys; they are
/// refused.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Annotations(pub Vec<(Symbol, Value)>);

impl Annotations {
    /// Returns the value of the first such key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// Appends a pair. A pair with the same key stays.
    pub fn push(&mut self, key: Symbol, value: impl Into<Value>) {
        self.0.push((key, value.into()));
    }

    /// Returns the pairs as a map.
    #[must_use]
    pub fn into_map(self) -> Map {
        self.0.into_iter().map(|(key, value)| (key.into(), value)).collect()
    }
}

/// The pairs of a map whose keys have one type.
fn pairs<K: Decode>(decoder: &mut Decoder<'_>, code: u8) -> Result<Vec<(K, Value)>, DecodeError> {
    let mut fields = Fields::map(decoder, code)?;
    let mut pairs = Vec::with_capacity(RESERVED.min(fields.left() as usize / 2));
    while fields.left() > 0 {
        let Some(key) = fields.next(decoder)? else {
            return Err(decoder.error(DecodeErrorKind::Type).expected("key").found(codes::NULL));
        };
        pairs.push((key, fields.next(decoder)?.unwrap_or_default()));
    }
    fields.finish(decoder)?;
    Ok(pairs)
}

fn encode_pairs<K: Encode>(encoder: &mut Encoder<'_>, pairs: &[(K, Value)]) {
    encoder.map(pairs.len(), |encoder| {
        for (key, value) in pairs {
            key.encode(encoder);
            value.encode(encoder);
        }
    });
}

impl Decode for Annotations {
    fn decode_after(decoder: &mut Decoder<'_>, code: u8) -> Result<Self, DecodeError> {
        pairs(decoder, code).map(Self)
    }
}

impl Encode for Annotations {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encode_pairs(encoder, &self.0);
    }
}

/// Properties of the application, in the order of the encoding. A name that occurs twice is kept twice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApplicationProperties(pub Vec<(Str, Value)>);

impl ApplicationProperties {
    /// The descriptor: the number behind the domain of AMQP 1.0, which is 0.
    pub const DESCRIPTOR: u8 = 0x74;

    /// The descriptor as a symbol.
    pub const NAME: &'static str = "amqp:application-properties:map";

    /// Returns the value of the first such name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(candidate, _)| *candidate == name).map(|(_, value)| value)
    }

    /// Appends a property. A property with the same name stays.
    pub fn push(&mut self, name: impl Into<Str>, value: impl Into<Value>) {
        self.0.push((name.into(), value.into()));
    }
}

impl Composite for ApplicationProperties {
    const CODE: u8 = Self::DESCRIPTOR;

    fn decode_content(decoder: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let code = decoder.format_code()?;
        pairs(decoder, code).map(Self).map_err(|error| error.within("ApplicationProperties"))
    }
}

impl Decode for ApplicationProperties {
    fn decode_after(decoder: &mut Decoder<'_>, code: u8) -> Result<Self, DecodeError> {
        expect_descriptor(decoder, code, Self::DESCRIPTOR, Self::NAME)?;
        Self::decode_content(decoder)
    }
}

impl Encode for ApplicationProperties {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.descriptor(Self::DESCRIPTOR);
        encode_pairs(encoder, &self.0);
    }
}

macro_rules! annotations {
    ($($(#[$doc:meta])* $name:ident = $code:literal $symbol:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name(pub Annotations);

        impl $name {
            /// The descriptor: the number behind the domain of AMQP 1.0, which is 0.
            pub const DESCRIPTOR: u8 = $code;

            /// The descriptor as a symbol.
            pub const NAME: &'static str = $symbol;
        }

        impl Composite for $name {
            const CODE: u8 = $code;

            fn decode_content(decoder: &mut Decoder<'_>) -> Result<Self, DecodeError> {
                Annotations::decode(decoder).map(Self).map_err(|error| error.within(stringify!($name)))
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

annotations! {
    /// Annotations for the next receiver only.
    DeliveryAnnotations = 0x71 "amqp:delivery-annotations:map";
    /// Annotations that stay with the message at every intermediary.
    MessageAnnotations = 0x72 "amqp:message-annotations:map";
    /// Annotations that are known only when the body has been written, such as checksums.
    Footer = 0x78 "amqp:footer:map";
}
