//! `$management` of an entity.

mod deferred;
mod delete;
mod locks;
mod peek;
mod rules;
mod schedule;
mod sessions;

use std::sync::Arc;

use consign_amqp::engine::Connection as Engine;
use consign_broker::Queue;
use consign_core::transport::ErrorKind;
use tokio::time::Instant;

use super::{Reply, ReplyTo, Request};
use crate::{auth::Rights, connection::Client, entities::Entity, errors::Failure};

/// The prefix of the operations.
const PREFIX: &str = "com.microsoft:";

impl Client {
    /// Answers a request to the management node of an entity.
    pub(super) fn manage(
        &mut self,
        engine: &mut Engine,
        entity: &Entity,
        key: &Arc<str>,
        request: &Request,
        to: ReplyTo,
    ) {
        // A client that renews locks uses the link of the messages, too.
        if let Some(name) = request.property("associated-link-name") {
            let now = Instant::now();
            self.links.values_mut().filter(|link| link.name == name).for_each(|link| link.active = now);
        }
        let operation = request.property("operation").unwrap_or_default();
        let operation = operation.strip_prefix(PREFIX).unwrap_or(operation);
        let entity = self.allowed(operation, key).and_then(|()| {
            not_in_transaction(operation, request)?;
            // It may have been deleted, or created again, since the link was attached.
            Entity::find(&self.shared.broker, &entity.path(), None)
        });
        let outcome = entity.and_then(|ref entity| match operation {
            "peek-message" => self.peek(entity, key, request).map(Some),
            "schedule-message" => self.schedule(engine, entity, request, to.clone()),
            "cancel-scheduled-message" => self.cancel(engine, entity, request, to.clone()),
            "renew-lock" => self.renew_locks(key, request).map(Some),
            "receive-by-sequence-number" => self.receive_deferred(engine, entity, key, request, to.clone()),
            "update-disposition" => self.update_disposition(engine, key, request, to.clone()),
            "renew-session-lock" => self.renew_session(key, request).map(Some),
            "get-session-state" => self.session_state(key, request).map(Some),
            "set-session-state" => self.set_session_state(engine, key, request, to.clone()),
            "get-message-sessions" => sessions::list(entity, request).map(Some),
            "add-rule" => rules::add(&self.shared.broker, entity, request).map(Some),
            "remove-rule" => rules::remove(&self.shared.broker, entity, request).map(Some),
            "enumerate-rules" => rules::enumerate(&self.shared.broker, entity, request).map(Some),
            "batch-delete-messages" => self.delete_messages(engine, entity, key, request, to.clone()),
            "" => Err(Failure::argument("the request has no operation")),
            other => {
                Err(Failure::new(ErrorKind::NotSupported, format!("The operation '{PREFIX}{other}' is not known.")))
            }
        });
        match outcome {
            Ok(Some(response)) => self.reply(engine, Reply::new(to, Ok(response))),
            // The broker's answer follows.
            Ok(None) => {}
            Err(failure) => {
                self.transactions.fail(request.txn_id.as_ref());
                self.reply(engine, Reply::new(to, Err(failure)));
            }
        }
    }

    /// Checks the right that an operation needs.
    fn allowed(&self, operation: &str, key: &Arc<str>) -> Result<(), Failure> {
        let (needed, name) = match operation {
            "schedule-message" | "cancel-scheduled-message" => (Rights::SEND, "Send"),
            _ => (Rights::LISTEN, "Listen"),
        };
        if self.held.of(key, Instant::now()).contains(needed) {
            return Ok(());
        }
        Err(Failure::unauthorized(name, key))
    }
}

/// Refuses what takes effect at once, so that a rollback could not undo it.
fn not_in_transaction(operation: &str, request: &Request) -> Result<(), Failure> {
    let is_immediate = matches!(
        operation,
        "cancel-scheduled-message" | "set-session-state" | "batch-delete-messages" | "add-rule" | "remove-rule"
    );
    if is_immediate && request.txn_id.is_some() {
        let text = format!("The operation '{PREFIX}{operation}' cannot be a part of a transaction.");
        return Err(Failure::new(ErrorKind::InvalidOperation, text));
    }
    Ok(())
}

/// The queue of an entity that is received from.
fn queue(entity: &Entity) -> Result<&Queue, Failure> {
    match entity {
        Entity::Queue(queue) => Ok(queue),
        Entity::Topic(_) => Err(Failure::new(ErrorKind::InvalidOperation, "A topic has no messages to receive.")),
    }
}
