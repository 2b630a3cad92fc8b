//! Golden files: what a version of a transport stores on its server, which every later version reads.
//!
//! A transport's tests have two directions. *Writing*: the crate sends the [samples], a client of the server reads what is
//! stored, and [`assert_same`] compares it with the file. *Reading*: such a client stores the contents of the file, and the
//! crate receives messages that [`shown`] shows as it shows the samples. Identifiers and times that differ in each run are
//! replaced by constants before they are compared or written.
//!
//! A file belongs to a version of the format, such as `tests/golden/format-1`. It is never changed: a change of what is
//! written is a new folder, and the files of all folders are read. [`write()`] writes a new one.

pub mod random;
pub mod samples;
mod shown;

use std::{env, fs, path::Path};

use serde_json::{Value as Json, json};

pub use self::shown::shown;

/// Returns the entries of a golden file.
///
/// # Panics
///
/// If the file is not a list of JSON objects, one in each line.
#[must_use]
pub fn entries(file: &str) -> Vec<Json> {
    file.lines().map(|line| serde_json::from_str(line).expect("an object in each line")).collect()
}

/// Writes a golden file into the folder that the variable `GOLDEN` names.
///
/// # Panics
///
/// Without the variable, or if the file cannot be written.
pub fn write(name: &str, entries: &[Json]) {
    let folder = env::var("GOLDEN").expect("GOLDEN is the folder to write to");
    fs::create_dir_all(&folder).expect("a folder");
    let lines: Vec<_> = entries.iter().map(Json::to_string).collect();
    fs::write(Path::new(&folder).join(name), lines.join("\n") + "\n").expect("a file that can be written");
}

/// Compares entries one by one.
///
/// # Panics
///
/// Where they differ: the message has the number of the entry and both texts around the first difference.
#[track_caller]
pub fn assert_same(what: &str, found: &[Json], expected: &[Json]) {
    for (nth, (found, expected)) in found.iter().zip(expected).enumerate() {
        if found != expected {
            let (found, expected) = (found.to_string(), expected.to_string());
            let same = found.chars().zip(expected.chars()).take_while(|(found, expected)| found == expected).count();
            let part = |text: &str| text.chars().skip(same.saturating_sub(60)).take(180).collect::<String>();
            panic!("{what}, entry {nth}, character {same}:\n   found {}\nexpected {}", part(&found), part(&expected));
        }
    }
    assert_eq!(found.len(), expected.len(), "{what}: entries");
}

/// Returns bytes as JSON: text if they are UTF-8, and otherwise hexadecimal digits in an object.
#[must_use]
pub fn bytes(bytes: &[u8]) -> Json {
    match str::from_utf8(bytes) {
        Ok(text) => json!(text),
        Err(_) => json!({ "hex": hex(bytes) }),
    }
}

/// Reverses [`bytes()`].
///
/// # Panics
///
/// If it is something else.
#[must_use]
pub fn bytes_of(json: &Json) -> Vec<u8> {
    match json {
        Json::String(text) => text.as_bytes().to_vec(),
        json => {
            let digits = json["hex"].as_str().expect("text or hexadecimal digits").as_bytes();
            let pair = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
            digits.chunks(2).map(|digits| pair(digits).expect("hexadecimal digits")).collect()
        }
    }
}

/// Returns bytes as hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let digit = |digit: u8| char::from_digit(digit.into(), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Replaces each UUID with hyphens by a constant one: the same one for the same, numbered in their order.
#[must_use]
pub fn constant_uuids(text: &str) -> String {
    let words = text.split(|char: char| !char.is_ascii_alphanumeric() && char != '-').filter_map(|word| word.get(..36));
    let is_uuid = |word: &&str| {
        let at =
            |nth: usize, byte: u8| if [8, 13, 18, 23].contains(&nth) { byte == b'-' } else { byte.is_ascii_hexdigit() };
        word.bytes().enumerate().all(|(nth, byte)| at(nth, byte))
    };
    let mut known: Vec<&str> = Vec::new();
    let mut constant = text.to_owned();
    for uuid in words.filter(is_uuid) {
        if !known.contains(&uuid) {
            known.push(uuid);
            constant = constant.replace(uuid, &format!("00000000-0000-4000-8000-{:012}", known.len()));
        }
    }
    constant
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_as_they_were_shown() {
        for sample in [&b""[..], b"text", "é\u{1f980}".as_bytes(), b"a\nb", b"\0\xff", b"hex"] {
            assert_eq!(bytes_of(&bytes(sample)), sample);
        }
    }

    #[test]
    fn samples_differ_as_they_are_shown() {
        let all: Vec<_> =
            samples::all().iter().chain(&samples::timed()).map(|message| shown(message).to_string()).collect();
        for (nth, one) in all.iter().enumerate() {
            assert!(!all[..nth].contains(one), "{one}");
        }
    }

    #[test]
    fn each_uuid_has_a_number() {
        let (one, two) = ("0a1b2c3d-0000-1111-2222-33445566778f", "ffffffff-ffff-ffff-ffff-ffffffffffff");
        let constant = constant_uuids(&format!("{one}-7 {two}.{one} no-uuid"));
        let [one, two] = [1, 2].map(|number| format!("00000000-0000-4000-8000-{number:012}"));
        assert_eq!(constant, format!("{one}-7 {two}.{one} no-uuid"));
    }

    #[test]
    #[should_panic(expected = "a store, entry 1")]
    fn a_difference_is_reported_with_its_number() {
        assert_same("a store", &[json!(1), json!(2)], &[json!(1), json!(3)]);
    }
}
