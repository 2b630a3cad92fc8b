use consign_core::message::{Message, SequenceNumber, Stored};

use super::{body, malformed::Malformed, properties, reader::Reader, write};
use crate::engine::{
    Part,
    record::{MessageRecord, MessageState, MessageView, Place},
};

/// The version that is written.
const VERSION: u8 = 1;

impl MessageRecord {
    #[cfg(test)]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        MessageView { state: self.state, message: &self.message }.encode(out);
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes, VERSION)?;
        let state = MessageState::read(&mut reader)?;
        let (properties, dead_letter_source) = properties::read(&mut reader)?;
        let mut message = Stored::new(Message::from_parts(properties, body::read(&mut reader)?));
        if let Some(source) = dead_letter_source {
            message.set_dead_letter_source(source);
        }
        reader.finish()?;
        Ok(Self { state, message })
    }
}

impl MessageView<'_> {
    /// Appends the record. A message that [`can_be_stored`](super::can_be_stored) refuses can be written, but not
    /// read.
    #[inline]
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        out.push(VERSION);
        self.state.write(out);
        properties::write(out, self.message.properties(), self.message.dead_letter_source());
        body::write(out, self.message.body());
    }
}

impl MessageState {
    #[inline]
    fn write(&self, out: &mut Vec<u8>) {
        let Self {
            part,
            place,
            sequence,
            origin,
            enqueued,
            expires_at,
            due,
            locked_until,
            size,
            failures,
            hops,
            stays,
        } = *self;
        let part = match part {
            Part::Main => 0,
            Part::DeadLetter => 1,
            Part::TransferDeadLetter => 2,
        };
        let place = match place {
            Place::Ready => 0,
            Place::Deferred => 1,
            Place::Scheduled => 2,
        };
        out.extend([part, place]);
        write::unsigned(out, write::bits([stays, expires_at.is_some(), due.is_some(), locked_until.is_some()]));
        write::unsigned(out, sequence.get());
        write::unsigned(out, origin.get());
        write::timestamp(out, enqueued);
        write::unsigned(out, size);
        write::unsigned(out, failures);
        out.push(hops);
        for instant in [expires_at, due, locked_until].iter().flatten() {
            write::timestamp(out, *instant);
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let part = match reader.byte()? {
            0 => Part::Main,
            1 => Part::DeadLetter,
            2 => Part::TransferDeadLetter,
            _ => return Err(reader.invalid("part")),
        };
        let place = match reader.byte()? {
            0 => Place::Ready,
            1 => Place::Deferred,
            2 => Place::Scheduled,
            _ => return Err(reader.invalid("place")),
        };
        let bits: u32 = reader.unsigned()?;
        if bits > 0b1111 {
            return Err(reader.invalid("bits of a message"));
        }
        Ok(Self {
            part,
            place,
            stays: bits & 1 != 0,
            sequence: SequenceNumber::new(reader.unsigned()?),
            origin: SequenceNumber::new(reader.unsigned()?),
            enqueued: reader.timestamp()?,
            size: reader.unsigned()?,
            failures: reader.unsigned()?,
            hops: reader.byte()?,
            expires_at: reader.when(bits & 2 != 0, Reader::timestamp)?,
            due: reader.when(bits & 4 != 0, Reader::timestamp)?,
            locked_until: reader.when(bits & 8 != 0, Reader::timestamp)?,
        })
    }
}
