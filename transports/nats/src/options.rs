use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_nats::{ConnectOptions, jetstream};
use consign_core::transport::{ErrorKind, ManageError, ServerAddress};

use crate::{
    Nats,
    servers::{Identity, Servers},
};

/// The options of a connection.
///
/// ```no_run
/// # async fn connect() -> Result<(), consign::transport::ManageError> {
/// use std::time::Duration;
/// use consign_nats::Nats;
///
/// let nats = Nats::options().timeout(Duration::from_secs(5)).namespace("shop").connect("nats://127.0.0.1:4222").await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "options do nothing until they connect"]
pub struct Options {
    pub(crate) client: ConnectOptions,
    pub(crate) timeout: Duration,
    pub(crate) namespace: String,
    pub(crate) domain: Option<String>,
    pub(crate) synced: bool,
    /// The only server of the URL.
    pub(crate) server: Option<ServerAddress>,
    backoff: (Duration, Duration),
}

pub(crate) const DAY: Duration = Duration::from_secs(24 * 3_600);
pub(crate) const FIRST_BACKOFF: Duration = Duration::from_millis(100);
pub(crate) const MAX_BACKOFF: Duration = Duration::from_secs(10);
/// The name of the client, which the server shows.
pub(crate) const CLIENT_NAME: &str = "consign";
/// The form of a namespace.
pub(crate) const NAMESPACE: &str = "1 to 32 letters, digits and hyphens";

