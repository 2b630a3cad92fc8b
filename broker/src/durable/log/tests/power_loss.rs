use fastrand::Rng;

use super::{
    super::{LogJournal, LogOptions},
    copies::try_salvage,
    every, is_long,
    model::{Model, random_batch},
    open, replay, say, seeds,
};
use crate::durable::{
    StorageError, StorageErrorKind,
    disk::{Faults, SimulatedDisk},
    journal::{Batch, Journal, Table},
};

/// Opens a disk on which nothing fails, and returns what is there.
fn recover(disk: &SimulatedDisk) -> (LogJournal, Model) {
    disk.set_faults(Faults::NONE);
    let mut journal = open(disk).unwrap();
    let model = Model::of(&mut journal).unwrap();
    (journal, model)
}

/// Commits random batches. What there may be after a loss of power is in `possible`, the latest last.
fn commit_some(
    journal: &mut LogJournal,
    possible: &mut Vec<Model>,
    batches: usize,
    rng: &mut Rng,
) -> Result<(), StorageError> {
    let value = [20, 300, 5_000, 40_000][rng.usize(..4)];
    let mut compacts = false;
    for _ in 0..batches {
        let batch = random_batch(rng, 12, value);
        let mut after = possible.last().unwrap().clone();
        after.apply(&batch);
        possible.push(after);
        let sync = rng.u8(..4) > 0;
        journal.commit(&batch, sync)?;
        if sync {
            possible.drain(..possible.len() - 1);
        }
        compacts = (compacts || rng.u8(..40) == 0) && !journal.compact()?;
    }
    Ok(())
}

/// Loses power five times, at random calls, also while it recovers. Returns what was lost or torn.
fn lose_power(seed: u64, ignores_syncs: bool) -> Result<(), String> {
    let mut rng = Rng::with_seed(seed);
    let mut disk = SimulatedDisk::new();
    let mut possible = vec![Model::default()];
    for _ in 0..5 {
        let power_loss = rng.bool().then(|| rng.u64(1..60)).or_else(|| rng.bool().then(|| rng.u64(1..600)));
        disk.set_faults(Faults { power_loss, ignores_syncs, ..Faults::NONE });
        if let Ok(mut journal) = open(&disk) {
            let batches = rng.usize(1..12);
            let committed = commit_some(&mut journal, &mut possible, batches, &mut rng);
            if committed.is_ok() && rng.bool() && Box::new(journal).close().is_ok() {
                possible.drain(..possible.len() - 1);
            }
        }
        disk = disk.power_loss(&mut rng);
        while rng.bool() {
            disk.set_faults(Faults { power_loss: Some(rng.u64(1..12)), ignores_syncs, ..Faults::NONE });
            drop(open(&disk));
            disk = disk.power_loss(&mut rng);
        }
        let mut journal = open(&disk).map_err(|error| format!("it does not open: {error}"))?;
        let found = Model::of(&mut journal).map_err(|error| format!("it does not load: {error}"))?;
        drop(journal);
        check_salvage(&disk, &found)?;
        if !possible.contains(&found) {
            return Err(format!("{} records are none of {} states", found.0.len(), possible.len()));
        }
        possible = vec![found];
    }
    Ok(())
}

/// Checks that a store that opens is one without damage.
fn check_salvage(disk: &SimulatedDisk, model: &Model) -> Result<(), String> {
    let (salvaged, found) = try_salvage(disk).map_err(|error| format!("it cannot be checked: {error}"))?;
    match salvaged.damages.first() {
        Some(damage) => Err(format!("it opens, and is said to be damaged: {damage}")),
        None if found == *model => Ok(()),
        None => Err(format!("{} records are salvaged of {}", found.0.len(), model.0.len())),
    }
}

/// Rules: I-02, I-03, I-04.
/// Attacks: 92.
#[test]
fn power_loss_loses_no_batch_and_tears_none() {
    let mut losses = 0;
    for seed in seeds(if is_long() { 100_000 } else { 2_000 }) {
        lose_power(seed, false)
            .unwrap_or_else(|what| panic!("{what}; {}", replay("power_loss_loses_no_batch_and_tears_none", seed)));
        losses += 5;
    }
    say("losses of power at random calls", losses);
}

/// Rules: I-10.
#[test]
fn a_sync_that_does_nothing_is_caught() {
    let caught = (0..200).find(|seed| lose_power(*seed, true).is_err());
    assert!(caught.is_some(), "200 seeds have lost nothing on a disk that syncs nothing");
}

/// A journal's life on a disk that keeps what happens.
struct Life {
    disk: SimulatedDisk,
    /// After each batch, with the events before and after it, and whether it was synced. The first is the empty one.
    states: Vec<(Model, usize, usize, bool)>,
}

