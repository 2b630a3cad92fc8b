use bytes::Bytes;

use super::{malformed::Malformed, reader::Reader, write};
use crate::engine::record::SessionRecord;

/// The version that is written.
const VERSION: u8 = 1;

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
