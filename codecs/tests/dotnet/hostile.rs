use std::{collections::BTreeMap, env, thread};

use consign_codecs::{
    Codec, DataContractBinary, DataContractXml, DecodeContext, DecodeError, DecodeErrorKind as Kind, Limits,
};
use fastrand::Rng;
use serde::{Deserialize, de::IgnoredAny};
use serde_bytes::ByteBuf;
use serde_json::Value;

use crate::support::{CONTRACT, SERIALIZATION, binary, element, golden, goldens, is_text, start, text};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
#[allow(dead_code, reason = "only that reading ends counts")]
struct Order {
    id: Option<i64>,
    total: Option<f32>,
    grade: Option<char>,
    paid: Option<bool>,
    state: Option<State>,
    lines: Option<Vec<Order>>,
    stock: Option<BTreeMap<String, u8>>,
}

#[derive(Debug, Deserialize)]
#[allow(dead_code, reason = "only that reading ends counts")]
enum State {
    Open,
    Closed { by: String },
    Moved(u8, u8),
}

fn read_as_everything(body: &[u8]) {
    fn read<T: for<'de> Deserialize<'de>>(body: &[u8]) {
        let _ = binary::<T>(body);
        let _ = text::<T>(body);
    }
    read::<Order>(body);
    read::<Value>(body);
    read::<State>(body);
    read::<BTreeMap<String, Vec<Option<u32>>>>(body);
    read::<(f32, i128, String)>(body);
    read::<Vec<()>>(body);
    read::<ByteBuf>(body);
    read::<String>(body);
    read::<char>(body);
    read::<IgnoredAny>(body);
    let _ = DataContractBinary::contents(body, &Limits::default());
    let _ = DataContractXml::contents(body, &Limits::default());
}

fn from_env(name: &str, default: u64) -> u64 {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs seeded cases; a panic in one prints how to run it again.
fn cases(test: &str, default: u64, case: impl Fn(&mut Rng)) {
    struct Replay<'t>(&'t str, u64);
    impl Drop for Replay<'_> {
        fn drop(&mut self) {
            if thread::panicking() {
                let Self(test, seed) = self;
                println!(
                    "replay: SEED={seed} CONSIGN_CASES=1 cargo test -p consign-codecs --features full --test dotnet {test}"
                );
            }
        }
    }
    let seed = from_env("SEED", 7);
    for number in 0..from_env("CONSIGN_CASES", default) {
        let seed = seed.wrapping_add(number);
        let replay = Replay(test, seed);
        case(&mut Rng::with_seed(seed));
        drop(replay);
    }
}

/// Rules: P-45.
#[test]
fn random_bytes_are_read_or_refused() {
    // Bytes that begin records and tags come further than others.
    const LIKELY: &[u8] =
        b"\x01\x02\x03\x04\x08\x09\x40\x41\x5e\x80\x81\x89\x98\x99\x9e\x9f\xa4\xa6\xb5</>=\"'&;! ?-[]:a";
    cases("random_bytes_are_read_or_refused", 2_000, |rng| {
        let len = rng.usize(0..64);
        let tail = (0..len).map(|_| if rng.bool() { rng.u8(..) } else { *rng.choice(LIKELY).unwrap() });
        let tail: Vec<_> = tail.collect();
        read_as_everything(&tail);
        read_as_everything(&[&start("a", CONTRACT)[..], &tail].concat());
        read_as_everything(&[format!("<a xmlns='{CONTRACT}'>").as_bytes(), &tail].concat());
    });
}

