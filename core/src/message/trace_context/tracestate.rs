//! The property `tracestate`.

/// A list in its grammar, without spaces and empty entries, cut to its longest.
pub(super) fn normalized(text: &str, longest: usize) -> Option<Box<str>> {
    const MOST: usize = 32;
    // More can be said in no valid list: each entry has a key and a value of 256 characters and one `=`.
    if text.len() > MOST * 1_024 {
        return None;
    }
    let mut entries: Vec<(&str, &str)> = Vec::new();
    for entry in text.split(',').map(|entry| entry.trim_matches([' ', '\t'])).filter(|entry| !entry.is_empty()) {
        let (key, value) = entry.split_once('=')?;
        if !(is_key(key) && is_value(value)) || entries.len() == MOST || entries.iter().any(|(other, _)| *other == key)
        {
            return None;
        }
        entries.push((key, value));
    }
    let mut kept = String::new();
    for (key, value) in entries {
        let comma = usize::from(!kept.is_empty());
        if kept.len() + comma + key.len() + 1 + value.len() > longest {
            break;
        }
        if comma > 0 {
            kept.push(',');
        }
        kept.extend([key, "=", value]);
    }
    (!kept.is_empty()).then(|| kept.into())
}

fn is_key(text: &str) -> bool {
    let is_start = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_further = |byte: u8| is_start(&byte) || matches!(byte, b'_' | b'-' | b'*' | b'/');
    let is_name = |text: &str, longest| {
        text.len() <= longest && text.as_bytes().first().is_some_and(is_start) && text.bytes().all(is_further)
    };
    match text.split_once('@') {
        Some((tenant, system)) => is_name(tenant, 241) && is_name(system, 14),
        None => is_name(text, 256),
    }
}

fn is_value(text: &str) -> bool {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b',' && byte != b'=';
    (1..=256).contains(&text.len()) && text.bytes().all(is_plain) && !text.ends_with(' ')
}
