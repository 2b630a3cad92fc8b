//! A program that may take a limited time, and is then ended with all that it has started.

use std::collections::BTreeMap;
use std::io;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// How often it is looked whether what was told to end has ended: for half a minute. Some programs stop servers then.
const LOOKS: usize = 150;
const PAUSE: Duration = Duration::from_millis(200);

/// Runs a command to its end and returns its status; `None` if it took longer than this.
pub(crate) fn run(command: &mut Command, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let mut child = command.spawn()?;
    let id = child.id();
    let (ended, waiting) = channel();
    let waiter = std::thread::spawn(move || ended.send(child.wait()));
    match waiting.recv_timeout(limit) {
        Ok(status) => status.map(Some),
        Err(RecvTimeoutError::Disconnected) => Err(io::ErrorKind::BrokenPipe.into()),
        Err(RecvTimeoutError::Timeout) => {
            let started = tree(processes()?, id);
            signal("-TERM", &started)?;
            for _ in 0..LOOKS {
                if left(&started)?.is_empty() {
                    break;
                }
                pause();
            }
            signal("-KILL", &left(&started)?)?;
            let _ = waiter.join();
            Ok(None)
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "other processes have no clock of ours")]
fn pause() {
    std::thread::sleep(PAUSE);
}

/// A process: its parent, and when it began, which tells it from a later one with the same number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    parent: u32,
    began: String,
}

fn processes() -> io::Result<BTreeMap<u32, Process>> {
    let listed = Command::new("ps").args(["-A", "-o", "pid=,ppid=,stat=,lstart="]).stdin(Stdio::null()).output()?;
    Ok(String::from_utf8_lossy(&listed.stdout).lines().filter_map(process).collect())
}

/// A line of `ps`. A process that has ended, and that its parent did not wait for, is none.
fn process(line: &str) -> Option<(u32, Process)> {
    let mut words = line.split_whitespace();
    let (id, parent) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let is_running = !words.next()?.starts_with('Z');
    is_running.then(|| (id, Process { parent, began: words.collect::<Vec<_>>().join(" ") }))
}

/// A process with all that it has started.
fn tree(mut all: BTreeMap<u32, Process>, root: u32) -> BTreeMap<u32, Process> {
    let mut found: BTreeMap<_, _> = all.remove_entry(&root).into_iter().collect();
    loop {
        let children = all.iter().filter(|(_, process)| found.contains_key(&process.parent)).map(|(id, _)| *id);
        let children: Vec<_> = children.collect();
        if children.is_empty() {
            return found;
        }
        found.extend(children.into_iter().filter_map(|id| all.remove_entry(&id)));
    }
}

/// Those of the processes that still run, with what they have started meanwhile.
fn left(started: &BTreeMap<u32, Process>) -> io::Result<BTreeMap<u32, Process>> {
    let all = processes()?;
    let is_same = |id: &u32, began: &str| all.get(id).is_some_and(|now| now.began == began);
    let same = started.iter().filter(|(id, process)| is_same(id, &process.began));
    Ok(same.flat_map(|(id, _)| tree(all.clone(), *id)).collect())
}

/// Those that have ended by now are passed over.
fn signal(name: &str, to: &BTreeMap<u32, Process>) -> io::Result<()> {
    if !to.is_empty() {
        let ids = to.keys().map(ToString::to_string);
        Command::new("kill").arg(name).args(ids).stdin(Stdio::null()).stderr(Stdio::null()).status()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_ends_has_a_status() {
        let mut ends = Command::new("false");
        assert_eq!(run(&mut ends, Duration::MAX).unwrap().map(|status| status.success()), Some(false));
    }

    #[test]
    fn a_command_that_takes_too_long_is_ended() {
        // `cat` waits for what it reads as long as this has the other end of the pipe.
        let (reader, writer) = io::pipe().unwrap();
        let mut waits = Command::new("cat");
        assert_eq!(run(waits.stdin(reader), Duration::ZERO).unwrap(), None);
        drop(writer);
    }

    #[test]
    fn children_of_children_are_found_and_those_of_others_are_not() {
        let lines = "  1  0 Ss Mon Nov 30 07:00:00 2026\n 20  1 S Mon Nov 30 07:00:01 2026\n 21 20 S x\n 5 21 R x\n 7 1 S x\n 8 21 Z x";
        let all: BTreeMap<_, _> = lines.lines().filter_map(process).collect();
        assert_eq!(all[&20], Process { parent: 1, began: "Mon Nov 30 07:00:01 2026".into() });
        assert_eq!(tree(all.clone(), 20).into_keys().collect::<Vec<_>>(), [5, 20, 21]);
        assert_eq!(tree(all, 9).len(), 0);
    }

    #[test]
    fn a_number_that_another_process_has_since_is_not_left() {
        let own = std::process::id();
        let mut started = tree(processes().unwrap(), own);
        assert!(left(&started).unwrap().contains_key(&own));
        started.retain(|id, _| *id == own);
        started.get_mut(&own).unwrap().began = "before".into();
        assert!(left(&started).unwrap().is_empty());
    }
}
