use super::{malformed::Malformed, reader::Reader, write};
use crate::engine::record::BrokerRecord;

/// The version that is written.
const VERSION: u8 = 1;

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
