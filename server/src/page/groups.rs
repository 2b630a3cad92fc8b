//! Dead letters, grouped by reason and first error.

use std::collections::HashMap;

use consign::dead_letters::{DeadLetterFilter, DeadLetters, Explained, ListLimit};
use consign_core::{
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
    transport::{Capability, ReceiveError},
};
use sha2::{Digest, Sha256};

use super::{
    Shared,
    browse::{PAGE, SEARCHED},
    hex,
};

/// Most groups that are told apart. Further ones are one group.
const MAX_GROUPS: usize = 500;
/// Most dead letters that are looked at, and most that a job locks because they stay.
pub(super) const MAX_LETTERS: usize = 200_000;
/// Dead letters of one step.
const STEP: usize = 1_000;
/// Dead letters of one step of the list of a group.
const LISTED: usize = 250;
/// Most characters of an error.
const ERROR: usize = 160;

/// Dead letters with one reason and one first error.
pub(super) struct Group {
    /// The key of the group, in hexadecimal digits.
    pub(super) key: String,
    pub(super) reason: String,
    pub(super) error: String,
    pub(super) count: u64,
    pub(super) first: SequenceNumber,
    pub(super) last: SequenceNumber,
    pub(super) oldest: Option<Timestamp>,
}

/// The groups of a dead-letter sub-queue.
#[derive(Default)]
pub(super) struct Groups {
    pub(super) largest_first: Vec<Group>,
    pub(super) count: u64,
    /// Letters that are in no group of their own.
    pub(super) others: u64,
    /// Whether there are more letters than were looked at.
    pub(super) is_cut: bool,
}

/// What a dead letter is grouped by.
pub(super) fn signature(dead: &Explained) -> (String, String) {
    let reason = dead.reason().unwrap_or("(no reason)").to_owned();
    let error = match dead.attempts().first() {
        Some(attempt) => {
            let path = attempt.path().map(|path| format!(" at {path}")).unwrap_or_default();
            format!("{}: {}{path}", attempt.codec(), attempt.code())
        }
        None => without_numbers(dead.description().unwrap_or_default().lines().next().unwrap_or_default()),
    };
    (reason.chars().take(ERROR).collect(), error.chars().take(ERROR).collect())
}

/// A text in which each number is `#`, so that ids and counts do not tell errors apart.
fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    for char in text.chars() {
        if !char.is_ascii_digit() {
            out.push(char);
        } else if !out.ends_with('#') {
            out.push('#');
        }
    }
    out
}

/// The key of the group of a dead letter.
pub(super) fn key_of(dead: &Explained) -> String {
    let (reason, error) = signature(dead);
    key(&reason, &error)
}

fn key(reason: &str, error: &str) -> String {
    let digest = Sha256::new().chain_update(reason).chain_update([0]).chain_update(error).finalize();
    hex::digits(&digest[..8])
}

/// The filter of one group, or of all.
pub(super) fn filter(group: Option<&str>) -> DeadLetterFilter {
    match group {
        Some(group) => {
            let group = group.to_owned();
            DeadLetterFilter::all().matching(move |dead| key_of(dead) == group)
        }
        None => DeadLetterFilter::all(),
    }
}

/// Calls `each` on the dead letters of an entity that pass a filter. Returns whether these are all.
pub(super) async fn each(
    shared: &Shared,
    entity: &EntityPath,
    filter: &DeadLetterFilter,
    mut each: impl FnMut(Explained),
) -> Result<bool, ReceiveError> {
    let dead = DeadLetters::of(shared.transport.clone(), entity);
    let mut from = SequenceNumber::default();
    let mut seen = 0;
    loop {
        let listed = match dead.list(filter, from, STEP).await {
            Ok(listed) => listed,
            Err(error) => {
                let limit = ListLimit::of(&error).map(|limit| limit.found().to_vec());
                limit.ok_or(error)?.into_iter().for_each(each);
                return Ok(false);
            }
        };
        let (count, last) = (listed.len(), listed.last().map(Explained::sequence_number));
        listed.into_iter().for_each(&mut each);
        seen += count;
        match last {
            Some(last) if count == STEP && last >= from => from = last.next(),
            _ => return Ok(true),
        }
        if seen >= MAX_LETTERS {
            return Ok(false);
        }
        // The embedded broker answers without waiting, and other requests are not to wait for all steps.
        tokio::task::yield_now().await;
    }
}

