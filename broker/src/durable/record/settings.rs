use consign_core::administration::{
    AuthorizationRule, Metadata, QueueSettings, Status, SubscriptionSettings, TopicSettings,
};

use super::{malformed::Malformed, reader::Reader, write};

pub(super) fn write_queue(out: &mut Vec<u8>, settings: &QueueSettings) {
    let QueueSettings {
        lock_duration,
        max_delivery_count,
        default_time_to_live,
        dead_letter_on_expiration,
        max_size,
        max_message_size,
        requires_session,
        duplicate_detection,
        max_duplicate_ids,
        partitioned,
        forward_to,
        forward_dead_letters_to,
        auto_delete_on_idle,
        status,
        metadata: _,
        ..
    } = settings;
    write::duration(out, *lock_duration);
    write::unsigned(out, *max_delivery_count);
    write::optional(out, *default_time_to_live, write::duration);
    write::bool(out, *dead_letter_on_expiration);
    write::unsigned(out, *max_size);
    write::length(out, *max_message_size);
    write::bool(out, *requires_session);
    write::optional(out, *duplicate_detection, write::duration);
    write::length(out, *max_duplicate_ids);
    write::bool(out, *partitioned);
    write::optional(out, forward_to.as_deref(), write::text);
    write::optional(out, forward_dead_letters_to.as_deref(), write::text);
    write::optional(out, *auto_delete_on_idle, write::duration);
    write_status(out, *status);
}

pub(super) fn read_queue(reader: &mut Reader<'_>) -> Result<QueueSettings, Malformed> {
    let mut settings = QueueSettings::default();
    settings.lock_duration = reader.duration()?;
    settings.max_delivery_count = reader.unsigned()?;
    settings.default_time_to_live = reader.optional(Reader::duration)?;
    settings.dead_letter_on_expiration = reader.bool()?;
    settings.max_size = reader.unsigned()?;
    settings.max_message_size = read_size(reader)?;
    settings.requires_session = reader.bool()?;
    settings.duplicate_detection = reader.optional(Reader::duration)?;
    settings.max_duplicate_ids = read_size(reader)?;
    settings.partitioned = reader.bool()?;
    settings.forward_to = reader.optional(Reader::text)?.map(str::to_owned);
    settings.forward_dead_letters_to = reader.optional(Reader::text)?.map(str::to_owned);
    settings.auto_delete_on_idle = reader.optional(Reader::duration)?;
    settings.status = read_status(reader)?;
    Ok(settings)
}

pub(super) fn write_topic(out: &mut Vec<u8>, settings: &TopicSettings) {
    let TopicSettings {
        default_time_to_live,
        duplicate_detection,
        max_duplicate_ids,
        partitioned,
        max_size,
        max_message_size,
        auto_delete_on_idle,
        status,
        metadata: _,
        ..
    } = settings;
    write::optional(out, *default_time_to_live, write::duration);
    write::unsigned(out, *max_size);
    write::length(out, *max_message_size);
    write::optional(out, *duplicate_detection, write::duration);
    write::length(out, *max_duplicate_ids);
    write::bool(out, *partitioned);
    write::optional(out, *auto_delete_on_idle, write::duration);
    write_status(out, *status);
}

pub(super) fn read_topic(reader: &mut Reader<'_>) -> Result<TopicSettings, Malformed> {
    let mut settings = TopicSettings::default();
    settings.default_time_to_live = reader.optional(Reader::duration)?;
    settings.max_size = reader.unsigned()?;
    settings.max_message_size = read_size(reader)?;
    settings.duplicate_detection = reader.optional(Reader::duration)?;
    settings.max_duplicate_ids = read_size(reader)?;
    settings.partitioned = reader.bool()?;
    settings.auto_delete_on_idle = reader.optional(Reader::duration)?;
    settings.status = read_status(reader)?;
    Ok(settings)
}

pub(super) fn write_subscription(out: &mut Vec<u8>, settings: &SubscriptionSettings) {
    let SubscriptionSettings {
        lock_duration,
        max_delivery_count,
        default_time_to_live,
        dead_letter_on_expiration,
        dead_letter_on_filter_error,
        requires_session,
        forward_to,
        forward_dead_letters_to,
        auto_delete_on_idle,
        status,
        metadata: _,
        ..
    } = settings;
    write::duration(out, *lock_duration);
    write::unsigned(out, *max_delivery_count);
    write::optional(out, *default_time_to_live, write::duration);
    write::bool(out, *dead_letter_on_expiration);
    write::bool(out, *dead_letter_on_filter_error);
    write::bool(out, *requires_session);
    write::optional(out, forward_to.as_deref(), write::text);
    write::optional(out, forward_dead_letters_to.as_deref(), write::text);
    write::optional(out, *auto_delete_on_idle, write::duration);
    write_status(out, *status);
}

