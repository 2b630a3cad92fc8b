//! Entities: create, change, delete and inspect them.

use std::{sync::Arc, time::Duration};

use consign_core::{
    Message,
    administration::{QueueSettings, Status, SubscriptionSettings, TopicSettings},
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
    transport::{ErrorKind, ManageError, ReceiveError},
};
use consign_rules::{Filter, Rule, RuleSet};
use tokio_postgres::types::Type;

use crate::{
    Inner, Postgres,
    database::Parameter,
    entity::key,
    failure::Failure,
    row::{COLUMNS, Stored},
    rules,
};

/// How many messages an entity holds, by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Messages that can be received, and those that were released with a delay.
    pub active: usize,
    /// Messages that a receiver has locked, deferred ones among them.
    pub locked: usize,
    /// Deferred messages.
    pub deferred: usize,
    /// Scheduled messages.
    pub scheduled: usize,
    /// Messages in the dead-letter sub-queue.
    pub dead_lettered: usize,
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn bytes(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn code(status: Status) -> i16 {
    match status {
        Status::Disabled => 1,
        Status::SendDisabled => 3,
        Status::ReceiveDisabled => 4,
        Status::Active => 0,
    }
}

/// Checks the settings as [`QueueSettings`] describes them.
fn check(settings: &QueueSettings) -> Result<(), ManageError> {
    let lock = Duration::from_secs(5)..=Duration::from_secs(300);
    let windows = Duration::from_secs(20)..=Duration::from_secs(7 * 24 * 3_600);
    let second = Duration::from_secs(1);
    let rules = [
        ("lock_duration", lock.contains(&settings.lock_duration)),
        ("max_delivery_count", (1..=i32::MAX.cast_unsigned()).contains(&settings.max_delivery_count)),
        ("default_time_to_live", settings.default_time_to_live.is_none_or(|ttl| ttl >= second)),
        ("max_size", settings.max_size >= 1 << 10),
        ("max_message_size", (1..=100 << 20).contains(&settings.max_message_size)),
        ("duplicate_detection", settings.duplicate_detection.is_none_or(|window| windows.contains(&window))),
    ];
    if let Some((name, _)) = rules.into_iter().find(|(_, holds)| !holds) {
        return Err(ManageError::new(ErrorKind::InvalidArgument).with_detail(format!("{name} is out of range")));
    }
    let unsupported = [
        ("partitioned", settings.partitioned),
        ("auto_delete_on_idle", settings.auto_delete_on_idle.is_some()),
        ("max_duplicate_ids", settings.max_duplicate_ids != QueueSettings::default().max_duplicate_ids),
    ];
    match unsupported.into_iter().find(|(_, is_set)| *is_set) {
        Some((name, _)) => Err(ManageError::new(ErrorKind::NotSupported).with_detail(name)),
        None => Ok(()),
    }
}

/// An entity to be created.
struct New<'s> {
    path: EntityPath,
    kind: i16,
    topic: Option<&'s str>,
    settings: QueueSettings,
    dead_on_filter_error: bool,
}

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
        let path = top_level(path)?;
        self.create(New { path, kind: 0, topic: None, settings, dead_on_filter_error: false }).await
    }

    /// Creates a topic.
    ///
    /// # Errors
    ///
    /// Those of [`Postgres::create_queue`].
    pub async fn create_topic(&self, path: &str, settings: TopicSettings) -> Result<(), ManageError> {
        let mut of_queue = QueueSettings::default();
        of_queue.default_time_to_live = settings.default_time_to_live;
        of_queue.duplicate_detection = settings.duplicate_detection;
        of_queue.max_duplicate_ids = settings.max_duplicate_ids;
        of_queue.partitioned = settings.partitioned;
        of_queue.max_size = settings.max_size;
        of_queue.max_message_size = settings.max_message_size;
        of_queue.auto_delete_on_idle = settings.auto_delete_on_idle;
        of_queue.status = settings.status;
        let path = top_level(path)?;
        self.create(New { path, kind: 1, topic: None, settings: of_queue, dead_on_filter_error: false }).await
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
        let topic = EntityPath::new(topic)?;
        let mut of_queue = QueueSettings::default();
        of_queue.lock_duration = settings.lock_duration;
        of_queue.max_delivery_count = settings.max_delivery_count;
        of_queue.default_time_to_live = settings.default_time_to_live;
        of_queue.dead_letter_on_expiration = settings.dead_letter_on_expiration;
        of_queue.requires_session = settings.requires_session;
        of_queue.forward_to = settings.forward_to;
        of_queue.forward_dead_letters_to = settings.forward_dead_letters_to;
        of_queue.auto_delete_on_idle = settings.auto_delete_on_idle;
        of_queue.status = settings.status;
        of_queue.max_size = u64::MAX;
        of_queue.max_message_size = 100 << 20;
        let (path, topic) = (topic.subscription_of(name)?, key(&topic));
        let dead_on_filter_error = settings.dead_letter_on_filter_error;
        self.create(New { path, kind: 2, topic: Some(&topic), settings: of_queue, dead_on_filter_error }).await
    }

    async fn create(&self, new: New<'_>) -> Result<(), ManageError> {
        let New { path, kind, topic, settings, dead_on_filter_error } = new;
        check(&settings)?;
        let (inner, own) = (&self.inner, key(&path));
        let refused = |detail: &'static str| ManageError::new(ErrorKind::InvalidOperation).with_detail(detail);
        let mut forwards = [None, None];
        for (target, to) in forwards.iter_mut().zip([&settings.forward_to, &settings.forward_dead_letters_to]) {
            let Some(to) = to else { continue };
            let to = EntityPath::new(to)?;
            if to.is_sub_queue() || to.subscription().is_some() {
                return Err(refused("a forward goes to a queue or a topic"));
            }
            if key(&to) == own {
                return Err(refused("an entity does not forward to itself"));
            }
            inner.find(&to).await?;
            *target = Some(key(&to));
        }
        let [forward_to, forward_dead_to] = forwards;
        if forward_to.is_some() && settings.requires_session {
            return Err(refused("an entity that requires sessions does not forward"));
        }
        let sql = inner.sql(
            "WITH created AS (
                INSERT INTO {s}.entities (
                    key, path, kind, topic, status, max_deliveries, lock_ms, ttl_ms, window_ms, max_size,
                    max_message_size, dead_on_expiry, dead_on_filter_error, sessions, forward_to, forward_dead_to
                ) SELECT $1, $2, $3, topic.id, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16
                FROM (
                    SELECT NULL::bigint AS id WHERE $4 IS NULL
                    UNION ALL SELECT id FROM {s}.entities WHERE key = $4 AND kind = 1
                ) AS topic
                RETURNING id
            ), numbered AS (
                INSERT INTO {s}.numbers (entity, last) SELECT id, 0 FROM created
            ), ruled AS (
                INSERT INTO {s}.rules (subscription, key, rule) SELECT id, $17, $18::json FROM created WHERE $3 = 2
            )
            SELECT id FROM created",
        );
        let rule = rules::write(&Rule::default())?;
        let (name, status) = (path.as_str(), code(settings.status));
        let deliveries = i32::try_from(settings.max_delivery_count).unwrap_or(i32::MAX);
        let (lock, ttl) = (millis(settings.lock_duration), settings.default_time_to_live.map(millis));
        let ttl = ttl.filter(|&ttl| ttl < 253_402_300_799_999);
        let window = settings.duplicate_detection.map(millis);
        let (size, message) = (bytes(settings.max_size), bytes(settings.max_message_size as u64));
        let parameters: [Parameter<'_>; 18] = [
            (&own, Type::TEXT),
            (&name, Type::TEXT),
            (&kind, Type::INT2),
            (&topic, Type::TEXT),
            (&status, Type::INT2),
            (&deliveries, Type::INT4),
            (&lock, Type::INT8),
            (&ttl, Type::INT8),
            (&window, Type::INT8),
            (&size, Type::INT8),
            (&message, Type::INT8),
            (&settings.dead_letter_on_expiration, Type::BOOL),
            (&dead_on_filter_error, Type::BOOL),
            (&settings.requires_session, Type::BOOL),
            (&forward_to, Type::TEXT),
            (&forward_dead_to, Type::TEXT),
            (&Rule::DEFAULT_NAME.to_lowercase(), Type::TEXT),
            (&rule, Type::TEXT),
        ];
        match inner.database.row(&sql, &parameters).await? {
            Some(_) => Ok(()),
            None => Err(ManageError::new(ErrorKind::EntityNotFound).with_detail("no such topic")),
        }
    }

    /// Opens and closes the directions of an entity.
    ///
    /// # Errors
    ///
    /// [`EntityNotFound`](ErrorKind::EntityNotFound).
    pub async fn set_status(&self, path: &str, status: Status) -> Result<(), ManageError> {
        let path = EntityPath::new(path)?;
        let sql = self.inner.sql("UPDATE {s}.entities SET status = $2 WHERE key = $1 RETURNING id");
        let row = self.inner.database.row(&sql, &[(&key(&path), Type::TEXT), (&code(status), Type::INT2)]).await?;
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
            return Err(ManageError::new(ErrorKind::InvalidOperation).with_detail("a sub-queue goes with its entity"));
        }
        let deleted: Option<bool> = self.inner.value("SELECT {s}.remove($1)", &[(&key(&path), Type::TEXT)]).await?;
        self.inner.hub.wake_all();
        if deleted == Some(true) { Ok(()) } else { Err(missing(&path)) }
    }

    /// Creates a rule of a subscription. It is for messages that are sent from then on.
    ///
    /// # Errors
    ///
    /// [`EntityNotFound`](ErrorKind::EntityNotFound), [`AlreadyExists`](ErrorKind::AlreadyExists),
    /// [`QuotaExceeded`](ErrorKind::QuotaExceeded) for one rule more than a [`RuleSet`] has at most.
    pub async fn create_rule(&self, topic: &str, subscription: &str, rule: &Rule) -> Result<(), ManageError> {
        let path = EntityPath::new(topic)?.subscription_of(subscription)?;
        let sql = self.inner.sql(
            "WITH changed AS (
                UPDATE {s}.entities SET version = version + 1 WHERE key = $1 AND kind = 2 RETURNING id
            ), created AS (
                INSERT INTO {s}.rules (subscription, key, rule) SELECT id, $2, $3::json FROM changed
                -- With fewer rules of both kinds none is looked at.
                WHERE (SELECT count(*) FROM {s}.rules WHERE subscription = id) < $5 OR (
                    SELECT count(*) FROM {s}.rules
                    WHERE subscription = id AND (rule->'filter'->'correlation' IS NOT NULL) = $4
                ) < $5 RETURNING 1
            )
            SELECT EXISTS (SELECT FROM created) FROM changed",
        );
        let is_correlation = matches!(rule.filter(), Filter::Correlation(_));
        let limit = if is_correlation { RuleSet::MAX_CORRELATION_RULES } else { RuleSet::MAX_SQL_RULES };
        let (name, rule, most) = (rule.name().to_lowercase(), rules::write(rule)?, bytes(limit as u64));
        let parameters: [Parameter<'_>; 5] = [
            (&key(&path), Type::TEXT),
            (&name, Type::TEXT),
            (&rule, Type::TEXT),
            (&is_correlation, Type::BOOL),
            (&most, Type::INT8),
        ];
        let row = self.inner.database.row(&sql, &parameters).await?.ok_or_else(|| missing(&path))?;
        if !row.try_get::<_, bool>(0).map_err(Failure::from)? {
            let detail = format!("there are {limit} rules of that kind already");
            return Err(ManageError::new(ErrorKind::QuotaExceeded).with_detail(detail));
        }
        Ok(())
    }

    /// Deletes a rule of a subscription.
    ///
    /// # Errors
    ///
    /// [`EntityNotFound`](ErrorKind::EntityNotFound) also for a rule.
    pub async fn delete_rule(&self, topic: &str, subscription: &str, rule: &str) -> Result<(), ManageError> {
        let path = EntityPath::new(topic)?.subscription_of(subscription)?;
        let sql = self.inner.sql(
            "WITH changed AS (
                UPDATE {s}.entities SET version = version + 1 WHERE key = $1 AND kind = 2 RETURNING id
            )
            DELETE FROM {s}.rules USING changed WHERE subscription = changed.id AND key = $2 RETURNING 1",
        );
        let parameters: [Parameter<'_>; 2] = [(&key(&path), Type::TEXT), (&rule.to_lowercase(), Type::TEXT)];
        self.inner.database.row(&sql, &parameters).await?.map(drop).ok_or_else(|| missing(&path))
    }

    /// Returns up to `max` messages from sequence number `from` on, in order, without locking or counting. For a topic it
    /// returns scheduled messages.
    pub async fn peek(&self, path: &str, from: SequenceNumber, max: usize) -> Result<Vec<Message>, ReceiveError> {
        let (entity, part) = self.part(path).await?;
        peek(&self.inner, entity, part, from, max, None).await
    }

    /// Returns how many messages there are, by state. It reads every message once.
    pub async fn counts(&self, path: &str) -> Result<Counts, ReceiveError> {
        let (entity, asked) = self.part(path).await?;
        if self.inner.catch_up(entity).await? {
            crate::pump::try_pump(&self.inner, entity).await;
        }
        let sql = self.inner.sql("SELECT part, state, count FROM {s}.counts($1)");
        let mut counts = Counts::default();
        for row in self.inner.database.rows(&sql, &[(&entity, Type::INT8)]).await? {
            let read = || Ok::<_, tokio_postgres::Error>((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?));
            let (part, state, count): (i16, i16, i64) = read().map_err(Failure::from)?;
            let count = usize::try_from(count).unwrap_or(0);
            if part != asked {
                counts.dead_lettered += count;
                continue;
            }
            *match state {
                2 | 4 => &mut counts.locked,
                3 => &mut counts.deferred,
                5 => &mut counts.scheduled,
                _ => &mut counts.active,
            } += count;
        }
        if asked == 1 {
            counts.dead_lettered = 0;
        }
        Ok(counts)
    }

    /// Removes up to `max` messages that are neither locked nor scheduled, the oldest first; with a time only those enqueued
    /// before it. Returns how many.
    pub async fn purge(
        &self,
        path: &str,
        max: usize,
        enqueued_before: Option<Timestamp>,
    ) -> Result<usize, ManageError> {
        let path = EntityPath::new(path)?;
        let (entity, part) = (self.inner.find(&path).await?.id, i16::from(path.is_dead_letter()));
        let (max, before) = (i64::try_from(max).unwrap_or(i64::MAX), enqueued_before.map(Timestamp::as_millis));
        let parameters: [Parameter<'_>; 4] =
            [(&entity, Type::INT8), (&part, Type::INT2), (&max, Type::INT8), (&before, Type::INT8)];
        let removed: Option<i64> = self.inner.value("SELECT {s}.purge($1, $2, $3, $4)", &parameters).await?;
        Ok(usize::try_from(removed.unwrap_or(0)).unwrap_or(0))
    }

    async fn part(&self, path: &str) -> Result<(i64, i16), ReceiveError> {
        let path = EntityPath::new(path)?;
        let entity = self.inner.find(&path).await.map_err(crate::postgres::receive_error)?;
        Ok((entity.id, i16::from(path.is_dead_letter())))
    }
}

