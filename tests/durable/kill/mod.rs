//! A process with four producers and four consumers is killed at any time, or told to end, and its store is opened again.
//! What it has told its parent until then has to agree with what is there.

mod account;
mod child;
mod told;

use std::{
    env,
    io::{BufRead, BufReader},
    path::Path,
    process::{self, Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use account::{Account, Counts};
use consign::{
    Message,
    broker::{Broker, Queue},
    message::{MessageState, SequenceNumber},
    transport::{ErrorKind, Sender},
};
use fastrand::Rng;
use tempfile::TempDir;
use told::{Copy, Place, State, Told};

/// Processes that are killed in the short run.
const KILLED: u64 = 30;
/// Processes that are told to end in the short run.
const TERMINATED: u64 = 5;
/// Processes that use one store, one after the other.
const OF_ONE_STORE: u64 = 10;
/// Messages that one process sends at most.
const IDS: u64 = 1_000_000;

/// What a child is told: where the store is, its seed, its first id.
const STORE: &str = "CONSIGN_KILL_STORE";
const CHILD_SEED: &str = "CONSIGN_KILL_SEED";
const FIRST_ID: &str = "CONSIGN_KILL_FIRST_ID";

/// Rules: I-05.
#[test]
fn a_killed_process_loses_nothing_that_it_acknowledged() {
    if let Some((path, seed, first)) = as_child() {
        return child::until_killed(Path::new(&path), seed, first);
    }
    cycles("a_killed_process_loses_nothing_that_it_acknowledged", "killed", KILLED, |child, rng| {
        // Some are killed while they open the store.
        let is_opening = rng.u8(..5) == 0;
        child.wait_for(|told| if is_opening { *told == Told::Opening } else { matches!(told, Told::Acknowledged(_)) });
        let_it_work(rng);
        child.process.kill().unwrap();
        false
    });
}

/// Rules: I-37.
#[test]
fn a_terminated_process_leaves_no_lock() {
    if let Some((path, seed, first)) = as_child() {
        return child::until_terminated(Path::new(&path), seed, first);
    }
    cycles("a_terminated_process_leaves_no_lock", "terminated", TERMINATED, |child, rng| {
        // Its handler of the signal is installed by then.
        child.wait_for(|told| *told == Told::Opened);
        let_it_work(rng);
        let mut kill = Command::new("kill");
        assert!(kill.arg("-TERM").arg(child.process.id().to_string()).status().unwrap().success());
        true
    });
}

/// For 5 to 60 ms.
#[expect(clippy::disallowed_methods, reason = "a process has no other time")]
fn let_it_work(rng: &mut Rng) {
    std::thread::sleep(Duration::from_micros(rng.u64(5_000..60_000)));
}

fn as_child() -> Option<(String, u64, u64)> {
    let number = |name| env::var(name).ok()?.parse().ok();
    Some((env::var(STORE).ok()?, number(CHILD_SEED)?, number(FIRST_ID)?))
}

struct Child {
    process: process::Child,
    lines: mpsc::Receiver<Told>,
    told: Vec<Told>,
}

impl Child {
    fn start(test: &str, store: &Path, seed: u64, first: u64) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", &format!("kill::{test}"), "--nocapture"]).env(STORE, store);
        command.env(CHILD_SEED, seed.to_string()).env(FIRST_ID, first.to_string());
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        let (send, lines) = mpsc::channel();
        // It reads all the time, so that the child never waits, and what it said before it died is there.
        std::thread::spawn(move || {
            for line in stdout.split(b'\n').map_while(Result::ok) {
                if let Some(told) = Told::read(&String::from_utf8_lossy(&line))
                    && send.send(told).is_err()
                {
                    return;
                }
            }
        });
        Self { process, lines, told: Vec::new() }
    }

    fn wait_for(&mut self, is_it: impl Fn(&Told) -> bool) {
        while let Ok(told) = self.lines.recv() {
            let is_there = is_it(&told);
            self.told.push(told);
            if is_there {
                return;
            }
        }
        panic!("the child ended: {:?}", self.process.wait());
    }

    /// All that it said. `ends` is whether it ends by itself.
    fn join(mut self, ends: bool) -> Vec<Told> {
        // Far more than its consumers wait for their handlers.
        let limit = child::DRAIN * 4;
        while let Ok(told) = self.lines.recv_timeout(limit) {
            self.told.push(told);
        }
        if ends && self.process.try_wait().unwrap().is_none() {
            self.process.kill().unwrap();
        }
        let status = self.process.wait().unwrap();
        assert_eq!(status.success(), ends, "{status}");
        assert_eq!(self.told.last() == Some(&Told::Closed), ends);
        std::mem::take(&mut self.told)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It has ended, unless this test failed.
        let _ = self.process.kill();
    }
}

/// So few processes may all be killed before they have done anything.
const FEW: u64 = 10;

/// Runs children one after the other; `end` ends each, and says whether it is to end by itself.
fn cycles(test: &str, how: &str, count: u64, mut end: impl FnMut(&mut Child, &mut Rng) -> bool) {
    let number = |name| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let count = number("CONSIGN_CYCLES").unwrap_or(count);
    let seed = number("SEED").unwrap_or_else(|| fastrand::u64(1..));
    let replay = format!("SEED={seed} CONSIGN_CYCLES={count} cargo test --features full --test durable {test}");
    println!("\n{replay}");
    let mut rng = Rng::with_seed(seed);
    let mut store = Store::new();
    let mut counts = Counts::default();
    for cycle in 0..count {
        if cycle % OF_ONE_STORE == 0 {
            store = Store::new();
        }
        let mut child = Child::start(test, store.folder.path(), rng.u64(..), cycle * IDS);
        let ends = end(&mut child, &mut rng);
        child.join(ends).into_iter().for_each(|told| store.account.take(told));
        store.look(ends);
        counts.add(std::mem::take(&mut store.account.counts));
        let problems = &store.account.problems;
        assert!(
            counts.wrong() == 0 && problems.is_empty(),
            "cycle {cycle}: {counts:?}\n{}\nreplay: {replay}",
            problems.iter().take(20).map(String::as_str).collect::<Vec<_>>().join("\n")
        );
    }
    assert!(
        counts.acknowledged > 0 || count < FEW,
        "{count} processes were told nothing, so nothing was compared\nreplay: {replay}"
    );
    println!("kill: {count} {how}: {counts}, seed {seed}");
}

/// A store, and what was told of it.
struct Store {
    folder: TempDir,
    account: Account,
}

impl Store {
    /// Ids that are sent a second time after a process has ended.
    const REPEATED: usize = 10;

    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), account: Account::default() }
    }

    /// Opens it, compares, and closes it. Locks that a process left are seen only if they are held.
    #[tokio::main(flavor = "current_thread")]
    async fn look(&mut self, hold_locks: bool) {
        let broker = Broker::options().hold_locks(hold_locks).open(self.folder.path()).unwrap();
        let found = found(&broker);
        assert_eq!(broker.recovery().unwrap().messages, found.len() as u64);
        self.account.compare(&found);
        self.repeat(&broker).await;
        broker.close().await.unwrap();
    }

    /// Ids that were accepted are accepted once, by every process, and whatever state their messages are in.
    async fn repeat(&mut self, broker: &Broker) {
        let queue = match broker.queue(Place::Once.path()) {
            // Killed before it was made.
            Err(error) if error.kind() == ErrorKind::EntityNotFound => return,
            queue => queue.unwrap(),
        };
        let (sender, before) = (queue.sender().unwrap(), messages(&queue).len());
        for id in self.account.accepted(Place::Once).into_iter().rev().take(Self::REPEATED) {
            let again = Message::builder().message_id(id.to_string()).build("again").unwrap();
            sender.send(again).await.unwrap();
        }
        let more = messages(&queue).len() - before;
        if more > 0 {
            self.account.counts.doubled += more as u64;
            self.account.problems.push(format!("{more} ids were accepted twice"));
        }
    }
}

/// Everything in the store. A message with other bytes than were sent has an id that was not sent.
fn found(broker: &Broker) -> Vec<(Copy, State)> {
    let mut found = Vec::new();
    for place in Place::ALL {
        let Ok(queue) = broker.queue(place.path()) else { continue };
        for queue in [queue.dead_letter(), queue] {
            let counts = queue.counts();
            assert_eq!(counts.locked, 0, "of {}", queue.path());
            for message in messages(&queue) {
                let (id, received) = (child::id(&message), message.received().unwrap());
                let state = match received.state {
                    MessageState::Deferred => State::Deferred,
                    MessageState::Scheduled => State::Scheduled,
                    MessageState::Active if received.dead_lettered => State::Dead,
                    MessageState::Active => State::Ready,
                };
                let is_whole = message.payload().is_some_and(|payload| payload[..] == child::body(id)[..]);
                found.push(((place, if is_whole { id } else { u64::MAX }), state));
            }
        }
    }
    found
}

fn messages(queue: &Queue) -> Vec<Message> {
    queue.peek(SequenceNumber::new(1), usize::MAX)
}
