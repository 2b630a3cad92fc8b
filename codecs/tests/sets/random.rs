use std::cell::Cell;

use consign_codecs::ContentType;
use mediatype::{MediaType, ReadParams};
use proptest::{
    prelude::*,
    string::{RegexGeneratorStrategy, string_regex},
};

use crate::support::replay;

/// Texts that are nearly media types: what parsers disagree about.
fn nearly() -> impl Strategy<Value = String> {
    let name = || prop_oneof![4 => regex("[a-zA-Z0-9][a-zA-Z0-9!#$&^_.+-]{0,9}"), 1 => regex("[a-z+*/ ]{0,4}")];
    let quoted = regex(r#""([ -~]|\\"|\\\\){0,6}""#);
    let value = prop_oneof![3 => regex("[a-zA-Z0-9-]{1,8}"), 2 => quoted, 1 => regex("[ -~]{0,4}")];
    let equals = prop_oneof![8 => Just("=".to_owned()), 1 => regex("[ =]{0,2}")];
    let comment = || regex(r#"\((\(\)|[a-c;"]|\\[()]){0,4}\) ?"#);
    let space = || prop_oneof![9 => regex("[ \t]{0,2}"), 1 => comment()];
    let before = (space(), space()).prop_map(|(before, after)| format!("{before};{after}"));
    let parameter = (before, name(), equals, value)
        .prop_map(|(before, name, equals, value)| format!("{before}{name}{equals}{value}"));
    let parameters = prop::collection::vec(parameter, 0..10).prop_map(|parameters| parameters.concat());
    (name(), name(), parameters, regex("[ \t;]{0,2}"))
        .prop_map(|(top, sub, list, end)| format!("{top}/{sub}{list}{end}"))
}

/// A pattern as a strategy is compiled anew for each text; this one once.
fn regex(pattern: &str) -> RegexGeneratorStrategy<String> {
    string_regex(pattern).unwrap()
}

/// What `mediatype` accepts and a ContentType refuses, by rule: its size, wildcards, and values that are not tokens.
fn refused_by_rule(text: &str, theirs: &MediaType<'_>) -> bool {
    let wildcard = |name: &str| name.starts_with('*');
    let top_or_sub = [theirs.ty.as_str(), theirs.subty.as_str()].into_iter().any(wildcard);
    let empty_value = theirs.params().any(|(_, value)| value.as_str().is_empty());
    top_or_sub || empty_value || theirs.params().count() > ContentType::MAX_PARAMETERS || text.len() > 255
}

#[test]
fn texts_that_mediatype_accepts_mean_the_same() {
    let replay = replay("texts_that_mediatype_accepts_mean_the_same");
    let (accepted, refused) = (Cell::new(0), Cell::new(0));
    let result = replay.runner().run(&nearly(), |text| {
        let ours = ContentType::parse(&text);
        let count = if ours.is_malformed() { &refused } else { &accepted };
        count.set(count.get() + 1);
        let Ok(theirs) = MediaType::parse(text.trim_start()) else { return Ok(()) };
        if ours.is_malformed() {
            prop_assert!(refused_by_rule(&text, &theirs), "{:?} {:?}", text, ours.malformed());
            return Ok(());
        }
        let essence = theirs.essence().to_string().to_ascii_lowercase();
        prop_assert_eq!(ours.essence(), Some(&*essence));
        let suffix = theirs.suffix.map(|suffix| suffix.as_str().to_ascii_lowercase());
        prop_assert_eq!(ours.suffix(), suffix.as_deref());
        for (name, _) in theirs.params() {
            // `mediatype` lets the last of two count.
            if ours.has_duplicate_parameter() {
                break;
            }
            let value = theirs.get_param(name).unwrap().unquoted_str().into_owned();
            let value = if name == "charset" { value.to_ascii_lowercase() } else { value };
            // `a=`, which is ignored.
            if value.is_empty() && ours.parameter(name.as_str()).is_none() {
                continue;
            }
            prop_assert_eq!(ours.parameter(name.as_str()), Some(&*value));
        }
        Ok(())
    });
    result.unwrap();
    let (accepted, refused) = (accepted.get(), refused.get());
    let few = replay.cases / 20;
    assert!(accepted > few && refused > few, "one-sided texts: {accepted} accepted, {refused} refused");
}

#[test]
fn the_written_form_means_the_same() {
    let replay = replay("the_written_form_means_the_same");
    let result = replay.runner().run(&nearly(), |text| {
        let declared = ContentType::parse(&text);
        prop_assert_eq!(declared.as_str(), &text);
        if !declared.is_malformed() {
            let written = ContentType::parse(&declared.to_string());
            prop_assert_eq!(&written, &declared);
            prop_assert_eq!(written.to_string(), declared.to_string());
            prop_assert!(written.as_str().len() <= text.len());
            prop_assert!(!written.has_duplicate_parameter());
        }
        Ok(())
    });
    result.unwrap();
}

/// Rules: P-07.
#[test]
fn random_bytes_are_kept_and_never_panic() {
    let replay = replay("random_bytes_are_kept_and_never_panic");
    let mut random = fastrand::Rng::with_seed(replay.seed);
    let alphabet: Vec<char> = "ab/+;=\"\\() \t*,\r\n\0\u{e9}\u{1F600}".chars().collect();
    let mut well_formed = 0;
    for case in 0..replay.cases {
        let text: String = if case % 3 == 0 {
            let bytes: Vec<u8> = (0..random.usize(..300)).map(|_| random.u8(..)).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        } else {
            let characters = if case % 3 == 1 { &alphabet[..10] } else { &alphabet };
            (0..random.usize(..24)).map(|_| characters[random.usize(..characters.len())]).collect()
        };
        let declared = ContentType::parse(&text);
        assert_eq!(declared.as_str(), text);
        assert_eq!(declared.essence().is_some(), !declared.is_malformed());
        let written = declared.to_string();
        assert!(written.chars().all(|character| !character.is_ascii_control() || character == '\t'), "{text:?}");
        assert!(written.is_ascii() || !declared.is_malformed(), "{text:?}");
        well_formed += u32::from(!declared.is_malformed());
        if !text.is_ascii() && !text.contains(['"', '(']) {
            assert!(declared.is_malformed(), "{text:?}");
        }
    }
    assert!(well_formed > 0 || replay.cases < 1_000, "no text was a media type");
}
