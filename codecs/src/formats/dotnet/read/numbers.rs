//! Numbers of XML Schema as text.

/// Returns a number without a fraction of zeros: a decimal number has as many digits as it was written with.
pub(super) fn whole(text: &str) -> &str {
    match text.split_once('.') {
        Some((whole, fraction)) if !whole.is_empty() && fraction.bytes().all(|digit| digit == b'0') => whole,
        _ => text,
    }
}

/// Reads a float of XML Schema.
pub(super) fn number(text: &str) -> Option<f64> {
    match text {
        "INF" => Some(f64::INFINITY),
        "-INF" => Some(f64::NEG_INFINITY),
        "NaN" => Some(f64::NAN),
        _ if text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte)) => {
            text.parse().ok().filter(|value: &f64| value.is_finite())
        }
        _ => None,
    }
}