fn missing(path: &EntityPath) -> ManageError {
    ManageError::new(ErrorKind::EntityNotFound).with_detail(path.to_string())
}

/// Returns the path of a queue or a topic.
fn top_level(path: &str) -> Result<EntityPath, ManageError> {
    let path = EntityPath::new(path)?;
    if path.is_sub_queue() || path.subscription().is_some() {
        let refused = ManageError::new(ErrorKind::InvalidOperation);
        return Err(refused.with_detail("the path of a sub-queue or a subscription"));
    }
    Ok(path)
}

pub(crate) async fn peek(
    inner: &Arc<Inner>,
    entity: i64,
    part: i16,
    from: SequenceNumber,
    max: usize,
    session: Option<&Vec<u8>>,
) -> Result<Vec<Message>, ReceiveError> {
    let (from, max) = (i64::try_from(from.get()).unwrap_or(i64::MAX), i64::try_from(max).unwrap_or(i64::MAX));
    let sql = inner.sql(&format!("SELECT leaving, more, {COLUMNS} FROM {{s}}.peek($1, $2, $3, $4, $5)"));
    let parameters: [Parameter<'_>; 5] =
        [(&entity, Type::INT8), (&part, Type::INT2), (&from, Type::INT8), (&max, Type::INT8), (&session, Type::BYTEA)];
    let mut is_leaving = false;
    let rows = loop {
        let mut rows = inner.database.rows(&sql, &parameters).await?.into_iter();
        let Some(first) = rows.next() else { return Ok(Vec::new()) };
        is_leaving |= first.try_get::<_, bool>(0).map_err(Failure::from)?;
        // Matching messages may have no number yet.
        let is_more: bool = first.try_get(1).map_err(Failure::from)?;
        if !is_more || i64::try_from(rows.len()).is_ok_and(|count| count >= max) {
            break rows;
        }
    };
    let mut messages = Vec::with_capacity(rows.len());
    for row in rows {
        let stored = Stored::read(&row, 2, false).map_err(Failure::from)?;
        messages.push(stored.message.map_err(|error| {
            ReceiveError::new(ErrorKind::Serialization).with_detail(format!("row {}: {error}", stored.id))
        })?);
    }
    if is_leaving {
        crate::pump::try_pump(inner, entity).await;
    }
    Ok(messages)
}