impl Life {
    /// Batches of so many changes and values of so many bytes, one in so many of them not synced.
    fn new(seed: u64, batches: usize, most: usize, value: usize, unsynced: usize) -> Self {
        let mut rng = Rng::with_seed(seed);
        let disk = SimulatedDisk::new();
        let mut journal = open(&disk).unwrap();
        let mut states = vec![(Model::default(), 0, 0, true)];
        for number in 1..=batches {
            let batch: Batch = random_batch(&mut rng, most, value);
            let sync = unsynced == 0 || number % unsynced != 0;
            let mut model = states.last().unwrap().0.clone();
            model.apply(&batch);
            let before = disk.events();
            journal.commit(&batch, sync).unwrap();
            states.push((model, before, disk.events(), sync));
            if number % 70 == 0 {
                while !journal.compact().unwrap() {}
            }
            if number % 50 == 0 {
                Box::new(journal).close().unwrap();
                journal = open(&disk).unwrap();
            }
        }
        Box::new(journal).close().unwrap();
        Self { disk, states }
    }

    /// What there may be when the power goes after so many events.
    fn possible(&self, events: usize) -> &[(Model, usize, usize, bool)] {
        let first = self.states.iter().rposition(|(_, _, after, is_synced)| *is_synced && *after <= events);
        let last = self.states.iter().rposition(|(_, before, ..)| *before < events);
        let first = first.unwrap();
        // A batch without an effect writes nothing.
        &self.states[first..=last.unwrap_or_default().max(first)]
    }

    /// Every point at which the power may go, or one in `every`.
    fn points(&self, every: u64, rng: &mut Rng) -> impl Iterator<Item = usize> + use<> {
        let every = usize::try_from(every).unwrap_or(usize::MAX);
        let first = rng.usize(..every.min(self.disk.events()));
        (first..=self.disk.events()).step_by(every)
    }
}

/// Three kinds of work: small batches, large ones, and some that are not synced.
fn lives(seed: u64) -> [Life; 3] {
    [Life::new(seed, 120, 4, 100, 0), Life::new(seed ^ 1, 40, 60, 12_000, 0), Life::new(seed ^ 2, 120, 10, 1_000, 3)]
}

/// Rules: I-02, I-03, I-04.
#[test]
fn power_loss_at_every_call_loses_nothing() {
    let seed = seeds(1).next().unwrap();
    let mut rng = Rng::with_seed(seed);
    let mut points = 0;
    for (number, life) in lives(seed).iter().enumerate() {
        for point in life.points(every(), &mut rng) {
            let disk = life.disk.at(point, &mut rng);
            let (_, found) = recover(&disk);
            let is_possible = life.possible(point).iter().any(|(model, ..)| *model == found);
            assert!(
                is_possible,
                "life {number}, event {point}; {}",
                replay("power_loss_at_every_call_loses_nothing", seed)
            );
            points += 1;
        }
    }
    say("losses of power, one after each call of three lives", points);
}

/// Rules: I-09.
#[test]
fn recovery_may_be_interrupted() {
    let seed = seeds(1).next().unwrap();
    let mut rng = Rng::with_seed(seed);
    let mut points = 0;
    for (number, life) in lives(seed).iter().enumerate() {
        for point in life.points(every().saturating_mul(40), &mut rng) {
            let disk = life.disk.at(point, &mut rng);
            let expected = recover(&disk.copy()).1;
            for call in 1.. {
                let again = disk.copy();
                again.set_faults(Faults { power_loss: Some(call), ..Faults::NONE });
                // The first write comes with the first commit.
                let is_through = open(&again).and_then(|mut journal| journal.prepare()).is_ok();
                let mut again = again.power_loss(&mut rng);
                // And once more.
                again.set_faults(Faults { power_loss: Some(rng.u64(1..=call)), ..Faults::NONE });
                drop(open(&again).and_then(|mut journal| journal.prepare()));
                again = again.power_loss(&mut rng);
                let found = recover(&again).1;
                let replay = replay("recovery_may_be_interrupted", seed);
                assert_eq!(found, expected, "life {number}, event {point}, call {call}; {replay}");
                points += 1;
                if is_through {
                    break;
                }
            }
        }
    }
    say("losses of power while recovering, twice", points);
}

