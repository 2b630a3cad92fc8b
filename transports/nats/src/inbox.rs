//! Replies at an inbox of core NATS, and requests to services that do not use this library.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use async_nats::{StatusCode, Subscriber};
use consign_core::{
    message::{EntityPath, Received, SequenceNumber},
    transport::{Capabilities, Delivery, ErrorKind, ReceiveError, Receiver, ReplySource, SendError},
};
use futures_util::Stream;

use crate::{
    Nats, NatsLease, NatsSender,
    error::Fault,
    log,
    read::{self, Origin},
    reply_subjects::Inbox,
    wire,
};

/// Replies at an inbox of this connection: a [`ReplySource`] for `consign::rpc`.
///
/// The server passes replies straight to this process and stores nothing. Each is received at most once: one that arrives
/// while the connection is broken is lost, and its call ends at its deadline. Nothing is left on the server when the process
/// ends in any way.
///
/// Requests can be sent by [`sender`](Self::sender) to services of core NATS, or by [`Nats::sender`] to a queue, which stores
/// the request but not the reply.
pub struct InboxReplies {
    nats: Nats,
    subscriber: Subscriber,
    inbox: Inbox,
    received: u64,
}

impl Nats {
    /// Creates an inbox for replies, with the inbox prefix of the client.
    ///
    /// If that is not `_INBOX`, only requests by [`InboxReplies::sender`] are replied to. Another sender refuses them as
    /// [`NotSupported`](ErrorKind::NotSupported): a responder takes only `_INBOX` from a header.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn inbox(&self) -> Result<InboxReplies, ReceiveError> {
        let client = &self.inner.client;
        let name = client.new_inbox();
        let inbox = Inbox::new(&name);
        let subscribed = async {
            let subscriber = client.subscribe(format!("{name}.*")).await.map_err(|error| Fault::broken(&error))?;
            // A request is written behind the subscription, so the server has that first.
            client.flush().await.map_err(|error| Fault::broken(&error))?;
            Ok::<_, Fault>(subscriber)
        };
        let in_time = tokio::time::timeout(self.inner.timeout, subscribed).await;
        let subscriber = in_time.map_err(|_| Fault::timed_out("a subscription"))??;
        Ok(InboxReplies { nats: self.clone(), subscriber, inbox, received: 0 })
    }
}

impl InboxReplies {
    /// Creates a sender of requests to a service that subscribes to `subject`, with this library or without it. Each request
    /// has a reply subject of its own, so the service needs no header. A send ends when the request is written to the
    /// connection, which does not mean that the server or a service receives it. If none is subscribed, the call fails at once
    /// with a fault, `NoResponders`. An error of a NATS service, `Nats-Service-Error`, is a fault with the service's code.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for a subject that is empty, has wildcards or white space, or begins
    /// with `$`.
    pub fn sender(&self, subject: &str) -> Result<NatsSender, SendError> {
        let is_token =
            |token: &str| !token.is_empty() && !token.contains(['*', '>']) && !token.contains(char::is_whitespace);
        if subject.starts_with('$') || !subject.split('.').all(is_token) {
            let why =
                "a subject to publish to has no empty tokens, wildcards and white space, and does not begin with $";
            return Err(SendError::new(ErrorKind::InvalidArgument).with_detail(why));
        }
        let path = EntityPath::new(&subject.replace('.', "/"))?;
        let inner = Arc::clone(&self.nats.inner);
        Ok(NatsSender::to_subject(inner, path, subject.to_owned(), Some(self.inbox.clone())))
    }

    fn read(&mut self, reply: async_nats::Message) -> Delivery<NatsLease> {
        self.received += 1;
        let now = self.nats.inner.now();
        let has_no_responders = reply.status == Some(StatusCode::NO_RESPONDERS);
        let headers = reply.headers.as_ref();
        let read = read::read(Origin::Itself, headers, reply.payload, self.received, now, &reply.subject);
        if let Some(malformed) = &read.malformed {
            log::malformed(self.inbox.address(), &malformed.why(), false);
        }
        let mut message = read.message;
        let properties = message.properties_mut();
        if let Some(request) = self.inbox.request_of(&reply.subject) {
            properties.set_correlation_id(request);
        }
        wire::read_service_error(headers, has_no_responders, properties);
        let received = Received::new(SequenceNumber::new(self.received), now, 1);
        Delivery { message: message.with_received(received), lease: NatsLease::removed() }
    }
}

impl Receiver for InboxReplies {
    type Lease = NatsLease;

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<Delivery<NatsLease>>,
    ) -> Poll<Result<usize, ReceiveError>> {
        let mut taken = 0;
        while taken < max.max(1) {
            match Pin::new(&mut self.subscriber).poll_next(cx) {
                Poll::Ready(Some(reply)) => {
                    out.push(self.read(reply));
                    taken += 1;
                }
                Poll::Pending if taken == 0 => return Poll::Pending,
                Poll::Ready(None) if taken == 0 => {
                    let ended = ReceiveError::new(ErrorKind::InvalidOperation).with_detail("the connection is closed");
                    return Poll::Ready(Err(ended));
                }
                Poll::Pending | Poll::Ready(None) => break,
            }
        }
        Poll::Ready(Ok(taken))
    }

    fn capabilities(&self) -> Capabilities {
        Nats::CAPABILITIES
    }
}

impl ReplySource for InboxReplies {
    fn address(&self) -> &str {
        self.inbox.address()
    }

    fn session_id(&self) -> Option<&str> {
        None
    }

    fn is_exclusive(&self) -> bool {
        true
    }
}

impl fmt::Debug for InboxReplies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InboxReplies").field("address", &self.inbox.address()).finish_non_exhaustive()
    }
}
