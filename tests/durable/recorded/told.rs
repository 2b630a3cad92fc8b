//! What a process says about its messages, in the order in which it happens.

use std::{
    collections::BTreeSet,
    io::{self, Write as _},
};

const MARK: &str = "recorded: ";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Sends(u64),
    Sent(u64),
    Completes(u64),
    Completed(u64),
    BacksUp,
    BackedUp,
}

impl Told {
    /// In one call, before anything that comes after it.
    pub(super) fn say(self) {
        let (word, id) = match self {
            Self::Sends(id) => ("sends", id),
            Self::Sent(id) => ("sent", id),
            Self::Completes(id) => ("completes", id),
            Self::Completed(id) => ("completed", id),
            Self::BacksUp => ("backs-up", 0),
            Self::BackedUp => ("backed-up", 0),
        };
        let mut out = io::stdout().lock();
        out.write_all(format!("{MARK}{word} {id}\n").as_bytes()).and_then(|()| out.flush()).unwrap();
    }

    /// What is said in this text. What else stands there was said by the test harness.
    pub(super) fn read(text: &str) -> Vec<Self> {
        let said = text.lines().filter_map(|line| line.split_once(MARK)?.1.split_once(' '));
        said.map(|(word, id)| match (word, id.parse().unwrap()) {
            ("sends", id) => Self::Sends(id),
            ("sent", id) => Self::Sent(id),
            ("completes", id) => Self::Completes(id),
            ("completed", id) => Self::Completed(id),
            ("backs-up", _) => Self::BacksUp,
            ("backed-up", _) => Self::BackedUp,
            _ => panic!("there is no word {word}"),
        })
        .collect()
    }
}

/// What has to be in a store, by what was told.
#[derive(Clone, Debug, Default)]
pub(super) struct Promise {
    /// Ids of messages whose send was acknowledged, and that were not completed.
    pub(super) must: BTreeSet<u64>,
    /// Ids of messages that are being sent, or completed.
    pub(super) may: BTreeSet<u64>,
    pub(super) backup: Backup,
}

#[derive(Clone, Debug, Default)]
pub(super) enum Backup {
    #[default]
    None,
    /// It has begun; what it has if it is whole.
    Begun(BTreeSet<u64>),
    Done(BTreeSet<u64>),
}

impl Promise {
    pub(super) fn of(ids: impl IntoIterator<Item = u64>) -> Self {
        Self { must: ids.into_iter().collect(), ..Self::default() }
    }

    pub(super) fn take(&mut self, told: Told) {
        match told {
            Told::Sends(id) => drop(self.may.insert(id)),
            Told::Sent(id) => {
                assert!(self.may.remove(&id), "{id} was not sent");
                self.must.insert(id);
            }
            Told::Completes(id) => {
                assert!(self.must.remove(&id), "{id} is not there");
                self.may.insert(id);
            }
            Told::Completed(id) => drop(self.may.remove(&id)),
            Told::BacksUp => {
                assert!(self.may.is_empty(), "a backup has nothing that is in doubt");
                self.backup = Backup::Begun(self.must.clone());
            }
            Told::BackedUp => match std::mem::take(&mut self.backup) {
                Backup::Begun(ids) => self.backup = Backup::Done(ids),
                backup => panic!("a backup ends: {backup:?}"),
            },
        }
    }
}
