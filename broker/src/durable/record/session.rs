use bytes::Bytes;
use consign_core::time::Timestamp;

use super::{malformed::Malformed, reader::Reader, write};
use crate::engine::record::SessionRecord;

/// The version that is written.
const VERSION: u8 = 2;

impl SessionRecord {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let Self { id, state, updated } = self;
        out.push(VERSION);
        write::text(out, id);
        write::optional(out, state.as_deref(), write::bytes);
        write::timestamp(out, *updated);
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes, VERSION)?;
        let id = reader.text()?.into();
        let state = reader.optional(Reader::bytes)?.map(Bytes::copy_from_slice);
        let updated = if reader.version() < 2 { Timestamp::from_millis(0) } else { reader.timestamp()? };
        reader.finish()?;
        Ok(Self { id, state, updated })
    }
}
