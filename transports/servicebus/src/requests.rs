//! Requests to a node, and its answers: a pair of links.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use consign_amqp::{
    client::{ReceiverLink, SenderLink, Session},
    codec,
    engine::{Delivery, OutboundDelivery},
    message::{ApplicationProperties, Body, EncodedMessage, MessageId, Properties, Sections},
    types::{Accepted, Attach, DeliveryState, Source, Target, TransactionalState},
    value::{Binary, Map, Str, Value},
};
use consign_core::transport::ErrorKind;
use parking_lot::Mutex;
use tokio::{sync::oneshot, task::JoinHandle, time::Instant};

use crate::error::Failure;

/// How many answers the server may send ahead.
const CREDIT: u32 = 100;

/// The links to a node.
pub(crate) struct Requests {
    sender: SenderLink,
    waiting: Arc<Mutex<Waiting>>,
    reader: JoinHandle<()>,
    reply_to: Str,
    next_id: AtomicU64,
    timeout: Duration,
}

/// What waits for answers: at most one for each call that runs.
#[derive(Default)]
struct Waiting {
    calls: HashMap<u64, oneshot::Sender<Result<Reply, Failure>>>,
    is_over: bool,
    /// Since when the server has answered nothing, while it owes an answer.
    silent_since: Option<Instant>,
}

impl Waiting {
    /// The server owes an answer, unless it has come already.
    fn handed_over(&mut self, id: u64) {
        if self.calls.contains_key(&id) {
            self.silent_since.get_or_insert_with(Instant::now);
        }
    }

    fn answered(&mut self, id: u64) -> Option<oneshot::Sender<Result<Reply, Failure>>> {
        let call = self.calls.remove(&id);
        self.silent_since = (!self.calls.is_empty()).then(Instant::now);
        call
    }
}

/// A request.
pub(crate) struct Request {
    pub(crate) properties: ApplicationProperties,
    pub(crate) body: Value,
    /// The transaction that it is a part of.
    pub(crate) txn_id: Option<Binary>,
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: i64,
    condition: Option<String>,
    description: Option<String>,
    pub(crate) body: Map,
}

/// Forgets a call whose future is dropped.
struct Call<'r>(&'r Requests, u64);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.waiting.lock().calls.remove(&self.1);
    }
}

impl Requests {
    /// Attaches the links to the node at `address`. `name` is one that no other link of the container has.
    pub(crate) async fn open(
        session: &Session,
        address: &str,
        name: String,
        timeout: Duration,
    ) -> Result<Self, Failure> {
        let reply_to = Str::from(name.clone());
        let at = |address: Str| Source { address: Some(address), ..Source::default() };
        let to = |address: Str| Target { address: Some(address), ..Target::default() };
        let attach = Attach {
            name: format!("{name}-requests").into(),
            source: Some(Box::new(at(reply_to.clone()))),
            target: Some(to(address.into()).into()),
            ..Attach::default()
        };
        let sender = session.attach_sender_with(attach).await?;
        let attach = Attach {
            name: name.into(),
            source: Some(Box::new(at(address.into()))),
            target: Some(to(reply_to.clone()).into()),
            ..Attach::default()
        };
        let mut receiver = session.attach_receiver_with(attach).await?;
        receiver.set_automatic_credit(CREDIT)?;
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        let reader = tokio::spawn(read(receiver, Arc::clone(&waiting)));
        Ok(Self { sender, waiting, reader, reply_to, next_id: AtomicU64::new(1), timeout })
    }

    /// Whether a link has ended, or the server has answered nothing for the timeout of a call.
    pub(crate) fn is_over(&self) -> bool {
        self.waiting.lock().is_over || self.is_silent() || self.sender.ended().is_some()
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.waiting.lock().silent_since.is_some_and(|since| since.elapsed() >= self.timeout)
    }

