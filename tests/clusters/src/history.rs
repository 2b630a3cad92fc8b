//! What the clients of a run did and were told, as lines of JSON on a disk.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};

use crate::clock::Clock;

/// A line of a history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Event {
    /// By the [`Clock`] of the run.
    pub(crate) at: u64,
    /// The number of the client.
    pub(crate) client: u32,
    #[serde(flatten)]
    pub(crate) what: What,
}

/// The queues of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Queue {
    /// Its consumers have the layer of duplicate detection, and effects in PostgreSQL.
    Work,
    /// The broker itself detects duplicates.
    Detected,
    Sessions,
}

/// A step of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub(crate) enum What {
    /// A send begins; the same id may be sent again.
    Sending {
        queue: Queue,
        id: String,
    },
    /// It was acknowledged.
    Sent {
        queue: Queue,
        id: String,
    },
    /// It failed. Unless the outcome is known, the message may be stored.
    Unsent {
        queue: Queue,
        id: String,
        is_unknown: bool,
        error: String,
    },
    /// A message has arrived; `sequence` distinguishes two stored copies of one id.
    Delivered {
        queue: Queue,
        id: String,
        sequence: Option<u64>,
        hold: Option<u64>,
    },
    /// Its completion begins.
    Completing {
        queue: Queue,
        id: String,
        hold: Option<u64>,
    },
    /// Its completion was confirmed.
    Completed {
        queue: Queue,
        id: String,
        hold: Option<u64>,
    },
    /// Its completion failed, or its answer did not come.
    Uncompleted {
        queue: Queue,
        id: String,
        error: String,
    },
    /// A session is locked; `hold` is the number of this lock.
    Accepted {
        session: String,
        hold: u64,
    },
    /// The holder gives the lock back, or was told that it is lost.
    Released {
        session: String,
        hold: u64,
    },
    Calling {
        call: String,
    },
    /// The reply to a call, and whether it was that of this call.
    Answered {
        call: String,
        is_right: bool,
    },
    /// A call that failed, for instance at its deadline.
    Unanswered {
        call: String,
        error: String,
    },
    /// A part of the client that has to run has ended.
    Stopped {
        part: String,
        error: String,
    },
    /// A call that did not end long after its deadline.
    Hung {
        part: String,
    },
}

/// The history of one client.
#[derive(Clone)]
pub(crate) struct Recorder {
    clock: Clock,
    client: u32,
    file: Arc<Mutex<File>>,
}

impl Recorder {
    pub(crate) fn create(path: &Path, client: u32) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self { clock: Clock::new(), client, file: Arc::new(Mutex::new(file)) })
    }

    /// One write for each line, so that a process that is killed leaves whole lines.
    pub(crate) fn record(&self, what: What) {
        let event = Event { at: self.clock.now(), client: self.client, what };
        let mut line = serde_json::to_string(&event).expect("an event is JSON");
        line.push('\n');
        let written = self.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
        written.expect("the history can be written");
    }
}

/// Reads the histories of all clients in a folder, in the order of time.
///
/// The last line of a process that was killed may be incomplete. An error: any other line that is no event.
pub(crate) fn read(folder: &Path) -> io::Result<Vec<Event>> {
    let mut events = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            let text = fs::read_to_string(path)?;
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            for line in whole.lines() {
                events.push(serde_json::from_str::<Event>(line)?);
            }
        }
    }
    events.sort_by_key(|event| event.at);
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let delivered = What::Delivered { queue: Queue::Sessions, id: "a-1".into(), sequence: Some(7), hold: None };
        let event = Event { at: 3, client: 2, what: delivered };
        let line = serde_json::to_string(&event).unwrap();
        assert!(line.contains(r#""what":"delivered","queue":"sessions""#), "{line}");
        assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), event);
    }

    #[test]
    fn only_an_incomplete_last_line_is_left_out() {
        let folder = std::env::temp_dir().join(format!("consign-history-{:016x}", fastrand::u64(..)));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("client-0.log"), "not an event\n").unwrap();
        let line = r#"{"at":1,"client":0,"what":"calling","call":"9"}"#;
        let read_with = |end: &str| {
            fs::write(folder.join("client-0.jsonl"), format!("{line}\n{line}\n{end}")).unwrap();
            read(&folder)
        };
        assert_eq!(read_with(&line[..20]).unwrap().len(), 2);
        let refused = read_with(&format!("{}\n{line}\n", &line[..20]));
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
