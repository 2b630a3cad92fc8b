//! Makes a store one of a later version, by the bytes that `docs/store-format.md` describes.

use super::packed::Files;

/// The table of the counters.
const COUNTERS: u8 = 2;

fn file<'f>(files: &'f mut Files, suffix: &str) -> &'f mut Vec<u8> {
    &mut files.iter_mut().find(|(name, _)| name.ends_with(suffix)).unwrap().1
}

/// Its head has format 2.
pub(super) fn format(files: &mut Files) {
    let head = file(files, "head");
    head[8] = 2;
    let content = head.len() - 4;
    let checksum = crc(&[&head[..content]]);
    head[content..].copy_from_slice(&checksum);
}

/// A counter has version 99.
pub(super) fn record(files: &mut Files) {
    let number = files.iter().find_map(|(name, _)| u32::from_str_radix(name.strip_suffix(".log")?, 16).ok()).unwrap();
    let segment = file(files, ".log");
    let length = |segment: &[u8], at: usize| u32::from_le_bytes(*segment[at..].first_chunk().unwrap()) as usize;
    for frame in (0..segment.len()).step_by(512) {
        if !segment[frame..].starts_with(b"csgf") {
            continue;
        }
        let (mut at, end) = (frame + 64, frame + 64 + length(segment, frame + 40));
        while at < end {
            let key = usize::from(u16::from_le_bytes(*segment[at + 1..].first_chunk().unwrap()));
            let next = at + 11 + key + length(segment, at + 3);
            if segment[at] == COUNTERS {
                segment[at + 11 + key] = 99;
                let offset = u32::try_from(at).unwrap().to_le_bytes();
                let entry = [&number.to_le_bytes()[..], &offset, &segment[at..at + 7], &segment[at + 11..next]];
                let checksum = crc(&entry);
                segment[at + 7..at + 11].copy_from_slice(&checksum);
                let checksum = crc(&[&segment[frame + 64..end]]);
                segment[frame + 44..frame + 48].copy_from_slice(&checksum);
                let checksum = crc(&[&segment[frame..frame + 60]]);
                segment[frame + 60..frame + 64].copy_from_slice(&checksum);
                return;
            }
            at = next;
        }
    }
    panic!("there is no counter");
}

/// The CRC-32 of these bytes, one after the other.
fn crc(parts: &[&[u8]]) -> [u8; 4] {
    let crc = parts.iter().copied().flatten().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ ((crc & 1) * 0xedb8_8320))
    });
    (!crc).to_le_bytes()
}
