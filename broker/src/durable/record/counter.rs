use consign_core::message::SequenceNumber;

use super::{malformed::Malformed, reader::Reader, write};
use crate::engine::record::{CounterRecord, LastNumber, PARTITIONS};

/// The version that is written.
const VERSION: u8 = 1;

impl CounterRecord {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let Self { order, last_enqueued, last } = self;
        out.push(VERSION);
        write::unsigned(out, *order);
        write::timestamp(out, *last_enqueued);
        match last {
            LastNumber::Plain(number) => {
                out.push(0);
                write::unsigned(out, number.get());
            }
            LastNumber::Partitioned { last, next } => {
                out.push(1);
                for number in last {
                    write::unsigned(out, *number);
                }
                write::unsigned(out, *next);
            }
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes, VERSION)?;
        let (order, last_enqueued) = (reader.unsigned()?, reader.timestamp()?);
        let last = match reader.byte()? {
            0 => LastNumber::Plain(SequenceNumber::new(reader.unsigned()?)),
            1 => {
                let mut last = [0; PARTITIONS as usize];
                for number in &mut last {
                    *number = reader.unsigned()?;
                }
                let next = reader.unsigned()?;
                if next >= PARTITIONS {
                    return Err(reader.invalid("partition"));
                }
                LastNumber::Partitioned { last, next }
            }
            _ => return Err(reader.invalid("kind of a counter")),
        };
        reader.finish()?;
        Ok(Self { order, last_enqueued, last })
    }
}
