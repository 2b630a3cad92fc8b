//! What the conversions of descriptions into settings share.

use std::time::Duration;

use consign_core::administration::{AuthorizationRule, Metadata};
use percent_encoding::percent_decode_str;

use super::{SettingsError, UNLIMITED};

/// The window of duplicate detection of the service.
pub(super) const DUPLICATE_WINDOW: Duration = Duration::from_secs(600);

const MEGABYTE: u64 = 1 << 20;
const KILOBYTE: u64 = 1 << 10;

pub(super) const fn megabytes(bytes: u64) -> u64 {
    bytes.div_ceil(MEGABYTE)
}

pub(super) fn kilobytes(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(KILOBYTE)
}

pub(super) fn bytes_of_megabytes(count: u64) -> Result<u64, SettingsError> {
    count.checked_mul(MEGABYTE).ok_or_else(|| SettingsError::invalid("MaxSizeInMegabytes"))
}

pub(super) fn bytes_of_kilobytes(count: u64) -> Result<usize, SettingsError> {
    let bytes = count.checked_mul(KILOBYTE).and_then(|bytes| usize::try_from(bytes).ok());
    bytes.ok_or_else(|| SettingsError::invalid("MaxMessageSizeInKilobytes"))
}

/// Sets the sizes that a description has and that differ from those that it would show: these are rounded.
pub(super) fn sizes(
    megabytes: Option<u64>,
    kilobytes: Option<u64>,
    max_size: &mut u64,
    max_message_size: &mut usize,
) -> Result<(), SettingsError> {
    if let Some(count) = megabytes.filter(|count| *count != self::megabytes(*max_size)) {
        *max_size = bytes_of_megabytes(count)?;
    }
    if let Some(count) = kilobytes.filter(|count| *count != self::kilobytes(*max_message_size)) {
        *max_message_size = bytes_of_kilobytes(count)?;
    }
    Ok(())
}

/// Sets each of these settings if the description has its field.
macro_rules! set {
    ($description:ident => $settings:ident: $($field:ident => $setting:ident,)*) => {$(
        if let Some(value) = $description.$field {
            $settings.$setting = value;
        }
    )*};
}
pub(super) use set;

/// Sets the durations that are unlimited if the description has none: the SDK for .NET leaves them out then.
macro_rules! set_limits {
    ($description:ident => $settings:ident) => {
        $settings.default_time_to_live = $description.default_message_time_to_live.and_then(settings::limited);
        $settings.auto_delete_on_idle = $description.auto_delete_on_idle.and_then(settings::limited);
    };
}
pub(super) use set_limits;

/// Sets what queues and subscriptions have in common.
macro_rules! set_received {
    ($description:ident => $settings:ident, $is_new:ident) => {
        settings::set!($description => $settings:
            lock_duration => lock_duration,
            dead_lettering_on_message_expiration => dead_letter_on_expiration,
            status => status,
        );
        settings::set_limits!($description => $settings);
        if let Some(count) = $description.max_delivery_count {
            $settings.max_delivery_count = settings::count("MaxDeliveryCount", count)?;
        }
        $settings.forward_to = settings::path("ForwardTo", $description.forward_to.as_deref())?;
        let dead_letters_to = $description.forward_dead_lettered_messages_to.as_deref();
        $settings.forward_dead_letters_to = settings::path("ForwardDeadLetteredMessagesTo", dead_letters_to)?;
        let requires_session = $description.requires_session;
        settings::fixed("RequiresSession", requires_session, &mut $settings.requires_session, $is_new)?;
    };
}
pub(super) use set_received;

/// Returns what is kept of a field: nothing where it has its default.
pub(super) fn kept<T: Copy + PartialEq>(value: Option<T>, before: Option<T>, default: T) -> Option<T> {
    value.map_or(before, |value| Some(value).filter(|value| *value != default))
}

