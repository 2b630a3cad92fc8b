use std::time::Duration;

use consign_core::{
    administration::{Status, SubscriptionSettings},
    time::Timestamp,
};

use super::{CountDetails, RuleDescription, SettingsError, fields::description, settings};

description! {
    /// A subscription. See [the module](super) for what the fields mean.
    SubscriptionDescription = "SubscriptionDescription" {
        /// `LockDuration`.
        lock_duration: Duration = "LockDuration",
        /// `RequiresSession`.
        requires_session: bool = "RequiresSession",
        /// `DefaultMessageTimeToLive`; [`UNLIMITED`](super::UNLIMITED) is without a limit.
        default_message_time_to_live: Duration = "DefaultMessageTimeToLive",
        /// `DeadLetteringOnMessageExpiration`.
        dead_lettering_on_message_expiration: bool = "DeadLetteringOnMessageExpiration",
        /// `DeadLetteringOnFilterEvaluationExceptions`.
        dead_lettering_on_filter_evaluation_exceptions: bool = "DeadLetteringOnFilterEvaluationExceptions",
        /// `DefaultRuleDescription`: the first rule of a subscription that is created.
        default_rule_description: RuleDescription = "DefaultRuleDescription",
        /// `MessageCount`.
        message_count: u64 = "MessageCount",
        /// `MaxDeliveryCount`.
        max_delivery_count: u64 = "MaxDeliveryCount",
        /// `EnableBatchedOperations`.
        enable_batched_operations: bool = "EnableBatchedOperations",
        /// `Status`.
        status: Status = "Status",
        /// `ForwardTo`: a path, or a URL whose path it is.
        forward_to: String = "ForwardTo",
        /// `CreatedAt`.
        created_at: Timestamp = "CreatedAt",
        /// `UpdatedAt`.
        updated_at: Timestamp = "UpdatedAt",
        /// `AccessedAt`.
        accessed_at: Timestamp = "AccessedAt",
        /// `UserMetadata`.
        user_metadata: String = "UserMetadata",
        /// `CountDetails`.
        count_details: CountDetails = "CountDetails",
        /// `ForwardDeadLetteredMessagesTo`: a path, or a URL whose path it is.
        forward_dead_lettered_messages_to: String = "ForwardDeadLetteredMessagesTo",
        /// `AutoDeleteOnIdle`; [`UNLIMITED`](super::UNLIMITED) is never.
        auto_delete_on_idle: Duration = "AutoDeleteOnIdle",
        /// `EntityAvailabilityStatus`.
        entity_availability_status: String = "EntityAvailabilityStatus",
    }
}

impl From<&SubscriptionSettings> for SubscriptionDescription {
    fn from(settings: &SubscriptionSettings) -> Self {
        Self {
            lock_duration: Some(settings.lock_duration),
            requires_session: Some(settings.requires_session),
            default_message_time_to_live: Some(settings::unlimited(settings.default_time_to_live)),
            dead_lettering_on_message_expiration: Some(settings.dead_letter_on_expiration),
            dead_lettering_on_filter_evaluation_exceptions: Some(settings.dead_letter_on_filter_error),
            max_delivery_count: Some(settings.max_delivery_count.into()),
            enable_batched_operations: Some(settings.metadata.batched_operations.unwrap_or(true)),
            user_metadata: settings.metadata.user.clone(),
            status: Some(settings.status),
            forward_to: settings.forward_to.clone(),
            forward_dead_lettered_messages_to: settings.forward_dead_letters_to.clone(),
            auto_delete_on_idle: Some(settings::unlimited(settings.auto_delete_on_idle)),
            ..Self::default()
        }
    }
}

impl SubscriptionDescription {
    /// Returns the settings of a new subscription. A field that is not set has its default. The first rule is not one of the
    /// settings.
    ///
    /// # Errors
    /// The first field that the settings cannot represent. Ranges are not checked.
    pub fn to_settings(&self) -> Result<SubscriptionSettings, SettingsError> {
        self.apply(&SubscriptionSettings::default(), true)
    }

    /// Returns the settings of a subscription that is updated to this description. If they are not set,
    /// `ForwardTo` and `ForwardDeadLetteredMessagesTo` are removed, and `DefaultMessageTimeToLive` and `AutoDeleteOnIdle`
    /// are unlimited. Another field that is not set keeps its value. `DefaultRuleDescription` has no effect.
    ///
    /// # Errors
    /// Those of [`to_settings`](Self::to_settings), and a field that is fixed when a subscription is created and differs.
    pub fn update(&self, current: &SubscriptionSettings) -> Result<SubscriptionSettings, SettingsError> {
        self.apply(current, false)
    }

    fn apply(&self, current: &SubscriptionSettings, is_new: bool) -> Result<SubscriptionSettings, SettingsError> {
        settings::check_unset(&self.unknown, &[])?;
        let mut settings = current.clone();
        settings::set_received!(self => settings, is_new);
        settings::set!(self => settings:
            dead_lettering_on_filter_evaluation_exceptions => dead_letter_on_filter_error,
        );
        settings::set_metadata!(self => settings);
        Ok(settings)
    }
}