pub(super) fn read_subscription(reader: &mut Reader<'_>) -> Result<SubscriptionSettings, Malformed> {
    let mut settings = SubscriptionSettings::default();
    settings.lock_duration = reader.duration()?;
    settings.max_delivery_count = reader.unsigned()?;
    settings.default_time_to_live = reader.optional(Reader::duration)?;
    settings.dead_letter_on_expiration = reader.bool()?;
    settings.dead_letter_on_filter_error = reader.bool()?;
    settings.requires_session = reader.bool()?;
    settings.forward_to = reader.optional(Reader::text)?.map(str::to_owned);
    settings.forward_dead_letters_to = reader.optional(Reader::text)?.map(str::to_owned);
    settings.auto_delete_on_idle = reader.optional(Reader::duration)?;
    settings.status = read_status(reader)?;
    Ok(settings)
}

/// Behind everything else of the record, because versions 1 and 2 do not have it.
pub(super) fn write_metadata(out: &mut Vec<u8>, metadata: &Metadata) {
    let Metadata { user, batched_operations, express, ordering, duplicate_window, authorization_rules, .. } = metadata;
    write::optional(out, user.as_deref(), write::text);
    write::optional(out, *batched_operations, write::bool);
    write::optional(out, *express, write::bool);
    write::optional(out, *ordering, write::bool);
    write::optional(out, *duplicate_window, write::duration);
    write::list(out, authorization_rules.iter(), write_rule);
}

fn write_rule(out: &mut Vec<u8>, rule: &AuthorizationRule) {
    let AuthorizationRule { name, send, listen, manage, primary_key, secondary_key, created, modified, .. } = rule;
    write::text(out, name);
    for right in [send, listen, manage] {
        write::bool(out, *right);
    }
    write::text(out, primary_key);
    write::text(out, secondary_key);
    write::optional(out, *created, write::timestamp);
    write::optional(out, *modified, write::timestamp);
}

fn read_rule(reader: &mut Reader<'_>) -> Result<AuthorizationRule, Malformed> {
    let mut rule = AuthorizationRule::default();
    reader.text()?.clone_into(&mut rule.name);
    rule.send = reader.bool()?;
    rule.listen = reader.bool()?;
    rule.manage = reader.bool()?;
    reader.text()?.clone_into(&mut rule.primary_key);
    reader.text()?.clone_into(&mut rule.secondary_key);
    rule.created = reader.optional(Reader::timestamp)?;
    rule.modified = reader.optional(Reader::timestamp)?;
    Ok(rule)
}

pub(super) fn read_metadata(reader: &mut Reader<'_>) -> Result<Metadata, Malformed> {
    let mut metadata = Metadata::default();
    if reader.version() >= 3 {
        metadata.user = reader.optional(Reader::text)?.map(str::to_owned);
        metadata.batched_operations = reader.optional(Reader::bool)?;
        metadata.express = reader.optional(Reader::bool)?;
        metadata.ordering = reader.optional(Reader::bool)?;
        metadata.duplicate_window = reader.optional(Reader::duration)?;
    }
    if reader.version() >= 4 {
        metadata.authorization_rules = reader.list(read_rule)?;
    }
    Ok(metadata)
}

/// A size beyond what this machine can address becomes the largest that it can.
fn read_size(reader: &mut Reader<'_>) -> Result<usize, Malformed> {
    reader.unsigned().map(|size: u64| usize::try_from(size).unwrap_or(usize::MAX))
}

fn write_status(out: &mut Vec<u8>, status: Status) {
    out.push(match status {
        Status::Active => 0,
        Status::Disabled => 1,
        Status::SendDisabled => 2,
        Status::ReceiveDisabled => 3,
    });
}

fn read_status(reader: &mut Reader<'_>) -> Result<Status, Malformed> {
    Ok(match reader.byte()? {
        0 => Status::Active,
        1 => Status::Disabled,
        2 => Status::SendDisabled,
        3 => Status::ReceiveDisabled,
        _ => return Err(reader.invalid("status")),
    })
}
