//! What the disk has changed is right, or named.

use std::collections::BTreeSet;

use fastrand::Rng;

use super::{
    super::head::Head,
    every, is_long,
    model::{Model, random_batch},
    open, replay, say, seeds,
};
use crate::durable::{
    StorageErrorKind,
    disk::SimulatedDisk,
    journal::{Journal, Table},
};

type Record = ((Table, Vec<u8>), Vec<u8>);

/// A small store that was closed, or was not, what is in it, and what ever was.
pub(super) fn store_with_history(rng: &mut Rng, is_closed: bool) -> (SimulatedDisk, Model, BTreeSet<Record>) {
    let disk = SimulatedDisk::new();
    let mut journal = open(&disk).unwrap();
    let (mut model, mut history) = (Model::default(), BTreeSet::new());
    for _ in 0..25 {
        let batch = random_batch(rng, 30, 2_500);
        journal.commit(&batch, true).unwrap();
        model.apply(&batch);
        history.extend(model.0.clone());
    }
    let open = disk.copy();
    Box::new(journal).close().unwrap();
    (if is_closed { disk.copy() } else { open }, model, history)
}

fn store(rng: &mut Rng, is_closed: bool) -> (SimulatedDisk, Model) {
    let (disk, model, _) = store_with_history(rng, is_closed);
    (disk, model)
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
/// Attacks: 93.
#[test]
fn a_flipped_byte_is_named_or_harmless() {
    const FLIPS: u64 = 65_536;
    let seed = seeds(1).next().unwrap();
    let mut rng = Rng::with_seed(seed);
    let (mut flips, mut named) = (0, 0);
    for is_closed in [true, false] {
        let (intact, model) = store(&mut rng, is_closed);
        let mut disk = intact.copy();
        let places = used(&disk);
        let every = (places.len() as u64 * 2 / FLIPS).max(1).saturating_mul(every());
        for (name, place) in places.iter().skip(rng.usize(..64)).step_by(usize::try_from(every).unwrap_or(usize::MAX)) {
            let mask = if rng.bool() { 1 << rng.u8(..8) } else { rng.u8(1..) };
            disk.change(name, |bytes| bytes[*place] ^= mask);
            let replay = replay("a_flipped_byte_is_named_or_harmless", seed);
            let what = format!("byte {place} of {name} with {mask:#04x}, {replay}");
            if is_right(&disk, &model, rng.u8(..16) == 0, &what) {
                disk = intact.copy();
            } else {
                assert!(!disk.has_changed(), "{what}: it was written to");
                disk.change(name, |bytes| bytes[*place] ^= mask);
                named += 1;
            }
            flips += 1;
        }
    }
    assert!(named > flips / 2, "{named} of {flips} were named");
    say("flipped bytes", flips);
}

/// The bytes of the head and of all frames.
pub(super) fn used(disk: &SimulatedDisk) -> Vec<(String, usize)> {
    let head = disk.bytes("head");
    let mut places: Vec<_> = (0..head.len()).map(|place| ("head".to_owned(), place)).collect();
    for extent in Head::decode(&head).unwrap().segments {
        let name = super::super::files::segment(extent.number);
        let last = disk.bytes(&name).iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        places.extend((0..last).map(|place| (name.clone(), place)));
    }
    places
}

/// Rules: I-08.
/// Attacks: 92.
#[test]
fn a_truncated_store_is_named() {
    const LENGTHS: u64 = 4_096;
    let seed = seeds(1).next().unwrap();
    let mut rng = Rng::with_seed(seed);
    let (disk, model) = store(&mut rng, true);
    let names = Head::decode(&disk.bytes("head")).unwrap().segments.into_iter();
    let names: Vec<_> = names.map(|it| super::super::files::segment(it.number)).chain(["head".into()]).collect();
    let sizes: u64 = names.iter().map(|name| disk.bytes(name).len() as u64).sum();
    let every = if is_long() { 1 } else { (sizes / LENGTHS).saturating_mul(every()).max(1) };
    let mut truncations = 0;
    for name in names {
        let all = disk.bytes(&name).len();
        for length in (0..all).step_by(usize::try_from(every).unwrap_or(usize::MAX)) {
            let disk = disk.copy();
            disk.change(&name, |bytes| bytes.truncate(length));
            let replay = replay("a_truncated_store_is_named", seed);
            let what = format!("{length} of {all} bytes of {name}, {replay}");
            assert!(!is_right(&disk, &model, false, &what), "{what}: the damage is not detected");
            truncations += 1;
        }
    }
    say("truncations", truncations);
}

/// Rules: I-08.
/// Also if it is the last commit that is damaged, and the store was not closed.
#[test]
fn the_commit_before_does_not_come_back() {
    for is_closed in [true, false] {
        let (disk, model) = store(&mut Rng::with_seed(7), is_closed);
        let last = Head::decode(&disk.bytes("head")).unwrap().segments.pop().unwrap();
        let name = super::super::files::segment(last.number);
        let bytes = disk.bytes(&name);
        let headers = (0..bytes.len()).step_by(512).filter(|offset| bytes[*offset..].starts_with(b"csgf"));
        let header = headers.max().unwrap();
        for place in header..header + 80 {
            let disk = disk.copy();
            disk.change(&name, |bytes| bytes[place] ^= 0x10);
            assert!(!is_right(&disk, &model, false, &format!("byte {place}, closed: {is_closed}")));
        }
    }
}
