use std::{collections::HashMap, time::Duration};

use aws_sdk_sqs::{
    error::{ErrorMetadata, SdkError},
    operation::send_message::{SendMessageError, SendMessageOutput, builders::SendMessageInputBuilder},
    primitives::Blob,
    types::{self, MessageAttributeValue, MessageSystemAttributeName as System, error::QueueDoesNotExist},
};
use consign_conformance::golden::{random, samples};
use consign_core::{
    Disposition, Message,
    message::{ApplicationProperties, MessageBody, PropertyValue},
    settlement::{Changes, DeadLetter, DeadLetterReason},
    time::Timestamp,
    transport::{ErrorKind, SendError},
};

mod dead_letters;
mod queues;
mod settling;
mod written;

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn standard(message: &Message) -> SendMessageInputBuilder {
    to_sqs(message, Queue::Standard, NOW).unwrap()
}

/// A request as SQS would check it, and the message as it would be received.
fn received(request: &SendMessageInputBuilder) -> types::Message {
    let body = request.get_message_body().clone().unwrap();
    let attributes = request.get_message_attributes().clone();
    assert!(names::is_text(&body), "{body:?}");
    let all = attributes.iter().flatten();
    let mut bytes = body.len();
    for (name, value) in all {
        bytes += name.len() + value.data_type().len();
        bytes += value.string_value().map_or(0, str::len) + value.binary_value().map_or(0, |blob| blob.as_ref().len());
        assert!(value.string_value().is_none_or(names::is_text), "{name}: {value:?}");
        assert!(value.binary_value().is_none_or(|blob| !blob.as_ref().is_empty()), "{name}: {value:?}");
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        assert!(name.bytes().all(is_name) && (1..=256).contains(&name.len()), "{name}");
        let lower = name.to_ascii_lowercase();
        assert!(!lower.starts_with("aws.") && !lower.starts_with("amazon.") && !name.contains(".."), "{name}");
        let base = value.data_type().split('.').next().unwrap();
        assert_eq!(value.binary_value().is_some(), base == "Binary", "{name}: {value:?}");
        if base == "Number" {
            assert!(value.string_value().unwrap().parse::<f64>().is_ok_and(f64::is_finite), "{name}: {value:?}");
        }
    }
    assert!(attributes.as_ref().map_or(0, HashMap::len) <= 10 && bytes <= 1 << 20, "{bytes} bytes");
    let group = request.get_message_group_id().clone();
    if let Some(id) = &group {
        assert!((1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic()), "{id}");
    }
    let facts = group.map(|group| HashMap::from([(System::MessageGroupId, group)]));
    let received = types::Message::builder().message_id("of-sqs").body(body).set_attributes(facts);
    received.set_message_attributes(attributes).build()
}

fn read_again(request: &SendMessageInputBuilder) -> Message {
    let mut read = from_sqs(&received(request)).unwrap();
    if read.properties().is_message_id_stamped() && read.message_id() == Some("of-sqs") {
        read.properties_mut().clear_message_id();
    }
    read
}

fn string(data_type: &str, value: &str) -> MessageAttributeValue {
    MessageAttributeValue::builder().data_type(data_type).string_value(value).build().unwrap()
}

fn with_attributes_of(all: &[(&str, MessageAttributeValue)]) -> types::Message {
    let message = types::Message::builder().message_id("of-sqs").body("body");
    all.iter().fold(message, |message, (name, value)| message.message_attributes(*name, value.clone())).build()
}

fn attribute_of(request: &SendMessageInputBuilder, name: &str) -> Option<(String, String)> {
    let value = request.get_message_attributes().as_ref()?.get(name)?;
    Some((value.data_type().to_owned(), value.string_value()?.to_owned()))
}

fn text<'m>(message: &'m Message, name: &str) -> Option<&'m str> {
    message.application_properties().get(name).and_then(PropertyValue::as_str)
}
