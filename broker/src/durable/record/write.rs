//! The parts of every record.

use std::time::Duration;

use consign_core::time::Timestamp;

pub(super) use consign_core::wire::binary::{bytes, signed, text, unsigned};

#[inline]
pub(super) fn length(out: &mut Vec<u8>, length: usize) {
    unsigned(out, length as u64);
}

#[inline]
pub(super) fn timestamp(out: &mut Vec<u8>, timestamp: Timestamp) {
    signed(out, timestamp.as_millis());
}

pub(super) fn duration(out: &mut Vec<u8>, duration: Duration) {
    unsigned(out, duration.as_secs());
    unsigned(out, duration.subsec_nanos());
}

pub(super) fn bool(out: &mut Vec<u8>, value: bool) {
    out.push(value.into());
}

/// Writes a Boolean, and what follows it if it is true.
pub(super) fn optional<T>(out: &mut Vec<u8>, value: Option<T>, write: impl FnOnce(&mut Vec<u8>, T)) {
    bool(out, value.is_some());
    if let Some(value) = value {
        write(out, value);
    }
}

/// Writes the number of items, and each of them.
pub(super) fn list<T>(
    out: &mut Vec<u8>,
    items: impl ExactSizeIterator<Item = T>,
    mut write: impl FnMut(&mut Vec<u8>, T),
) {
    length(out, items.len());
    for item in items {
        write(out, item);
    }
}

/// Returns one bit for each flag: whether it is set.
#[inline]
pub(super) fn bits(flags: impl IntoIterator<Item = bool>) -> u32 {
    flags.into_iter().enumerate().fold(0, |bits, (place, flag)| bits | u32::from(flag) << place)
}
