use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use consign_amqp::{
    client::{self, SenderLink},
    codec,
    message::{Body, Sections},
    types::{Attach, Coordinator, Declare, Declared, DeliveryState, Discharge, Source, TransactionalState},
    value::{Binary, Map, Value},
};
use consign_core::{
    Disposition, Message,
    message::{EntityPath, SequenceNumber},
    time::Timestamp,
    transport::{ErrorKind, SendError, SettleError, Transaction, TransactionError},
};
use futures_util::future::join_all;
use tokio::time::Instant;

use crate::{
    ServiceBusLease,
    authorization::{Wire, key},
    core::Core,
    error::{Failure, has_ended},
    receiver::{OnLink, Right, outcome, removed},
    sender::{Open, accepted},
    wire,
};

/// A transaction of settlements and sends on one entity. [`send_via`](Self::send_via) sends to other entities.
///
/// The operations are kept in memory and handed to the server by [`commit`](Transaction::commit), over one connection: a
/// connection that is lost before has no effect on it.
#[must_use = "a transaction that is dropped has no effect, and abandons what it was to settle"]
pub struct ServiceBusTransaction {
    core: Arc<Core>,
    /// The key of the top-level entity.
    entity: Option<String>,
    operations: Vec<Operation>,
    begun: Option<Instant>,
}

/// The detail of an operation, or a commit, after [`ServiceBusTransaction::TIMEOUT`].
const LATE: &str = "it took longer than 2 minutes";

enum Operation {
    Send(Route, Bytes),
    Schedule(EntityPath, Map),
    Settle(ServiceBusLease, Disposition),
}

/// Where a message is sent, and via which other entity.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Route {
    to: EntityPath,
    via: Option<EntityPath>,
}

type Step<'o> = Pin<Box<dyn Future<Output = Result<Vec<SequenceNumber>, Refusal>> + Send + 'o>>;

/// What the server refused.
enum Refusal {
    Send(SendError),
    Settle(SettleError),
}

impl From<Refusal> for TransactionError<ServiceBusLease> {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Send(error) => error.into(),
            Refusal::Settle(error) => error.into(),
        }
    }
}

impl ServiceBusTransaction {
    /// The maximum of operations of a transaction: messages sent, scheduled or settled.
    pub const MAX_MESSAGES: usize = 100;
    /// The maximum duration, from its first operation on.
    pub const TIMEOUT: Duration = Duration::from_secs(120);

    pub(crate) fn new(core: &Arc<Core>) -> Self {
        Self { core: Arc::clone(core), entity: None, operations: Vec::new(), begun: None }
    }

    /// Sends a message to another queue or topic when it commits: via an entity, which is then that of the transaction. For a
    /// transaction with messages of a subscription, it is the topic.
    ///
    /// The entity transfers the message at the commit, and the message is never visible in it. The credential needs the right Send
    /// for both entities.
    ///
    /// # Errors
    ///
    /// As [`send`](Transaction::send). The commit fails as a whole if `to` does not exist, or is full.
    pub fn send_via(&mut self, via: &EntityPath, to: &EntityPath, message: Message) -> Result<(), SendError> {
        let encoded = wire::prepare(message, self.core.now())?;
        self.admit_send(via, to)?;
        self.operations.push(Operation::Send(Route { to: to.clone(), via: Some(via.clone()) }, encoded));
        Ok(())
    }

    /// Checks whether it takes one more operation on this entity.
    fn admit(&mut self, path: &EntityPath) -> Result<(), (ErrorKind, &'static str)> {
        // A subscription counts as its topic.
        let top = match path.subscription() {
            Some((topic, _)) => topic.to_lowercase(),
            None => key(&path.parent()),
        };
        match &self.entity {
            Some(entity) if *entity != top => {
                return Err((ErrorKind::InvalidOperation, "a transaction is about one entity"));
            }
            Some(_) => {}
            None => self.entity = Some(top),
        }
        if self.operations.len() >= Self::MAX_MESSAGES {
            return Err((ErrorKind::QuotaExceeded, "a transaction has at most 100 messages"));
        }
        if self.begun.get_or_insert_with(Instant::now).elapsed() > Self::TIMEOUT {
            return Err((ErrorKind::Transaction, LATE));
        }
        Ok(())
    }

    /// Checks whether it takes one more message, which is sent via an entity or to it.
    fn admit_send(&mut self, via: &EntityPath, to: &EntityPath) -> Result<(), SendError> {
        if via.is_sub_queue() || to.is_sub_queue() {
            let detail = "only dead-lettering sends to a sub-queue";
            return Err(SendError::new(ErrorKind::InvalidOperation).with_detail(detail));
        }
        self.admit(via).map_err(|(kind, detail)| SendError::new(kind).with_detail(detail))
    }

