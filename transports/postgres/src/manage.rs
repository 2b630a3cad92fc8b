//! Entities: create, change and delete them.

use consign_core::{
    administration::{Entity, EntityKind, EntitySettings, QueueSettings, Status, SubscriptionSettings, TopicSettings},
    message::EntityPath,
    transport::{ErrorKind, ManageError},
};
use consign_rules::Rule;
use tokio_postgres::types::Type;

use crate::{
    Inner, Postgres,
    database::Parameter,
    entity::{key, kind_of, missing},
    failure::Failure,
    rules,
    settings::{Columns, status_code},
};

impl Postgres {
    /// Creates a queue.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for a path or a setting that breaks a rule;
    /// [`AlreadyExists`](ErrorKind::AlreadyExists); [`EntityNotFound`](ErrorKind::EntityNotFound) if a forward names no entity;
    /// [`InvalidOperation`](ErrorKind::InvalidOperation) for the path of a sub-queue or a subscription, for a forward to itself
    /// or to a subscription, and for a forward of an entity that requires sessions; [`NotSupported`](ErrorKind::NotSupported)
    /// for `partitioned`, `auto_delete_on_idle`, and for another `max_duplicate_ids` than the default, which has no effect
    /// here: ids are rows.
    pub async fn create_queue(&self, path: &str, settings: QueueSettings) -> Result<(), ManageError> {
        create(&self.inner, &EntityPath::new(path)?, &settings.into()).await
    }

    /// Creates a topic.
    ///
    /// # Errors
    ///
    /// Those of [`Postgres::create_queue`].
    pub async fn create_topic(&self, path: &str, settings: TopicSettings) -> Result<(), ManageError> {
        create(&self.inner, &EntityPath::new(path)?, &settings.into()).await
    }

    /// Creates a subscription at `topic/Subscriptions/name`, with the rule [`Rule::default`].
    ///
    /// # Errors
    ///
    /// Those of [`Postgres::create_queue`], and [`EntityNotFound`](ErrorKind::EntityNotFound) if there is no such topic.
    pub async fn create_subscription(
        &self,
        topic: &str,
        name: &str,
        settings: SubscriptionSettings,
    ) -> Result<(), ManageError> {
        create(&self.inner, &EntityPath::new(topic)?.subscription_of(name)?, &settings.into()).await
    }

    /// Creates a queue for the replies of a requester in this process, with the default settings, and returns its path. It is
    /// deleted with its messages when the listening connection of this process has been lost for [`grace`](crate::Options::grace), as after a crash. Another process deletes it, or the next one that connects.
    ///
    /// # Errors
    ///
    /// [`NotSupported`](ErrorKind::NotSupported) for a client without a connection that listens, see
    /// [`Options::wrap`](crate::Options::wrap); [`InvalidOperation`](ErrorKind::InvalidOperation) while that connection is
    /// lost.
    pub async fn create_reply_queue(&self) -> Result<String, ManageError> {
        self.inner.start();
        if !self.inner.listens() {
            let detail = "a reply queue belongs to the listening connection, and there is none";
            return Err(ManageError::new(ErrorKind::NotSupported).with_detail(detail));
        }
        let Some(holder) = self.inner.listening_holder().await else {
            let detail = "a reply queue belongs to the listening connection, which is lost";
            return Err(ManageError::new(ErrorKind::InvalidOperation).with_detail(detail));
        };
        let path: Option<String> =
            self.inner.value("SELECT {s}.create_reply_queue($1)", &[(&holder, Type::INT4)]).await?;
        Ok(path.unwrap_or_default())
    }

    /// Opens and closes the directions of an entity.
    ///
    /// # Errors
    ///
    /// [`EntityNotFound`](ErrorKind::EntityNotFound).
    pub async fn set_status(&self, path: &str, status: Status) -> Result<(), ManageError> {
        let path = EntityPath::new(path)?;
        let sql = self.inner.sql("UPDATE {s}.entities SET status = $2 WHERE key = $1 RETURNING id");
        let row =
            self.inner.database.row(&sql, &[(&key(&path), Type::TEXT), (&status_code(status), Type::INT2)]).await?;
        match row {
            Some(row) => self.inner.arrived(row.try_get(0).map_err(Failure::from)?),
            None => return Err(missing(&path)),
        }
        Ok(())
    }

    /// Deletes a queue or a subscription with its messages, or a topic with its subscriptions.
    ///
    /// # Errors
    ///
    /// [`EntityNotFound`](ErrorKind::EntityNotFound), [`InvalidOperation`](ErrorKind::InvalidOperation) for a sub-queue, which
    /// is deleted with its entity.
    pub async fn delete(&self, path: &str) -> Result<(), ManageError> {
        let path = EntityPath::new(path)?;
        if path.is_sub_queue() {
            return Err(
                ManageError::new(ErrorKind::InvalidOperation).with_detail("a sub-queue is deleted with its entity")
            );
        }
        let deleted: Option<bool> = self.inner.value("SELECT {s}.remove($1)", &[(&key(&path), Type::TEXT)]).await?;
        self.inner.hub.wake_all();
        if deleted == Some(true) { Ok(()) } else { Err(missing(&path)) }
    }
}

