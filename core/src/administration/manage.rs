use std::future::Future;

use super::{Counts, Entity, EntitySettings};
use crate::{
    message::EntityPath,
    transport::{ManageError, Transport},
};

/// Creates, changes and deletes the entities of a broker.
///
/// The path of a subscription is `topic/Subscriptions/name`. The rules of subscriptions are in
/// `consign::rules::ManageRules`.
///
/// A setting at its default is left to the broker where the broker cannot set it. Any other value of a setting that the
/// broker does not have is refused as [`NotSupported`](crate::transport::ErrorKind::NotSupported), and the error names the
/// setting.
///
/// # Examples
///
/// ```
/// use consign::{
///     administration::{Administration, EntitySettings, QueueSettings},
///     broker::Broker,
///     message::EntityPath,
///     transport::{ErrorKind, ManageError},
/// };
///
/// async fn prepare(broker: &impl Administration) -> Result<(), ManageError> {
///     let settings = EntitySettings::from(QueueSettings::default().max_delivery_count(3));
///     broker.declare(&EntityPath::new("orders")?, &settings).await
/// }
///
/// # tokio_test::block_on(async {
/// let broker = Broker::new();
/// prepare(&broker).await?;
/// prepare(&broker).await?;
///
/// let other = EntitySettings::from(QueueSettings::default());
/// let refused = Administration::declare(&broker, &EntityPath::new("orders")?, &other).await.unwrap_err();
/// assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
/// # Ok::<(), ManageError>(())
/// # }).unwrap();
/// ```
pub trait Administration: Transport {
    /// Creates an entity.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](crate::transport::ErrorKind::AlreadyExists);
    /// [`InvalidArgument`](crate::transport::ErrorKind::InvalidArgument) for a setting that is out of its range, and
    /// [`NotSupported`](crate::transport::ErrorKind::NotSupported) for one that the broker does not have.
    fn create(
        &self,
        path: &EntityPath,
        settings: &EntitySettings,
    ) -> impl Future<Output = Result<(), ManageError>> + Send;

    /// Creates an entity, or checks that the entity that exists has these settings. Every process that uses an entity may
    /// declare it.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create); [`AlreadyExists`](crate::transport::ErrorKind::AlreadyExists) names the first setting that
    /// differs, and nothing is changed.
    fn declare(
        &self,
        path: &EntityPath,
        settings: &EntitySettings,
    ) -> impl Future<Output = Result<(), ManageError>> + Send;

    /// Replaces the settings of an entity.
    ///
    /// # Errors
    ///
    /// [`EntityNotFound`](crate::transport::ErrorKind::EntityNotFound);
    /// [`InvalidOperation`](crate::transport::ErrorKind::InvalidOperation) for a setting that is fixed when the entity is
    /// created; [`NotSupported`](crate::transport::ErrorKind::NotSupported) where the broker cannot change settings.
    fn update(
        &self,
        path: &EntityPath,
        settings: &EntitySettings,
    ) -> impl Future<Output = Result<(), ManageError>> + Send;

    /// Deletes an entity with its messages; a topic with its subscriptions.
    ///
    /// # Errors
    ///
    /// [`EntityNotFound`](crate::transport::ErrorKind::EntityNotFound).
    fn delete(&self, path: &EntityPath) -> impl Future<Output = Result<(), ManageError>> + Send;

    /// Returns the settings of an entity. Settings that the broker does not have are at their defaults.
    ///
    /// # Errors
    ///
    /// [`EntityNotFound`](crate::transport::ErrorKind::EntityNotFound), and
    /// [`NotSupported`](crate::transport::ErrorKind::NotSupported) where the broker does not tell.
    fn settings(&self, path: &EntityPath) -> impl Future<Output = Result<EntitySettings, ManageError>> + Send;

    /// Returns all queues, topics and subscriptions, in the order of their paths.
    ///
    /// # Errors
    ///
    /// [`NotSupported`](crate::transport::ErrorKind::NotSupported) where the broker does not tell.
    fn list(&self) -> impl Future<Output = Result<Vec<Entity>, ManageError>> + Send;

    /// Counts the messages of an entity or of a dead-letter sub-queue.
    ///
    /// # Errors
    ///
    /// [`EntityNotFound`](crate::transport::ErrorKind::EntityNotFound), and
    /// [`NotSupported`](crate::transport::ErrorKind::NotSupported) where the broker does not tell.
    fn counts(&self, path: &EntityPath) -> impl Future<Output = Result<Counts, ManageError>> + Send;
}
