//! The property `traceparent`.

/// The bytes of a `traceparent` of version 00.
pub(super) const LENGTH: usize = 55;

/// Writes a `traceparent` of version 00.
pub(super) fn written(trace_id: &[u8; 16], span_id: [u8; 8], flags: u8) -> [u8; LENGTH] {
    let mut text = *b"00-                                -                -  ";
    write_digits(&mut text[3..35], trace_id);
    write_digits(&mut text[36..52], &span_id);
    write_digits(&mut text[53..], &[flags]);
    text
}

fn write_digits(text: &mut [u8], bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (pair, byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(bytes) {
        *pair = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 0xf)]];
    }
}

/// Reads the ids and the flags of a `traceparent`. Of a version after 00 the part is read that version 00 has.
pub(super) fn parse(text: &[u8]) -> Option<([u8; 16], [u8; 8], u8)> {
    let (known, rest) = text.split_at_checked(LENGTH)?;
    let [version] = digits(&known[..2])?;
    let is_extended = version > 0 && rest.first().is_none_or(|&byte| byte == b'-');
    if version == 0xff || !(rest.is_empty() || is_extended) {
        return None;
    }
    if [2, 35, 52].into_iter().any(|at| known[at] != b'-') {
        return None;
    }
    let [flags] = digits(&known[53..])?;
    Some((digits(&known[3..35])?, digits(&known[36..52])?, flags))
}

/// The bytes that digits in lower case stand for.
fn digits<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    let (pairs, rest) = text.as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}
