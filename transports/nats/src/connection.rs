use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_nats::{Client, HeaderMap, Request, connection::State, jetstream};
use bytes::Bytes;
use consign_core::{
    time::{Clock, SystemClock, Timestamp},
    transport::{ErrorKind, ManageError, ServerAddress},
};
use futures_util::{TryFutureExt, future::join_all};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value as Json;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::Instant,
};

use crate::{
    error::{Fault, general},
    fan_outs::FanOuts,
    jobs::{self, Job, JobPlace},
    link::{Link, Watching},
    log,
    options::{self, Options},
    refusals::Refusals,
    returned::Returned,
    time::ServerClock,
    wire,
};

/// A connection to JetStream: creates entities, senders and receivers. A clone is the same connection.
#[derive(Clone)]
pub struct Nats {
    pub(crate) inner: Arc<Inner>,
}

/// State that all parts of one connection share.
pub(crate) struct Inner {
    pub(crate) context: jetstream::Context,
    pub(crate) client: Client,
    pub(crate) timeout: Duration,
    pub(crate) patience: Duration,
    pub(crate) namespace: String,
    /// The only server of the URL.
    server: Option<ServerAddress>,
    pub(crate) refusals: Refusals,
    pub(crate) returned: Returned,
    pub(crate) fan_outs: FanOuts,
    pub(crate) server_clock: ServerClock,
    statistics: Arc<async_nats::Statistics>,
    clock: SystemClock,
    jobs: mpsc::Sender<Job>,
    /// Notifies receivers of changes of the connection.
    pub(crate) changes: Arc<watch::Sender<Link>>,
    /// Whether the client closes with this connection.
    is_own: bool,
    closed: AtomicBool,
}

/// The oldest server: it has direct reads and consumers with names.
pub(crate) const MIN_SERVER: (i64, i64, i64) = (2, 9, 0);

/// Most unsettled deliveries of one connection: each has a place in the queue of jobs for dropped deliveries.
const PLACES: usize = 1 << 16;

/// Where a message was stored.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) seq: u64,
}

#[derive(Deserialize)]
struct Published {
    #[serde(default)]
    seq: u64,
    error: Option<jetstream::Error>,
}

impl Nats {
    pub(crate) async fn begin(
        context: jetstream::Context,
        options: &Options,
        is_own: bool,
    ) -> Result<Self, ManageError> {
        if !options::is_namespace(&options.namespace) {
            let why = format!("a namespace is {}", options::NAMESPACE);
            return Err(ManageError::new(ErrorKind::InvalidArgument).with_detail(why));
        }
        let client = context.client();
        let (jobs, queued) = mpsc::channel(PLACES);
        let inner = Arc::new(Inner {
            statistics: client.statistics(),
            client,
            context,
            timeout: options.timeout,
            patience: options.patience,
            namespace: options.namespace.clone(),
            server: options.server.clone(),
            refusals: options.refusals.clone(),
            returned: Returned::default(),
            fan_outs: FanOuts::default(),
            server_clock: ServerClock::default(),
            clock: SystemClock::new(),
            jobs,
            changes: Arc::default(),
            is_own,
            closed: AtomicBool::new(false),
        });
        inner.probe(options.synced).await?;
        tokio::spawn(jobs::run(queued, Watching::new(&inner.client, &inner.changes)));
        Ok(Self { inner })
    }

    /// Returns the client below, for calls that this transport does not have.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    /// Closes the connection: jobs of dropped deliveries are finished, and a client that was connected here is drained. If a receiver was
    /// dropped or stopped while it waited, this takes up to 200 ms: messages that arrive for it are released. Later
    /// calls fail as [`CommunicationProblem`](ErrorKind::CommunicationProblem), which is not retryable. A client that was wrapped stays open.
    pub async fn close(&self) -> Result<(), ManageError> {
        if self.inner.is_closed() {
            return Ok(());
        }
        let (done, finished) = oneshot::channel();
        let flushed = async {
            if self.inner.jobs.send(Job::Close(done)).await.is_ok() {
                let _ = finished.await;
            }
        };
        let flushed = tokio::time::timeout(self.inner.timeout, flushed).await;
        // The jobs of dropped deliveries make calls too, so calls fail only from here on.
        if self.inner.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.inner.changes.send_modify(|_| {});
        let ended = async {
            if self.inner.is_own {
                let _ = self.inner.client.drain().await;
            } else {
                let _ = self.inner.client.flush().await;
            }
        };
        let ended = tokio::time::timeout(self.inner.timeout, ended).await;
        flushed.and(ended).map_err(|_| Fault::timed_out("close").into())
    }
}

