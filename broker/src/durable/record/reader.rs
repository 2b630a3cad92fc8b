use std::time::Duration;

use consign_core::{
    message::{PropertyValue, Value},
    time::Timestamp,
    wire::binary,
};

use super::malformed::{Malformed, Problem};
use crate::engine::record::LEVELS;

/// Reads a record from its first byte to its last one. It checks each length against the bytes.
pub(super) struct Reader<'a>(binary::Reader<'a>, u8);

impl<'a> Reader<'a> {
    /// Reads the version, which is 1 to `newest`.
    pub(super) fn new(all: &'a [u8], newest: u8) -> Result<Self, Malformed> {
        let mut reader = binary::Reader::new(all);
        let version = reader.byte()?;
        if (1..=newest).contains(&version) {
            Ok(Self(reader, version))
        } else {
            Err(Malformed { problem: Problem::UnknownVersion(version), at: 0 })
        }
    }

    /// Returns the version of the record.
    pub(super) fn version(&self) -> u8 {
        self.1
    }

    /// Checks that nothing is left.
    pub(super) fn finish(self) -> Result<(), Malformed> {
        Ok(self.0.finish()?)
    }

    pub(super) fn invalid(&self, what: &'static str) -> Malformed {
        self.0.invalid(what).into()
    }

    pub(super) fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.0.byte()?)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        Ok(self.0.array()?)
    }

    /// Bytes with their number before them.
    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        Ok(self.0.bytes()?)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, Malformed> {
        Ok(self.0.text()?)
    }

    pub(super) fn bool(&mut self) -> Result<bool, Malformed> {
        Ok(self.0.bool()?)
    }

    pub(super) fn unsigned<T: TryFrom<u64>>(&mut self) -> Result<T, Malformed> {
        Ok(self.0.unsigned()?)
    }

    pub(super) fn signed<T: TryFrom<i64>>(&mut self) -> Result<T, Malformed> {
        Ok(self.0.signed()?)
    }

    pub(super) fn simple(&mut self) -> Result<PropertyValue, Malformed> {
        Ok(self.0.simple()?)
    }

    pub(super) fn value(&mut self) -> Result<Value, Malformed> {
        Ok(self.0.value(LEVELS)?)
    }

    pub(super) fn values(&mut self) -> Result<Vec<Value>, Malformed> {
        Ok(self.0.values(LEVELS)?)
    }

    pub(super) fn timestamp(&mut self) -> Result<Timestamp, Malformed> {
        self.signed().map(Timestamp::from_millis)
    }

    pub(super) fn duration(&mut self) -> Result<Duration, Malformed> {
        let (seconds, nanos) = (self.unsigned()?, self.unsigned()?);
        if nanos < 1_000_000_000 { Ok(Duration::new(seconds, nanos)) } else { Err(self.invalid("duration")) }
    }

    /// Reads a Boolean, and what follows it if it is true.
    pub(super) fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        let is_there = self.bool()?;
        self.when(is_there, read)
    }

    /// Reads a value if its bit is set.
    pub(super) fn when<T>(
        &mut self,
        is_there: bool,
        read: impl FnOnce(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        is_there.then(|| read(self)).transpose()
    }

    /// Reads a number, and so many items with `read`. Memory is allocated for the items that exist, not for those
    /// announced.
    pub(super) fn list<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count: u64 = self.unsigned()?;
        let mut list = Vec::new();
        for _ in 0..count {
            list.push(read(self)?);
        }
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::write, *};

    fn reader(rest: &[u8]) -> Reader<'_> {
        Reader(binary::Reader::new(rest), 1)
    }

    #[test]
    fn numbers_take_seven_bits_a_byte() {
        for (value, bytes) in [
            (0, &[0][..]),
            (0x7f, &[0x7f]),
            (0x80, &[0x80, 1]),
            (300, &[0xac, 2]),
            (u64::MAX, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
        ] {
            let mut out = Vec::new();
            write::unsigned(&mut out, value);
            assert_eq!((&*out, reader(bytes).unsigned()), (bytes, Ok(value)));
        }
        for (value, bytes) in [(0, &[0][..]), (-1, &[1]), (1, &[2]), (-2, &[3]), (64, &[0x80, 1])] {
            let mut out = Vec::new();
            write::signed(&mut out, value);
            assert_eq!((&*out, reader(bytes).signed()), (bytes, Ok(value)));
        }
        for value in [i64::MIN, i64::MAX] {
            let mut out = Vec::new();
            write::signed(&mut out, value);
            assert_eq!(reader(&out).signed(), Ok(value));
        }
    }

    #[test]
    fn bytes_that_no_writer_makes_are_refused() {
        let invalid = |what, at| Malformed { problem: Problem::Invalid(what), at };
        let beyond = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2];
        assert_eq!(reader(&beyond).unsigned::<u64>(), Err(invalid("number", 10)));
        assert_eq!(reader(&[0x80; 20]).unsigned::<u64>(), Err(invalid("number", 10)));
        assert_eq!(reader(&[0x80, 2]).unsigned::<u8>(), Err(invalid("number", 2)));
        assert_eq!(reader(&[0xff, 3]).signed::<i8>(), Err(invalid("number", 2)));
        assert_eq!(reader(&[2]).bool(), Err(invalid("truth value", 1)));
        assert_eq!(reader(&[1, 0xff]).text(), Err(invalid("text", 2)));
        assert_eq!(reader(&[0, 0x80, 0x94, 0xeb, 0xdc, 3]).duration(), Err(invalid("duration", 6)));
        assert_eq!(reader(&[2, 0]).bytes(), Err(Malformed { problem: Problem::Truncated, at: 1 }));
    }
}
