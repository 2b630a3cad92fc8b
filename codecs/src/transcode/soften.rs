//! Replacements for values that JSON does not have.

use super::{Losses, Value};

/// Replaces values that JSON does not have, and counts them; `None` if there is no replacement.
pub(super) fn soften(value: &mut Value) -> Option<Losses> {
    let mut losses = Losses::default();
    in_place(value, &mut losses)?;
    Some(losses)
}

/// As deep as the codec that read the value permitted.
fn in_place(value: &mut Value, losses: &mut Losses) -> Option<()> {
    match value {
        Value::Bytes(bytes) => {
            *value = Value::Text(base64(bytes));
            losses.bytes += 1;
        }
        Value::F64(number) if !number.is_finite() => {
            *value = Value::Null;
            losses.numbers += 1;
        }
        Value::F32(number) if !number.is_finite() => {
            *value = Value::Null;
            losses.numbers += 1;
        }
        Value::List(values) => values.iter_mut().try_for_each(|value| in_place(value, losses))?,
        Value::Map(entries) => {
            for (key, value) in entries.iter_mut() {
                if !matches!(key, Value::Text(_)) {
                    *key = Value::Text(key_text(key)?);
                    losses.keys += 1;
                }
                in_place(value, losses)?;
            }
        }
        _ => {}
    }
    Some(())
}

/// Returns the text for a key; `None` if there is none.
fn key_text(key: &Value) -> Option<String> {
    Some(match key {
        Value::Text(text) => text.clone(),
        Value::Null => "null".into(),
        Value::Bool(value) => value.to_string(),
        Value::Unsigned(value) => value.to_string(),
        Value::Negative(value) => value.to_string(),
        Value::F32(value) => value.to_string(),
        Value::F64(value) => value.to_string(),
        Value::Bytes(bytes) => base64(bytes),
        Value::List(_) | Value::Map(_) => return None,
    })
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let three = [chunk[0], *chunk.get(1).unwrap_or(&0), *chunk.get(2).unwrap_or(&0)];
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for digit in 0..4 {
            let at = (bits >> (18 - 6 * digit) & 63) as usize;
            text.push(if digit <= chunk.len() { char::from(DIGITS[at]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4648, 10.
    #[test]
    fn base64_has_the_digits_of_the_rfc() {
        let vectors =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE=")];
        for (bytes, text) in vectors {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(b"\xfb\xff"), "+/8=");
    }
}
