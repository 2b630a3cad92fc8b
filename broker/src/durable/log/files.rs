//! The names of the files of a store.
//!
//! | name | what it is |
//! |---|---|
//! | `head` | which segments the store has |
//! | `head.new` | the head while it is written |
//! | `head.backup` | the head of an unfinished backup |
//! | `lock` | an empty file, locked while the store is open |
//! | `reserve` | space that is kept for a full disk |
//! | `0000002a.log` | the segment of this number |

pub(super) const HEAD: &str = "head";
pub(super) const NEW: &str = "head.new";
pub(super) const BACKUP: &str = "head.backup";
pub(super) const LOCK: &str = "lock";
pub(super) const RESERVE: &str = "reserve";

const EXTENSION: &str = ".log";

/// Returns the name of a segment.
pub(super) fn segment(number: u32) -> String {
    format!("{number:08x}{EXTENSION}")
}

/// Returns the number of the segment with this name.
pub(super) fn number(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(EXTENSION)?;
    let number = u32::from_str_radix(digits, 16).ok()?;
    (segment(number) == name).then_some(number)
}

#[test]
fn only_the_name_of_a_segment_has_its_number() {
    assert_eq!((number("0000002a.log"), segment(42).as_str()), (Some(42), "0000002a.log"));
    for name in ["2a.log", "0000002A.log", "+000002a.log", "0000002a", "head"] {
        assert_eq!(number(name), None, "{name}");
    }
}
