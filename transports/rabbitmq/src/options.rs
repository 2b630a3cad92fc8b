use std::time::Duration;

use consign_core::transport::{ErrorKind, ManageError};

use crate::{RabbitMq, settings::MOST_SLOTS};

/// The options of a connection: how a [`RabbitMq`] connects, and how long it waits.
///
/// ```no_run
/// # async fn connect() -> Result<(), consign::transport::ManageError> {
/// use std::time::Duration;
/// use consign_rabbitmq::RabbitMq;
///
/// let rabbit = RabbitMq::options()
///     .timeout(Duration::from_secs(10))
///     .name("orders")
///     .connect("amqps://shop:secret@rabbit.example.org/%2f")
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing until `connect` is called"]
pub struct Options {
    pub(crate) timeout: Duration,
    pub(crate) heartbeat: Duration,
    pub(crate) backoff: (Duration, Duration),
    pub(crate) linger: Duration,
    pub(crate) name: Option<String>,
    pub(crate) delays: String,
    pub(crate) sends_in_flight: usize,
    pub(crate) certificates: Option<String>,
    pub(crate) client_certificate: Option<(String, String)>,
    pub(crate) session_slots: u16,
}

/// Small enough to be added to an instant without an overflow.
pub(crate) const LONGEST: Duration = Duration::from_secs(24 * 3_600);
pub(crate) const LONGEST_PREFIX: usize = 100;
pub(crate) const MOST_SENDS: usize = 65_536;

impl Default for Options {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            heartbeat: Duration::from_secs(10),
            backoff: (Duration::from_millis(100), Duration::from_secs(10)),
            linger: Duration::from_millis(100),
            name: None,
            delays: "consign.delays".into(),
            sends_in_flight: 1_024,
            certificates: None,
            client_certificate: None,
            session_slots: 16,
        }
    }
}

impl Options {
    /// Sets how long any one step may take: a connection, a declaration, a send until its confirm, a settlement until it is
    /// written. A longer step fails with `ServiceTimeout`. 30 s; 1 ms to a day.
    ///
    /// A receiver whose subscription is not answered in that time closes its channel: the locks of its deliveries are lost, and
    /// the messages are redelivered.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.clamp(Duration::from_millis(1), LONGEST);
        self
    }

    /// Sets the interval of heartbeats, in whole seconds: a connection that is silent for twice as long is closed. 10 s; at
    /// least 1 s.
    pub fn heartbeat(mut self, heartbeat: Duration) -> Self {
        self.heartbeat = heartbeat.max(Duration::from_secs(1));
        self
    }

    /// Sets the pause after the first failed connection, which doubles with each further failure, and the longest pause. Each
    /// is shortened by a random part, up to a half. 100 ms and 10 s; at most a day.
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        let first = first.min(LONGEST);
        self.backoff = (first, longest.clamp(first, LONGEST));
        self
    }

    /// Sets how long a receiver stays subscribed without a waiting receive, so that successive receives are quick. A message
    /// that arrives meanwhile is kept for the next receive; without one it is released, uncounted. 100 ms; zero ends the
    /// subscription at once. At most a day.
    pub fn linger(mut self, linger: Duration) -> Self {
        self.linger = linger.min(LONGEST);
        self
    }

    /// Sets the name of the connection that the broker shows.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the prefix of the queues and exchanges that delay messages, 1 to 100 bytes. All programs that schedule on a virtual
    /// host can share them. `consign.delays`.
    pub fn delays(mut self, prefix: impl Into<String>) -> Self {
        self.delays = prefix.into();
        self
    }

    /// Sets how many sends of one sender may wait for their confirm; further ones wait for these. 1,024; 1 to 65,536.
    pub fn sends_in_flight(mut self, sends: usize) -> Self {
        self.sends_in_flight = sends.clamp(1, MOST_SENDS);
        self
    }

    /// Adds certificates of authorities that are trusted besides those of the operating system: PEM, for `amqps://`.
    pub fn certificates(mut self, pem: impl Into<String>) -> Self {
        self.certificates = Some(pem.into());
        self
    }

    /// Sets the certificate of the client with its chain, and its private key: PEM, for `amqps://`.
    pub fn client_certificate(mut self, chain: impl Into<String>, key: impl Into<String>) -> Self {
        self.client_certificate = Some((chain.into(), key.into()));
        self
    }

    /// Sets the number of [slots](crate::QueueSettings::session_slots) of entities that require sessions and that are declared
    /// through [`Administration`](consign_core::administration::Administration). 16; 1 to 64.
    pub fn session_slots(mut self, slots: u16) -> Self {
        self.session_slots = slots.clamp(1, MOST_SLOTS);
        self
    }

    /// Connects to `amqp://` or, by TLS, `amqps://`. A `heartbeat` in the address takes precedence over
    /// [that of these options](Self::heartbeat). A `connection_timeout` in the address can only shorten the timeout.
    ///
    /// An address may have several hosts, `amqp://shop:secret@one:5672,two:5672/%2f`. They are tried in turn, also when a
    /// connection is opened again; the host that was connected last is the first one then. Each has its own
    /// [timeout](Self::timeout).
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for an address that cannot be read or a [prefix](Self::delays) of another length; `Unauthorized` if
    /// the broker refuses the login; the broker's error if it refuses the virtual host; and `CommunicationProblem`: the first
    /// connection is not retried.
    pub async fn connect(self, address: &str) -> Result<RabbitMq, ManageError> {
        if self.delays.is_empty() || self.delays.len() > LONGEST_PREFIX {
            let detail = "the prefix of the delays has 1 to 100 bytes";
            return Err(ManageError::new(ErrorKind::InvalidArgument).with_detail(detail));
        }
        RabbitMq::open(self, address).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_no_clock_reaches_is_cut() {
        let longest = Duration::MAX;
        let options = Options::default().timeout(longest).backoff(longest, longest).linger(longest);
        for time in [options.timeout, options.backoff.0, options.backoff.1, options.linger] {
            assert_eq!(time, LONGEST);
        }
        assert_eq!(options.sends_in_flight(usize::MAX).sends_in_flight, 65_536);
    }

    #[tokio::test]
    async fn a_prefix_that_is_no_name_is_refused() {
        for prefix in [String::new(), "p".repeat(101)] {
            let error = Options::default().delays(prefix).connect("amqp://127.0.0.1:1/%2f").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        }
    }
}