/// Creates an entity.
pub(crate) async fn create(inner: &Inner, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
    let columns = Columns::new(settings)?;
    let topic = check_path(path, columns.kind())?;
    check_forwards(inner, path, &columns).await?;
    let sql = inner.sql(&format!(
        "WITH created AS (
            INSERT INTO {{s}}.entities (key, path, topic, {})
            SELECT $1, $2, topic.id, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18
            FROM (
                SELECT NULL::bigint AS id WHERE $3 IS NULL
                UNION ALL SELECT id FROM {{s}}.entities WHERE key = $3 AND kind = 1
            ) AS topic
            RETURNING id, kind
        ), numbered AS (
            INSERT INTO {{s}}.numbers (entity, last) SELECT id, 0 FROM created
        ), ruled AS (
            INSERT INTO {{s}}.rules (subscription, key, rule) SELECT id, $4, $5::json FROM created WHERE kind = 2
        )
        SELECT id FROM created",
        Columns::NAMES
    ));
    let (own, name, rule) = (key(path), path.as_str(), rules::write(&Rule::default())?);
    let default = Rule::DEFAULT_NAME.to_lowercase();
    let mut parameters: Vec<Parameter<'_>> = vec![
        (&own, Type::TEXT),
        (&name, Type::TEXT),
        (&topic, Type::TEXT),
        (&default, Type::TEXT),
        (&rule, Type::TEXT),
    ];
    parameters.extend(columns.parameters());
    match inner.database.row(&sql, &parameters).await {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(ManageError::new(ErrorKind::EntityNotFound).with_detail("no such topic")),
        Err(failure) if failure.is_duplicate() => {
            Err(ManageError::new(ErrorKind::AlreadyExists).with_detail(path.to_string()))
        }
        Err(failure) => Err(failure.into()),
    }
}

/// Checks that an entity of this kind may have the path, and returns the key of the topic of a subscription.
pub(crate) fn check_path(path: &EntityPath, kind: EntityKind) -> Result<Option<String>, ManageError> {
    let refused = |detail: &'static str| Err(ManageError::new(ErrorKind::InvalidOperation).with_detail(detail));
    match (path.subscription(), kind) {
        _ if path.is_sub_queue() => refused("the path of a sub-queue"),
        (Some((topic, _)), EntityKind::Subscription) => Ok(Some(topic.to_lowercase())),
        (None, EntityKind::Subscription) => refused("the path of a subscription is topic/Subscriptions/name"),
        (Some(_), _) => refused("the path of a subscription"),
        (None, _) => Ok(None),
    }
}

pub(crate) async fn check_forwards(inner: &Inner, path: &EntityPath, columns: &Columns) -> Result<(), ManageError> {
    let refused = |detail: &'static str| Err(ManageError::new(ErrorKind::InvalidOperation).with_detail(detail));
    let own = key(path);
    for to in [&columns.forward_to, &columns.forward_dead_to].into_iter().flatten() {
        let target = EntityPath::new(to)?;
        if target.is_sub_queue() || target.subscription().is_some() {
            return refused("a forward goes to a queue or a topic");
        }
        if *to == own {
            return refused("an entity does not forward to itself");
        }
        inner.find(&target).await?;
    }
    if columns.forward_to.is_some() && columns.requires_session() {
        return refused("an entity that requires sessions does not forward");
    }
    Ok(())
}

/// How often an entity may be deleted by others while it is declared.
const TRIES: usize = 10;

/// Creates an entity, or checks that the one that exists has these settings. Of several concurrent calls one creates it.
pub(crate) async fn declare(inner: &Inner, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
    let columns = Columns::new(settings)?;
    check_path(path, columns.kind())?;
    for _ in 0..TRIES {
        if let Some(existing) = stored(inner, path).await? {
            // A path or a duration that the database has in another form is the same setting.
            return existing.to_settings().check_declared(path, &columns.to_settings());
        }
        match create(inner, path, settings).await {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            created => return created,
        }
    }
    Err(ManageError::new(ErrorKind::ServiceBusy).with_detail("another process is deleting the entity"))
}

/// Returns the settings of an entity.
pub(crate) async fn settings(inner: &Inner, path: &EntityPath) -> Result<EntitySettings, ManageError> {
    let columns = stored(inner, &path.parent()).await?;
    columns.map(|columns| columns.to_settings()).ok_or_else(|| missing(path))
}

async fn stored(inner: &Inner, path: &EntityPath) -> Result<Option<Columns>, ManageError> {
    let sql = inner.sql(&format!("SELECT {} FROM {{s}}.entities WHERE key = $1", Columns::NAMES));
    let row = inner.database.row(&sql, &[(&key(path), Type::TEXT)]).await?;
    Ok(row.map(|row| Columns::read(&row, 0)).transpose().map_err(Failure::from)?)
}

/// Returns all entities, in the order of their paths.
pub(crate) async fn list(inner: &Inner) -> Result<Vec<Entity>, ManageError> {
    let sql = inner.sql("SELECT path, kind FROM {s}.entities ORDER BY key");
    let mut entities = Vec::new();
    for row in inner.database.rows(&sql, &[]).await? {
        let read = || Ok::<_, tokio_postgres::Error>((row.try_get::<_, String>(0)?, row.try_get(1)?));
        let (path, kind) = read().map_err(Failure::from)?;
        entities.push(Entity::new(EntityPath::new(&path)?, kind_of(kind)));
    }
    Ok(entities)
}
