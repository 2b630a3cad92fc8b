//! Messages as requests and responses.

mod batch;
mod broker_properties;
mod date;
mod error;
mod exact;
mod names;
mod request;
mod response;
mod user_property;

use http::HeaderName;

pub use self::{
    batch::{from_batch, to_batch},
    error::{MessageError, MessageErrorKind},
    request::{from_request, to_request},
    response::{from_response, lock_token, to_response},
};

/// The content type of a batch: `application/vnd.microsoft.servicebus.json`.
pub const BATCH_CONTENT_TYPE: &str = "application/vnd.microsoft.servicebus.json";

/// The header with the exact names, types and values of all application properties: `x-prop-names`.
///
/// It is a JSON object of the names, with values in the form [`Natural`](consign_core::wire::json::Natural). In a request to receive it
/// asks for the header in the response, whatever its value.
pub const EXACT_PROPERTIES: HeaderName = HeaderName::from_static("x-prop-names");

const BROKER_PROPERTIES: HeaderName = HeaderName::from_static("brokerproperties");
