use consign_core::{message::SequenceNumber, time::Timestamp};

use super::{malformed::Malformed, reader::Reader, write};

/// The version that is written.
const VERSION: u8 = 1;

/// An id that an entity has accepted within its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdRecord {
    /// Under the secret of the entity.
    pub(crate) digest: [u8; 16],
    /// When it was accepted first.
    pub(crate) accepted: Timestamp,
    /// The number of its message, if that is scheduled.
    pub(crate) scheduled: Option<SequenceNumber>,
}

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
