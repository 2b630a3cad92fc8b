use consign_core::time::Timestamp;

use super::{malformed::Malformed, reader::Reader, write};

/// The version that is written.
const VERSION: u8 = 1;

/// The data of the broker as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BrokerRecord {
    /// A random name, which distinguishes one store from another.
    pub(crate) store: [u8; 16],
    pub(crate) created: Timestamp,
    /// The serial of the entity that was created last. None is assigned twice.
    pub(crate) last_serial: u64,
    /// The latest time that was seen, to detect a clock that goes back.
    pub(crate) latest: Timestamp,
}

impl BrokerRecord {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let Self { store, created, last_serial, latest } = self;
        out.push(VERSION);
        out.extend_from_slice(store);
        write::timestamp(out, *created);
        write::unsigned(out, *last_serial);
        write::timestamp(out, *latest);
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes, VERSION)?;
        let record = Self {
            store: reader.array()?,
            created: reader.timestamp()?,
            last_serial: reader.unsigned()?,
            latest: reader.timestamp()?,
        };
        reader.finish()?;
        Ok(record)
    }
}