/// Lists a page of the dead letters of one group from a number on, and returns where the next one begins. It looks at a limited
/// number of letters: a page then has less, or none. The last value is whether there are more than can be looked at.
pub(super) async fn list(
    shared: &Shared,
    entity: &EntityPath,
    group: &str,
    from: SequenceNumber,
) -> Result<(Vec<Explained>, Option<SequenceNumber>, bool), ReceiveError> {
    let dead = DeadLetters::of(shared.transport.clone(), entity);
    if !shared.supports(Capability::Peek) {
        let (mut found, is_cut) = match dead.list(&filter(Some(group)), from, PAGE + 1).await {
            Ok(found) => (found, false),
            Err(error) => {
                let limit = ListLimit::of(&error).map(|limit| limit.found().to_vec());
                (limit.ok_or(error)?, true)
            }
        };
        let next = if found.len() > PAGE { found.pop().map(|next| next.sequence_number()) } else { None };
        return Ok((found, next, is_cut));
    }
    let (mut found, mut next, mut searched) = (Vec::new(), from, 0);
    while searched < SEARCHED {
        let listed = dead.list(&DeadLetterFilter::all(), next, LISTED).await?;
        let (count, last) = (listed.len(), listed.last().map(Explained::sequence_number));
        for letter in listed.into_iter().filter(|letter| key_of(letter) == group) {
            if found.len() == PAGE {
                return Ok((found, Some(letter.sequence_number()), false));
            }
            found.push(letter);
        }
        match last.filter(|last| count == LISTED && *last >= next) {
            Some(last) => next = last.next(),
            None => return Ok((found, None, false)),
        }
        searched += count;
        tokio::task::yield_now().await;
    }
    Ok((found, Some(next), false))
}

/// Groups the dead letters of an entity.
pub(super) async fn groups(shared: &Shared, entity: &EntityPath) -> Result<Groups, ReceiveError> {
    let mut found = Groups::default();
    let mut by_key: HashMap<String, Group> = HashMap::new();
    let is_all = each(shared, entity, &DeadLetterFilter::all(), |dead| {
        found.count += 1;
        let (reason, error) = signature(&dead);
        let key = key(&reason, &error);
        let (number, enqueued) = (dead.sequence_number(), dead.enqueued_time());
        if by_key.len() >= MAX_GROUPS && !by_key.contains_key(&key) {
            found.others += 1;
            return;
        }
        let group = by_key.entry(key.clone()).or_insert_with(|| Group {
            key,
            reason,
            error,
            count: 0,
            first: number,
            last: number,
            oldest: enqueued,
        });
        group.count += 1;
        group.last = group.last.max(number);
        group.oldest = group.oldest.min(enqueued).or(group.oldest);
    })
    .await?;
    found.is_cut = !is_all;
    found.largest_first = by_key.into_values().collect();
    found.largest_first.sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.first.cmp(&other.first)));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use consign_core::{Message, settlement::DeadLetter};

    use super::*;

    fn dead(reason: &str, description: &str, trail: &str) -> Explained {
        let mut message = Message::builder().property(DeadLetter::REASON, reason.to_owned());
        message = message.property(DeadLetter::DESCRIPTION, description.to_owned());
        if !trail.is_empty() {
            message = message.property(DeadLetter::TRAIL, trail.to_owned());
        }
        Explained::new(message.build("").unwrap(), Timestamp::EPOCH)
    }

    #[test]
    fn numbers_do_not_tell_errors_apart_and_reasons_do() {
        let one = dead("HandlerFailed", "order 17 was not stored\nmore", "");
        let (reason, error) = signature(&one);
        assert_eq!((&*reason, &*error), ("HandlerFailed", "order # was not stored"));
        assert_eq!(key_of(&one), key_of(&dead("HandlerFailed", "order 1800 was not stored", "")));
        for other in [dead("Other", "order 17 was not stored", ""), dead("HandlerFailed", "order was not stored", "")] {
            assert_ne!(key_of(&one), key_of(&other));
        }
    }

    #[test]
    fn the_first_attempt_is_the_error() {
        let trail = "json;exact;Syntax;1:5,cbor;fallback;Type;";
        let (_, error) = signature(&dead("DeserializationFailed", "json: line 1", trail));
        assert_eq!(error, "json: Syntax");
    }
}
