use crate::transport::{Capability, ErrorKind, ManageError, Unsupported};

/// Returns the error for a setting that is not at its default and that the broker does not have. It is
/// [`NotSupported`](ErrorKind::NotSupported), and names the setting. Where a [`Capability`] is about the setting, its source is
/// [`Unsupported`] of that capability.
#[cold]
#[must_use]
pub fn unsupported_setting(setting: &str) -> ManageError {
    let error = match capability(setting) {
        Some(capability) => Unsupported::new(capability).into(),
        None => ManageError::new(ErrorKind::NotSupported),
    };
    error.with_detail(format!("the broker does not have the setting {setting}"))
}

fn capability(setting: &str) -> Option<Capability> {
    Some(match setting {
        "lock_duration" => Capability::LockDuration,
        "max_delivery_count" => Capability::MaxDeliveryCount,
        "default_time_to_live" => Capability::TimeToLive,
        "dead_letter_on_expiration" => Capability::DeadLetterOnExpiration,
        "dead_letter_on_filter_error" => Capability::SqlRules,
        "max_message_size" => Capability::LargeMessages,
        "requires_session" => Capability::Sessions,
        "duplicate_detection" | "max_duplicate_ids" => Capability::DuplicateDetection,
        "forward_to" | "forward_dead_letters_to" => Capability::AutoForward,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn a_refused_setting_is_named_with_its_capability() {
        for (setting, capability) in [
            ("duplicate_detection", Some(Capability::DuplicateDetection)),
            ("forward_to", Some(Capability::AutoForward)),
            ("partitioned", None),
        ] {
            let error = unsupported_setting(setting);
            assert!(error.kind() == ErrorKind::NotSupported && error.to_string().contains(setting), "{error}");
            let source = error.source().and_then(|source| source.downcast_ref::<Unsupported>());
            assert_eq!(source.map(Unsupported::capability), capability, "{setting}");
        }
    }

    /// Rules: K-40.
    #[test]
    fn each_setting_that_is_refused_names_itself_and_its_capability() {
        for (setting, capability) in [
            ("lock_duration", Capability::LockDuration),
            ("max_delivery_count", Capability::MaxDeliveryCount),
            ("default_time_to_live", Capability::TimeToLive),
            ("dead_letter_on_expiration", Capability::DeadLetterOnExpiration),
            ("dead_letter_on_filter_error", Capability::SqlRules),
            ("max_message_size", Capability::LargeMessages),
            ("requires_session", Capability::Sessions),
            ("duplicate_detection", Capability::DuplicateDetection),
            ("max_duplicate_ids", Capability::DuplicateDetection),
            ("forward_to", Capability::AutoForward),
            ("forward_dead_letters_to", Capability::AutoForward),
        ] {
            let error = unsupported_setting(setting);
            let detail = format!("the broker does not have the setting {setting}");
            assert_eq!((error.kind(), error.description()), (ErrorKind::NotSupported, Some(&*detail)));
            let source = error.source().and_then(|source| source.downcast_ref::<Unsupported>());
            assert_eq!(source, Some(&Unsupported::new(capability)), "{setting}");
        }
    }
}
