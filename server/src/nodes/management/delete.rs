use std::sync::Arc;

use consign_amqp::{engine::Connection as Engine, value::Map};
use consign_broker::Queue;
use consign_core::transport::ManageError;

use super::queue;
use crate::{
    connection::Client,
    entities::Entity,
    errors::Failure,
    nodes::{ReplyTo, Request, Response},
};

impl Client {
    /// `batch-delete-messages`: removes messages that are not locked, the oldest first. With a session, those of that session
    /// alone.
    pub(super) fn delete_messages(
        &mut self,
        engine: &mut Engine,
        entity: &Entity,
        key: &Arc<str>,
        request: &Request,
        to: ReplyTo,
    ) -> Result<Option<Response>, Failure> {
        let fields = request.fields()?;
        let max = fields.count("message-count", Queue::MAX_DELETED)?;
        let max = max.ok_or_else(|| Failure::argument("the request has no 'message-count'"))?;
        let before = fields.timestamp("enqueued-time-utc")?;
        let call = match fields.text("session-id")? {
            Some(session) => self.session(key, session)?.delete_messages(max, before),
            None => queue(entity)?.delete_messages(max, before),
        };
        self.reply_with(engine, to, call, |deleted: Result<usize, ManageError>| {
            let mut body = Map::default();
            body.push("message-count", i32::try_from(deleted?).unwrap_or(i32::MAX));
            Ok(Response::ok(body))
        });
        Ok(None)
    }
}