/// Returns the rules of authorization that are shown.
pub(super) fn shown_rules(metadata: &Metadata) -> Option<Vec<AuthorizationRule>> {
    Some(metadata.authorization_rules.clone()).filter(|rules| !rules.is_empty())
}

/// Sets what clients read again. An empty text is none.
macro_rules! set_metadata {
    ($description:ident => $settings:ident) => {
        let kept = &mut $settings.metadata;
        if let Some(text) = &$description.user_metadata {
            kept.user = Some(text.clone()).filter(|text| !text.is_empty());
        }
        kept.batched_operations = settings::kept($description.enable_batched_operations, kept.batched_operations, true);
    };
}
pub(super) use set_metadata;

/// Sets what clients read again of an entity that is sent to.
macro_rules! set_metadata_of_sends {
    ($description:ident => $settings:ident) => {
        let kept = &mut $settings.metadata;
        if let Some(rules) = &$description.authorization_rules {
            kept.authorization_rules.clone_from(rules);
        }
        kept.express = settings::kept($description.enable_express, kept.express, false);
        kept.ordering = settings::kept($description.support_ordering, kept.ordering, true);
        let window = $description.duplicate_detection_history_time_window;
        let window = settings::kept(window, kept.duplicate_window, settings::DUPLICATE_WINDOW);
        kept.duplicate_window = window.filter(|_| $settings.duplicate_detection.is_none());
    };
}
pub(super) use set_metadata_of_sends;

pub(super) fn count(field: &str, count: u64) -> Result<u32, SettingsError> {
    u32::try_from(count).map_err(|_| SettingsError::invalid(field))
}

pub(super) fn unlimited(duration: Option<Duration>) -> Duration {
    duration.unwrap_or(UNLIMITED)
}

pub(super) fn limited(duration: Duration) -> Option<Duration> {
    Some(duration).filter(|duration| *duration != UNLIMITED)
}

/// Returns an error for the first of these that is set, or for an element that is not a field.
pub(super) fn check_unset(unknown: &[String], set: &[(&str, bool)]) -> Result<(), SettingsError> {
    let unknown = unknown.first().map(|name| &**name);
    match unknown.or(set.iter().find(|(_, is_set)| *is_set).map(|(name, _)| *name)) {
        Some(field) => Err(SettingsError::unsupported(field)),
        None => Ok(()),
    }
}

/// Sets what is fixed when the entity is created.
pub(super) fn fixed(field: &str, value: Option<bool>, setting: &mut bool, is_new: bool) -> Result<(), SettingsError> {
    match value {
        Some(value) if value != *setting && !is_new => Err(SettingsError::fixed(field)),
        Some(value) => {
            *setting = value;
            Ok(())
        }
        None => Ok(()),
    }
}

/// Returns the window of duplicate detection. Whether there is one is fixed when the entity is created.
pub(super) fn duplicate_detection(
    required: Option<bool>,
    window: Option<Duration>,
    current: Option<Duration>,
    is_new: bool,
) -> Result<Option<Duration>, SettingsError> {
    let mut is_required = current.is_some();
    fixed("RequiresDuplicateDetection", required, &mut is_required, is_new)?;
    Ok(is_required.then(|| window.or(current).unwrap_or(DUPLICATE_WINDOW)))
}

/// Returns the path of an entity that a field names: a path, or the path of a URL, which Azure.Messaging.ServiceBus (.NET)
/// encodes.
pub(super) fn path(field: &str, value: Option<&str>) -> Result<Option<String>, SettingsError> {
    let Some(value) = value.filter(|value| !value.is_empty()) else { return Ok(None) };
    let path = match value.split_once("://") {
        Some((_, rest)) => {
            let path = rest.split_once('/').map_or("", |(_, path)| path);
            percent_decode_str(path).decode_utf8().map_err(|_| SettingsError::invalid(field))?
        }
        None => value.into(),
    };
    let path = path.trim_matches('/');
    if path.is_empty() { Err(SettingsError::invalid(field)) } else { Ok(Some(path.to_owned())) }
}
