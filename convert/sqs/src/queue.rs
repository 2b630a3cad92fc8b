use consign_core::transport::{ErrorKind, SendError};

/// The type of the queue that a message is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Queue {
    /// A standard queue.
    Standard,
    /// A FIFO queue, whose name ends in `.fifo`: the SessionId is the `MessageGroupId`, and the MessageId the
    /// `MessageDeduplicationId`.
    Fifo,
}

/// The longest id of a FIFO queue.
const LONGEST: usize = 128;

/// Returns a property as an id of a FIFO queue: printable characters of ASCII stay, and other bytes and `%` are percent-encoded,
/// so that two properties never have the same id.
pub(crate) fn id(property: &str, what: &str) -> Result<String, SendError> {
    let id = if property.is_empty() { "%".to_owned() } else { encoded(property) };
    if id.len() > LONGEST {
        let why = format!("the {what} has more than {LONGEST} bytes as an id of a FIFO queue");
        return Err(SendError::new(ErrorKind::Serialization).with_detail(why));
    }
    Ok(id)
}

fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && byte != b'%' {
            out.push(byte.into());
        } else {
            let digit = |nibble: u8| char::from_digit(nibble.into(), 16).unwrap_or_default().to_ascii_uppercase();
            out.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    out
}
