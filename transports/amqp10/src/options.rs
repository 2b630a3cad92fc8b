use std::{fmt, time::Duration};

use consign_core::transport::ManageError;

use crate::{Amqp10, Product, servers::Servers};

/// The options of a transport: how an [`Amqp10`] connects, which addresses it uses, and what its broker supports.
///
/// ```no_run
/// # async fn connect() -> Result<(), consign::transport::ManageError> {
/// use std::time::Duration;
/// use consign_amqp10::Amqp10;
///
/// let amqp = Amqp10::options()
///     .timeout(Duration::from_secs(10))
///     .dead_letter_address("DLQ.{path}")
///     .connect("amqp10://shop:secret@broker.example.org")
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "options do nothing until `connect` is called"]
pub struct Options {
    pub(crate) timeout: Duration,
    pub(crate) idle_timeout: Duration,
    pub(crate) backoff: (Duration, Duration),
    pub(crate) prefetch: u32,
    pub(crate) address: Option<String>,
    pub(crate) dead_letter_address: Option<String>,
    pub(crate) dead_letters: DeadLetters,
    pub(crate) confirms_settlements: bool,
    pub(crate) schedules: bool,
    pub(crate) sends_time_to_live: bool,
    pub(crate) max_delivery_count: u32,
    pub(crate) max_message_size: u64,
    pub(crate) name: Option<String>,
    pub(crate) hostname: Option<String>,
    pub(crate) sasl: Sasl,
    pub(crate) product: Option<Product>,
    /// The path of the request that upgrades a connection.
    pub(crate) web_socket: Option<String>,
    pub(crate) certificates: Option<String>,
    /// The chain of certificates, and the key.
    pub(crate) client_certificate: Option<(String, String)>,
}

/// Shows no key and no name.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("timeout", &self.timeout)
            .field("address", &self.address)
            .field("dead_letter_address", &self.dead_letter_address)
            .field("dead_letters", &self.dead_letters)
            .field("product", &self.product)
            .finish_non_exhaustive()
    }
}

/// How a message is dead-lettered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeadLetters {
    /// The transport sends a copy with the reason and the description to the dead-letter address. When the broker has accepted the
    /// copy, the original is accepted. The address must exist.
    #[default]
    Copy,
    /// The delivery is settled as `rejected`, with the reason and the description in the error. The broker decides what happens to
    /// the message: many discard it, or move it to an address of their own without the reason.
    Reject,
}

/// How a client authenticates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sasl {
    /// `PLAIN` if the URL has a user, otherwise `ANONYMOUS`.
    #[default]
    Login,
    /// `EXTERNAL`: the broker uses the identity of the TLS client certificate.
    External,
    /// No authentication layer.
    None,
}

/// Small enough to be added to an instant without an overflow.
pub(crate) const LONGEST: Duration = Duration::from_secs(24 * 3_600);
pub(crate) const MOST_PREFETCHED: u32 = 4_096;

impl Default for Options {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(60),
            backoff: (Duration::from_millis(100), Duration::from_secs(10)),
            prefetch: 0,
            address: None,
            dead_letter_address: None,
            dead_letters: DeadLetters::Copy,
            confirms_settlements: true,
            schedules: false,
            sends_time_to_live: false,
            max_delivery_count: 10,
            max_message_size: 64 << 20,
            name: None,
            hostname: None,
            sasl: Sasl::Login,
            product: None,
            web_socket: None,
            certificates: None,
            client_certificate: None,
        }
    }
}

/// Returns whether a text is the path of a request, percent-encoded, with its query if it has one.
pub(crate) fn is_request_path(path: &str) -> bool {
    let is_other = |byte: u8| !byte.is_ascii_graphic() || b"\"#<>\\^`{|}".contains(&byte);
    path.starts_with('/') && !path.starts_with("//") && !path.bytes().any(is_other)
}

