//! The header of a frame, which holds one commit.
//!
//! The header names its own place. So a frame of an earlier use of the file, a frame that was copied elsewhere, and bytes
//! of a message that look like a frame are not mistaken for one.

/// Frames begin at multiples of this. A disk writes such a sector completely or not at all.
pub(super) const SECTOR: u32 = 512;

/// What the page cache of an operating system reads and writes at once.
pub(super) const PAGE: u32 = 4_096;

/// Length of a header.
pub(super) const LEN: usize = 64;
/// The same, as an offset.
pub(super) const HEADER: u32 = 64;

const FRAME: &[u8; 4] = b"csgf";
const MARK: &[u8; 4] = b"csgm";

/// Where a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    /// The store, by its random number.
    pub(super) store: u64,
    pub(super) segment: u32,
    pub(super) offset: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) spot: Spot,
    /// The number of the opening that wrote it.
    pub(super) epoch: u32,
    /// The number of the commit. That of a mark is the number of the next one.
    pub(super) commit: u64,
    /// The last commit that was on the disk when this header was written.
    pub(super) synced: u64,
    /// Bytes of the records. `None` for a mark, which only reports that a commit is on the disk.
    pub(super) length: Option<u32>,
    /// The CRC-32 of the records.
    pub(super) checksum: u32,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        let mut rest = &mut bytes[..];
        let mut put = |field: &[u8]| {
            let (place, left) = std::mem::take(&mut rest).split_at_mut(field.len());
            place.copy_from_slice(field);
            rest = left;
        };
        let (magic, length) = match self.length {
            Some(length) => (FRAME, length),
            // A mark has no records.
            None => (MARK, 0),
        };
        put(magic);
        put(&self.epoch.to_le_bytes());
        put(&self.spot.store.to_le_bytes());
        put(&self.spot.segment.to_le_bytes());
        put(&self.spot.offset.to_le_bytes());
        put(&self.commit.to_le_bytes());
        put(&self.synced.to_le_bytes());
        put(&length.to_le_bytes());
        put(&self.checksum.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..LEN - 4]);
        bytes[LEN - 4..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Returns the header, if the bytes are one as it was written.
    pub(super) fn decode(bytes: &[u8; LEN]) -> Option<Self> {
        let is_frame = match bytes.first_chunk()? {
            FRAME => true,
            MARK => false,
            _ => return None,
        };
        let (fields, checksum) = bytes.split_last_chunk()?;
        if crc32fast::hash(fields) != u32::from_le_bytes(*checksum) {
            return None;
        }
        let length = small(bytes, 40)?;
        Some(Self {
            spot: Spot { store: large(bytes, 8)?, segment: small(bytes, 16)?, offset: small(bytes, 20)? },
            epoch: small(bytes, 4)?,
            commit: large(bytes, 24)?,
            synced: large(bytes, 32)?,
            length: is_frame.then_some(length),
            checksum: small(bytes, 44)?,
        })
    }
}

fn small(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn large(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Returns how many bytes a frame with so many bytes of records takes up.
pub(super) fn padded(length: u32) -> Option<u32> {
    HEADER.checked_add(length)?.checked_next_multiple_of(SECTOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written_or_not_at_all() {
        let spot = Spot { store: 1 << 63 | 5, segment: 7, offset: 512 };
        for length in [None, Some(3)] {
            let header = Header { spot, epoch: 2, commit: 1 << 40, synced: 9, length, checksum: u32::MAX };
            let bytes = header.encode();
            assert_eq!(Header::decode(&bytes), Some(header));
            for bit in 0..LEN * 8 {
                let mut damaged = bytes;
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Header::decode(&damaged), None, "bit {bit}");
            }
        }
    }

    /// Attacks: 94.
    #[test]
    fn a_length_that_no_frame_has_is_refused() {
        assert_eq!((padded(0), padded(448), padded(449)), (Some(512), Some(512), Some(1_024)));
        assert_eq!(padded(u32::MAX), None);
    }
}
