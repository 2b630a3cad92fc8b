use consign_core::{message::SequenceNumber, time::Timestamp};

use super::{malformed::Malformed, reader::Reader, write};

/// The version that is written.
const VERSION: u8 = 1;
const PARTITIONS: usize = 16;

/// The numbers that an entity has assigned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CounterRecord {
    pub(crate) order: u64,
    pub(crate) last_enqueued: Timestamp,
    pub(crate) last: LastNumber,
}

/// The last sequence number, or that of each partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LastNumber {
    Plain(SequenceNumber),
    Partitioned {
        last: [u64; PARTITIONS],
        /// The partition of the next message without a key.
        next: u16,
    },
}

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
                let mut last = [0; PARTITIONS];
                for number in &mut last {
                    *number = reader.unsigned()?;
                }
                let next = reader.unsigned()?;
                if usize::from(next) >= PARTITIONS {
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
