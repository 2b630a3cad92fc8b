use consign_core::message::SequenceNumber;

use super::{malformed::Malformed, reader::Reader, write};
use crate::engine::record::IdRecord;

/// The version that is written.
const VERSION: u8 = 1;

impl IdRecord {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let Self { digest, accepted, scheduled } = self;
        out.push(VERSION);
        out.extend_from_slice(digest);
        write::timestamp(out, *accepted);
        write::optional(out, *scheduled, |out, number| write::unsigned(out, number.get()));
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes, VERSION)?;
        let (digest, accepted) = (reader.array()?, reader.timestamp()?);
        let scheduled = reader.optional(Reader::unsigned)?.map(SequenceNumber::new);
        reader.finish()?;
        Ok(Self { digest, accepted, scheduled })
    }
}
