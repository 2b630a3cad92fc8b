//! What the disk has changed is right, or named.

use fastrand::Rng;

use super::{
    super::{
        head::Head,
        pages::Walk,
        simulated::{Faults, SimulatedDisk},
    },
    every, is_long,
    model::{Model, random_batch},
    open, replay, say, seeds,
};
use crate::durable::{StorageErrorKind, journal::Journal};

/// The bytes of a small store that was closed, or was not, and what is in it.
pub(super) fn store(rng: &mut Rng, is_closed: bool) -> (Vec<u8>, Model) {
    let disk = SimulatedDisk::new();
    let mut journal = open(&disk).unwrap();
    let mut model = Model::default();
    for _ in 0..25 {
        let batch = random_batch(rng, 30, 2_500);
        journal.commit(&batch, true).unwrap();
        model.apply(&batch);
    }
    if is_closed {
        Box::new(journal).close().unwrap();
    }
    (disk.bytes(), model)
}

/// Opens a store that is damaged, and may commit to it. `false` if the damage was named, and otherwise what is there is
/// right.
fn is_right(disk: &SimulatedDisk, model: &Model, commits: bool, what: &str) -> bool {
    match open(disk).and_then(|mut journal| Ok((Model::of(&mut journal)?, journal))) {
        Ok((found, mut journal)) => {
            assert_eq!(found, *model, "{what}: silently wrong");
            if commits {
                // What is not seen when it is opened must not do harm later.
                let batch = random_batch(&mut Rng::with_seed(1), 9, 5_000);
                journal.commit(&batch, true).unwrap();
                let mut model = model.clone();
                model.apply(&batch);
                Box::new(journal).close().unwrap();
                let found = open(disk).and_then(|mut journal| Model::of(&mut journal));
                assert_eq!(found.unwrap(), model, "{what}: wrong after a commit");
            }
            true
        }
        Err(error) => {
            assert_eq!(error.kind(), StorageErrorKind::Corrupted, "{what}: {error}");
            assert!(error.detail().contains("offset"), "{what}: {error}");
            false
        }
    }
}

/// Rules: I-08.
#[test]
fn a_flipped_byte_is_named_or_harmless() {
    const FLIPS: u64 = 65_536;
    let seed = seeds(1).next().unwrap();
    let mut rng = Rng::with_seed(seed);
    let (mut flips, mut named) = (0, 0);
    for is_closed in [true, false] {
        let (bytes, model) = store(&mut rng, is_closed);
        let mut disk = SimulatedDisk::of(bytes.clone());
        let places = used(&disk);
        let every = (places.len() as u64 * 2 / FLIPS).max(1).saturating_mul(every());
        for place in places.iter().skip(rng.usize(..64)).step_by(usize::try_from(every).unwrap_or(usize::MAX)) {
            let mask = if rng.bool() { 1 << rng.u8(..8) } else { rng.u8(1..) };
            disk.flip(*place, mask);
            let what =
                format!("byte {place} with {mask:#04x}, {}", replay("a_flipped_byte_is_named_or_harmless", seed));
            if is_right(&disk, &model, rng.u8(..16) == 0, &what) {
                disk = SimulatedDisk::of(bytes.clone());
            } else {
                assert!(!disk.has_changed(), "{what}: it was written to");
                disk.flip(*place, mask);
                named += 1;
            }
            flips += 1;
        }
    }
    assert!(named > flips / 2, "{named} of {flips} were named");
    say("flipped bytes", flips);
}

/// Where the bytes of pages that are in use are.
pub(super) fn used(disk: &SimulatedDisk) -> Vec<usize> {
    let storage = disk.storage();
    let head = Head::read(&*storage).unwrap();
    let mut walk = Walk::lenient(&*storage, &head).unwrap();
    walk.slot(&head.slots()[0]).unwrap();
    assert_eq!(walk.damages, []);
    let pages = walk.seen.iter().flat_map(|(offset, size)| {
        let offset = usize::try_from(*offset).unwrap();
        offset..offset + size
    });
    (0..512).chain(pages).collect()
}

/// Rules: I-08.
#[test]
fn a_truncated_store_is_named() {
    const LENGTHS: u64 = 4_096;
    let seed = seeds(1).next().unwrap();
    let mut rng = Rng::with_seed(seed);
    let (bytes, model) = store(&mut rng, true);
    let every = if is_long() { 1 } else { (bytes.len() as u64 / LENGTHS).saturating_mul(every()) };
    let mut truncations = 0;
    for length in (0..bytes.len()).step_by(usize::try_from(every).unwrap_or(usize::MAX)) {
        let disk = SimulatedDisk::of(bytes[..length].to_vec());
        let what = format!("{length} of {} bytes, {}", bytes.len(), replay("a_truncated_store_is_named", seed));
        assert!(!is_right(&disk, &model, false, &what), "{what}: nobody noticed");
        truncations += 1;
    }
    say("truncations", truncations);
}

/// Rules: I-08.
#[test]
fn the_commit_before_does_not_come_back() {
    /// Where redb says which of two commits is the latest.
    const FLAGS: usize = 9;
    for is_closed in [true, false] {
        let (bytes, model) = store(&mut Rng::with_seed(7), is_closed);
        for mask in 1..=u8::MAX {
            let disk = SimulatedDisk::of(bytes.clone());
            disk.flip(FLAGS, mask);
            disk.set_faults(Faults::NONE);
            assert!(!is_right(&disk, &model, false, &format!("flags with {mask:#04x}")));
        }
    }
}
