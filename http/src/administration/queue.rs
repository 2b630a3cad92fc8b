use std::time::Duration;

use consign_core::{
    administration::{AuthorizationRule, QueueSettings, Status},
    time::Timestamp,
};

use super::{CountDetails, SettingsError, fields::description, settings};

description! {
    /// A queue. See [the module](super) for what the fields mean.
    QueueDescription = "QueueDescription" {
        /// `LockDuration`.
        lock_duration: Duration = "LockDuration",
        /// `MaxSizeInMegabytes`.
        max_size_in_megabytes: u64 = "MaxSizeInMegabytes",
        /// `RequiresDuplicateDetection`.
        requires_duplicate_detection: bool = "RequiresDuplicateDetection",
        /// `RequiresSession`.
        requires_session: bool = "RequiresSession",
        /// `DefaultMessageTimeToLive`; [`UNLIMITED`](super::UNLIMITED) is without a limit.
        default_message_time_to_live: Duration = "DefaultMessageTimeToLive",
        /// `DeadLetteringOnMessageExpiration`.
        dead_lettering_on_message_expiration: bool = "DeadLetteringOnMessageExpiration",
        /// `DuplicateDetectionHistoryTimeWindow`.
        duplicate_detection_history_time_window: Duration = "DuplicateDetectionHistoryTimeWindow",
        /// `MaxDeliveryCount`.
        max_delivery_count: u64 = "MaxDeliveryCount",
        /// `EnableBatchedOperations`.
        enable_batched_operations: bool = "EnableBatchedOperations",
        /// `SizeInBytes`.
        size_in_bytes: u64 = "SizeInBytes",
        /// `MessageCount`.
        message_count: u64 = "MessageCount",
        /// `IsAnonymousAccessible`.
        is_anonymous_accessible: bool = "IsAnonymousAccessible",
        /// `AuthorizationRules`. An empty key is one that the service makes, or keeps.
        authorization_rules: Vec<AuthorizationRule> = "AuthorizationRules",
        /// `Status`.
        status: Status = "Status",
        /// `ForwardTo`: a path, or a URL whose path it is.
        forward_to: String = "ForwardTo",
        /// `UserMetadata`.
        user_metadata: String = "UserMetadata",
        /// `CreatedAt`.
        created_at: Timestamp = "CreatedAt",
        /// `UpdatedAt`.
        updated_at: Timestamp = "UpdatedAt",
        /// `AccessedAt`.
        accessed_at: Timestamp = "AccessedAt",
        /// `SupportOrdering`.
        support_ordering: bool = "SupportOrdering",
        /// `CountDetails`.
        count_details: CountDetails = "CountDetails",
        /// `AutoDeleteOnIdle`; [`UNLIMITED`](super::UNLIMITED) is never.
        auto_delete_on_idle: Duration = "AutoDeleteOnIdle",
        /// `EnablePartitioning`.
        enable_partitioning: bool = "EnablePartitioning",
        /// `EntityAvailabilityStatus`.
        entity_availability_status: String = "EntityAvailabilityStatus",
        /// `EnableExpress`.
        enable_express: bool = "EnableExpress",
        /// `ForwardDeadLetteredMessagesTo`: a path, or a URL whose path it is.
        forward_dead_lettered_messages_to: String = "ForwardDeadLetteredMessagesTo",
        /// `MaxMessageSizeInKilobytes`.
        max_message_size_in_kilobytes: u64 = "MaxMessageSizeInKilobytes",
    }
}

impl From<&QueueSettings> for QueueDescription {
    /// Sizes that are no whole number of their unit are rounded up.
    fn from(settings: &QueueSettings) -> Self {
        let window = settings.duplicate_detection;
        Self {
            lock_duration: Some(settings.lock_duration),
            max_size_in_megabytes: Some(settings::megabytes(settings.max_size)),
            requires_duplicate_detection: Some(window.is_some()),
            requires_session: Some(settings.requires_session),
            default_message_time_to_live: Some(settings::unlimited(settings.default_time_to_live)),
            dead_lettering_on_message_expiration: Some(settings.dead_letter_on_expiration),
            duplicate_detection_history_time_window: Some(
                window.or(settings.metadata.duplicate_window).unwrap_or(settings::DUPLICATE_WINDOW),
            ),
            max_delivery_count: Some(settings.max_delivery_count.into()),
            enable_batched_operations: Some(settings.metadata.batched_operations.unwrap_or(true)),
            authorization_rules: settings::shown_rules(&settings.metadata),
            user_metadata: settings.metadata.user.clone(),
            status: Some(settings.status),
            forward_to: settings.forward_to.clone(),
            auto_delete_on_idle: Some(settings::unlimited(settings.auto_delete_on_idle)),
            enable_partitioning: Some(settings.partitioned),
            forward_dead_lettered_messages_to: settings.forward_dead_letters_to.clone(),
            max_message_size_in_kilobytes: Some(settings::kilobytes(settings.max_message_size)),
            enable_express: Some(settings.metadata.express.unwrap_or(false)),
            support_ordering: Some(settings.metadata.ordering.unwrap_or(true)),
            ..Self::default()
        }
    }
}

impl QueueDescription {
    /// Returns the settings of a new queue. A field that is not set has its default.
    ///
    /// # Errors
    /// The first field that the settings cannot represent. Ranges are not checked.
    pub fn to_settings(&self) -> Result<QueueSettings, SettingsError> {
        self.apply(&QueueSettings::default(), true)
    }

    /// Returns the settings of a queue that is updated to this description. If they are not set,
    /// `ForwardTo` and `ForwardDeadLetteredMessagesTo` are removed, and `DefaultMessageTimeToLive` and `AutoDeleteOnIdle`
    /// are unlimited. Another field that is not set keeps its value.
    ///
    /// # Errors
    /// Those of [`to_settings`](Self::to_settings), and a field that is fixed when a queue is created and differs.
    pub fn update(&self, current: &QueueSettings) -> Result<QueueSettings, SettingsError> {
        self.apply(current, false)
    }

    fn apply(&self, current: &QueueSettings, is_new: bool) -> Result<QueueSettings, SettingsError> {
        settings::check_unset(&self.unknown, &[("IsAnonymousAccessible", self.is_anonymous_accessible == Some(true))])?;
        let mut settings = current.clone();
        let (size, message_size) = (self.max_size_in_megabytes, self.max_message_size_in_kilobytes);
        settings::sizes(size, message_size, &mut settings.max_size, &mut settings.max_message_size)?;
        settings::set_received!(self => settings, is_new);
        settings::fixed("EnablePartitioning", self.enable_partitioning, &mut settings.partitioned, is_new)?;
        settings.duplicate_detection = settings::duplicate_detection(
            self.requires_duplicate_detection,
            self.duplicate_detection_history_time_window,
            current.duplicate_detection,
            is_new,
        )?;
        settings::set_metadata!(self => settings);
        settings::set_metadata_of_sends!(self => settings);
        Ok(settings)
    }
}
