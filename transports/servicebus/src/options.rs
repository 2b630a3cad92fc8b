use std::{fmt, future::Future, io, sync::Arc, time::Duration};

use consign_core::{
    time::{Clock, SystemClock},
    transport::{BoxFuture, ErrorKind, ManageError},
};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{
    ConnectionString, ServiceBus, SharedAccessKey, SharedAccessSignature, TokenCredential,
    connection_string::{Secret, authority},
    endpoint::Endpoint,
    error::Failure,
};

/// The options of a transport: how a [`ServiceBus`] connects, and how long its calls may take.
///
/// ```no_run
/// # async fn connect(connection_string: &str) -> Result<(), consign::transport::ManageError> {
/// use std::time::Duration;
/// use consign_servicebus::ServiceBus;
///
/// let service_bus = ServiceBus::options().timeout(Duration::from_secs(20)).prefetch(50).connect(connection_string).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "options do nothing until `connect` is called"]
pub struct Options {
    pub(crate) timeout: Duration,
    pub(crate) idle_timeout: Duration,
    pub(crate) backoff: (Duration, Duration),
    pub(crate) retries: u32,
    pub(crate) prefetch: u32,
    pub(crate) max_message_size: u64,
    pub(crate) name: Option<String>,
    pub(crate) web_socket: bool,
    pub(crate) is_plain: bool,
    pub(crate) http_port: Option<u16>,
    pub(crate) certificates: Option<String>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) dial: Option<Dial>,
    pub(crate) proxy: Option<String>,
}

/// A stream of bytes.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Io for S {}

type Dial = Arc<dyn Fn(String, u16) -> BoxFuture<io::Result<Box<dyn Io>>> + Send + Sync>;

/// Small enough to be added to an instant without an overflow.
pub(crate) const LONGEST: Duration = Duration::from_secs(24 * 3_600);
pub(crate) const MOST_PREFETCHED: u32 = 4_096;
pub(crate) const MOST_RETRIES: u32 = 100;

impl Default for Options {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(60),
            backoff: (Duration::from_millis(800), Duration::from_secs(60)),
            retries: 3,
            prefetch: 0,
            max_message_size: (100 << 20) + (64 << 10),
            name: None,
            web_socket: false,
            is_plain: false,
            http_port: None,
            certificates: None,
            clock: Arc::new(SystemClock::new()),
            dial: None,
            proxy: None,
        }
    }
}