    fn leases(operations: Vec<Operation>) -> impl Iterator<Item = ServiceBusLease> {
        operations.into_iter().filter_map(|operation| match operation {
            Operation::Settle(lease, _) => Some(lease),
            Operation::Send(..) | Operation::Schedule(..) => None,
        })
    }
}

/// The link that controls transactions. When it is detached, the server rolls back what it has declared.
struct Control(SenderLink);

impl Control {
    async fn attach(core: &Arc<Core>, wire: &Wire) -> Result<Self, Failure> {
        let attach = Attach {
            name: core.link_name("coordinator").into(),
            source: Some(Box::new(Source { address: Some(core.container.as_str().into()), ..Source::default() })),
            target: Some(Coordinator::default().into()),
            ..Attach::default()
        };
        Ok(Self(wire.begin().await?.attach_sender_with(attach).await?))
    }

    async fn request(&self, request: &impl codec::Encode) -> Result<Option<DeliveryState>, Failure> {
        // A described list is a value, too.
        let value: Value = codec::decode(&codec::encode(request)?)?;
        let sections = Sections { body: Body::Value(value), ..Sections::default() };
        self.0.send(codec::encode(&sections)?).await.map_err(Failure::unanswered)
    }

    async fn declare(&self) -> Result<Binary, Failure> {
        match self.request(&Declare::default()).await? {
            Some(DeliveryState::Declared(Declared { txn_id })) => Ok(txn_id),
            other => Err(accepted(other).err().unwrap_or_else(|| {
                Failure::new(ErrorKind::General, "the server did not declare the transaction").for_good()
            })),
        }
    }

    async fn discharge(&self, txn_id: Binary, fail: bool) -> Result<(), Failure> {
        accepted(self.request(&Discharge { txn_id, fail }).await?)
    }
}

/// The operations of a transaction, on one connection.
struct Commit {
    wire: Arc<Wire>,
    txn_id: Binary,
    senders: Vec<(Route, Open)>,
}

impl Commit {
    async fn send(&self, route: &Route, encoded: Bytes) -> Result<(), Failure> {
        match self.senders.iter().find(|(other, _)| other == route) {
            Some((_, sender)) => sender.send(&[encoded], Some(&self.txn_id)).await,
            None => Err(Failure::no_answer()),
        }
    }

    async fn schedule(&self, path: &EntityPath, entry: Map) -> Result<Vec<SequenceNumber>, Failure> {
        let management = self.wire.management(path).await?;
        management.schedule(vec![entry], Some(self.txn_id.clone())).await
    }

    /// Settles over the link of the delivery, if that is on this connection, or by its token.
    async fn settle(&self, right: &Right, disposition: &Disposition) -> Result<(), SettleError> {
        let by_token = match right {
            Right::Link(held) => match self.begin_on_link(held, disposition) {
                Some(Ok(confirmations)) => {
                    let reported = outcome(disposition);
                    let answer = confirmations.wait().await.pop();
                    return answer.map_or(Ok(()), |answer| held.origin.confirmed(answer, &reported));
                }
                Some(Err(error)) if !has_ended(&error) => return Err(Failure::from(error).into()),
                // The link has ended, or is of another connection.
                Some(Err(_)) | None => held.by_token().ok_or_else(|| held.lost())?,
            },
            Right::Token(held) => (**held).clone(),
            Right::Removed | Right::Used => return Err(removed()),
        };
        let management = self.wire.management(&by_token.path).await?;
        let txn_id = Some(self.txn_id.clone());
        Ok(management.update_disposition(by_token.settled(), disposition, txn_id).await?)
    }

    /// Settles over the link of the delivery, if that is on this connection.
    fn begin_on_link(
        &self,
        held: &OnLink,
        disposition: &Disposition,
    ) -> Option<Result<client::Confirmations, client::Error>> {
        if !Arc::ptr_eq(&held.origin.wire, &self.wire) {
            return None;
        }
        let state = TransactionalState { txn_id: self.txn_id.clone(), outcome: Some(Box::new(outcome(disposition))) };
        let state = DeliveryState::Transactional(Box::new(state));
        Some(held.origin.settler.begin_confirmed([held.id], &state))
    }

    /// Does all operations, in their order on each link.
    async fn all(&self, operations: &[Operation]) -> Result<Vec<SequenceNumber>, Refusal> {
        let of_send = |failure: Failure| Refusal::Send(failure.into());
        let steps = operations.iter().map(|operation| -> Step<'_> {
            Box::pin(async move {
                match operation {
                    Operation::Send(route, encoded) => {
                        self.send(route, encoded.clone()).await.map(|()| Vec::new()).map_err(of_send)
                    }
                    Operation::Schedule(path, entry) => self.schedule(path, entry.clone()).await.map_err(of_send),
                    Operation::Settle(lease, disposition) => {
                        let settled = self.settle(lease.right(), disposition).await;
                        settled.map(|()| Vec::new()).map_err(Refusal::Settle)
                    }
                }
            })
        });
        let mut numbers = Vec::new();
        for done in join_all(steps).await {
            numbers.extend(done?);
        }
        Ok(numbers)
    }
}

