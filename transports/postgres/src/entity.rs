use std::time::Duration;

use consign_core::{
    administration::EntityKind,
    message::EntityPath,
    transport::{ErrorKind, ManageError},
};
use tokio_postgres::types::Type;

use crate::{Inner, failure::Failure};

/// An entity as of its lookup.
#[derive(Clone, Debug)]
pub(crate) struct Entity {
    pub(crate) id: i64,
    pub(crate) path: EntityPath,
    pub(crate) kind: EntityKind,
    /// The entity of a transaction that works on this one.
    pub(crate) top_level: i64,
    pub(crate) lock: Duration,
    pub(crate) max_deliveries: u32,
    pub(crate) requires_session: bool,
    /// Whether it forwards or copies messages.
    pub(crate) forwards: bool,
    /// Whether it detects duplicates, which does not change.
    pub(crate) has_window: bool,
}

/// The key of equal paths.
pub(crate) fn key(path: &EntityPath) -> String {
    path.as_str().to_lowercase()
}

/// Returns the code of a sub-queue in rows, and 0 for an entity.
pub(crate) fn part_of(path: &EntityPath) -> Result<i16, ManageError> {
    if path.is_transfer_dead_letter() {
        let refused = ManageError::new(ErrorKind::NotSupported);
        return Err(refused.with_detail("there is no transfer dead-letter sub-queue"));
    }
    Ok(i16::from(path.is_dead_letter()))
}

/// Returns the kind of an entity with this code in its row.
pub(crate) fn kind_of(code: i16) -> EntityKind {
    match code {
        0 => EntityKind::Queue,
        1 => EntityKind::Topic,
        _ => EntityKind::Subscription,
    }
}

pub(crate) fn missing(path: &EntityPath) -> ManageError {
    ManageError::new(ErrorKind::EntityNotFound).with_detail(path.to_string())
}

impl Inner {
    /// Returns the entity of a path, or of the sub-queue of one.
    pub(crate) async fn find(&self, path: &EntityPath) -> Result<Entity, ManageError> {
        let sql = self.sql(
            "SELECT id, path, kind, coalesce(topic, id), lock_ms, kind = 1 OR forward_to IS NOT NULL, max_deliveries,
                sessions, window_ms IS NOT NULL
            FROM {s}.entities WHERE key = $1",
        );
        let row = self.database.row(&sql, &[(&key(&path.parent()), Type::TEXT)]).await?;
        let Some(row) = row else {
            return Err(missing(path));
        };
        let read = || -> Result<_, tokio_postgres::Error> {
            let (name, kind, lock, deliveries): (String, i16, i64, i32) =
                (row.try_get(1)?, row.try_get(2)?, row.try_get(4)?, row.try_get(6)?);
            let flags: (bool, bool, bool) = (row.try_get(5)?, row.try_get(7)?, row.try_get(8)?);
            Ok((row.try_get(0)?, name, kind, row.try_get(3)?, lock, deliveries, flags))
        };
        let (id, name, kind, top_level, lock, deliveries, (forwards, requires_session, has_window)) =
            read().map_err(Failure::from)?;
        Ok(Entity {
            id,
            path: EntityPath::new(&name)?,
            kind: kind_of(kind),
            top_level,
            lock: Duration::from_millis(u64::try_from(lock).unwrap_or(0)),
            max_deliveries: u32::try_from(deliveries).unwrap_or(u32::MAX),
            requires_session,
            forwards,
            has_window,
        })
    }
}
