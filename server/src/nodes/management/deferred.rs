use std::sync::Arc;

use consign_amqp::{
    engine::Connection as Engine,
    value::{List, Map, Uuid},
};
use consign_broker::QueueLease;
use consign_core::{
    Disposition,
    time::Timestamp,
    transport::{Delivery, ErrorKind, Lease, SettleError},
};
use futures_util::{FutureExt, future::BoxFuture};

use super::{locks::too_many, peek::entry_of, queue};
use crate::{
    connection::Client,
    entities::Entity,
    errors::Failure,
    links::settle::Settlement,
    locks::Lock,
    messages::encode_delivery,
    nodes::{ReplyTo, Request, Response},
};

/// The most bytes of several messages in an answer. One message may be as large as its entity allows.
const MAX_BYTES: u64 = 4 << 20;

/// The most bytes of an entry beside its message, and of an answer beside its entries.
const ENTRY: u64 = 64;
const REST: u64 = 4_096;

impl Client {
    /// `receive-by-sequence-number`: deferred messages, all or none.
    pub(super) fn receive_deferred(
        &mut self,
        engine: &mut Engine,
        entity: &Entity,
        key: &Arc<str>,
        request: &Request,
        to: ReplyTo,
    ) -> Result<Option<Response>, Failure> {
        let fields = request.fields()?;
        let numbers = fields.numbers("sequence-numbers")?;
        let locks = fields.integer("receiver-settle-mode")? != Some(0);
        if !locks && request.txn_id.is_some() {
            let text = "Messages are not received and deleted in a transaction.";
            return Err(Failure::new(ErrorKind::InvalidOperation, text));
        }
        let session = fields.text("session-id")?;
        self.make_room(numbers.len())?;
        // Known before anything is removed: an answer that cannot be sent would lose it.
        let limit = self.reply_limit(engine, &to)?;
        let received = match session {
            Some(session) => self.session_of(key, session, request)?.receive_deferred_within(&numbers, MAX_BYTES)?,
            None => queue(entity)?.receive_deferred_within(&numbers, MAX_BYTES)?,
        };
        let mut entries = Vec::with_capacity(received.len());
        let mut bytes = 0;
        let encoded: Result<Vec<Map>, Failure> = received
            .iter()
            .map(|delivery| {
                // Some clients read the token there.
                let token = delivery.lease.lock_token().filter(|_| locks);
                let encoded = encode_delivery(&delivery.message, token, session.is_some())?;
                Ok(entry_of(encoded.concat().into(), &mut bytes))
            })
            .collect();
        let size = bytes as u64 + ENTRY * received.len() as u64 + REST;
        let encoded = match encoded {
            Ok(_) if size > limit => {
                let text = format!("The answer has {size} bytes, and the client accepts {limit} bytes.");
                Err(Failure::new(ErrorKind::MessageSizeExceeded, text))
            }
            encoded => encoded,
        };
        let encoded = match encoded {
            Ok(encoded) => encoded,
            Err(failure) => {
                // None of them was seen.
                for delivery in received {
                    drop(delivery.lease.release());
                }
                return Err(failure);
            }
        };
        if !locks {
            let completing: Vec<_> = received.into_iter().map(complete).collect();
            let completing: BoxFuture<'static, Result<(), SettleError>> = async move {
                for completed in completing {
                    completed.await?;
                }
                Ok(())
            }
            .boxed();
            let encoded = encoded.into_iter().map(Into::into).collect();
            self.reply_with(engine, to, completing, move |outcome: Result<(), SettleError>| {
                outcome?;
                Ok(messages(encoded))
            });
            return Ok(None);
        }
        for (delivery, mut entry) in received.into_iter().zip(encoded) {
            let Delivery { message, lease } = delivery;
            let Some(token) = lease.lock_token() else { continue };
            entry.push("lock-token", Uuid(*token.as_bytes()));
            entries.push(entry.into());
            let until = message.received().and_then(|received| received.locked_until).unwrap_or(Timestamp::MAX);
            let session = session.map(Into::into);
            self.hold(token, Lock { lease, entity: Arc::clone(key), session, until });
        }
        Ok(Some(messages(entries)))
    }

    /// Forgets fetched messages whose lock has ended, if there are many.
    fn make_room(&mut self, more: usize) -> Result<(), Failure> {
        let limit = self.shared.limits.max_unsettled;
        if self.fetched.len() + more <= limit {
            return Ok(());
        }
        self.forget_fetched();
        if self.fetched.len() + more > limit { Err(too_many(limit)) } else { Ok(()) }
    }
}

fn complete(delivery: Delivery<QueueLease>) -> consign_broker::Acknowledged<(), SettleError> {
    Settlement::By(Disposition::Complete).settle(delivery.lease)
}

fn messages(entries: Vec<consign_amqp::value::Value>) -> Response {
    let mut body = Map::default();
    body.push("messages", List(entries));
    Response::ok(body)
}