impl Options {
    /// Sets how long a call may take with its retries, and each of its steps. A longer one fails with `ServiceTimeout`. A purge, a
    /// list of sessions and the commit of a transaction consist of several such calls or steps. 60 s; 1 ms to a day.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.clamp(Duration::from_millis(1), LONGEST);
        self
    }

    /// Sets how long the server may be silent before the connection is closed. Half of it is announced to the server. 60 s; 1 s
    /// to a day.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout.clamp(Duration::from_secs(1), LONGEST);
        self
    }

    /// Sets the pause after the first failed attempt, which doubles with each further failure, and the longest pause. Each is
    /// shortened by a random part, up to a half. 800 ms and 60 s; at most a day.
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        let first = first.min(LONGEST);
        self.backoff = (first, longest.clamp(first, LONGEST));
        self
    }

    /// Sets how often a call is tried again after a failure that may pass, as long as it certainly had no effect or may be
    /// repeated. 3; at most 100.
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries.min(MOST_RETRIES);
        self
    }

    /// Sets how many messages a receiver locks beyond those that its caller requests. They are released when the receiver stops.
    /// The methods of [`ReceiverExt`](consign_core::transport::ReceiverExt) stop it after each call, so this option is for a
    /// `Consumer`. 0; at most 4,096. A receiver in the mode receive-and-delete ignores it.
    pub fn prefetch(mut self, messages: u32) -> Self {
        self.prefetch = messages.min(MOST_PREFETCHED);
        self
    }

    /// Sets the size of the largest message that is received, in bytes. 104,923,136, which is more than an entity allows; at least
    /// 1 KiB.
    ///
    /// `consign serve` dead-letters a larger message as `NotDeliverable`. In the mode receive-and-delete it refuses the link, if a
    /// message of the entity may be larger. On other servers a larger message ends its link, and the receive fails with
    /// [`ErrorKind::MessageSizeExceeded`]. The message stays in the queue, so that the next receive may fail too: remove it by
    /// another client, or raise the limit.
    ///
    /// [`ErrorKind::MessageSizeExceeded`]: consign_core::transport::ErrorKind::MessageSizeExceeded
    pub fn max_message_size(mut self, bytes: u64) -> Self {
        self.max_message_size = bytes.max(1 << 10);
        self
    }

    /// Sets the name of the AMQP container. By default it is `consign` with a random number.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets whether AMQP is transferred over WebSocket, by default on port 443, and 5300 without TLS. It needs the feature `websocket`. False.
    pub fn web_socket(mut self, web_socket: bool) -> Self {
        self.web_socket = web_socket;
        self
    }

    /// Connects without TLS, to a server for development, also by [`connect_with`](Self::connect_with). Tokens
    /// are not encrypted then.
    pub fn plain(mut self) -> Self {
        self.is_plain = true;
        self
    }

    /// Sets the port of the administration, which is over HTTP. 443, and 5300 without TLS. It needs the feature `administration`.
    pub fn http_port(mut self, port: u16) -> Self {
        self.http_port = Some(port);
        self
    }

    /// Adds certificates of authorities that are trusted besides those of the operating system: PEM.
    pub fn certificates(mut self, pem: impl Into<String>) -> Self {
        self.certificates = Some(pem.into());
        self
    }

    /// Sets the clock by which tokens expire and by which the duration of a lock is computed. The duration is the instant at which
    /// the server ends the lock, less the time of this clock: both clocks must agree to a part of it. A [`SystemClock`].
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Sets a proxy of HTTP, `http://user:password@host:port`, through which streams are opened by its method `CONNECT`. User and
    /// password are percent-encoded. None by default: environment variables are not read.
    pub fn proxy(mut self, url: impl Into<String>) -> Self {
        self.proxy = Some(url.into());
        self
    }

    /// Sets how a stream of bytes to a host and a port is opened, such as one through a proxy. TLS and WebSocket are done on this
    /// stream. By default it is a TCP connection. With a [proxy](Self::proxy), the host and the port are those of the proxy.
    ///
    /// ```
    /// use consign_servicebus::ServiceBus;
    ///
    /// // A proxy that forwards to one host.
    /// let options = ServiceBus::options().dial_with(|_, _| tokio::net::TcpStream::connect("proxy.example.org:1080"));
    /// ```
    pub fn dial_with<F, S>(mut self, dial: impl Fn(String, u16) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<S>> + Send + 'static,
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        self.dial = Some(Arc::new(move |host, port| {
            let dialed = dial(host, port);
            Box::pin(async move { Ok(Box::new(dialed.await?) as Box<dyn Io>) })
        }));
        self
    }

    /// Connects by a [connection string](ConnectionString). Connecting does not check the key, also not for an `EntityPath`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a connection string that cannot be read, or certificates that are not PEM; `NotSupported` without a
    /// feature of the crate that the options need; `CommunicationProblem` or `ServiceTimeout` if the host cannot be reached: the
    /// first connection is not retried. `Unauthorized` is the error of the first use of an entity, which is when its token is sent.
    pub async fn connect(self, connection_string: &str) -> Result<ServiceBus, ManageError> {
        let parsed: ConnectionString = connection_string.parse().map_err(|error| {
            ManageError::new(ErrorKind::InvalidArgument).with_detail(format!("{error}")).with_source(error)
        })?;
        Ok(self.open(&parsed).await?)
    }

    pub(crate) async fn open(self, parsed: &ConnectionString) -> Result<ServiceBus, Failure> {
        let credential: Arc<dyn TokenCredential> = match &parsed.secret {
            Secret::Key { name, key } => Arc::new(SharedAccessKey::new(name, key).clock(Arc::clone(&self.clock))),
            Secret::Signature(signature) => Arc::new(SharedAccessSignature::new(signature)),
        };
        let endpoint = self.endpoint(parsed.host.clone(), parsed.port, !parsed.is_emulator && !self.is_plain);
        ServiceBus::open(self, endpoint, credential).await
    }

    /// Connects to a namespace, such as `example.servicebus.windows.net`, with a credential. A port may follow.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn connect_with(
        self,
        namespace: &str,
        credential: impl TokenCredential,
    ) -> Result<ServiceBus, ManageError> {
        let invalid = || ManageError::new(ErrorKind::InvalidArgument).with_detail("expected `host` or `host:port`");
        let (host, port) = authority(namespace).ok_or_else(invalid)?;
        let endpoint = self.endpoint(host, port, !self.is_plain);
        Ok(ServiceBus::open(self, endpoint, Arc::new(credential)).await?)
    }

    pub(crate) fn endpoint(&self, host: String, port: Option<u16>, is_tls: bool) -> Endpoint {
        let default = match (self.web_socket, is_tls) {
            (true, true) => 443,
            (true, false) => 5300,
            (false, true) => 5671,
            (false, false) => 5672,
        };
        Endpoint { host, port: port.unwrap_or(default), is_tls }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("timeout", &self.timeout)
            .field("idle_timeout", &self.idle_timeout)
            .field("retries", &self.retries)
            .field("prefetch", &self.prefetch)
            .field("web_socket", &self.web_socket)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_clamped_to_their_range() {
        let longest = Duration::MAX;
        let options = Options::default().timeout(longest).backoff(longest, longest).idle_timeout(longest);
        for time in [options.timeout, options.backoff.0, options.backoff.1, options.idle_timeout] {
            assert_eq!(time, LONGEST);
        }
        let options = Options::default().prefetch(u32::MAX).retries(u32::MAX).max_message_size(0);
        assert_eq!((options.prefetch, options.retries, options.max_message_size), (4_096, 100, 1_024));
    }

    #[test]
    fn a_port_has_a_default_for_each_kind_of_stream() {
        let port =
            |web_socket, is_tls| Options::default().web_socket(web_socket).endpoint("h".into(), None, is_tls).port;
        assert_eq!([port(false, true), port(false, false), port(true, true)], [5_671, 5_672, 443]);
        assert_eq!(Options::default().endpoint("h".into(), Some(7), true).port, 7);
    }
}
