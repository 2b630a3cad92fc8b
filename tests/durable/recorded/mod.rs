//! What a disk may hold after a power loss, by the system calls of real processes.
//!
//! strace records the calls of a process that uses a store and says what was acknowledged. For each call there is an image
//! of what may be on the disk when the power goes then: what was synced, and of the rest all, some or nothing. Files are
//! lasting by a sync of the file, names by one of their folder. Each image is opened, and has to have what was acknowledged
//! by then. A call that is not known to be harmless, and is not understood, fails the test; so do files that are not in the
//! end what the calls say.

mod check;
mod child;
mod content;
mod disk;
mod images;
mod process;
mod recording;
mod strace;
mod told;

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use disk::Image;
use fastrand::Rng;
use images::Moment;
use recording::Recording;
use tempfile::TempDir;
use told::Promise;

/// What a process is told: where its store is, and the first id that it sends.
const ROOT: &str = "CONSIGN_RECORDED_ROOT";
const FIRST: &str = "CONSIGN_RECORDED_FIRST";

/// Images of each test in the short run, about, and how many times as many in the long one.
const IMAGES: usize = 150;
const MORE: usize = 20;
/// Processes that are killed at any call, beside those that are killed at one that decides.
const OTHERS: usize = 3;

/// Rules: D-280.
#[test]
fn acknowledged_messages_are_in_every_image_of_the_recorded_calls() {
    if let Some((root, first)) = as_child() {
        return child::create(&root, first);
    }
    let Some(mut test) = Test::new("acknowledged_messages_are_in_every_image_of_the_recorded_calls") else { return };
    let mut recording = Recording::of(&test.root);
    test.run(&mut recording, 1);
    let images = test.check(&recording, 0, &Promise::default(), images());
    say(images, "images of a store that is created and used");
}

/// Rules: D-281.
#[test]
fn a_store_of_a_killed_process_is_durable_once_another_acknowledges() {
    if let Some((root, first)) = as_child() {
        return child::create(&root, first);
    }
    let Some(mut test) = Test::new("a_store_of_a_killed_process_is_durable_once_another_acknowledges") else { return };
    let mut first = Recording::of(&test.root);
    test.run(&mut first, 1);
    let told = first.events.iter().position(|event| event.told().is_some()).unwrap();
    let mut kills: Vec<usize> = (0..told).filter(|&event| first.is_edge(event)).collect();
    kills.extend((0..OTHERS).map(|_| test.rng.usize(..first.events.len())));
    let (mut checked, share) = (0, images().div_ceil(kills.len()));
    for kill in kills {
        let Some(mut recording) = first.killed_at(kill) else { continue };
        test.restart(&recording);
        let from = recording.events.len();
        test.run(&mut recording, 100);
        checked += test.check(&recording, from, &Promise::default(), share);
    }
    say(checked, "images of a store that a process goes on with after another was killed");
}

/// Rules: D-282.
#[test]
fn a_backup_is_whole_or_refused_in_every_image_of_the_recorded_calls() {
    if let Some((root, _)) = as_child() {
        return child::back_up(&root);
    }
    let Some(mut test) = Test::new("a_backup_is_whole_or_refused_in_every_image_of_the_recorded_calls") else { return };
    child::fill(&test.root);
    let mut recording = Recording::of(&test.root);
    test.run(&mut recording, 0);
    let images = test.check(&recording, 0, &Promise::of(child::FILLED), images());
    say(images, "images of a backup");
}

/// Rules: D-283.
#[test]
fn a_compaction_changes_nothing_in_any_image_of_the_recorded_calls() {
    if let Some((root, _)) = as_child() {
        return child::compact(&root);
    }
    let Some(mut test) = Test::new("a_compaction_changes_nothing_in_any_image_of_the_recorded_calls") else { return };
    child::fill(&test.root);
    let mut recording = Recording::of(&test.root);
    test.run(&mut recording, 0);
    let images = test.check(&recording, 0, &Promise::of(child::FILLED), images());
    say(images, "images of a compaction");
}

