//! One connection: the tokens of its entities, and the links to `$cbs` and `$management` that others share.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use consign_amqp::{
    client::{Connection, Session},
    message::ApplicationProperties,
    value::{Timestamp as WireTimestamp, Value},
};
use consign_core::{
    message::EntityPath,
    time::{Clock, Timestamp},
    transport::ErrorKind,
};
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, MutexGuard};

use crate::{
    AccessToken, TokenCredential,
    attempts::Attempts,
    claim::{Claim, Expiry},
    core::backoff,
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
    claiming: Attempts<Claim>,
    /// The links to `$management` that were used last, by the keys of their entities.
    management: Mutex<VecDeque<(String, Arc<Management>)>>,
    attaching: Attempts<Management>,
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
            claiming: Attempts::default(),
            management: Mutex::default(),
            attaching: Attempts::default(),
            credential,
            clock,
            host,
            container,
            last_link: AtomicU64::new(0),
            timeout,
        })
    }

    /// Begins a session.
    pub(crate) async fn begin(&self) -> Result<Session, Failure> {
        Ok(self.connection.begin_or_close().await?)
    }

    /// Attaches a pair of links to a node. A session in which that is not answered is left: in a task, as the deadline of a caller
    /// may be sooner.
    async fn open(self: &Arc<Self>, session: &Session, address: &str, name: String) -> Result<Requests, Failure> {
        let (wire, session, address) = (Arc::clone(self), session.clone(), address.to_owned());
        let opening = tokio::spawn(async move {
            let opened = Requests::open(&session, &address, name, wire.timeout).await;
            if opened.as_ref().is_err_and(|failure| failure.kind() == ErrorKind::ServiceTimeout) {
                *wire.nodes.lock().await = None;
            }
            opened
        });
        let ended = |_| Failure::new(ErrorKind::General, "the task of the links to a node has ended");
        opening.await.map_err(ended)?
    }

    /// Attaches a pair of links to a node, in the session that all of them share.
    async fn node(self: &Arc<Self>, address: &str) -> Result<Requests, Failure> {
        let number = self.last_link.fetch_add(1, Ordering::Relaxed);
        let name = format!("{address}-{}-{number:x}-{:08x}", self.container, fastrand::u32(..));
        let session = self.session().await?;
        match self.open(&session, address, name.clone()).await {
            // The session of the nodes has ended. A condition of a link is a refusal.
            Err(failure)
                if (failure.is_end_of_session() || failure.has_ended() && failure.condition().is_none())
                    && !self.connection.is_closed() =>
            {
                *self.locked(&self.nodes).await? = None;
                let session = self.session().await?;
                self.open(&session, address, format!("{name}-again")).await
            }
            opened => opened,
        }
    }

    async fn session(&self) -> Result<Session, Failure> {
        let mut nodes = self.locked(&self.nodes).await?;
        if let Some(session) = &*nodes {
            return Ok(session.clone());
        }
        let session = self.begin().await?;
        *nodes = Some(session.clone());
        Ok(session)
    }

    /// Waits until no other call opens what `slot` has. The future of that call may be one that is not polled.
    async fn locked<'s, T>(&self, slot: &'s AsyncMutex<Option<T>>) -> Result<MutexGuard<'s, Option<T>>, Failure> {
        let late = |_| Failure::new(ErrorKind::ServiceTimeout, format!("no links to a node within {:?}", self.timeout));
        tokio::time::timeout(self.timeout, slot.lock()).await.map_err(late)
    }

    async fn cbs(self: &Arc<Self>) -> Result<Arc<Requests>, Failure> {
        let mut cbs = self.locked(&self.cbs).await?;
        if let Some(requests) = cbs.as_ref().filter(|requests| !requests.is_over()) {
            return Ok(Arc::clone(requests));
        }
        if cbs.take().is_some_and(|requests| requests.is_silent()) {
            *self.locked(&self.nodes).await? = None;
        }
        let requests = Arc::new(self.node(CBS).await?);
        *cbs = Some(Arc::clone(&requests));
        Ok(requests)
    }

    /// Sends a token for an entity, unless there is one that has not expired.
    pub(crate) async fn claim(self: &Arc<Self>, path: &EntityPath) -> Result<Arc<Claim>, Failure> {
        let key = key(path);
        if let Some(claim) = self.valid_claim(&key) {
            return Ok(claim);
        }
        let claiming = self.claiming.join(&key, || {
            let (wire, key) = (Arc::clone(self), key.clone());
            Box::pin(async move {
                // An attempt may have ended since.
                match wire.valid_claim(&key) {
                    Some(claim) => Ok(claim),
                    None => wire.send_claim(key).await,
                }
            })
        });
        claiming.await
    }

    fn valid_claim(&self, key: &str) -> Option<Arc<Claim>> {
        let now = self.clock.now().utc;
        self.claims.lock().get(key).and_then(Weak::upgrade).filter(|claim| !claim.has_expired(now))
    }

    async fn send_claim(self: &Arc<Self>, key: String) -> Result<Arc<Claim>, Failure> {
        let audience = format!("sb://{}/{key}", self.host);
        let token = self.token(&audience).await?;
        let expires_at = token.expires_at;
        self.put(&audience, token).await?;
        let expiry = Expiry::new(expires_at);
        let renewal = expires_at.map(|expires_at| {
            let renewal = Renewal { wire: Arc::downgrade(self), audience, expiry: expiry.clone() };
            tokio::spawn(renewal.run(Arc::clone(&self.clock), expires_at))
        });
        let claim = Arc::new(Claim::new(expiry, renewal));
        let mut claims = self.claims.lock();
        claims.retain(|_, claim| claim.strong_count() > 0);
        claims.insert(key, Arc::downgrade(&claim));
        Ok(claim)
    }

    async fn token(&self, audience: &str) -> Result<AccessToken, Failure> {
        let Ok(token) = tokio::time::timeout(self.timeout, self.credential.token(audience)).await else {
            let detail = format!("the credential returned no token within {:?}", self.timeout);
            return Err(Failure::new(ErrorKind::ServiceTimeout, detail));
        };
        Ok(token?)
    }

    /// Sends a token for an audience.
    async fn put(self: &Arc<Self>, audience: &str, token: AccessToken) -> Result<(), Failure> {
        let AccessToken { token_type, token, expires_at } = token;
        let mut properties = ApplicationProperties::default();
        properties.push("operation", "put-token");
        properties.push("type", token_type.as_str());
        properties.push("name", audience.to_owned());
        if let Some(at) = expires_at {
            properties.push("expiration", WireTimestamp(at.as_millis()));
        }
        self.cbs().await?.call(Request { properties, body: Value::from(token), txn_id: None }).await?;
        Ok(())
    }

    /// Returns the links to the management node of an entity.
    pub(crate) async fn management(self: &Arc<Self>, path: &EntityPath) -> Result<Arc<Management>, Failure> {
        let key = key(path);
        if let Some(management) = self.kept_management(&key) {
            return Ok(management);
        }
        let attaching = self.attaching.join(&key, || {
            let (wire, key, path) = (Arc::clone(self), key.clone(), path.clone());
            Box::pin(async move {
                // An attempt may have ended since.
                match wire.kept_management(&key) {
                    Some(management) => Ok(management),
                    None => wire.attach_management(key, &path).await,
                }
            })
        });
        attaching.await
    }

    fn kept_management(&self, key: &str) -> Option<Arc<Management>> {
        let mut kept = self.management.lock();
        kept.retain(|(_, management)| !management.is_over());
        let at = kept.iter().position(|(of, _)| of == key)?;
        let found = kept.remove(at)?;
        let management = Arc::clone(&found.1);
        kept.push_back(found);
        Some(management)
    }

    async fn attach_management(self: &Arc<Self>, key: String, path: &EntityPath) -> Result<Arc<Management>, Failure> {
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

/// Renews the tokens of one audience.
struct Renewal {
    /// A claim may be in the links of the connection, which it does not keep.
    wire: Weak<Wire>,
    audience: String,
    expiry: Expiry,
}

impl Renewal {
    /// Sends another token before each expires, until the connection ends, or a token expires that the credential repeats.
    async fn run(self, clock: Arc<dyn Clock>, mut expires_at: Timestamp) {
        let mut failures = 0;
        loop {
            let left = expires_at.saturating_since(clock.now().utc);
            let wait = if failures == 0 {
                left.saturating_sub((left / RENEWED_BEFORE).min(LONGEST_BEFORE))
            } else {
                backoff(RENEWAL_PAUSES, failures)
            };
            // A token that has expired already is not renewed without a pause.
            tokio::time::sleep(wait.max(Duration::from_millis(500))).await;
            let Some(wire) = self.wire.upgrade().filter(|wire| !wire.connection.is_closed()) else { return };
            match self.renew(&wire, expires_at).await {
                Ok(Renewed::Until(at)) => (expires_at, failures) = (at, 0),
                Ok(Renewed::ForGood) => return,
                // A credential may repeat its token until shortly before it expires, or have no other one, as a signature.
                Ok(Renewed::Repeated) if clock.now().utc < expires_at => failures += 1,
                Ok(Renewed::Repeated) => return log::expired(&self.audience),
                Err(_) if wire.connection.is_closed() => return,
                Err(failure) => {
                    failures += 1_u32;
                    log::not_authorized(&self.audience, &failure);
                }
            }
        }
    }

    /// Sends another token, unless it is the one that expires at `expires_at`.
    async fn renew(&self, wire: &Arc<Wire>, expires_at: Timestamp) -> Result<Renewed, Failure> {
        let token = wire.token(&self.audience).await?;
        let until = token.expires_at;
        if until.is_some_and(|at| at <= expires_at) {
            return Ok(Renewed::Repeated);
        }
        wire.put(&self.audience, token).await?;
        self.expiry.set(until);
        Ok(until.map_or(Renewed::ForGood, Renewed::Until))
    }
}

/// What became of a renewal.
enum Renewed {
    Until(Timestamp),
    /// The token does not expire.
    ForGood,
    /// The credential had no later token.
    Repeated,
}
