//! Nodes that answer requests: `$cbs` and `$management`.

mod cbs;
mod management;
pub(crate) mod node;
pub(crate) mod reply;
mod request;

use consign_amqp::{
    engine::{CommandError, Connection as Engine, Delivery, LinkId, OutboundDelivery},
    message::MessageId,
    types::Accepted,
    value::Str,
};
use consign_core::transport::ErrorKind;

use self::{
    node::Node,
    reply::{Reply, ReplyTo, Response},
    request::Request,
};
use crate::{
    connection::{Client, Done},
    errors::Failure,
    links::{Kind, Link},
    log::warn_of,
    transactions::txn_id,
};

/// The size up to which an answer is an error, which is not replaced by another.
const SMALL_REPLY: usize = 4_096;

/// The longest id and the longest address for the answer of a request, in bytes: an answer that waits keeps them.
const MAX_ID: usize = 1_024;

/// The bytes of answers that wait for credit, from which on requests are refused.
const MAX_REPLY_BYTES: usize = 4 << 20;

/// The same id in memory of its own.
fn owned(id: &MessageId) -> MessageId {
    match id {
        MessageId::String(text) => MessageId::String(text.to_owned_memory()),
        MessageId::Binary(bytes) => MessageId::Binary(bytes.to_vec().into()),
        id => id.clone(),
    }
}

impl Client {
    /// Takes a request.
    pub(crate) fn request(&mut self, engine: &mut Engine, delivery: Delivery) {
        let max = self.max_requests();
        let Delivery { link, id, settled, payload, state, .. } = delivery;
        let Some(Link { kind: Kind::Requests { node, .. }, .. }) = self.links.get(&link) else { return };
        let node = node.clone();
        self.use_request_credit(engine, link);
        let txn_id = txn_id(state);
        // Each refusal is an answer that waits, too.
        if self.requests >= max.saturating_mul(2) {
            self.transactions.fail(txn_id.as_ref());
            let text = format!("The connection has {} requests without an answer.", self.requests);
            return self.detach(engine, link, Failure::new(ErrorKind::QuotaExceeded, text));
        }
        let request = match Request::decode(payload.into_bytes(), txn_id.clone()) {
            Ok(request) => request,
            Err(failure) => {
                self.transactions.fail(txn_id.as_ref());
                if !settled {
                    let _ = engine.settle(link, [id], Some(&failure.rejected()), true);
                }
                return;
            }
        };
        if !settled {
            // The link may be detached meanwhile.
            let _ = engine.settle(link, [id], Some(&Accepted {}.into()), true);
        }
        let to = ReplyTo {
            session: link.session(),
            node: node.clone(),
            // They are slices of the request, which would stay in memory.
            address: request.reply_to.as_ref().map(Str::to_owned_memory),
            correlation_id: request.message_id.as_ref().map(owned),
        };
        self.requests += 1;
        let is_busy = self.requests > max || self.reply_bytes > MAX_REPLY_BYTES;
        if is_busy || self.is_closing() {
            self.transactions.fail(txn_id.as_ref());
            let failure = Failure::new(ErrorKind::ServiceBusy, "Too many requests without an answer.");
            return self.reply(engine, Reply::new(to, Err(failure)));
        }
        match node {
            Node::Cbs => {
                let outcome = self.put_token(engine, &request);
                self.reply(engine, Reply::new(to, outcome));
            }
            Node::Management { entity, key } => self.manage(engine, &entity, &key, &request, to),
        }
    }

    fn max_requests(&self) -> usize {
        self.shared.limits.max_requests.max(1)
    }

    /// Counts the credit of a request that was sent or given up, and gives it again.
    ///
    /// A client may send requests faster than it takes answers: it gets no credit while there are too many.
    pub(crate) fn use_request_credit(&mut self, engine: &mut Engine, link: LinkId) {
        let (full, is_full) = (self.shared.limits.sender_credit, self.requests >= self.max_requests());
        let Some(Link { kind: Kind::Requests { used, .. }, .. }) = self.links.get_mut(&link) else { return };
        *used += 1;
        if *used >= full.div_ceil(2) {
            if is_full {
                self.withheld = true;
            } else if engine.credit(link, full).is_ok() {
                *used = 0;
            }
        }
    }

