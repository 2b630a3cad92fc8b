//! What the children of one store have told, and whether the store agrees.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
};

use super::told::{Act, Copy, Place, State, Told};

/// What was found out, over all cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) acknowledged: u64,
    /// Operations that a process was killed in.
    pub(super) in_doubt: u64,
    /// Messages whose send was acknowledged, that no process tried to complete, and that are not there.
    pub(super) lost: u64,
    /// Messages that no process has sent, or with other bytes.
    pub(super) unexpected: u64,
    /// Messages that are there, or were delivered, after their completion or cancellation was acknowledged.
    pub(super) redelivered: u64,
    /// Messages that are in another state than the one that was acknowledged last.
    pub(super) undone: u64,
    /// Operations of which a part happened.
    pub(super) torn: u64,
    /// Messages that are there more than once.
    pub(super) doubled: u64,
    /// Messages whose send was not acknowledged, and that are there.
    pub(super) recovered: u64,
}

impl Counts {
    /// What must be 0.
    pub(super) fn wrong(&self) -> u64 {
        self.lost + self.unexpected + self.redelivered + self.undone + self.torn + self.doubled
    }

    pub(super) fn add(&mut self, other: Self) {
        let Self { acknowledged, in_doubt, lost, unexpected, redelivered, undone, torn, doubled, recovered } = other;
        self.acknowledged += acknowledged;
        self.in_doubt += in_doubt;
        self.lost += lost;
        self.unexpected += unexpected;
        self.redelivered += redelivered;
        self.undone += undone;
        self.torn += torn;
        self.doubled += doubled;
        self.recovered += recovered;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { acknowledged, in_doubt, lost, unexpected, redelivered, undone, torn, doubled, recovered } = self;
        write!(
            f,
            "{acknowledged} acknowledged, {in_doubt} in doubt, {lost} lost, {unexpected} unexpected, {redelivered} \
             redelivered, {undone} undone, {torn} torn, {doubled} doubled, {recovered} recovered"
        )
    }
}

/// One message at one place.
#[derive(Debug)]
struct Known {
    /// Where it was when the store was opened last.
    base: State,
    /// Operations on it since, in order, and what each makes of it.
    tried: Vec<(u64, State)>,
    /// Whether it was there for sure at any time.
    was_there: bool,
}

#[derive(Debug, Default)]
pub(super) struct Account {
    known: BTreeMap<Copy, Known>,
    /// Operations since the store was opened last.
    acts: BTreeMap<u64, Act>,
    answers: HashMap<u64, Answer>,
    pub(super) counts: Counts,
    pub(super) problems: Vec<String>,
}

#[derive(Clone, std::marker::Copy, Debug, PartialEq, Eq)]
enum Answer {
    Happened,
    DidNot,
}

impl Account {
    pub(super) fn take(&mut self, told: Told) {
        match told {
            Told::Opening | Told::Opened => {}
            Told::Tries(number, act) => {
                for (copy, state) in act.effects() {
                    let absent = Known { base: State::Absent, tried: Vec::new(), was_there: false };
                    self.known.entry(copy).or_insert(absent).tried.push((number, state));
                }
                self.acts.insert(number, act);
            }
            Told::Acknowledged(number) => self.acknowledged(number),
            Told::Refused(number, why) => {
                self.answers.insert(number, Answer::DidNot);
                // None of what children do is to be refused.
                self.counts.unexpected += 1;
                self.problems.push(format!("refused: {:?}: {why}", self.acts.get(&number)));
            }
            Told::Received(place, id) => {
                let states = self.states((place, id), None);
                if states == BTreeSet::from([State::Absent]) {
                    self.is_back((place, id), "was delivered");
                }
            }
            Told::Closed => {
                let open = self.acts.keys().filter(|number| !self.answers.contains_key(number));
                let open: Vec<u64> = open.copied().collect();
                for number in open {
                    self.acknowledged(number);
                }
            }
        }
    }

