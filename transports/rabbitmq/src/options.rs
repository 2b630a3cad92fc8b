use std::time::Duration;

use consign::transport::{ErrorKind, ManageError};

use crate::RabbitMq;

/// How a [`RabbitMq`] connects, and how long it waits.
///
/// ```no_run
/// # async fn connect() -> Result<(), consign::transport::ManageError> {
/// use std::time::Duration;
/// use consign_rabbitmq::RabbitMq;
///
/// let rabbit = RabbitMq::options()
///     .deadline(Duration::from_secs(10))
///     .name("orders")
///     .connect("amqps://shop:secret@rabbit.example.org/%2f")
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing until `connect` is called"]
pub struct Options {
    pub(crate) deadline: Duration,
    pub(crate) heartbeat: Duration,
    pub(crate) backoff: (Duration, Duration),
    pub(crate) linger: Duration,
    pub(crate) name: Option<String>,
    pub(crate) delays: String,
    pub(crate) sends_in_flight: usize,
    pub(crate) certificates: Option<String>,
}

/// Far from what overflows when it is added to an instant.
const LONGEST: Duration = Duration::from_secs(24 * 3_600);
const LONGEST_PREFIX: usize = 100;

impl Default for Options {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(30),
            heartbeat: Duration::from_secs(10),
            backoff: (Duration::from_millis(100), Duration::from_secs(10)),
            linger: Duration::from_millis(20),
            name: None,
            delays: "consign.delays".into(),
            sends_in_flight: 1_024,
            certificates: None,
        }
    }
}

impl Options {
    /// How long any one step may take: a connection, a declaration, a send until its confirm, a settlement until it is
    /// written. What takes longer ends in `ServiceTimeout`. 30 s; 1 ms to a day.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline.clamp(Duration::from_millis(1), LONGEST);
        self
    }

    /// How often the broker must be heard from, in whole seconds: a connection that is silent for twice as long is given
    /// up. 10 s; at least 1 s.
    pub fn heartbeat(mut self, heartbeat: Duration) -> Self {
        self.heartbeat = heartbeat.max(Duration::from_secs(1));
        self
    }

    /// The pause after the first connection that failed, which doubles with each that follows, and the longest pause. Each
    /// is shortened by a random part, up to a half. 100 ms and 10 s; at most a day.
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        let first = first.min(LONGEST);
        self.backoff = (first, longest.clamp(first, LONGEST));
        self
    }

    /// For how long a receiver stays subscribed when nobody waits on it, so that one receive after the other is quick. A
    /// message that comes meanwhile is kept for the next receive, and given back, uncounted, when there is none. 20 ms; zero
    /// ends the subscription at once. At most a day.
    pub fn linger(mut self, linger: Duration) -> Self {
        self.linger = linger.min(LONGEST);
        self
    }

    /// What the broker shows the connection as.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// What the names of the queues and exchanges that delay messages begin with, 1 to 100 bytes. Everyone who
    /// schedules on a virtual host can share them. `consign.delays`.
    pub fn delays(mut self, prefix: impl Into<String>) -> Self {
        self.delays = prefix.into();
        self
    }

    /// How many sends of one sender may wait for their confirm; further ones wait their turn. 1,024; 1 to 65,536.
    pub fn sends_in_flight(mut self, sends: usize) -> Self {
        self.sends_in_flight = sends.clamp(1, 65_536);
        self
    }

    /// Certificates of authorities that are trusted besides those of the operating system: PEM, for `amqps://`.
    pub fn certificates(mut self, pem: impl Into<String>) -> Self {
        self.certificates = Some(pem.into());
        self
    }

    /// Connects to `amqp://` or, by TLS, `amqps://`. What the address says of heartbeats and time-outs is taken before what
    /// these options say.
    ///
    /// Errors: an address that cannot be read or a [prefix](Self::delays) of another length (`InvalidArgument`), the broker's refusal of the login (`Unauthorized`) or of the virtual host,
    /// and `CommunicationProblem`: the first connection is not tried again.
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
        let options = Options::default().deadline(longest).backoff(longest, longest).linger(longest);
        for time in [options.deadline, options.backoff.0, options.backoff.1, options.linger] {
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