impl Transaction for ServiceBusTransaction {
    type Lease = ServiceBusLease;

    async fn send(&mut self, to: &EntityPath, message: Message) -> Result<(), SendError> {
        let encoded = wire::prepare(message, self.core.now())?;
        self.admit_send(to, to)?;
        self.operations.push(Operation::Send(Route { to: to.clone(), via: None }, encoded));
        Ok(())
    }

    async fn schedule(&mut self, to: &EntityPath, message: Message, at: Timestamp) -> Result<(), SendError> {
        let entry = wire::scheduled(message, at, self.core.now())?;
        self.admit_send(to, to)?;
        self.operations.push(Operation::Schedule(to.clone(), entry));
        Ok(())
    }

    async fn settle(
        &mut self,
        lease: ServiceBusLease,
        disposition: Disposition,
    ) -> Result<(), TransactionError<ServiceBusLease>> {
        let path = match lease.right() {
            Right::Link(held) => held.origin.source.path.clone(),
            Right::Token(held) => held.path.clone(),
            Right::Removed | Right::Used => return Err(TransactionError::from(removed()).with_leases([lease])),
        };
        if !lease.is_of(&self.core) {
            let other =
                SettleError::new(ErrorKind::InvalidOperation).with_detail("the message is of another transport");
            return Err(TransactionError::from(other).with_leases([lease]));
        }
        if let Err((kind, detail)) = self.admit(&path) {
            let refused = SettleError::new(kind).with_detail(detail);
            return Err(TransactionError::from(refused).with_leases([lease]));
        }
        self.operations.push(Operation::Settle(lease, disposition));
        Ok(())
    }

    async fn commit(mut self) -> Result<Vec<SequenceNumber>, TransactionError<ServiceBusLease>> {
        let operations = std::mem::take(&mut self.operations);
        if operations.is_empty() {
            return Ok(Vec::new());
        }
        if self.begun.is_some_and(|begun| begun.elapsed() > Self::TIMEOUT) {
            let late = SettleError::new(ErrorKind::Transaction).with_detail(LATE);
            return Err(TransactionError::from(late).with_leases(Self::leases(operations)));
        }
        let core = &self.core;
        let begun = async {
            let wire = core.wire().await?;
            let control = Control::attach(core, &wire).await?;
            let mut senders: Vec<(Route, Open)> = Vec::new();
            for operation in &operations {
                let Operation::Send(route, _) = operation else { continue };
                if senders.iter().all(|(other, _)| other != route) {
                    let open = Open::attach(core, Arc::clone(&wire), &route.to, route.via.as_ref()).await?;
                    senders.push((route.clone(), open));
                }
            }
            let txn_id = control.declare().await?;
            Ok::<_, Failure>((control, Commit { wire, txn_id, senders }))
        };
        let (control, commit) = match begun.await {
            Ok(begun) => begun,
            Err(failure) => {
                // Nothing has happened, whatever the failure says of the declaration.
                let failure = if failure.kind().is_outcome_unknown() {
                    failure.with_kind(ErrorKind::ServiceBusy)
                } else {
                    failure
                };
                return Err(TransactionError::from(SettleError::from(failure)).with_leases(Self::leases(operations)));
            }
        };
        let done = commit.all(&operations).await;
        let discharged = control.discharge(commit.txn_id.clone(), done.is_err()).await;
        let error = match (done, discharged) {
            (Ok(numbers), Ok(())) => {
                for mut lease in Self::leases(operations) {
                    // It is settled.
                    drop(lease.take());
                }
                return Ok(numbers);
            }
            (Ok(_), Err(failure)) => TransactionError::from(SettleError::from(failure)),
            (Err(refusal), _) => refusal.into(),
        };
        // The server has rolled back: it holds the locks by their tokens.
        let leases = Self::leases(operations).map(|mut lease| match lease.take() {
            Right::Link(held) => match held.as_token() {
                Some(by_token) => ServiceBusLease::by_token(by_token),
                None => ServiceBusLease::on_link(*held),
            },
            Right::Token(held) => ServiceBusLease::by_token(*held),
            Right::Removed | Right::Used => ServiceBusLease::removed(),
        });
        Err(error.with_leases(leases))
    }

    fn rollback(mut self) -> Vec<ServiceBusLease> {
        Self::leases(std::mem::take(&mut self.operations)).collect()
    }
}

impl std::fmt::Debug for ServiceBusTransaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServiceBusTransaction").field("operations", &self.operations.len()).finish_non_exhaustive()
    }
}
