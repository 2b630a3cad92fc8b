//! Fluent setters of `Properties`, for types that build a message.

/// Implements the setters on a type with the fields `properties` and `error`, where the first broken rule is remembered.
#[doc(hidden)]
#[macro_export]
macro_rules! __fluent_properties {
    ([$($generics:ident)?] $type:ty) => {
        impl$(<$generics>)? $type {
            $crate::__fluent_properties! { @text
                /// The `MessageId` that this message answers.
                correlation_id, set_correlation_id;
                /// What the message is about; routing goes by it.
                subject, set_subject;
                /// The entity for replies.
                reply_to, set_reply_to;
                /// Where the message goes, for the application.
                to, set_to;
            }

            $crate::__fluent_properties! { @id
                /// The identity of the message: 1 to 128 UTF-16 code units. Without one a broker gives it a random UUID.
                message_id, set_message_id;
                /// The session: at most 128 UTF-16 code units.
                session_id, set_session_id;
                /// The session that an answer goes to: at most 128 UTF-16 code units.
                reply_to_session_id, set_reply_to_session_id;
                /// The partition key: at most 128 UTF-16 code units, equal to the session if that is set.
                partition_key, set_partition_key;
                /// The transfer partition's key: at most 128 UTF-16 code units.
                transaction_partition_key, set_transaction_partition_key;
            }

            /// Sets how long the message may wait: at least a millisecond, in whole milliseconds.
            pub fn time_to_live(mut self, value: std::time::Duration) -> Self {
                let result = self.properties.set_time_to_live(value).err();
                self.error = self.error.or(result);
                self
            }

            /// Sets when the message becomes visible.
            pub fn scheduled_enqueue_time(mut self, value: $crate::time::Timestamp) -> Self {
                self.properties.set_scheduled_enqueue_time(value);
                self
            }

            $crate::__fluent_properties! { @broker
                sequence_number enqueued_sequence_number enqueued_time delivery_count locked_until dead_letter_source
            }

            /// One of the user's own properties.
            pub fn property(
                mut self,
                key: impl Into<Box<str>>,
                value: impl Into<$crate::message::PropertyValue>,
            ) -> Self {
                self.properties.application_properties_mut().insert(key, value);
                self
            }
        }
    };
    (@broker $($name:ident)*) => {$(
        #[doc(hidden)]
        pub fn $name(self, _: impl $crate::message::broker_set::SetBySender) -> Self {
            self
        }
    )*};
    (@text $($(#[$doc:meta])* $name:ident, $set:ident;)*) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $name(mut self, value: impl Into<std::borrow::Cow<'static, str>>) -> Self {
            self.properties.$set(value);
            self
        }
    )*};
    (@id $($(#[$doc:meta])* $name:ident, $set:ident;)*) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $name(mut self, value: impl Into<std::borrow::Cow<'static, str>>) -> Self {
            let result = self.properties.$set(value).err();
            self.error = self.error.or(result);
            self
        }
    )*};
}

pub use __fluent_properties as fluent_properties;
