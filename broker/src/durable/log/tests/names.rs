//! The names of files and folders across a crash: creation, backup and what is opened again.

use fastrand::Rng;

use super::{
    super::LogJournal,
    model::{Model, random_batch},
    open, replay, say, seeds,
};
use crate::durable::{
    StorageErrorKind,
    disk::{Faults, SimulatedDisk},
    journal::Journal,
};

/// What goes wrong at a call of an operation on a disk.
#[derive(Clone, Copy, Debug)]
enum Crash {
    /// The process ends; what was not synced may be lost later.
    Kill,
    PowerLoss,
}

/// The disk as the next process finds it.
fn crash(disk: SimulatedDisk, crash: Crash, rng: &mut Rng) -> SimulatedDisk {
    match crash {
        Crash::Kill => {
            disk.restart();
            disk
        }
        Crash::PowerLoss => disk.power_loss(rng),
    }
}

/// Has the operation crash at each call in turn. `check` is handed the disk after that.
fn at_each_call(
    seed: u64,
    mut operation: impl FnMut(&SimulatedDisk),
    mut check: impl FnMut(SimulatedDisk, &mut Rng, &str),
) -> usize {
    let mut images = 0;
    for kind in [Crash::Kill, Crash::PowerLoss] {
        for call in 1.. {
            let mut rng = Rng::with_seed(seed.wrapping_add(call));
            let disk = SimulatedDisk::new();
            disk.set_reserve(4_096);
            disk.set_faults(Faults { power_loss: Some(call), ..Faults::NONE });
            operation(&disk);
            let is_through = disk.counts().calls < call;
            check(crash(disk, kind, &mut rng), &mut rng, &format!("{kind:?} at call {call}"));
            images += 1;
            if is_through {
                break;
            }
        }
    }
    images
}

/// Rules: D-240.
#[test]
fn a_crash_while_a_store_is_created_loses_nothing_that_is_acknowledged_later() {
    let mut images = 0;
    for seed in seeds(50) {
        let test = "a_crash_while_a_store_is_created_loses_nothing_that_is_acknowledged_later";
        let create = |disk: &SimulatedDisk| drop(open(disk));
        images += at_each_call(seed, create, |disk, rng, what| {
            let what = format!("{what}; {}", replay(test, seed));
            // The next process finds a store, or begins one; then it acknowledges something, and the power goes.
            let mut journal = open(&disk).unwrap_or_else(|error| panic!("{error}, {what}"));
            assert_eq!(Model::of(&mut journal).unwrap(), Model::default(), "{what}");
            let (batch, mut acknowledged) = (random_batch(rng, 9, 300), Model::default());
            journal.commit(&batch, true).unwrap();
            acknowledged.apply(&batch);
            let disk = disk.power_loss(rng);
            let found = open(&disk).and_then(|mut journal| Model::of(&mut journal));
            let found = found.unwrap_or_else(|error| panic!("{error} in {:?}, {what}", disk.names()));
            assert_eq!(found, acknowledged, "{what}");
        });
    }
    say("crashes of a creation, with a power loss later", images);
}

/// Rules: D-241.
#[test]
fn an_unfinished_backup_does_not_open() {
    let mut rng = Rng::with_seed(1);
    let (source, mut model) = (SimulatedDisk::new(), Model::default());
    let mut journal = open(&source).unwrap();
    for _ in 0..10 {
        let batch = random_batch(&mut rng, 20, 3_000);
        journal.commit(&batch, true).unwrap();
        model.apply(&batch);
    }
    let (mut images, mut unfinished, mut whole) = (0, 0, 0);
    for seed in seeds(20) {
        let backup = |disk: &SimulatedDisk| drop(journal.backup_to(Box::new(disk.clone())));
        images += at_each_call(seed, backup, |disk, _, what| {
            let what = format!("{what}; {}", replay("an_unfinished_backup_does_not_open", seed));
            let Some(names) = disk.names() else { return };
            match open(&disk).and_then(|mut journal| Model::of(&mut journal)) {
                Ok(found) => {
                    assert_eq!(found, model, "{names:?}, {what}");
                    whole += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind(), StorageErrorKind::NotAStore, "{error} of {names:?}, {what}");
                    assert!(error.detail().contains("unfinished backup"), "{error}, {what}");
                    unfinished += 1;
                }
            }
        });
    }
    assert!(unfinished > whole && whole > 0, "{unfinished} are unfinished, {whole} are whole");
    say("crashes of a backup", images);
}

/// Rules: D-240.
#[test]
fn a_store_that_was_not_renamed_is_not_emptied() {
    let mut model = Model::default();
    let disk = SimulatedDisk::new();
    let mut journal = open(&disk).unwrap();
    let batch = random_batch(&mut Rng::with_seed(2), 20, 300);
    journal.commit(&batch, true).unwrap();
    model.apply(&batch);
    drop(journal);
    // As a process left it that did not sync the folder, with and without the reserve that it took.
    for has_reserve in [true, false] {
        let disk = disk.copy();
        disk.change_names(|names| {
            let head = names.remove("head").unwrap();
            names.insert("head.new".into(), head);
            if !has_reserve {
                names.remove("reserve");
            }
        });
        let mut journal = open(&disk).unwrap();
        assert_eq!(Model::of(&mut journal).unwrap(), model);
        drop(journal);
        assert_eq!(Model::of(&mut open(&disk.power_loss(&mut Rng::with_seed(3))).unwrap()).unwrap(), model);
    }
}

#[test]
fn a_crash_at_any_call_of_a_life_leaves_names_that_open() {
    let mut losses = 0;
    for seed in seeds(2_000) {
        let mut rng = Rng::with_seed(seed);
        let (mut disk, mut model) = (SimulatedDisk::new(), Model::default());
        disk.set_reserve(8_192);
        for _ in 0..6 {
            disk.set_faults(Faults { power_loss: Some(rng.u64(1..40)), ..Faults::NONE });
            let mut possible = vec![model];
            if let Ok(mut journal) = open(&disk) {
                live(&mut journal, &mut possible, &mut rng);
            }
            let kind = if rng.bool() { Crash::Kill } else { Crash::PowerLoss };
            disk = crash(disk, kind, &mut rng);
            let test = "a_crash_at_any_call_of_a_life";
            let found = open(&disk).and_then(|mut journal| Model::of(&mut journal));
            let found = found.unwrap_or_else(|error| panic!("{error}; {}", replay(test, seed)));
            assert!(possible.contains(&found), "after {kind:?}; {}", replay(test, seed));
            model = found;
            losses += 1;
        }
    }
    say("kills and power losses, with the files' names", losses);
}

/// Commits, with the reserve given up and taken again in between, until a call fails.
fn live(journal: &mut LogJournal, possible: &mut Vec<Model>, rng: &mut Rng) {
    for _ in 0..rng.usize(1..8) {
        let batch = random_batch(rng, 9, 300);
        let mut after = possible.last().unwrap().clone();
        after.apply(&batch);
        possible.push(after);
        if journal.commit(&batch, true).is_err() {
            return;
        }
        possible.drain(..possible.len() - 1);
        if rng.u8(..4) == 0 {
            journal.place().release();
            journal.place().reserve();
        }
    }
}
