use std::time::Duration;

use consign_core::{
    administration::{AuthorizationRule, Status, TopicSettings},
    time::Timestamp,
};

use super::{CountDetails, SettingsError, fields::description, settings};

description! {
    /// A topic. See [the module](super) for what the fields mean.
    TopicDescription = "TopicDescription" {
        /// `DefaultMessageTimeToLive`; [`UNLIMITED`](super::UNLIMITED) is without a limit.
        default_message_time_to_live: Duration = "DefaultMessageTimeToLive",
        /// `MaxSizeInMegabytes`.
        max_size_in_megabytes: u64 = "MaxSizeInMegabytes",
        /// `RequiresDuplicateDetection`.
        requires_duplicate_detection: bool = "RequiresDuplicateDetection",
        /// `DuplicateDetectionHistoryTimeWindow`.
        duplicate_detection_history_time_window: Duration = "DuplicateDetectionHistoryTimeWindow",
        /// `EnableBatchedOperations`.
        enable_batched_operations: bool = "EnableBatchedOperations",
        /// `SizeInBytes`.
        size_in_bytes: u64 = "SizeInBytes",
        /// `FilteringMessagesBeforePublishing`.
        filtering_messages_before_publishing: bool = "FilteringMessagesBeforePublishing",
        /// `IsAnonymousAccessible`.
        is_anonymous_accessible: bool = "IsAnonymousAccessible",
        /// `AuthorizationRules`. An empty key is one that the service makes, or keeps.
        authorization_rules: Vec<AuthorizationRule> = "AuthorizationRules",
        /// `Status`.
        status: Status = "Status",
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
        /// `SubscriptionCount`.
        subscription_count: u64 = "SubscriptionCount",
        /// `SqlFilterCount`: of all subscriptions. True and false filters are SQL filters.
        sql_filter_count: u64 = "SqlFilterCount",
        /// `CorrelationFilterCount`: of all subscriptions.
        correlation_filter_count: u64 = "CorrelationFilterCount",
        /// `AutoDeleteOnIdle`; [`UNLIMITED`](super::UNLIMITED) is never.
        auto_delete_on_idle: Duration = "AutoDeleteOnIdle",
        /// `EnablePartitioning`.
        enable_partitioning: bool = "EnablePartitioning",
        /// `EntityAvailabilityStatus`.
        entity_availability_status: String = "EntityAvailabilityStatus",
        /// `EnableSubscriptionPartitioning`.
        enable_subscription_partitioning: bool = "EnableSubscriptionPartitioning",
        /// `EnableExpress`.
        enable_express: bool = "EnableExpress",
        /// `MaxMessageSizeInKilobytes`.
        max_message_size_in_kilobytes: u64 = "MaxMessageSizeInKilobytes",
    }
}

impl From<&TopicSettings> for TopicDescription {
    /// Sizes that are no whole number of their unit are rounded up.
    fn from(settings: &TopicSettings) -> Self {
        let window = settings.duplicate_detection;
        Self {
            default_message_time_to_live: Some(settings::unlimited(settings.default_time_to_live)),
            max_size_in_megabytes: Some(settings::megabytes(settings.max_size)),
            requires_duplicate_detection: Some(window.is_some()),
            duplicate_detection_history_time_window: Some(
                window.or(settings.metadata.duplicate_window).unwrap_or(settings::DUPLICATE_WINDOW),
            ),
            enable_batched_operations: Some(settings.metadata.batched_operations.unwrap_or(true)),
            authorization_rules: settings::shown_rules(&settings.metadata),
            user_metadata: settings.metadata.user.clone(),
            status: Some(settings.status),
            auto_delete_on_idle: Some(settings::unlimited(settings.auto_delete_on_idle)),
            enable_partitioning: Some(settings.partitioned),
            max_message_size_in_kilobytes: Some(settings::kilobytes(settings.max_message_size)),
            enable_express: Some(settings.metadata.express.unwrap_or(false)),
            support_ordering: Some(settings.metadata.ordering.unwrap_or(true)),
            ..Self::default()
        }
    }
}

impl TopicDescription {
    /// Returns the settings of a new topic. A field that is not set has its default.
    ///
    /// # Errors
    /// The first field that the settings cannot represent. Ranges are not checked.
    pub fn to_settings(&self) -> Result<TopicSettings, SettingsError> {
        self.apply(&TopicSettings::default(), true)
    }

    /// Returns the settings of a topic that is updated to this description. `DefaultMessageTimeToLive` and `AutoDeleteOnIdle` are
    /// unlimited if they are not set. Another field that is not set keeps its value.
    ///
    /// # Errors
    /// Those of [`to_settings`](Self::to_settings), and a field that is fixed when a topic is created and differs.
    pub fn update(&self, current: &TopicSettings) -> Result<TopicSettings, SettingsError> {
        self.apply(current, false)
    }

    fn apply(&self, current: &TopicSettings, is_new: bool) -> Result<TopicSettings, SettingsError> {
        settings::check_unset(
            &self.unknown,
            &[
                ("IsAnonymousAccessible", self.is_anonymous_accessible == Some(true)),
                ("FilteringMessagesBeforePublishing", self.filtering_messages_before_publishing == Some(true)),
                ("EnableSubscriptionPartitioning", self.enable_subscription_partitioning == Some(true)),
            ],
        )?;
        let mut settings = current.clone();
        let (size, message_size) = (self.max_size_in_megabytes, self.max_message_size_in_kilobytes);
        settings::sizes(size, message_size, &mut settings.max_size, &mut settings.max_message_size)?;
        settings::set!(self => settings: status => status,);
        settings::set_limits!(self => settings);
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