impl Options {
    /// Sets how long any one step may take: a connection to one host, an attach, a send until its outcome, a settlement until the
    /// broker confirms it. A longer step fails with `ServiceTimeout`. It is also how long a receive that has lost its connection tries
    /// to attach again. 30 s; 1 ms to a day.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.clamp(Duration::from_millis(1), LONGEST);
        self
    }

    /// Sets how long the broker may be silent before the connection is closed. Half of it is announced to the broker. 60 s; 1 s to
    /// a day.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout.clamp(Duration::from_secs(1), LONGEST);
        self
    }

    /// Sets the pause after the first failed connection, which doubles with each further failure, and the longest pause. Each
    /// is shortened by a random part, up to a half. 100 ms and 10 s; at most a day.
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        let first = first.min(LONGEST);
        self.backoff = (first, longest.clamp(first, LONGEST));
        self
    }

    /// Sets how many messages a receiver locks beyond those that its caller requests. They are released when the receiver stops.
    /// The methods of [`ReceiverExt`](consign_core::transport::ReceiverExt) stop it after each call, so this option is for a
    /// `Consumer`. 0; at most 4,096. A receiver in the mode receive-and-delete ignores it.
    pub fn prefetch(mut self, messages: u32) -> Self {
        self.prefetch = messages.min(MOST_PREFETCHED);
        self
    }

    /// Sets the address of an entity. `{path}` stands for its path. `{path}`, and `/amq/queue/{path}` on RabbitMQ 3, where the path is
    /// percent-encoded.
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.address = Some(address.into());
        self
    }

    /// Sets the address of the dead-letter sub-queue of an entity. `{path}` stands for the path of the entity. By default, it is
    /// the [address](Self::address) of the path `{path}/$deadletterqueue`.
    pub fn dead_letter_address(mut self, address: impl Into<String>) -> Self {
        self.dead_letter_address = Some(address.into());
        self
    }

    /// Sets how messages are dead-lettered. [`DeadLetters::Copy`].
    pub fn dead_letters(mut self, dead_letters: DeadLetters) -> Self {
        self.dead_letters = dead_letters;
        self
    }

    /// Sets whether a settlement waits until the broker has settled the delivery. Without it, a settlement has succeeded when it is
    /// handed to the connection, and may be lost with it. True.
    pub fn confirm_settlements(mut self, confirm: bool) -> Self {
        self.confirms_settlements = confirm;
        self
    }

    /// Declares that the broker delivers a message with the annotation `x-opt-scheduled-enqueue-time` at that time and not before.
    /// Scheduled messages, and abandoning or releasing with a delay, are refused without it. False.
    pub fn scheduling(mut self, supported: bool) -> Self {
        self.schedules = supported;
        self
    }

    /// Declares that messages with a time to live may be sent: it is the `ttl` of the header, and the broker decides whether messages
    /// expire. They are refused without it. False.
    pub fn time_to_live(mut self, permitted: bool) -> Self {
        self.sends_time_to_live = permitted;
        self
    }

    /// Sets after how many failed deliveries a consumer dead-letters a message. 10; at least 1.
    pub fn max_delivery_count(mut self, deliveries: u32) -> Self {
        self.max_delivery_count = deliveries.max(1);
        self
    }

    /// Sets the size of the largest message that is received, in bytes. 64 MiB; at least 1 KiB.
    ///
    /// A larger message ends its link, and the receive fails with [`ErrorKind::MessageSizeExceeded`]. The message stays in the
    /// queue, so that the next receive may fail too: remove it by another client, or raise the limit.
    ///
    /// [`ErrorKind::MessageSizeExceeded`]: consign_core::transport::ErrorKind::MessageSizeExceeded
    pub fn max_message_size(mut self, bytes: u64) -> Self {
        self.max_message_size = bytes.max(1 << 10);
        self
    }

    /// Sets the name of the AMQP container, which brokers show. By default it is `consign` with a random number.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the `hostname` of the connection, by which some brokers select a virtual host: `vhost:NAME` on RabbitMQ. By default it is
    /// the connected host.
    pub fn hostname(mut self, hostname: impl Into<String>) -> Self {
        self.hostname = Some(hostname.into());
        self
    }

    /// Sets how the client authenticates. [`Sasl::Login`].
    pub fn sasl(mut self, sasl: Sasl) -> Self {
        self.sasl = sasl;
        self
    }

    /// Sets the product of the broker, whose deviations from the protocol the transport then allows for. By default it is read from
    /// the `product` that the broker reports.
    pub fn product(mut self, product: Product) -> Self {
        self.product = Some(product);
        self
    }

    /// Transfers AMQP over WebSocket with the subprotocol `amqp`, by a request to a path such as `/`, which is percent-encoded. The
    /// default port is 80, and 443 for `amqps10://`. It needs the feature `websocket`.
    pub fn web_socket(mut self, path: impl Into<String>) -> Self {
        self.web_socket = Some(path.into());
        self
    }

    /// Adds certificates of authorities that are trusted besides those of the operating system: PEM, for `amqps10://`.
    pub fn certificates(mut self, pem: impl Into<String>) -> Self {
        self.certificates = Some(pem.into());
        self
    }

    /// Sets the certificate of the client with its chain, and its private key: PEM, for `amqps10://` and [`Sasl::External`].
    pub fn client_certificate(mut self, chain: impl Into<String>, key: impl Into<String>) -> Self {
        self.client_certificate = Some((chain.into(), key.into()));
        self
    }

    /// Connects to `amqp10://user:password@host:5672` or, by TLS, `amqps10://user:password@host:5671`.
    ///
    /// An address may have several hosts, `amqp10://shop:secret@one:5672,two:5672`. They are tried in turn, also when a connection is
    /// opened again; the host that was connected last is the first one then. Each has its own [timeout](Self::timeout).
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for an address that cannot be read, an address of entities without `{path}`, a path of WebSocket that does not
    /// begin with `/`, or certificates that are not PEM; `NotSupported` for `amqps10://` or WebSocket without the feature of the crate;
    /// `Unauthorized` if the broker refuses the login; `CommunicationProblem` or `ServiceTimeout` if no host can be
    /// reached: the first connection is not retried.
    pub async fn connect(self, address: &str) -> Result<Amqp10, ManageError> {
        let servers = Servers::parse(address, self.web_socket.is_some())?;
        Ok(Amqp10::open(self, servers).await?)
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
        let options = Options::default().prefetch(u32::MAX).max_delivery_count(0).max_message_size(0);
        assert_eq!((options.prefetch, options.max_delivery_count, options.max_message_size), (4_096, 1, 1_024));
        let options = Options::default().backoff(Duration::from_secs(5), Duration::ZERO);
        assert_eq!(options.backoff, (Duration::from_secs(5), Duration::from_secs(5)));
    }

    #[test]
    fn the_path_of_a_request_begins_with_a_slash_and_is_encoded() {
        assert!(["/", "/$servicebus/websocket", "/a%20b?c=d"].into_iter().all(is_request_path));
        assert!(
            !["", "amqp", "//host/amqp", "/a b", "/a\r\nHost:x", "/\u{e4}", "/#a"].into_iter().any(is_request_path)
        );
    }
}
