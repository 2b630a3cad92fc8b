//! The files of a store, which have long runs of one byte.
//!
//! They follow each other: the length of the name, the name, the length of the file, and its bytes. This is packed: again and again: how many bytes follow, these bytes, how often another one comes, and that byte. Numbers are 32 bits,
//! little-endian.

/// From how many on bytes are a run.
const RUN: usize = 16;

/// The name of a file, and its bytes.
pub(super) type Files = Vec<(String, Vec<u8>)>;

pub(super) fn pack_files(files: &Files) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, file) in files {
        for part in [name.as_bytes(), file] {
            bytes.extend(number(part.len()));
            bytes.extend(part);
        }
    }
    pack(&bytes)
}

pub(super) fn unpack_files(packed: &[u8]) -> Files {
    let bytes = unpack(packed);
    let (mut rest, mut files) = (&bytes[..], Files::new());
    while !rest.is_empty() {
        let mut part = || {
            let length = take(&mut rest);
            rest.split_off(..length).unwrap().to_vec()
        };
        files.push((String::from_utf8(part()).unwrap(), part()));
    }
    files
}

fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let run = rest.windows(RUN).position(|run| *run == [run[0]; RUN]).unwrap_or(rest.len());
        let (before, from) = rest.split_at(run);
        let byte = from.first().copied().unwrap_or_default();
        let length = from.iter().take_while(|it| **it == byte).count();
        packed.extend(number(before.len()));
        packed.extend(before);
        packed.extend(number(length));
        packed.push(byte);
        rest = &from[length..];
    }
    packed
}

fn unpack(packed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = packed;
    while !rest.is_empty() {
        let length = take(&mut rest);
        bytes.extend(rest.split_off(..length).unwrap());
        let length = take(&mut rest);
        bytes.resize(bytes.len() + length, *rest.split_off_first().unwrap());
    }
    bytes
}

fn number(number: usize) -> [u8; 4] {
    u32::try_from(number).unwrap().to_le_bytes()
}

fn take(rest: &mut &[u8]) -> usize {
    let (number, left) = rest.split_first_chunk().unwrap();
    *rest = left;
    u32::from_le_bytes(*number) as usize
}

#[test]
fn a_packed_store_is_unpacked() {
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..200 {
        let bytes: Vec<u8> = (0..random.usize(..9)).flat_map(|_| vec![random.u8(..2); random.usize(..40)]).collect();
        assert_eq!(unpack(&pack(&bytes)), bytes);
    }
    assert!(pack(&[7; 10_000]).len() < 10);
}
