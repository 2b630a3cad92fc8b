use aws_sdk_sqs::{
    error::BuildError,
    operation::{
        receive_message::builders::ReceiveMessageFluentBuilder, send_message::builders::SendMessageInputBuilder,
    },
    types::{MessageSystemAttributeName, SendMessageBatchRequestEntry},
};

/// Requests all attributes of the messages that are received. SQS returns none by default. Without them a body in base64 is read
/// as its text, and the properties and the number of the delivery are missing.
#[must_use]
pub fn with_attributes(receive: ReceiveMessageFluentBuilder) -> ReceiveMessageFluentBuilder {
    receive.message_attribute_names("All").message_system_attribute_names(MessageSystemAttributeName::All)
}

/// Returns a request of [`to_sqs`](crate::to_sqs) as an entry of a batch, with an id that no other entry of the batch has. A
/// batch has at most 10 entries, and 1 MiB together.
///
/// # Errors
///
/// For a request without a body, which `to_sqs` never returns.
pub fn batch_entry(
    id: impl Into<String>,
    request: &SendMessageInputBuilder,
) -> Result<SendMessageBatchRequestEntry, BuildError> {
    SendMessageBatchRequestEntry::builder()
        .id(id)
        .set_message_body(request.get_message_body().clone())
        .set_delay_seconds(*request.get_delay_seconds())
        .set_message_attributes(request.get_message_attributes().clone())
        .set_message_system_attributes(request.get_message_system_attributes().clone())
        .set_message_deduplication_id(request.get_message_deduplication_id().clone())
        .set_message_group_id(request.get_message_group_id().clone())
        .build()
}
