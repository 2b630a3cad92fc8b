//! What the page says of scenarios in which ours is behind: written by hand, kept when the page is written anew.

/// Holds of whatever is consumed.
const PEEK_LOCK: &str = "a message is locked when it is received: its place, the count of its deliveries and the end of its \
                         lock are kept until it is settled, under the lock of the broker, and a lost lock is an error. \
                         RustStream's broker in memory takes a delivery out of a channel, and to acknowledge it is to drop \
                         it.";

/// The name of a scenario, or what names begin with, and why.
const NOTES: &[(&str, &str)] = &[
    ("json", PEEK_LOCK),
    ("bytes", PEEK_LOCK),
    ("one_layer", PEEK_LOCK),
    ("four_layers", PEEK_LOCK),
    ("router", PEEK_LOCK),
    ("batch_64", PEEK_LOCK),
    (
        "reply",
        "beside the lock, what is sent becomes a stored message with properties and a place in a queue that counts and \
         expires; RustStream's is put into a channel.",
    ),
    (
        "round_trip",
        "two messages are stored, locked and settled for each call, and values are encoded and decoded on both sides; of \
         RustStream the requester sends and gets bytes.",
    ),
    (
        "codecs/",
        "the limits of depth and of lengths look at a body before it is read, or while it is; where a value takes only a \
         few instructions they show, and so does the choice of the codec.",
    ),
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
