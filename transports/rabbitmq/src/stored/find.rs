//! Finds the settings of an entity on the server, where this process does not have them.

use std::sync::Arc;

use consign_core::{message::EntityPath, transport::ErrorKind};

use crate::{
    client::Shared,
    entities::{Entities, Found, Known},
    error::Failure,
    log,
    reply_to::REPLIES,
};

impl Entities {
    /// Returns the settings of an entity, from the server if they are not here. Callers at the same time share one question.
    ///
    /// An entity that another program created has none. Then these are the defaults, and a line is logged.
    pub(crate) async fn find(&self, shared: &Shared, path: &EntityPath) -> Result<Found, Failure> {
        let cell = self.cell(path);
        let found = cell.get_or_try_init(|| load(shared, path)).await.cloned();
        if found.is_err() && !cell.initialized() {
            self.doubt(path);
        }
        found
    }
}

async fn load(shared: &Shared, path: &EntityPath) -> Result<Found, Failure> {
    // The broker's own names, and those of reply queues.
    if path.as_str().starts_with("amq.") || path.as_str().starts_with(REPLIES) {
        return Ok(Known::Queue(Arc::default()).into());
    }
    if let Some(known) = super::read(shared, path).await? {
        return Ok(known.into());
    }
    // Whether it exists cannot be found out on a channel that the answer would close.
    let known = if shared.link.is_wrapped() || shared.has_queue(path.as_str()).await? {
        Known::Queue(Arc::default())
    } else if shared.has_exchange(path.as_str()).await? {
        Known::Topic(None)
    } else {
        return Err(Failure::new(ErrorKind::EntityNotFound, "there is no queue and no topic of that name"));
    };
    log::no_settings(path);
    Ok(Found { known, is_foreign: true })
}