    fn acknowledged(&mut self, number: u64) {
        self.answers.insert(number, Answer::Happened);
        self.counts.acknowledged += 1;
        for (copy, _) in self.acts.get(&number).map(Act::effects).unwrap_or_default() {
            if let Some(known) = self.known.get_mut(&copy) {
                // What was removed was there.
                known.was_there = true;
            }
        }
    }

    /// It is there, and must not be.
    fn is_back(&mut self, copy: Copy, how: &str) {
        let was_there = self.known.get(&copy).is_some_and(|known| known.was_there);
        let count = if was_there { &mut self.counts.redelivered } else { &mut self.counts.unexpected };
        *count += 1;
        self.problems.push(format!("{copy:?} {how}; it was there before: {was_there}"));
    }

    /// Where a message may be; also with another answer to one of the operations than there was.
    fn states(&self, copy: Copy, with: Option<(u64, Answer)>) -> BTreeSet<State> {
        let Some(known) = self.known.get(&copy) else { return [State::Absent].into() };
        let mut states = BTreeSet::from([known.base]);
        for &(number, state) in &known.tried {
            let given = with.filter(|with| with.0 == number).map(|with| with.1);
            match given.or_else(|| self.answers.get(&number).copied()) {
                Some(Answer::Happened) => states = [state].into(),
                Some(Answer::DidNot) => {}
                None => drop(states.insert(state)),
            }
        }
        states
    }

    /// Compares with what is in the store, which is where the next child begins.
    pub(super) fn compare(&mut self, found: &[(Copy, State)]) {
        let mut there: BTreeMap<Copy, State> = BTreeMap::new();
        for &(copy, state) in found {
            if there.insert(copy, state).is_some() {
                self.counts.doubled += 1;
                self.problems.push(format!("{copy:?} is there twice"));
            }
        }
        let copies: BTreeSet<Copy> = self.known.keys().chain(there.keys()).copied().collect();
        for &copy in &copies {
            let state = there.get(&copy).copied().unwrap_or(State::Absent);
            self.compare_one(copy, state);
        }
        self.compare_whole(&there);
        for copy in copies {
            let base = there.get(&copy).copied().unwrap_or(State::Absent);
            let was_there = base != State::Absent || self.known.get(&copy).is_some_and(|known| known.was_there);
            self.known.insert(copy, Known { base, tried: Vec::new(), was_there });
        }
        self.counts.in_doubt += (self.acts.len() - self.answers.len()) as u64;
        self.acts.clear();
        self.answers.clear();
    }

    fn compare_one(&mut self, copy: Copy, state: State) {
        let states = self.states(copy, None);
        let was_there = self.known.get(&copy).is_some_and(|known| known.was_there);
        if states.contains(&state) {
            self.counts.recovered += u64::from(state != State::Absent && !was_there);
        } else if state == State::Absent {
            self.counts.lost += 1;
            self.problems
                .push(format!("{copy:?} is lost; it should be one of {states:?}: {:?}", self.known.get(&copy)));
        } else if states == BTreeSet::from([State::Absent]) {
            self.is_back(copy, "is there");
        } else {
            self.counts.undone += 1;
            self.problems.push(format!("{copy:?} is {state:?}; it should be one of {states:?}"));
        }
    }

    /// Whether all of an operation that was not answered has happened, or none.
    fn compare_whole(&mut self, there: &BTreeMap<Copy, State>) {
        for (&number, act) in &self.acts {
            if self.answers.contains_key(&number) {
                continue;
            }
            let (mut happened, mut did_not) = (false, false);
            for (copy, _) in act.effects() {
                let state = there.get(&copy).copied().unwrap_or(State::Absent);
                let with = self.states(copy, Some((number, Answer::Happened))).contains(&state);
                let without = self.states(copy, Some((number, Answer::DidNot))).contains(&state);
                happened |= with && !without;
                did_not |= without && !with;
            }
            if happened && did_not {
                self.counts.torn += 1;
                self.problems.push(format!("a part happened of {act:?}"));
            }
        }
    }