fn as_child() -> Option<(PathBuf, u64)> {
    Some((env::var_os(ROOT)?.into(), env::var(FIRST).ok()?.parse().ok()?))
}

/// Images of one test. `cargo xtask power-loss` sets how many.
fn images() -> usize {
    if env::var("CONSIGN_EVERY").is_ok_and(|every| every == "1") { IMAGES * MORE } else { IMAGES }
}

/// What `cargo xtask power-loss` reads.
fn say(images: usize, what: &str) {
    assert!(images > 0, "there are no {what}");
    println!("power-loss: {images} {what}, 0 lost");
}

struct Test {
    name: &'static str,
    folder: TempDir,
    root: PathBuf,
    rng: Rng,
    replay: String,
}

impl Test {
    /// `None` if there is no strace.
    fn new(name: &'static str) -> Option<Self> {
        if let Some(why) = strace::missing() {
            let what = format!("images of recorded system calls: {why}");
            assert!(env::var_os("CONSIGN_LEAVE_NOTHING_OUT").is_none(), "left out: {what}");
            // Past the output capture of the test harness.
            let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("LEFT OUT: {what}\n").as_bytes());
            return None;
        }
        let seed = env::var("SEED").map_or(0, |seed| seed.parse().unwrap());
        let replay = format!("SEED={seed} cargo test --features full --test durable {name}");
        println!("{replay}");
        let folder = folder();
        let root = fs::canonicalize(folder.path()).unwrap();
        Some(Self { name, folder, root, rng: Rng::with_seed(seed), replay })
    }

    fn run(&self, recording: &mut Recording, first: u64) {
        let test = format!("recorded::{}", self.name);
        let first = first.to_string();
        let variables = [(ROOT, self.root.to_str().unwrap()), (FIRST, &first)];
        recording.run(&self.root, &[&test, "--nocapture"], &variables);
    }

    /// Has in its folder what a recording ended with.
    fn restart(&mut self, recording: &Recording) {
        self.folder = folder();
        self.root = fs::canonicalize(self.folder.path()).unwrap();
        recording.now.write_to(&self.root).unwrap();
    }

    /// Opens so many images of the moments from this event on, evenly by their weights. Returns how many there were.
    fn check(&mut self, recording: &Recording, from: usize, promise: &Promise, images: usize) -> usize {
        let mut rng = self.rng.fork();
        let weight = |event: usize| if event < from { 0 } else { recording.weight(event) };
        let total: usize = (from..recording.events.len()).map(weight).sum();
        // How many images there are up to this weight: so many in all, from a random place on.
        let offset = rng.usize(..total);
        let images_to = |weight: usize| (weight * images + offset) / total;
        let (mut checked, mut passed) = (0, 0);
        for moment in images::moments(recording, promise.clone()) {
            let before = images_to(passed);
            passed += weight(moment.event);
            for _ in before..images_to(passed) {
                let is_kill = rng.u8(..4) == 0;
                let image = if is_kill { moment.kill(&mut rng) } else { moment.power_loss(&mut rng) };
                self.check_one(&moment, &image, if is_kill { "kill" } else { "power loss" }, recording);
                checked += 1;
            }
        }
        assert_eq!(checked, images, "{}", self.replay);
        checked
    }

    fn check_one(&self, moment: &Moment<'_>, image: &Image, how: &str, recording: &Recording) {
        let folder = folder();
        image.write_to(folder.path()).unwrap();
        if let Err(what) = check::check(folder.path(), &moment.promise) {
            let (number, event) = (moment.event, &recording.events[moment.event].what);
            let there = image.listing();
            panic!("{what}\nafter a {how} at event {number}, {event:?}, with {there:?}; {}", self.replay);
        }
    }
}

/// A folder where a sync costs little.
fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}
