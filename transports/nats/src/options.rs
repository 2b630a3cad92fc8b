use std::{fmt, time::Duration};

use async_nats::ConnectOptions;
use consign_core::transport::ServerAddress;

use crate::refusals::Refusals;

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
    /// Whether the caller has set the client's options.
    pub(crate) has_foreign_client: bool,
    pub(crate) refusals: Refusals,
    pub(crate) timeout: Duration,
    pub(crate) namespace: String,
    pub(crate) domain: Option<String>,
    pub(crate) synced: bool,
    /// The only server of the URL.
    pub(crate) server: Option<ServerAddress>,
    /// The first pause and the longest.
    pub(crate) backoff: (Duration, Duration),
    /// How long a returned message may be in transit.
    pub(crate) patience: Duration,
}

pub(crate) const DAY: Duration = Duration::from_secs(24 * 3_600);
pub(crate) const FIRST_BACKOFF: Duration = Duration::from_millis(100);
pub(crate) const MAX_BACKOFF: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_millis(300);
/// The name of the client, which the server shows.
const CLIENT_NAME: &str = "consign";
/// How often a connection without traffic is checked. After two pings without an answer it counts as broken.
const PING: Duration = Duration::from_secs(10);
/// The form of a namespace.
pub(crate) const NAMESPACE: &str = "1 to 32 letters, digits and hyphens";

pub(crate) fn is_namespace(text: &str) -> bool {
    (1..=32).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Returns the options of a client for which the caller has none.
pub(crate) fn client() -> ConnectOptions {
    ConnectOptions::new().name(CLIENT_NAME).ping_interval(PING)
}

impl Options {
    pub(crate) fn new() -> Self {
        Self {
            client: client(),
            has_foreign_client: false,
            refusals: Refusals::default(),
            timeout: Duration::from_secs(10),
            namespace: "consign".into(),
            domain: None,
            synced: false,
            server: None,
            backoff: (FIRST_BACKOFF, MAX_BACKOFF),
            patience: PATIENCE,
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

    /// Sets how long a receiver that gets a returned message waits for an older one: by default 300 ms, and 5 s at most. It
    /// is for tests on a slow server.
    #[doc(hidden)]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sets the client's own options, such as identity and TLS. Its time-outs and its reconnection are set here. Set
    /// [`ping_interval`](ConnectOptions::ping_interval) too: its default is a minute, and a server without an answer is noticed
    /// after three of them. Without own options it is 10 s. Its `event_callback` is yours: an error of a call that the user has no
    /// permission for does not name the permission then.
    pub fn client(mut self, options: ConnectOptions) -> Self {
        self.client = options;
        self.has_foreign_client = true;
        self
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_does_not_answer_is_noticed_soon() {
        let shown = format!("{:?}", client());
        assert!(shown.contains("\"ping_interval\": 10s"), "{shown}");
    }

    #[test]
    fn no_wait_is_too_long_to_be_computed() {
        let options = Options::new().backoff(Duration::MAX, Duration::MAX).timeout(Duration::MAX);
        let (first, max) = options.backoff;
        assert_eq!((first, max), (DAY, DAY));
        assert_eq!(options.timeout, DAY);
    }
}
