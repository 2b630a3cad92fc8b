use consign::message::PropertyValue;

use super::{Content, Model, Part, Place, Role, send::Arrival};

/// The rules that the driver gives to subscriptions, judged by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    /// `$Default`: every message.
    Default,
    /// `also`: `colour = 'red'`, with the action `SET also = 'yes'`.
    Also,
    /// `faulty`: `10 / d > 1`, which fails where `d` is 0.
    Faulty,
    /// `marked`: `n > 5`, with the action `SET n = 0; REMOVE colour`.
    Marked,
    /// `red`: `colour = 'red'`.
    Red,
    /// `urgent`: a correlation filter for the subject `urgent`.
    Urgent,
}

impl Rule {
    /// By name, without regard to case.
    pub(crate) const ALL: [Self; 6] = [Self::Default, Self::Also, Self::Faulty, Self::Marked, Self::Red, Self::Urgent];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Default => "$Default",
            Self::Also => "also",
            Self::Faulty => "faulty",
            Self::Marked => "marked",
            Self::Red => "red",
            Self::Urgent => "urgent",
        }
    }

    /// Whether it takes a message; `None` if it fails.
    fn matches(self, content: &Content) -> Option<bool> {
        let number = |name: &str| match content.application.get(name) {
            Some(PropertyValue::I64(number)) => Some(*number),
            _ => None,
        };
        let is_red = content.application.get("colour") == Some(&"red".into());
        Some(match self {
            Self::Default => true,
            Self::Also | Self::Red => is_red,
            Self::Faulty => match number("d") {
                Some(0) => return None,
                d => d.is_some_and(|d| 10 / d > 1),
            },
            Self::Marked => number("n").is_some_and(|n| n > 5),
            Self::Urgent => content.subject.as_deref() == Some("urgent"),
        })
    }

    /// The properties that it changes on a copy of its own; without an action there is no such copy.
    fn action(self) -> Option<Vec<(&'static str, Option<PropertyValue>)>> {
        match self {
            Self::Also => Some(vec![("also", Some("yes".into()))]),
            Self::Marked => Some(vec![("n", Some(PropertyValue::I64(0))), ("colour", None)]),
            _ => None,
        }
    }
}

/// What a subscription gets of a message.
enum Copies {
    Are(Vec<Arrival>),
    /// One dead letter, for this rule failed.
    Failed(Rule),
}

impl Model {
    /// The subscriptions of a topic, by name.
    pub(crate) fn subscriptions(&self, topic: u32) -> Vec<u32> {
        let its = self.entities.iter().filter(|(_, entity)| entity.role == Role::Subscription { topic });
        let mut its: Vec<_> = its.map(|(&id, entity)| (entity.path.clone(), id)).collect();
        its.sort();
        its.into_iter().map(|(_, id)| id).collect()
    }

    fn copies(&self, subscription: u32, arrival: &Arrival) -> Copies {
        let entity = self.entity(subscription);
        let mut rules = entity.rules.clone();
        rules.sort();
        let failed = rules.iter().find(|rule| rule.matches(&arrival.content).is_none());
        if let Some(&failed) = failed
            && entity.settings.bury_filter_errors
        {
            return Copies::Failed(failed);
        }
        let matching: Vec<Rule> =
            rules.into_iter().filter(|rule| rule.matches(&arrival.content) == Some(true)).collect();
        let mut copies = Vec::new();
        if matching.iter().any(|rule| rule.action().is_none()) {
            copies.push(arrival.clone());
        }
        for rule in matching {
            let Some(action) = rule.action() else { continue };
            let mut copy = arrival.clone();
            for (name, value) in action.into_iter().chain([("RuleName", Some(rule.name().into()))]) {
                let growth = copy.content.set(name, value);
                copy.size = copy.size.checked_add_signed(growth).unwrap();
            }
            copies.push(copy);
        }
        Copies::Are(copies)
    }

    /// What the copies of a message count, before any is made.
    pub(super) fn bytes_of_copies(&self, topic: u32, arrival: &Arrival) -> u64 {
        let of = |subscription| match self.copies(subscription, arrival) {
            Copies::Are(copies) => copies.iter().map(|copy| copy.size).sum(),
            Copies::Failed(_) => arrival.size,
        };
        self.subscriptions(topic).into_iter().map(of).sum::<u64>()
    }

    /// Copies a message to the subscriptions that want it.
    pub(super) fn copy(&mut self, topic: u32, arrival: &Arrival) {
        for subscription in self.subscriptions(topic) {
            match self.copies(subscription, arrival) {
                Copies::Are(copies) => copies.into_iter().for_each(|copy| self.copy_to(subscription, copy)),
                Copies::Failed(rule) => {
                    let name = rule.name();
                    let why = format!("rule \"{name}\": the filter failed: an integer was divided by zero");
                    self.insert_dead(subscription, Part::Dead, arrival.clone(), "FilterException", &why);
                }
            }
        }
    }

    fn copy_to(&mut self, subscription: u32, mut copy: Arrival) {
        self.clamp(subscription, &mut copy.content);
        if self.entity(subscription).settings.sessions && copy.content.session.is_none() {
            self.insert_dead(subscription, Part::Dead, copy, "Session ID is null.", "");
        } else {
            self.arrive(subscription, copy);
        }
    }

    /// Stores a message that is dead from the start.
    pub(super) fn insert_dead(&mut self, id: u32, part: Part, arrival: Arrival, reason: &str, why: &str) -> u64 {
        let mut stored = self.number(id, arrival);
        let sequence = stored.sequence;
        stored.part = part;
        stored.place = Place::Ready;
        stored.mark_dead(reason, why);
        let key = self.store(stored);
        self.make_ready(key);
        sequence
    }
}