impl fmt::Debug for Nats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nats").field("namespace", &self.inner.namespace).finish_non_exhaustive()
    }
}

impl Inner {
    /// Checks whether the server has what this transport needs. It warns of guarantees that the server does not give.
    async fn probe(&self, synced: bool) -> Result<(), ManageError> {
        let info = self.client.server_info();
        let (major, minor, patch) = MIN_SERVER;
        if !self.client.is_server_compatible(major, minor, patch) {
            let why = format!("the server is {}, and must be {major}.{minor} or later", info.version);
            return Err(ManageError::new(ErrorKind::NotSupported).with_detail(why));
        }
        match self.account_info().await {
            Ok(()) => {}
            Err(fault) if fault.is_no_responders() => {
                return Err(ManageError::new(ErrorKind::NotSupported).with_detail("the server has no JetStream"));
            }
            Err(fault) => return Err(fault.into()),
        }
        if !synced {
            let can = self.client.is_server_compatible(2, 10, 0);
            let remedy = if can { "`sync_interval: always`" } else { "a server from 2.10 on, or replicas" };
            log::unsynced(&info.server_name, &info.version, remedy);
        }
        Ok(())
    }

    async fn account_info(&self) -> Result<(), Fault> {
        self.request::<Json>("INFO", &serde_json::json!({})).await.map(drop)
    }

