use consign_codecs::{CodecSet, Codecs, Encode, EncodeError, Encoded, essence_of};

use crate::Message;

/// The application property of a request that lists the formats of its reply, as in the `Accept` of HTTP:
/// `application/cbor;q=0.5, application/json`. Of ranges only `*/*` is read.
pub const ACCEPT: &str = "x-accept";

/// A longer list is not read.
const MAX_LIST: usize = 1_024;
/// Further formats of a list are not read.
const MAX_FORMATS: usize = 16;

/// Writes a reply as its requester can read it: in the first format of its list that the set writes, else in the format of the request.
/// If neither can be written, it is the first of the set that the list does not refuse, and if there is none, the first.
pub(super) fn encode<T: Encode, C: CodecSet>(
    value: &T,
    codecs: &Codecs<C>,
    request: &Message,
) -> Result<Encoded, EncodeError> {
    let list = request.application_properties().get(ACCEPT).and_then(|list| list.as_str()).unwrap_or("");
    let (wanted, refused) = preferences(list);
    let is_refused =
        |format: &str| refused.iter().any(|refused| essence_of(refused).eq_ignore_ascii_case(essence_of(format)));
    // A format that reads may be unable to write this value: then it is as if the set had it not.
    let encode_as = |format: &str| {
        let encoded = codecs.encode_as(value, format).ok()?;
        (!is_refused(encoded.content_type)).then_some(encoded)
    };
    let encode_any = || match codecs.encode(value) {
        Ok(encoded) if !is_refused(encoded.content_type) => Some(encoded),
        _ => codecs.describe().table().codecs.iter().find_map(|codec| encode_as(codec.writes)),
    };
    let listed = wanted.iter().find_map(|&format| if format == "*/*" { encode_any() } else { encode_as(format) });
    let requested = || request.content_type().and_then(encode_as);
    listed.or_else(requested).or_else(encode_any).map_or_else(|| codecs.encode(value), Ok)
}

/// The formats of a list, the best liked first, and those of quality zero.
#[inline]
fn preferences(list: &str) -> (Vec<&str>, Vec<&str>) {
    // Most requests have no list.
    if list.is_empty() || list.len() > MAX_LIST { (Vec::new(), Vec::new()) } else { listed(list) }
}

fn listed(list: &str) -> (Vec<&str>, Vec<&str>) {
    let mut formats: Vec<_> = list.split(',').take(MAX_FORMATS).filter_map(entry).collect();
    formats.sort_by_key(|&(_, quality)| std::cmp::Reverse(quality));
    let first_refused = formats.partition_point(|&(_, quality)| quality > 0);
    let refused = formats.split_off(first_refused).into_iter().map(|(format, _)| format).collect();
    (formats.into_iter().map(|(format, _)| format).collect(), refused)
}

/// A format and its quality in thousandths; `None` for nothing, and for what is no quality.
fn entry(entry: &str) -> Option<(&str, u16)> {
    let entry = entry.trim();
    let (format, quality) = match entry.rsplit_once(';') {
        Some((format, last)) => match last.trim().split_once('=') {
            Some((name, value)) if name.trim().eq_ignore_ascii_case("q") => (format.trim(), quality(value.trim())?),
            _ => (entry, 1_000),
        },
        None => (entry, 1_000),
    };
    (!format.is_empty()).then_some((format, quality))
}

/// RFC 9110, 12.4.2: `0` or `1` with up to three decimals, and no more than one.
fn quality(text: &str) -> Option<u16> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    if decimals.len() > 3 || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let decimals = format!("{decimals:0<3}").parse().ok()?;
    match (whole, decimals) {
        ("0", decimals) => Some(decimals),
        ("1", 0) => Some(1_000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_liked_comes_first() {
        fn read(list: &str) -> Vec<&str> {
            preferences(list).0
        }
        assert_eq!(read("a;q=0.1, b"), ["b", "a"]);
        assert_eq!(read("a;q=0.5,b;q=0.75, c;q=0.5"), ["b", "a", "c"]);
        assert_eq!(read("a/b;v=1;q=0.2, c/d; Q=0.3"), ["c/d", "a/b;v=1"]);
        assert_eq!(preferences("a;q=0, b, c;q=0.000, d;q=x").1, ["a", "c"]);
        assert_eq!(read("a;q=0, b;q=0.000, c;q=2, d;q=x, e;q=0.1234, f;q=1.001, , g"), ["g"]);
        assert!(read(&"a,".repeat(1_000)).is_empty());
        assert_eq!(read(&"a,".repeat(100)).len(), MAX_FORMATS);
    }
}
