//! What the page says of scenarios in which ours is behind: written by hand, kept when the page is written anew.

/// The name of a scenario, or what names begin with, and why.
const NOTES: &[(&str, &str)] = &[
    (
        "reply",
        "the message that is sent is one more stored message with properties and a place in a queue that locks, counts and \
         expires; RustStream's broker keeps a payload in a channel.",
    ),
    (
        "round_trip",
        "two messages are stored, locked and settled for each call, and values are encoded and decoded on both sides; of \
         RustStream the requester sends and gets bytes.",
    ),
    ("codecs/", "of the sides of one work only `raw_limits` is bound by the same limits of depth and length."),
];

/// The note for a scenario: the one whose name begins most like it.
pub(crate) fn note(scenario: &str) -> Option<&'static str> {
    let matching = NOTES.iter().filter(|(name, _)| scenario.starts_with(name));
    matching.max_by_key(|(name, _)| name.len()).map(|(_, note)| *note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_note_is_taken() {
        assert!(note("round_trip_100k").is_some());
        assert!(note("codecs/json/two/owned").is_some());
        assert_eq!(note("no such scenario"), None);
    }
}
