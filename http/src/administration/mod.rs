//! The documents of the administration of Azure Service Bus: ATOM entries and feeds, and errors.
//!
//! A client writes an [`Entry`] with a [`Description`] to create an entity, and reads an [`Entry`] or a [`Feed`]. A server does the
//! reverse. [`read`] reads any of the documents.
//!
//! ```
//! use consign_http::administration::{Description, Document, Entry, QueueDescription, read};
//! use consign_core::administration::QueueSettings;
//!
//! let settings = QueueSettings::default().max_delivery_count(3);
//! let entry = Entry::new(QueueDescription::from(&settings));
//! let body = entry.to_xml();
//!
//! let Document::Entry(entry) = read(&body)? else { panic!("not an entry") };
//! let Description::Queue(queue) = entry.description else { panic!("not a queue") };
//! assert_eq!(queue.to_settings()?, settings);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Limits
//!
//! A document has at most 4 MiB, 32 levels, 65,536 elements and 32 attributes an element. A document type, and with it every
//! entity but the five of XML, is refused.
//!
//! # Fields
//!
//! Each description has the fields of the service, all of them optional. [`QueueDescription::to_settings`] and those of the other
//! descriptions return an error that names the first field which the settings cannot represent. No field is dropped without an
//! error, except those with these values:
//!
//! | field | without an effect |
//! |---|---|
//! | `EntityAvailabilityStatus` | any value |
//! | `IsAnonymousAccessible`, `FilteringMessagesBeforePublishing`, `EnableSubscriptionPartitioning` | false |
//! | counts, sizes, times | any value: they are of the entity, not of its settings |
//!
//! `AuthorizationRules`, `UserMetadata`, `EnableBatchedOperations`, `EnableExpress`, `SupportOrdering`, and `DuplicateDetectionHistoryTimeWindow` while
//! `RequiresDuplicateDetection` is not true, are the [`Metadata`](consign_core::administration::Metadata) of the settings.
//!
//! Elements that are not fields are in `unknown`, by their names.

mod authorization;
mod description;
mod document;
mod duration;
mod error;
mod fields;
mod filter;
mod queue;
mod rule;
mod settings;
mod subscription;
mod topic;
mod value;
mod xml;

pub use self::{
    description::{CountDetails, Description, NamespaceProperties},
    document::{Document, Entry, ErrorDocument, Feed, read},
    duration::UNLIMITED,
    error::{DocumentError, DocumentErrorKind, SettingsError},
    filter::{CorrelationDescription, FilterDescription, SqlDescription},
    queue::QueueDescription,
    rule::RuleDescription,
    subscription::SubscriptionDescription,
    topic::TopicDescription,
};