/// Rules: P-45.
#[test]
fn changed_bodies_are_read_or_refused() {
    let bodies: Vec<_> = [goldens(".bin"), goldens(".xml")].concat().iter().map(|file| golden(file)).collect();
    let bodies: Vec<_> = bodies.into_iter().filter(|body| body.len() < 4_000).collect();
    cases("changed_bodies_are_read_or_refused", 4_000, |rng| {
        let mut body = rng.choice(&bodies).unwrap().clone();
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(0..body.len());
            match rng.u8(0..4) {
                0 => body[at] = rng.u8(..),
                1 => body[at] ^= 1 << rng.u8(0..8),
                2 => drop(body.remove(at)),
                _ => body.insert(at, rng.u8(..)),
            }
        }
        read_as_everything(&body);
    });
}

/// Attacks: 22.
#[test]
fn every_truncation_is_refused() {
    for file in [goldens(".bin"), goldens(".xml")].concat() {
        let body = golden(&file);
        let is_text = is_text(&file);
        for end in (1..body.len()).filter(|end| body.len() < 4_000 || end % 1_009 == 0) {
            let cut = &body[..end];
            let kind = if is_text { text::<IgnoredAny>(cut) } else { binary(cut) }.unwrap_err().kind();
            let is_inside_a_character = is_text && kind == Kind::Utf8 && body[end] & 0xc0 == 0x80;
            let is_of_a_dictionary = file.starts_with("dictionary-numbers") && kind == Kind::Type;
            assert!(kind == Kind::Truncated || is_inside_a_character || is_of_a_dictionary, "{file} {end}: {kind:?}");
        }
    }
}

/// Attacks: 23.
#[test]
fn bytes_after_the_value_are_refused() {
    for file in goldens(".bin") {
        let body = [golden(&file), vec![1]].concat();
        let kind = binary::<IgnoredAny>(&body).unwrap_err().kind();
        let is_of_a_dictionary = file.starts_with("dictionary-numbers");
        let is_of_another = file.starts_with("shipment");
        assert!(kind == Kind::Trailing || is_of_a_dictionary || is_of_another, "{file}: {kind:?}");
    }
}

/// Elements in elements, in both encodings.
fn nested(depth: usize) -> [Vec<u8>; 2] {
    let binary = [start("a", CONTRACT), element("a").repeat(depth), vec![1; depth + 1]].concat();
    let text = format!("<a xmlns='{CONTRACT}'>{}{}</a>", "<a>".repeat(depth), "</a>".repeat(depth));
    [binary, text.into_bytes()]
}

fn kinds(bodies: &[Vec<u8>; 2], limits: &Limits) -> [Option<Kind>; 2] {
    let cx = DecodeContext::new(limits);
    let kind = |result: Result<IgnoredAny, DecodeError>| result.err().map(|error| error.kind());
    [
        kind(DataContractBinary::default().decode(&bodies[0], &cx)),
        kind(DataContractXml::default().decode(&bodies[1], &cx)),
    ]
}

/// Rules: P-124.
#[test]
fn depth_is_limited_also_in_ignored_fields() {
    let limits = Limits::default();
    assert_eq!(kinds(&nested(64), &limits), [None; 2]);
    assert_eq!(kinds(&nested(65), &limits), [Some(Kind::Depth); 2]);
    assert_eq!(kinds(&nested(1_000), &limits.depth(1_000)), [Some(Kind::Depth); 2]);
    thread::Builder::new()
        .stack_size(1 << 20)
        .spawn(|| {
            let limits = Limits::default().depth(Limits::MAX_DEPTH);
            let cx = DecodeContext::new(&limits);
            let [in_binary, in_text] = nested(Limits::MAX_DEPTH);
            assert!(DataContractBinary::default().decode::<Value>(&in_binary, &cx).is_ok());
            assert!(DataContractXml::default().decode::<Value>(&in_text, &cx).is_ok());
        })
        .unwrap()
        .join()
        .unwrap();
}

