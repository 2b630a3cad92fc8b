//! Laps over the groups of destination and session that wait, in the order of their names.

use std::{collections::HashSet, mem};

use tokio::time::Instant;

use super::{Group, Pause, Pauses};

/// The name of a group: its destination, and a text for its session. Neither text is ever empty, so that an empty name is before
/// all others.
pub(in crate::relay) type Name = (String, String);

/// How far a lap has come.
#[derive(Debug)]
pub(super) struct Lap {
    pub(super) number: u64,
    began: Instant,
    /// The last group that was read or passed.
    pub(super) after: Name,
    /// The newest row when the lap began. Groups that began later would make it longer and longer.
    newest: Option<i64>,
    has_found: bool,
    has_sent: bool,
}

/// The next groups of a lap.
#[derive(Debug)]
pub(in crate::relay) struct Step {
    pub(in crate::relay) after: Name,
    /// Destinations of which only one group is found.
    pub(in crate::relay) passing: Vec<String>,
    /// How many groups are found.
    pub(in crate::relay) steps: usize,
    /// How many destinations may be sent to.
    pub(super) most: usize,
}

/// A group that waits.
#[derive(Clone, Debug)]
pub(in crate::relay) struct Found {
    pub(in crate::relay) name: Name,
    /// Its first row.
    pub(in crate::relay) id: i64,
    /// The newest row of all.
    pub(in crate::relay) newest: i64,
    /// How many of its rows are read.
    pub(in crate::relay) rows: usize,
}

impl Found {
    fn group(&self) -> Group {
        let (destination, session) = &self.name;
        (destination.clone(), session.strip_prefix('s').map(str::to_owned))
    }
}

/// Returns the name of a group, as the index of the table has it.
pub(in crate::relay) fn name(destination: &str, session: Option<&str>) -> Name {
    (destination.to_owned(), session.map_or_else(|| "n".to_owned(), |session| format!("s{session}")))
}

impl Lap {
    pub(super) fn new(number: u64, began: Instant) -> Self {
        Self { number, began, after: Name::default(), newest: None, has_found: false, has_sent: false }
    }

    /// Returns the last group of a destination that was read or passed, if the lap has not left it.
    pub(super) fn place_in(&self, destination: &str) -> Option<String> {
        (self.after.0 == destination).then(|| self.after.1.clone())
    }
}

impl Pauses {
    /// Returns the groups to read, of those that were found by a step, and whether the lap is over.
    pub(in crate::relay) fn choose(
        &mut self,
        step: &Step,
        found: Vec<Found>,
        batch: usize,
        now: Instant,
    ) -> (Vec<Found>, bool) {
        let mut is_end = found.len() < step.steps;
        let number = self.lap.number;
        let (mut chosen, mut known, mut destinations) = (Vec::new(), 0, HashSet::new());
        for one in found {
            let newest = *self.lap.newest.get_or_insert(one.newest);
            self.lap.has_found = true;
            let see = |pause: &mut Pause| {
                pause.seen = number;
                pause.until > now
            };
            let session = self.sessions.get_mut(&one.group()).map(see);
            let mut is_pausing = session == Some(true);
            if let Some(pause) = self.destinations.get_mut(&one.name.0) {
                if see(pause) {
                    is_pausing = true;
                } else if let Some(place) = pause.left_at.take().filter(|place| *place >= one.name.1) {
                    self.lap.after = (one.name.0, place);
                    is_end = false;
                    break;
                }
            }
            let is_taken = !is_pausing && one.id <= newest;
            if is_taken {
                let is_over = destinations.len() >= step.most && !destinations.contains(&one.name.0);
                // A half is left for those that did not fail.
                let is_late = session.is_some() && known >= (batch / 2).max(1);
                if chosen.len() == batch || is_over || is_late {
                    is_end = false;
                    break;
                }
                known += usize::from(session.is_some());
                destinations.insert(one.name.0.clone());
            }
            self.lap.after.clone_from(&one.name);
            if is_taken {
                // One message shows whether a session that failed is sent.
                chosen.push(Found { rows: usize::from(session.is_some()), ..one });
            }
        }
        let each = ((batch - known) / (chosen.len() - known).max(1)).max(1);
        chosen.iter_mut().filter(|one| one.rows == 0).for_each(|one| one.rows = each);
        (chosen, is_end)
    }

    /// Rows of the chosen groups were read. Returns whether some groups were left out: the next step begins with them.
    pub(in crate::relay) fn chosen_were_read(&mut self, chosen: &[Found], read: &HashSet<Name>) -> bool {
        let missing = chosen.iter().position(|one| !read.contains(&one.name));
        let last = missing.and_then(|missing| chosen.get(missing.checked_sub(1)?));
        if let Some(last) = last {
            self.lap.after.clone_from(&last.name);
        }
        last.is_some()
    }

    /// Messages were found, and are sent in this lap.
    pub(in crate::relay) fn sending(&mut self) {
        (self.lap.has_found, self.lap.has_sent) = (true, true);
    }

    /// Ends the lap, and forgets what does not wait any more. Returns whether something was sent in it.
    pub(in crate::relay) fn end_lap(&mut self, now: Instant) -> bool {
        let lap = Lap::new(self.lap.number + 1, now);
        let lap = mem::replace(&mut self.lap, lap);
        let stays = |pause: &Pause| pause.seen == lap.number || pause.until > lap.began;
        self.destinations.retain(|_, pause| stays(pause));
        // Those of a destination that fails may have been passed.
        self.sessions.retain(|(destination, _), pause| stays(pause) || self.destinations.contains_key(destination));
        if !lap.has_found {
            self.destinations.clear();
            self.sessions.clear();
        }
        lap.has_sent
    }
}