    /// Gives the credit for requests that was withheld while there were too many without an answer.
    pub(crate) fn renew_request_credit(&mut self, engine: &mut Engine) {
        if !self.withheld || self.requests >= self.max_requests() {
            return;
        }
        self.withheld = false;
        let full = self.shared.limits.sender_credit;
        for (id, link) in &mut self.links {
            if let Kind::Requests { used, .. } = &mut link.kind
                && *used >= full.div_ceil(2)
                && engine.credit(*id, full).is_ok()
            {
                *used = 0;
            }
        }
    }

    /// Calls the broker, and answers a request with what it returns.
    pub(crate) fn reply_with<T, F>(
        &mut self,
        engine: &mut Engine,
        to: ReplyTo,
        call: F,
        response: impl FnOnce(T) -> Result<Response, Failure> + Send + 'static,
    ) where
        T: 'static,
        F: std::future::Future<Output = T> + Send + Unpin + 'static,
    {
        self.call(engine, call, move |answer| Done::Replied(Reply::new(to, response(answer))));
    }

    /// Returns the link of an answer: that of the node in the session whose target is the reply-to of the request. Some clients set
    /// none: then it is any link of the node in the session.
    fn reply_link(&self, to: &ReplyTo) -> Option<LinkId> {
        let mut found: Option<LinkId> = None;
        for (id, link) in self.links.iter().filter(|(id, _)| id.session() == to.session) {
            let Kind::Replies(replies) = &link.kind else { continue };
            match replies.fits(&to.node, to.address.as_deref()) {
                Some(true) => return Some(*id),
                Some(false) => found = found.or(Some(*id)),
                None => {}
            }
        }
        found
    }

    /// Returns the size of the largest answer that the client accepts.
    fn reply_limit(&self, engine: &Engine, to: &ReplyTo) -> Result<u64, Failure> {
        let link = self.reply_link(to);
        let link = link.ok_or_else(|| Failure::argument("the request has no link for its answer"))?;
        Ok(engine.peer_message_size(link).unwrap_or(u64::MAX))
    }

    /// Sends an answer when the client has credit for it.
    pub(crate) fn reply(&mut self, engine: &mut Engine, reply: Reply) {
        let to = &reply.to;
        let link = self.reply_link(to).and_then(|id| Some((id, self.links.get_mut(&id)?)));
        let Some((id, Link { kind: Kind::Replies(replies), .. })) = link else {
            tracing::debug!(session = ?to.session, "an answer has no link to go to");
            self.requests = self.requests.saturating_sub(1);
            return;
        };
        let waiting = match reply.encode() {
            Ok(waiting) => waiting,
            Err(error) => {
                warn_of!("NotAnswered", %error, "an answer is not sent: it cannot be encoded");
                self.requests = self.requests.saturating_sub(1);
                return;
            }
        };
        self.reply_bytes += waiting.payload.len();
        replies.waiting().push_back(waiting);
        self.send_replies(engine, id);
    }

    /// Sends the answers that the client has credit for.
    pub(crate) fn send_replies(&mut self, engine: &mut Engine, id: LinkId) {
        self.touch(id);
        let Some(Link { kind: Kind::Replies(replies), .. }) = self.links.get_mut(&id) else { return };
        while let Some(waiting) = replies.waiting().pop_front() {
            // A tag of its own for each, for clients that index deliveries by it.
            let tag = uuid::Uuid::new_v4().as_bytes().to_vec().into();
            let transfer = OutboundDelivery { tag, settled: true, ..OutboundDelivery::default() };
            let size = waiting.payload.len();
            match engine.send(id, transfer, std::slice::from_ref(&waiting.payload)) {
                Ok(_) => {
                    self.requests = self.requests.saturating_sub(1);
                    self.reply_bytes = self.reply_bytes.saturating_sub(size);
                }
                Err(CommandError::MessageTooLarge { max }) if size > SMALL_REPLY => {
                    self.reply_bytes = self.reply_bytes.saturating_sub(size);
                    let text = format!("The answer has {size} bytes, and the client accepts {max} bytes.");
                    let failure = Failure::new(ErrorKind::MessageSizeExceeded, text);
                    match Reply::new(waiting.to, Err(failure)).encode() {
                        Ok(waiting) => {
                            self.reply_bytes += waiting.payload.len();
                            replies.waiting().push_front(waiting);
                        }
                        Err(error) => {
                            warn_of!("NotAnswered", %error, "an answer is not sent: it cannot be encoded");
                            self.requests = self.requests.saturating_sub(1);
                        }
                    }
                }
                // It goes on with a credit, or with the window of the session.
                Err(_) => {
                    replies.waiting().push_front(waiting);
                    self.stall(engine, id);
                    return;
                }
            }
        }
    }
}