/// Rules: P-124.
#[test]
fn elements_are_limited_over_the_whole_body() {
    let limits = Limits::default().elements(10);
    let lists = |count: usize| {
        let list = [element("l"), element("i"), vec![0x81], element("i"), vec![0x83, 1]].concat();
        let text = "<l><i>0</i> <i>1</i> </l>\n".repeat(count);
        [
            [start("a", CONTRACT), list.repeat(count), vec![1]].concat(),
            format!("<a xmlns='{CONTRACT}'>\n{text}</a>").into_bytes(),
        ]
    };
    assert_eq!(kinds(&lists(3), &limits), [None; 2]);
    assert_eq!(kinds(&lists(4), &limits), [Some(Kind::Count); 2]);
    // Pieces of text count too.
    let pieces = |count: usize| {
        [
            [start("string", SERIALIZATION), [0x98, 0].repeat(count), vec![1]].concat(),
            format!("<string xmlns='{SERIALIZATION}'>{}</string>", "<![CDATA[a]]>".repeat(count)).into_bytes(),
        ]
    };
    assert_eq!(kinds(&pieces(11), &limits), [None; 2]);
    assert_eq!(kinds(&pieces(12), &limits), [Some(Kind::Count); 2]);
}

/// Rules: P-124.
/// Attacks: 59.
#[test]
fn prefixes_and_attributes_are_limited() {
    let limits = Limits::default();
    let body = |count: usize, text: &str, record: &dyn Fn(u8) -> Vec<u8>| {
        let records: Vec<_> = (0..count).flat_map(|at| record(u8::try_from(at).unwrap())).collect();
        let texts: String = (0..count).map(|at| text.replace('#', &at.to_string())).collect();
        [
            [&start("a", CONTRACT)[..], &records, &[1]].concat(),
            format!("<a xmlns='{CONTRACT}'{texts}></a>").into_bytes(),
        ]
    };
    let declarations =
        |count| body(count, " xmlns:p#='u'", &|at| vec![0x09, 2, b'a' + at / 26, b'a' + at % 26, 1, b'u']);
    let attributes = |count| body(count, " p#='1'", &|at| vec![0x04, 2, b'a' + at / 26, b'a' + at % 26, 0x82]);
    assert_eq!(kinds(&declarations(63), &limits), [None; 2]);
    assert_eq!(kinds(&declarations(64), &limits), [Some(Kind::Count); 2]);
    assert_eq!(kinds(&attributes(64), &limits), [None; 2]);
    assert_eq!(kinds(&attributes(65), &limits), [Some(Kind::Count); 2]);
}

#[test]
fn a_declared_length_or_count_beyond_the_body_is_refused() {
    let start = start("a", CONTRACT);
    let kind = |rest: &[u8]| binary::<IgnoredAny>(&[&start[..], rest].concat()).unwrap_err().kind();
    for record in [0x9d, 0xa3, 0xbb] {
        assert_eq!(kind(&[record, 0xff, 0xff, 0xff, 0x7f, 1]), Kind::Length, "{record:#x}");
        assert_eq!(kind(&[record, 0xff, 0, 0, 0, 1]), Kind::Truncated, "{record:#x}");
    }
    for record in [0x40, 0x02, 0x08] {
        assert_eq!(kind(&[record, 0xff, 0xff, 0xff, 0xff, 0x07]), Kind::Length, "{record:#x}");
        assert_eq!(kind(&[record, 0xff, 0xff, 0xff, 0xff, 0x0f]), Kind::Length, "{record:#x}");
        assert_eq!(kind(&[record, 0xff, 0xff, 0xff, 0xff, 0xff, 0]), Kind::Syntax, "{record:#x}");
    }
    let array = |count: &[u8]| kind(&[&[0x03, 0x40, 1, b'i', 1, 0x8d][..], count, &[0; 16]].concat());
    assert_eq!(array(&[0]), Kind::Syntax);
    assert_eq!(array(&[5]), Kind::Truncated);
    assert_eq!(array(&[0xff, 0xff, 0x7f]), Kind::Count);
    assert_eq!(array(&[0xff, 0xff, 0xff, 0xff, 0x07]), Kind::Count);
}