/// Rules: I-06.
#[test]
fn a_failed_sync_is_final() {
    /// Enough for 200 syncs.
    const BATCHES: usize = 300;
    let step = usize::try_from(every().min(20)).unwrap();
    let (mut tried, mut opened) = (0, 0);
    for sync in (1..=200).step_by(step) {
        let mut rng = Rng::with_seed(sync);
        let disk = SimulatedDisk::new();
        disk.set_faults(Faults { sync: Some(sync), ..Faults::NONE });
        let mut possible = vec![Model::default()];
        tried += 1;
        if let Ok(mut journal) = open(&disk) {
            opened += 1;
            let committed = commit_some(&mut journal, &mut possible, BATCHES, &mut rng);
            let Err(failed) = committed else { panic!("sync {sync} has failed, and {BATCHES} batches are committed") };
            assert_eq!(failed.kind(), StorageErrorKind::Failed, "sync {sync}: {failed}");
            for sync in [false, true] {
                let again = journal.commit(&random_batch(&mut rng, 3, 10), sync).unwrap_err();
                assert_eq!(again.kind(), StorageErrorKind::Failed);
            }
            assert_eq!(journal.commit(&Batch::default(), false).unwrap_err().kind(), StorageErrorKind::Failed);
            assert_eq!(journal.compact().unwrap_err().kind(), StorageErrorKind::Failed);
            assert!(!journal.has_space());
            assert_eq!(journal.reader().read(Table::Broker, &[b""]).unwrap_err().kind(), StorageErrorKind::Failed);
            assert_eq!(Box::new(journal).close().unwrap_err().kind(), StorageErrorKind::Failed);
        }
        let (_, found) = recover(&disk.power_loss(&mut rng));
        assert!(possible.contains(&found), "sync {sync}");
    }
    // A store is made with a few syncs, and all others are of batches.
    assert!(opened > 0 && tried - opened < 20, "{opened} of {tried} journals were opened");
    say("failed syncs", 200 / step);
}

/// A later one may be on the disk without an earlier one. The parts of a compaction are such commits too.
#[test]
fn commits_that_were_not_synced_leave_no_damage() {
    let mut losses = 0;
    for seed in seeds(2_500) {
        let mut rng = Rng::with_seed(seed);
        let disk = SimulatedDisk::new();
        let options = LogOptions { smallest: 1 << 20, largest: 1 << 20, ..LogOptions::small(0) };
        let mut journal = LogJournal::at(Box::new(disk.clone()), options).unwrap();
        let value = rng.usize(100..10_000);
        for _ in 0..4 {
            journal.commit(&random_batch(&mut rng, 6, value), true).unwrap();
        }
        if rng.bool() {
            journal.compact().unwrap();
        }
        for _ in 0..rng.usize(2..6) {
            journal.commit(&random_batch(&mut rng, 3, value), false).unwrap();
        }
        let disk = disk.power_loss(&mut rng);
        let found = recover(&disk).1;
        let replay = replay("commits_that_were_not_synced_leave_no_damage", seed);
        assert_eq!(check_salvage(&disk, &found), Ok(()), "{replay}");
        losses += 1;
    }
    say("losses of power after commits that were not synced", losses);
}

/// Rules: D-06, I-06.
///
/// The pages of a failed sync read as if they were on the disk, also in the next process, until the power is lost.
#[test]
fn what_a_failed_sync_left_in_the_cache_is_written_again() {
    let (mut kept, mut losses) = (0, 0);
    for seed in seeds(20_000) {
        let mut rng = Rng::with_seed(seed);
        let replay = replay("what_a_failed_sync_left_in_the_cache_is_written_again", seed);
        let disk = SimulatedDisk::new();
        let mut possible = vec![Model::default()];
        disk.set_faults(Faults { sync: Some(rng.u64(6..40)), ..Faults::NONE });
        let Ok(mut journal) = open(&disk) else { continue };
        let value = rng.usize(5_000..40_000);
        while possible.len() < 300 {
            let batch = random_batch(&mut rng, 3, value);
            let mut after = possible.last().unwrap().clone();
            after.apply(&batch);
            possible.push(after);
            if journal.commit(&batch, true).is_err() {
                break;
            }
        }
        drop(journal);
        disk.restart();
        let (mut journal, mut acknowledged) = recover(&disk);
        assert!(possible[possible.len() - 2..].contains(&acknowledged), "{replay}");
        kept += usize::from(possible.ends_with(std::slice::from_ref(&acknowledged)));
        for _ in 0..rng.usize(1..3) {
            let batch = random_batch(&mut rng, 3, 100);
            acknowledged.apply(&batch);
            journal.commit(&batch, true).unwrap();
        }
        let after = disk.power_loss(&mut rng);
        let found = open(&after).and_then(|mut journal| Model::of(&mut journal));
        let found = found.unwrap_or_else(|error| panic!("{error}; {replay}"));
        assert_eq!(found, acknowledged, "{replay}");
        losses += 1;
    }
    assert!(kept > losses / 5, "{kept} of {losses} have the last batch");
    say("losses of power after a failed sync and an opening", losses);
}

/// Rules: I-06.
#[test]
fn a_failed_read_is_named() {
    let disk = Life::new(1, 40, 20, 3_000, 0).disk;
    for read in 1.. {
        let again = disk.copy();
        again.set_faults(Faults { read: Some(read), ..Faults::NONE });
        let error = match open(&again).and_then(|mut journal| Model::of(&mut journal)) {
            Ok(_) if again.counts().reads < read => break,
            Ok(_) => panic!("read {read} has failed unnoticed"),
            Err(error) => error,
        };
        assert_eq!(error.kind(), StorageErrorKind::Failed, "read {read}: {error}");
        assert_eq!(again.counts().reads.max(read), again.counts().reads, "it fails by itself");
    }
}
