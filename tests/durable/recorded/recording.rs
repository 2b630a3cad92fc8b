//! What processes do to a disk, one after the other.

use std::path::Path;

use super::{
    disk::{Change, Image, Node},
    process::Process,
    strace,
    told::Told,
};

#[derive(Clone, Debug)]
pub(super) enum What {
    Change(Change),
    /// The file, or the names in the folder.
    Sync(Node),
    Told(Told),
}

/// Something that happened between two moments.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) what: What,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Recording {
    /// What was on the disk at first.
    pub(super) base: Image,
    /// By their starts.
    pub(super) events: Vec<Event>,
    /// What processes find there.
    pub(super) now: Image,
    pub(super) nodes: usize,
    /// The moments of earlier processes.
    pub(super) moments: usize,
}

impl Recording {
    /// What is in a folder, on the disk for sure.
    pub(super) fn of(root: &Path) -> Self {
        let mut nodes = 0;
        let base = Image::read_from(root, &mut nodes).unwrap();
        Self { now: base.clone(), base, events: Vec::new(), nodes, moments: 0 }
    }

    /// The same, had the process been killed when it was about to begin the event of this number. `None` if others had begun
    /// and not ended.
    pub(super) fn killed_at(&self, event: usize) -> Option<Self> {
        let start = self.events[event].start;
        let events = self.events[..event].to_vec();
        let mut now = self.base.clone();
        for event in &events {
            if event.end >= start {
                return None;
            }
            if let What::Change(change) = &event.what {
                now.apply(change);
            }
        }
        Some(Self { base: self.base.clone(), events, now, nodes: self.nodes, moments: start })
    }

    /// Whether a sync, or a change of names, comes next or came last.
    pub(super) fn is_edge(&self, event: usize) -> bool {
        let is_it = |event: &Event| event.is_about_names() || matches!(event.what, What::Sync(_));
        self.events[event.saturating_sub(1)..=event].iter().any(is_it)
    }

    /// How many images there are to be just after this event began, in proportion to others.
    pub(super) fn weight(&self, event: usize) -> usize {
        // There are few of them.
        const NAMES: usize = 8;
        if self.is_repeated(event) {
            0
        } else if self.events[event.saturating_sub(1)..=event].iter().any(Event::is_about_names) {
            NAMES
        } else {
            1
        }
    }

    /// Whether the ones before and after it write to the same file, as those do that fill the reserve. Some of these count as
    /// others do.
    fn is_repeated(&self, event: usize) -> bool {
        const AROUND: usize = 2;
        const OTHER: usize = 8;
        let of = |event: usize| match self.events.get(event).map(|event| &event.what) {
            Some(What::Change(change)) => Some(change.of()),
            _ => None,
        };
        let mut around = event.saturating_sub(AROUND)..=event + AROUND;
        !event.is_multiple_of(OTHER)
            && of(event).is_some_and(|node| !node.is_folder)
            && around.all(|other| of(other) == of(event))
    }

    /// Adds what a process does in the folder, which has what is there [now](Self::now).
    pub(super) fn run(&mut self, root: &Path, arguments: &[&str], variables: &[(&str, &str)]) {
        let (calls, output) = strace::run(arguments, variables);
        let first = self.events.len();
        let mut process = Process::new(root, self);
        for call in &calls {
            process.take(call);
        }
        let last = self.events.iter().map(|event| event.end + 1).max();
        self.moments = last.unwrap_or(0).max(self.moments);
        self.events[first..].sort_by_key(|event| event.start);
        let told: Vec<Told> = self.events[first..].iter().filter_map(Event::told).collect();
        assert_eq!(told, Told::read(&output), "the calls are not what was said");
        let there = Image::read_from(root, &mut 0).unwrap();
        let (found, expected) = (there.listing(), self.now.listing());
        assert!(there.is_same(&self.now), "the calls make {expected:?}, and there is {found:?}");
    }
}

impl Event {
    fn is_about_names(&self) -> bool {
        match &self.what {
            What::Change(change) => change.of().is_folder,
            What::Sync(node) => node.is_folder,
            What::Told(_) => false,
        }
    }

    pub(super) fn told(&self) -> Option<Told> {
        if let What::Told(told) = self.what { Some(told) } else { None }
    }
}