    /// Ids that the queue with duplicate detection has accepted for sure, the latest last.
    pub(super) fn accepted(&self, place: Place) -> Vec<u64> {
        let of = self.known.iter().filter(|((at, _), known)| *at == place && known.was_there);
        of.map(|((_, id), _)| *id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Copy = (Place::Work, 1);
    const B: Copy = (Place::Work, 2);

    /// What is counted when children have told this, and this is found.
    fn counts(told: impl IntoIterator<Item = Told>, found: &[(Copy, State)]) -> Counts {
        let mut account = Account::default();
        told.into_iter().for_each(|told| account.take(told));
        account.compare(found);
        Counts { acknowledged: 0, in_doubt: 0, ..account.counts }
    }

    fn send(number: u64) -> Told {
        Told::Tries(number, Act::Send(Place::Work, vec![1, 2]))
    }

    fn settle(number: u64, state: State) -> Told {
        Told::Tries(number, Act::Settle(state, Place::Work, 1))
    }

    const ALL: [(Copy, State); 2] = [(A, State::Ready), (B, State::Ready)];

    #[test]
    fn acknowledged_messages_are_there() {
        let sent = || [send(1), Told::Acknowledged(1)];
        assert_eq!(counts(sent(), &ALL), Counts::default());
        assert_eq!(counts(sent(), &ALL[1..]), Counts { lost: 1, ..Counts::default() });
        assert_eq!(counts([], &ALL[1..]), Counts { unexpected: 1, ..Counts::default() });
        let twice = [ALL[0], ALL[1], (A, State::Dead)];
        assert_eq!(counts(sent(), &twice).doubled, 1);
        let in_doubt = sent().into_iter().chain([settle(2, State::Absent)]);
        assert_eq!(counts(in_doubt, &ALL[1..]), Counts::default());
    }

    #[test]
    fn unacknowledged_operations_are_complete_or_absent() {
        assert_eq!(counts([send(1)], &[]), Counts::default());
        assert_eq!(counts([send(1)], &ALL), Counts { recovered: 2, ..Counts::default() });
        assert_eq!(counts([send(1)], &ALL[1..]), Counts { recovered: 1, torn: 1, ..Counts::default() });
        let one_was_tried = [send(1), settle(2, State::Absent)];
        assert_eq!(counts(one_was_tried, &ALL[1..]), Counts { recovered: 1, ..Counts::default() });
        let sent = [send(1), Told::Acknowledged(1)];
        let replaced = |found: &[(Copy, State)]| {
            let tried = Told::Tries(2, Act::Replace(1, 3));
            counts(sent.clone().into_iter().chain([tried]), found)
        };
        let done = ((Place::Done, 3), State::Ready);
        assert_eq!(replaced(&ALL), Counts::default());
        assert_eq!(replaced(&[ALL[1], done]), Counts { recovered: 1, ..Counts::default() });
        assert_eq!(replaced(&[ALL[0], ALL[1], done]).torn, 1);
        assert_eq!(replaced(&[ALL[1]]).torn, 1);
    }

    #[test]
    fn settled_messages_stay_settled() {
        let settled = |state, found: &[(Copy, State)]| {
            counts([send(1), Told::Acknowledged(1), settle(2, state), Told::Acknowledged(2)], found)
        };
        assert_eq!(settled(State::Absent, &ALL[1..]), Counts::default());
        assert_eq!(settled(State::Absent, &ALL), Counts { redelivered: 1, ..Counts::default() });
        assert_eq!(settled(State::Dead, &[(A, State::Dead), ALL[1]]), Counts::default());
        assert_eq!(settled(State::Dead, &ALL), Counts { undone: 1, ..Counts::default() });
        assert_eq!(settled(State::Dead, &ALL[1..]), Counts { lost: 1, ..Counts::default() });
        let delivered = [send(1), settle(2, State::Absent), Told::Acknowledged(2), Told::Received(Place::Work, 1)];
        assert_eq!(counts(delivered, &[]).redelivered, 1);
        let closed = [send(1), settle(2, State::Absent), Told::Closed];
        assert_eq!(counts(closed, &ALL).redelivered, 1);
    }
}