    /// Sends a request, and waits for its answer: one with a status of success.
    pub(crate) async fn call(&self, request: Request) -> Result<Reply, Failure> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        {
            let mut waiting = self.waiting.lock();
            if waiting.is_over {
                return Err(Failure::no_answer().without_effect());
            }
            waiting.calls.insert(id, answer);
        }
        let _call = Call(self, id);
        let calling = async {
            self.send(id, request).await?;
            answered.await.unwrap_or_else(|_| Err(Failure::no_answer()))
        };
        let reply = tokio::time::timeout(self.timeout, calling).await;
        let reply = reply.unwrap_or_else(|_| {
            Err(Failure::new(ErrorKind::ServiceTimeout, format!("no answer within {:?}", self.timeout)))
        })?;
        if (200..300).contains(&reply.status) {
            return Ok(reply);
        }
        Err(Failure::answered(reply.status, reply.condition.as_deref(), reply.description.as_deref()))
    }

    async fn send(&self, id: u64, request: Request) -> Result<(), Failure> {
        let Request { properties, body, txn_id } = request;
        let sections = Sections {
            properties: Some(Properties {
                message_id: Some(MessageId::from(id.to_string().as_str())),
                reply_to: Some(self.reply_to.clone()),
                ..Properties::default()
            }),
            application_properties: Some(properties),
            body: Body::Value(body),
            ..Sections::default()
        };
        let state =
            txn_id.map(|txn_id| DeliveryState::Transactional(Box::new(TransactionalState { txn_id, outcome: None })));
        let delivery = OutboundDelivery { state, ..OutboundDelivery::default() };
        let sending = self.sender.begin_with(delivery, &[codec::encode(&sections)?]).await.map_err(Failure::unsent)?;
        self.waiting.lock().handed_over(id);
        let refused = match sending.wait().await.map_err(Failure::unanswered)? {
            Some(DeliveryState::Rejected(rejected)) => Failure::rejected(rejected.error.as_ref()),
            Some(DeliveryState::Released(_) | DeliveryState::Modified(_)) => {
                Failure::new(ErrorKind::ServiceBusy, "the server released the request")
            }
            _ => return Ok(()),
        };
        self.waiting.lock().answered(id);
        Err(refused)
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// Hands answers to the calls that wait for them.
async fn read(mut receiver: ReceiverLink, waiting: Arc<Mutex<Waiting>>) {
    let ended = loop {
        match receiver.recv().await {
            Ok(delivery) => {
                if !delivery.settled {
                    // The server needs no confirmation.
                    let _ = receiver.settle([delivery.id], &Accepted {}.into());
                }
                let Some((id, reply)) = decode(delivery) else { continue };
                if let Some(call) = waiting.lock().answered(id) {
                    let _ = call.send(reply);
                }
            }
            Err(error) => break Failure::unanswered(error),
        }
    };
    let calls = {
        let mut waiting = waiting.lock();
        waiting.is_over = true;
        std::mem::take(&mut waiting.calls)
    };
    for call in calls.into_values() {
        let _ = call.send(Err(ended.clone()));
    }
}

/// Reads an answer. One to no request is ignored.
fn decode(delivery: Delivery) -> Option<(u64, Result<Reply, Failure>)> {
    let message = EncodedMessage::split(delivery.payload.into_bytes()).ok()?;
    let id = message.properties().ok()??.correlation_id?.to_string().parse().ok()?;
    Some((id, read_reply(&message).map_err(Failure::from)))
}

fn read_reply(message: &EncodedMessage) -> Result<Reply, codec::DecodeError> {
    let properties = message.application_properties()?.unwrap_or_default();
    // The two nodes have keys of their own.
    let of = |one: &str, other: &str| properties.get(one).or_else(|| properties.get(other)).cloned();
    let text = |value: Option<Value>| value.and_then(|value| value.as_str().map(str::to_owned));
    let status = of("statusCode", "status-code").and_then(|status| status.as_integer());
    let body = match message.value()?.unwrap_or_default().0 {
        Value::Map(map) => map,
        _ => Map::default(),
    };
    Ok(Reply {
        status: status.and_then(|status| status.try_into().ok()).unwrap_or_default(),
        condition: text(of("errorCondition", "error-condition")),
        description: text(of("statusDescription", "status-description")),
        body,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(properties: &[(&'static str, Value)]) -> EncodedMessage {
        let properties = properties.iter().map(|(name, value)| (Str::from_static(name), value.clone()));
        let sections = Sections {
            application_properties: Some(ApplicationProperties(properties.collect())),
            body: Body::Value(Value::Null),
            ..Sections::default()
        };
        EncodedMessage::split(codec::encode(&sections).unwrap()).unwrap()
    }

    /// Rules: G-03, G-12.
    #[test]
    fn both_nodes_have_keys_of_their_own() {
        let reply =
            read_reply(&encoded(&[("status-code", 401_i32.into()), ("status-description", "InvalidSignature".into())]));
        let reply = reply.unwrap();
        assert_eq!((reply.status, reply.condition), (401, None));
        assert_eq!(reply.description.as_deref(), Some("InvalidSignature"));
        let condition = consign_amqp::value::Symbol::from_static("com.microsoft:message-lock-lost");
        let reply = read_reply(&encoded(&[("statusCode", 410_i64.into()), ("errorCondition", condition.into())]));
        let reply = reply.unwrap();
        assert_eq!((reply.status, reply.condition.as_deref()), (410, Some("com.microsoft:message-lock-lost")));
    }
}
