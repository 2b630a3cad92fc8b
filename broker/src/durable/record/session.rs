use bytes::Bytes;

use super::{malformed::Malformed, reader::Reader, write};

/// The version that is written.
const VERSION: u8 = 1;

/// A session that has a state. Other sessions exist by their messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionRecord {
    pub(crate) id: Box<str>,
    pub(crate) state: Option<Bytes>,
}

impl SessionRecord {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let Self { id, state } = self;
        out.push(VERSION);
        write::text(out, id);
        write::optional(out, state.as_deref(), write::bytes);
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes, VERSION)?;
        let id = reader.text()?.into();
        let state = reader.optional(Reader::bytes)?.map(Bytes::copy_from_slice);
        reader.finish()?;
        Ok(Self { id, state })
    }
}
