//! An instant in the form in which a type takes one.

use serde::de::{
    DeserializeSeed, IntoDeserializer, SeqAccess,
    value::{BytesDeserializer, I8Deserializer},
};

use super::seconds::Seconds;
use crate::instant::EXTENSION;
use crate::serde_error::Refused;

/// The sequence in which an [`INSTANT`](crate::instant::INSTANT) is passed to the type.
pub(super) struct Extension {
    bytes: [u8; 12],
    next: u8,
}

impl From<Seconds> for Extension {
    fn from(Seconds { seconds, nanos }: Seconds) -> Self {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&nanos.to_be_bytes());
        bytes[4..].copy_from_slice(&seconds.to_be_bytes());
        Self { bytes, next: 0 }
    }
}

impl<'de> SeqAccess<'de> for Extension {
    type Error = Refused;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Refused> {
        self.next += 1;
        match self.next {
            1 => {
                let kind: I8Deserializer<Refused> = EXTENSION.into_deserializer();
                seed.deserialize(kind).map(Some)
            }
            2 => seed.deserialize(BytesDeserializer::new(&self.bytes)).map(Some),
            _ => Ok(None),
        }
    }
}
