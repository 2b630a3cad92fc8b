//! A process that uses a file is killed, and the file is opened again.
#![allow(clippy::unwrap_used)]

use std::{
    collections::HashSet,
    env,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use consign::{
    middleware::dedup::{Begin, DedupKey, DedupStore},
    rpc::{RecordedReply, ReplyStore},
};
use consign_store_redb::RedbStore;

const WINDOW: Duration = Duration::from_secs(24 * 3_600);
const LEASE: Duration = Duration::from_secs(3_600);
const OPERATIONS: u32 = 10_000;
/// Where the file of a child is, and its first id.
const FILE: &str = "CONSIGN_REDB_FILE";
const FIRST: &str = "CONSIGN_REDB_FIRST";

fn open(path: impl AsRef<Path>) -> RedbStore {
    RedbStore::open(path, WINDOW).unwrap()
}

/// The reply to a request, of a few hundred bytes that only this id has.
fn reply(id: u32) -> RecordedReply {
    let format = [1, 0, 0, 0, 0, 0, 0, 0, 0];
    let body = id.to_le_bytes().repeat(usize::try_from(id % 64).unwrap() + 1);
    RecordedReply::from_bytes(&[&format[..], &body].concat()).unwrap()
}

/// What the child does: 10,000 ids, of which 16 tasks begin the next one each. Of three ids one is committed with a reply
/// before it, one is forgotten and then committed, and one stays reserved. It says what it is about to commit, and what is
/// committed.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn work(path: &str, first: u32) {
    let store = Arc::new(open(path));
    let next = Arc::new(AtomicU32::new(first));
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let (store, next) = (Arc::clone(&store), Arc::clone(&next));
            tokio::spawn(async move {
                loop {
                    let id = next.fetch_add(1, Ordering::Relaxed);
                    if id >= first + OPERATIONS {
                        return;
                    }
                    let bytes = id.to_le_bytes();
                    let key = DedupKey::new("orders", &bytes);
                    let Begin::New(mut token) = store.begin(key, LEASE).await.unwrap() else { continue };
                    match id % 3 {
                        0 => continue,
                        1 => {
                            store.forget(&token).await.unwrap();
                            let Begin::New(second) = store.begin(key, LEASE).await.unwrap() else {
                                panic!("forgotten")
                            };
                            token = second;
                        }
                        _ => store.put(key, reply(id)).await.unwrap(),
                    }
                    say("tries", id);
                    store.commit(&token).await.unwrap();
                    say("committed", id);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    say("done", 0);
}

/// Standard output writes each line when it is whole.
fn say(what: &str, id: u32) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{what} {id}").unwrap();
    out.flush().unwrap();
}

#[derive(Default)]
struct Said {
    tried: HashSet<u32>,
    committed: HashSet<u32>,
}

/// Runs a child and kills it when it has committed so many ids. It cannot be done by then: what it says does not fit into
/// the pipe.
fn run_and_kill(path: &Path, first: u32, commits: usize, said: &mut Said) {
    let this_test = ["--exact", "a_process_that_is_killed_loses_no_commit", "--nocapture"];
    let mut command = Command::new(env::current_exe().unwrap());
    let mut child =
        command.args(this_test).env(FILE, path).env(FIRST, first.to_string()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut seen, mut done) = (0, false);
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let Some((what, id)) = line.rsplit_once(' ').and_then(|(what, id)| Some((what, id.parse().ok()?))) else {
            continue;
        };
        match what {
            "tries" => drop(said.tried.insert(id)),
            "committed" => {
                said.committed.insert(id);
                seen += 1;
                if seen == commits {
                    // What it has written to the pipe by then is still read.
                    child.kill().unwrap();
                }
            }
            "done" => done = true,
            _ => {}
        }
    }
    child.wait().unwrap();
    assert!(!done && seen >= commits, "killed in the middle of its work: {seen} of {commits}");
}

/// Rules: W-13.
#[test]
fn a_process_that_is_killed_loses_no_commit() {
    if let (Ok(path), Ok(first)) = (env::var(FILE), env::var(FIRST)) {
        return work(&path, first.parse().unwrap());
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("handled.redb");
    let mut said = Said::default();
    let mut stuck = 0;
    // The next child finds what the ones before it have left.
    for (round, commits) in [1, 100, 1_000, 3_000].into_iter().enumerate() {
        let first = u32::try_from(round).unwrap() * OPERATIONS;
        run_and_kill(&path, first, commits, &mut said);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let store = open(&path);
        runtime.block_on(async {
            for id in 0..first + OPERATIONS {
                let bytes = id.to_le_bytes();
                let key = DedupKey::new("orders", &bytes);
                match store.begin(key, LEASE).await.unwrap() {
                    Begin::Committed => {
                        assert!(said.tried.contains(&id), "{id} was never committed");
                        let found = store.find(key).await.unwrap().map(|reply| reply.to_bytes());
                        let expected = (id % 3 == 2).then(|| reply(id).to_bytes());
                        assert_eq!(found, expected, "the reply that was put before the commit of {id}");
                    }
                    Begin::New(_) => assert!(!said.committed.contains(&id), "the commit of {id} is lost"),
                    Begin::InProgress { .. } => stuck += 1,
                }
            }
        });
    }
    let operations: usize = said.committed.iter().map(|id| if id % 3 == 1 { 4 } else { 3 }).sum();
    let committed = said.committed.len();
    println!("4 kills during at least {operations} operations: {committed} ids committed, 0 lost, {stuck} stuck");
    assert!(operations >= 10_000 && stuck == 0, "{operations} operations, {stuck} stuck");
}
