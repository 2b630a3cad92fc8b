//! The limits of a message. Lengths of text are UTF-16 code units, which is what Azure Service Bus counts.

/// Longest `MessageId`, `SessionId`, `ReplyToSessionId`, `PartitionKey`, `TransactionPartitionKey`: UTF-16 code units.
pub const ID: usize = 128;
/// Longest dead-letter reason and description: UTF-16 code units.
pub const DEAD_LETTER_TEXT: usize = 4_096;
/// Largest single property, key and value: bytes.
pub const PROPERTY_BYTES: usize = 32_767;
/// All properties together: bytes.
pub const ALL_PROPERTIES_BYTES: usize = 65_534;
/// Most application properties.
pub const PROPERTIES: usize = 1_024;
/// Most levels of a value in a body, an annotation or the footer: a simple value is one level, a list of simple values two.
pub const VALUE_LEVELS: usize = 32;
/// Size of a message by default, body and properties: bytes.
pub const MESSAGE_BYTES: usize = 256 << 10;

/// UTF-16 code units of `text`, and whether they are more than `limit`.
#[doc(hidden)]
#[must_use]
pub fn is_longer_than(text: &str, limit: usize) -> bool {
    // A UTF-8 byte is at most one UTF-16 unit, so short text needs no count.
    text.len() > limit && text.encode_utf16().count() > limit
}
