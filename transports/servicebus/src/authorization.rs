//! One connection: the tokens of its entities, and the links to `$cbs` and `$management` that others share.

use std::{
    collections::{HashMap, VecDeque},
    future::Future,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use consign_amqp::{
    client::{self, Connection, Session},
    message::ApplicationProperties,
    value::{Timestamp as WireTimestamp, Value},
};
use consign_core::{
    message::EntityPath,
    time::{Clock, Timestamp},
};
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;

use crate::{
    AccessToken, TokenCredential,
    claim::Claim,
    error::Failure,
    log,
    management::Management,
    requests::{Request, Requests},
};

const CBS: &str = "$cbs";

/// How many entities keep their links to `$management` while no caller uses them.
const KEPT: usize = 16;

/// The part of a token's lifetime that is left when it is renewed, and the longest such time.
const RENEWED_BEFORE: u32 = 10;
const LONGEST_BEFORE: Duration = Duration::from_secs(5 * 60);

/// The pauses between attempts to renew a token.
const RENEWAL_PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// A connection with what its links share.
pub(crate) struct Wire {
    pub(crate) connection: Connection,
    /// The session of links to nodes.
    nodes: AsyncMutex<Option<Session>>,
    cbs: AsyncMutex<Option<Arc<Requests>>>,
    claims: Mutex<HashMap<String, Weak<Claim>>>,
    /// The links to `$management` that were used last, by the keys of their entities.
    management: Mutex<VecDeque<(String, Arc<Management>)>>,
    credential: Arc<dyn TokenCredential>,
    clock: Arc<dyn Clock>,
    host: String,
    container: String,
    last_link: AtomicU64,
    timeout: Duration,
}

impl Wire {
    /// `container` is the name of the AMQP container, `timeout` that of each request.
    pub(crate) fn new(
        connection: Connection,
        host: String,
        container: String,
        credential: Arc<dyn TokenCredential>,
        clock: Arc<dyn Clock>,
        timeout: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            connection,
            nodes: AsyncMutex::default(),
            cbs: AsyncMutex::default(),
            claims: Mutex::default(),
            management: Mutex::default(),
            credential,
            clock,
            host,
            container,
            last_link: AtomicU64::new(0),
            timeout,
        })
    }

    /// Attaches a pair of links to a node, in the session that all of them share.
    async fn node(&self, address: &str) -> Result<Requests, Failure> {
        let number = self.last_link.fetch_add(1, Ordering::Relaxed);
        let name = format!("{address}-{}-{number:x}-{:08x}", self.container, fastrand::u32(..));
        let session = self.session().await?;
        match Requests::open(&session, address, name.clone(), self.timeout).await {
            // The session of the nodes has ended.
            Err(failure) if failure.has_ended() && failure.condition().is_none() && !self.connection.is_closed() => {
                *self.nodes.lock().await = None;
                let session = self.session().await?;
                Requests::open(&session, address, format!("{name}-again"), self.timeout).await
            }
            opened => opened,
        }
    }

    async fn session(&self) -> Result<Session, client::Error> {
        let mut nodes = self.nodes.lock().await;
        if let Some(session) = &*nodes {
            return Ok(session.clone());
        }
        let session = self.connection.begin().await?;
        *nodes = Some(session.clone());
        Ok(session)
    }

    async fn cbs(&self) -> Result<Arc<Requests>, Failure> {
        let mut cbs = self.cbs.lock().await;
        if let Some(requests) = cbs.as_ref().filter(|requests| !requests.is_over()) {
            return Ok(Arc::clone(requests));
        }
        let requests = Arc::new(self.node(CBS).await?);
        *cbs = Some(Arc::clone(&requests));
        Ok(requests)
    }

    /// Sends a token for an entity, unless there is one.
    pub(crate) async fn claim(&self, path: &EntityPath) -> Result<Arc<Claim>, Failure> {
        let key = key(path);
        if let Some(claim) = self.claims.lock().get(&key).and_then(Weak::upgrade) {
            return Ok(claim);
        }
        let requests = self.cbs().await?;
        let audience = format!("sb://{}/{key}", self.host);
        let put = Put { requests, audience, credential: Arc::clone(&self.credential) };
        let expires_at = put.put().await?;
        let clock = Arc::clone(&self.clock);
        let renewal = expires_at.map(|expires_at| tokio::spawn(async move { put.renew(&*clock, expires_at).await }));
        let claim = Arc::new(Claim { renewal });
        let mut claims = self.claims.lock();
        claims.retain(|_, claim| claim.strong_count() > 0);
        claims.insert(key, Arc::downgrade(&claim));
        Ok(claim)
    }

    /// Returns the links to the management node of an entity.
    pub(crate) async fn management(&self, path: &EntityPath) -> Result<Arc<Management>, Failure> {
        let key = key(path);
        {
            let mut kept = self.management.lock();
            kept.retain(|(_, management)| !management.is_over());
            if let Some(at) = kept.iter().position(|(of, _)| *of == key)
                && let Some(found) = kept.remove(at)
            {
                let management = Arc::clone(&found.1);
                kept.push_back(found);
                return Ok(management);
            }
        }
        let claim = self.claim(path).await?;
        let requests = self.node(&format!("{path}/$management")).await?;
        let management = Arc::new(Management::new(requests, claim, self.timeout));
        let mut kept = self.management.lock();
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back((key, Arc::clone(&management)));
        Ok(management)
    }
}

/// The key by which paths are compared.
pub(crate) fn key(path: &EntityPath) -> String {
    path.as_str().to_lowercase()
}

/// Sends the tokens of one audience.
struct Put {
    requests: Arc<Requests>,
    audience: String,
    credential: Arc<dyn TokenCredential>,
}

impl Put {
    /// Sends a token, and returns when it expires.
    fn put(&self) -> impl Future<Output = Result<Option<Timestamp>, Failure>> + Send + use<> {
        let token = self.credential.token(&self.audience);
        let (requests, audience) = (Arc::clone(&self.requests), self.audience.clone());
        async move {
            let AccessToken { token_type, token, expires_at } = token.await?;
            let mut properties = ApplicationProperties::default();
            properties.push("operation", "put-token");
            properties.push("type", token_type.as_str());
            properties.push("name", audience);
            if let Some(at) = expires_at {
                properties.push("expiration", WireTimestamp(at.as_millis()));
            }
            requests.call(Request { properties, body: Value::from(token), txn_id: None }).await?;
            Ok(expires_at)
        }
    }

    /// Sends another token before each expires, until the connection ends or the token has none.
    async fn renew(self, clock: &dyn Clock, mut expires_at: Timestamp) {
        let mut failures = 0;
        loop {
            let left = expires_at.saturating_since(clock.now().utc);
            let wait = if failures == 0 {
                left.saturating_sub((left / RENEWED_BEFORE).min(LONGEST_BEFORE))
            } else {
                let (first, longest) = RENEWAL_PAUSES;
                first.saturating_mul(1 << failures.min(16)).min(longest)
            };
            // A token that has expired already is not renewed without a pause.
            tokio::time::sleep(wait.max(Duration::from_millis(500))).await;
            match self.put().await {
                Ok(Some(at)) if at > expires_at => (expires_at, failures) = (at, 0),
                // One without an end, or a signature that the credential cannot sign anew.
                Ok(_) => return,
                Err(_) if self.requests.is_over() => return,
                Err(failure) => {
                    failures += 1_u32;
                    log::not_authorized(&self.audience, &failure);
                }
            }
        }
    }
}
