//! Messages as JSON lines: one object a line, with properties and body.
//!
//! Everything is optional but the braces, and a field that is not known is an error.
//!
//! ```text
//! {"entity":"orders","message_id":"m-1","subject":"order.created","content_type":"application/json",
//!  "time_to_live":60000,"properties":{"tenant":"north","attempt":3,"rate":{"f64":"1.5"}},"body":{"text":"{\"id\":1}"}}
//! ```
//!
//! | field | what it is |
//! |---|---|
//! | `entity` | the path of the entity, or of its dead letters |
//! | `received` | the broker's data of the message: `sequence_number`, `enqueued_sequence_number`, `delivery_count`, `enqueued_time`, `expires_at`, `locked_until`, `state` (`active`, `deferred`, `scheduled`), `dead_lettered`, `partition_id` |
//! | `content_type`, `correlation_id`, `message_id`, `subject`, `reply_to`, `session_id`, `reply_to_session_id`, `partition_key`, `transaction_partition_key`, `to`, `dead_letter_source` | text |
//! | `message_id_stamped` | `true` if the broker has made the `message_id`, for the sender set none |
//! | `time_to_live` | whole milliseconds |
//! | `scheduled_enqueue_time` | an instant |
//! | `properties` | application properties: an object of simple values |
//! | `pass_through` | `user_id` in base64, `content_encoding`, `group_sequence`, `creation_time`, `durable`, `priority`, `first_acquirer`, `force_persistence`; `annotations` and `footer` as lists of a key and a value |
//! | `body` | `{"text":…}`, `{"bytes":base64}`, `{"sections":[base64,…]}`, `{"value":value}` or `{"sequence":[[value,…],…]}` |
//!
//! An instant is the number of milliseconds since 1970-01-01 UTC. Values are in the form
//! [`Natural`](consign_core::wire::json::Natural).

mod error;
mod read;
#[cfg(test)]
mod tests;
mod value;
mod write;

use consign_core::message::Message;

pub use self::{error::LineError, read::read_messages, write::write_message};

/// The longest line that an import reads, in bytes: 256 MiB. The largest message is 100 MiB, and base64 adds a third to it.
pub const MAX_LINE: usize = 256 << 20;

/// One message, and its source or target entity. It serializes as the object of a line.
#[derive(Clone, Debug)]
pub struct Line {
    /// The path of the entity, or of its dead letters.
    pub entity: Option<String>,
    /// The message, with what the broker reported of it.
    pub message: Message,
}