    /// Makes one round trip. A flush of the client ends when it has written.
    pub(crate) async fn ping(&self) -> Result<(), Fault> {
        // The client would keep the request, and those of later calls, until it is connected again.
        if !self.is_closed() && !self.is_connected() {
            return Err(Fault::new(ErrorKind::CommunicationProblem, "the client is not connected".to_owned()));
        }
        self.account_info().await
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now().utc
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Returns how often the client has connected.
    pub(crate) fn connects(&self) -> u64 {
        self.statistics.connects.load(Ordering::Relaxed)
    }

    /// Returns the server, if the client knows of no other one when it is asked.
    pub(crate) fn server(&self) -> Option<ServerAddress> {
        only(self.server.as_ref(), &self.client.server_info().connect_urls)
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Returns a place in the queue of jobs. `None` while there are too many.
    pub(crate) fn place(&self) -> Option<JobPlace> {
        self.jobs.clone().try_reserve_owned().ok()
    }

    /// Makes a request of JetStream's API, by its subject without the prefix.
    pub(crate) async fn request<V: DeserializeOwned>(
        &self,
        subject: &str,
        payload: &(impl Serialize + Sync + ?Sized),
    ) -> Result<V, Fault> {
        if self.is_closed() {
            return Err(Fault::closed());
        }
        let began = Instant::now();
        let asked = self.context.request::<_, _, Json>(subject.to_owned(), payload);
        let answer = match tokio::time::timeout(self.timeout, asked).await {
            Ok(answer) => answer.map_err(Fault::from),
            Err(_) => Err(Fault::timed_out(subject)),
        };
        answered(answer.map_err(|fault| self.refusals.explain(subject, began, fault))?)
    }

    /// Makes a request at a subject, and returns the raw answer.
    async fn ask(&self, subject: &str, request: Request) -> Result<async_nats::Message, Fault> {
        let began = Instant::now();
        // The client's own time limit begins when its queue has taken the request.
        let asked = self.client.send_request(subject.to_owned(), request.timeout(None)).map_err(Fault::from);
        let answer = tokio::time::timeout(self.timeout, asked).await;
        let answer = answer.unwrap_or_else(|_| Err(Fault::timed_out("a request")));
        answer.map_err(|fault| self.refusals.explain(subject, began, fault))
    }

    /// Stores a message, and waits for the acknowledgement.
    pub(crate) async fn publish(&self, subject: &str, headers: HeaderMap, payload: Bytes) -> Result<Stored, Fault> {
        if self.is_closed() {
            return Err(Fault::closed());
        }
        let mut request = Request::new().payload(payload);
        if !headers.is_empty() {
            request = request.headers(headers);
        }
        stored(&self.ask(subject, request).await?.payload)
    }

    /// Makes calls at the same time, which are written in their order: they are polled in it for the first time, and the
    /// client's queue keeps it, unless tokio makes some of them wait for their turn.
    pub(crate) async fn in_order<F: Future>(calls: impl IntoIterator<Item = F>) -> Vec<F::Output> {
        tokio::task::unconstrained(join_all(calls)).await
    }

    /// Acknowledges a delivery with the given kind, and waits until the server has taken that.
    pub(crate) async fn acknowledge(&self, reply: &str, how: Bytes) -> Result<(), Fault> {
        self.ask(reply, Request::new().payload(how)).await.map(drop)
    }

    /// Returns the name of the stream of an entity, or of the stream beside it, and the prefix of its subjects.
    pub(crate) fn name(&self, path: &str) -> Result<(String, String), ManageError> {
        let token = wire::token(&path.to_lowercase());
        if token.len() > 200 {
            let why = "written as a subject, the path is longer than 200 bytes";
            return Err(ManageError::new(ErrorKind::InvalidArgument).with_detail(why));
        }
        Ok((format!("{}_{token}", self.namespace), format!("{}.{token}", self.namespace)))
    }
}

/// Returns where a message was stored, by the server's acknowledgement.
fn stored(answer: &[u8]) -> Result<Stored, Fault> {
    let answer: Published = serde_json::from_slice(answer).map_err(|error| general(&error))?;
    match answer.error {
        Some(error) => Err(error.into()),
        // In a cluster, a duplicate of a message that is not stored yet, and may never be.
        None if answer.seq == 0 => Err(Fault::timed_out("an acknowledgement with a number")),
        None => Ok(Stored { seq: answer.seq }),
    }
}

fn answered<V: DeserializeOwned>(answer: Json) -> Result<V, Fault> {
    let unreadable = |error: serde_json::Error| Fault::new(ErrorKind::General, error.to_string());
    if let Some(error) = answer.get("error") {
        return Err(serde_json::from_value::<jetstream::Error>(error.clone()).map_err(unreadable)?.into());
    }
    serde_json::from_value(answer).map_err(unreadable)
}

/// Returns the server of a URL, unless it has announced a cluster, in which a reconnection may choose another one.
fn only(server: Option<&ServerAddress>, announced: &[String]) -> Option<ServerAddress> {
    server.filter(|_| announced.is_empty()).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgement_without_a_number_is_no_storage() {
        let kind = |answer: &str| stored(answer.as_bytes()).map(|stored| stored.seq).map_err(|fault| fault.kind);
        assert_eq!(kind(r#"{"stream":"s","seq":7}"#), Ok(7));
        assert_eq!(kind(r#"{"stream":"s","seq":7,"duplicate":true}"#), Ok(7));
        assert_eq!(kind(r#"{"stream":"s","seq":0,"duplicate":true}"#), Err(ErrorKind::ServiceTimeout));
        let refusal = r#"{"error":{"code":503,"err_code":10008,"description":"unavailable"},"stream":"s","seq":0}"#;
        assert_eq!(kind(refusal), Err(ErrorKind::ServiceBusy));
    }

    /// Rules: O-19.
    #[test]
    fn a_server_of_a_cluster_is_not_the_only_one() {
        let server = ServerAddress::new("one").with_port(4222);
        assert_eq!(only(Some(&server), &[]), Some(server.clone()));
        assert_eq!(only(Some(&server), &["one:4222".into(), "two:4222".into()]), None);
        assert_eq!(only(None, &[]), None);
    }
}