pub(crate) fn is_namespace(text: &str) -> bool {
    (1..=32).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

impl Options {
    pub(crate) fn new() -> Self {
        Self {
            client: ConnectOptions::new().name(CLIENT_NAME),
            timeout: Duration::from_secs(10),
            namespace: "consign".into(),
            domain: None,
            synced: false,
            server: None,
            backoff: (FIRST_BACKOFF, MAX_BACKOFF),
        }
    }

    /// Sets how long a call waits for the server's answer, and connecting for the server: by default 10 s, and a day at most.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.clamp(Duration::from_millis(1), DAY);
        self
    }

    /// Sets the prefix of the names of all streams and subjects: by default `consign`. Letters, digits and `-`.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Sets the domain of JetStream, on a leaf node.
    pub fn domain(mut self, domain: impl Into<String>) -> Self {
        self.domain = Some(domain.into());
        self
    }

    /// Declares that the server syncs before it acknowledges: its configuration has `sync_interval: always`, or the streams
    /// have replicas that do not fail together. This turns the warning off. No client can see the setting.
    pub fn server_syncs(mut self) -> Self {
        self.synced = true;
        self
    }

    /// Sets the pause before the first attempt to reconnect. It is doubled each time up to `max`, with up to a half of it at
    /// random: by default 100 ms and 10 s, and a day at most. The attempts have no limit.
    pub fn backoff(mut self, first: Duration, max: Duration) -> Self {
        self.backoff = (first.min(DAY), max.min(DAY));
        self
    }

    /// Sets the client's own options, such as identity and TLS. Its time-outs and its reconnection are set here.
    pub fn client(mut self, options: ConnectOptions) -> Self {
        self.client = options;
        self
    }

    /// Connects to a server, such as `nats://127.0.0.1:4222`, or to one of several that are separated by commas. `tls://`
    /// requires TLS. A user with a password, `nats://user:password@127.0.0.1`, or a token, `nats://token@127.0.0.1`, is that of
    /// all servers, and is percent-encoded. Several servers share the timeout of connecting.
    ///
    /// # Errors
    ///
    /// [`CommunicationProblem`](ErrorKind::CommunicationProblem) if there is no server,
    /// [`ServiceTimeout`](ErrorKind::ServiceTimeout), [`Unauthorized`](ErrorKind::Unauthorized),
    /// [`NotSupported`](ErrorKind::NotSupported) if it is older than 2.9 or without JetStream,
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for an address or a namespace that breaks a rule.
    pub async fn connect(self, url: &str) -> Result<Nats, ManageError> {
        let refused = |expected| ManageError::new(ErrorKind::InvalidArgument).with_detail(expected);
        self.connect_to(Servers::parse(url).map_err(refused)?).await
    }

    pub(crate) async fn connect_to(mut self, servers: Servers) -> Result<Nats, ManageError> {
        let Servers { addresses, requires_tls, identity } = servers;
        if let [only] = &*addresses {
            self.server = Some(ServerAddress::new(only.host().trim_matches(['[', ']'])).with_port(only.port()));
        }
        let (first, max) = self.backoff;
        // A server that does not answer leaves time for the next one.
        let timeout = self.timeout / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        // The client calls it for the first attempts too, which do not wait.
        let is_again = Arc::new(AtomicBool::new(false));
        let pause = Arc::clone(&is_again);
        let pause =
            move |attempt| if pause.load(Ordering::Relaxed) { delay(attempt, first, max) } else { Duration::ZERO };
        let mut options = std::mem::take(&mut self.client)
            .connection_timeout(timeout)
            .request_timeout(Some(self.timeout))
            .max_reconnects(None)
            .reconnect_delay_callback(pause);
        if requires_tls {
            options = options.require_tls(true);
        }
        options = match identity {
            None => options,
            Some(Identity::User { name, password }) => options.user_and_password(name, password),
            Some(Identity::Token(token)) => options.token(token),
        };
        let client = match tokio::time::timeout(self.timeout, options.connect(addresses)).await {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => return Err(connect_error(&error)),
            Err(_) => return Err(ManageError::new(ErrorKind::ServiceTimeout).with_detail("no connection in time")),
        };
        is_again.store(true, Ordering::Relaxed);
        let context = self.context(client);
        Nats::begin(context, &self, true).await
    }

    /// Wraps an existing client. The caller configures its reconnection and closes it.
    pub async fn wrap(self, client: async_nats::Client) -> Result<Nats, ManageError> {
        let context = self.context(client);
        Nats::begin(context, &self, false).await
    }

    /// Connects over an existing client, like [`wrap`](Self::wrap), with the prefix or domain of `context`.
    pub async fn wrap_context(self, context: jetstream::Context) -> Result<Nats, ManageError> {
        Nats::begin(context, &self, false).await
    }

    fn context(&self, client: async_nats::Client) -> jetstream::Context {
        let builder = jetstream::context::ContextBuilder::new().timeout(self.timeout);
        match &self.domain {
            Some(domain) => builder.domain(domain).build(client),
            None => builder.build(client),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("timeout", &self.timeout)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

/// Returns the wait before attempt number `attempt`, which counts from 0 or 1: the first one is made soon.
fn delay(attempt: usize, first: Duration, max: Duration) -> Duration {
    let doubled = first.saturating_mul(1 << attempt.saturating_sub(1).min(16)).min(max);
    doubled.mul_f64(1.0 - fastrand::f64() / 2.0)
}

fn connect_error(error: &async_nats::ConnectError) -> ManageError {
    use async_nats::ConnectErrorKind as Kind;
    let kind = match error.kind() {
        Kind::ServerParse => ErrorKind::InvalidArgument,
        Kind::Authentication | Kind::AuthorizationViolation => ErrorKind::Unauthorized,
        Kind::TimedOut => ErrorKind::ServiceTimeout,
        _ => ErrorKind::CommunicationProblem,
    };
    ManageError::new(kind).with_detail(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_grows_to_its_bound() {
        let (first, max) = (Duration::from_millis(100), Duration::from_secs(10));
        for attempt in 0..100 {
            let wait = delay(attempt, first, max);
            assert!(wait >= first / 2 && wait <= max, "{attempt}: {wait:?}");
        }
        assert!(delay(1_000, first, max) >= max / 2);
    }

    #[test]
    fn no_wait_is_too_long_to_be_computed() {
        let options = Options::new().backoff(Duration::MAX, Duration::MAX).timeout(Duration::MAX);
        let (first, max) = options.backoff;
        for attempt in 0..100 {
            assert!(delay(attempt, first, max) <= DAY);
        }
        assert_eq!(options.timeout, DAY);
    }
}
