use std::time::Duration;

/// The limits of a server. Each has an error for a peer that exceeds it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// The most connections at a time that have authenticated, at least 1. 5,000 by default.
    ///
    /// A client has authenticated when it has a right: by its key in SASL, or by its first token. One more is closed then with
    /// `amqp:resource-limit-exceeded`. Connections of HTTP have a limit of their own.
    pub max_connections: usize,
    /// The most connections at a time that have not authenticated, at least 1. 1,000 by default. They do not count toward
    /// `max_connections`.
    ///
    /// One more closes the oldest of them, with `amqp:resource-limit-exceeded` if it is open.
    pub max_unauthenticated: usize,
    /// The most sessions of a connection, 1 to 32,768. 5,000 by default, and 256 until the client has authenticated.
    pub max_sessions: u16,
    /// The most links of a session, 1 to 32,768. 256 by default.
    pub max_links: u32,
    /// The most links of a connection, at least 1. 5,000 by default, and 1,024 until the client has authenticated.
    pub max_connection_links: u32,
    /// The most unsettled deliveries of a session in each direction, at least 1. 8,192 by default.
    ///
    /// If a client receives so many, deliveries whose locks have ended are settled as `released`, so that others are sent.
    pub max_unsettled: usize,
    /// The largest frame in bytes, at least 512. 65,536 by default.
    pub max_frame_size: u32,
    /// The largest message that is received, in bytes, whatever an entity allows. 104,923,136 by default: 100 MiB, the most that an
    /// entity allows, and 64 KiB.
    ///
    /// A message over the limit of its entity, or over this one, is rejected. What is received of it is not kept.
    pub max_message_size: u64,
    /// The most bytes of deliveries of a connection of which the client has sent a part. 419,692,544 by default: four messages of the
    /// largest size. 2 MiB until the client has authenticated. One more byte detaches its link with `amqp:resource-limit-exceeded`.
    pub max_incomplete_bytes: u64,
    /// The credit of a sender's link, at least 1. 100 by default.
    ///
    /// Each link has it, and all links of a session have `max_unsettled` together. A client that uses the whole credit of many links of
    /// one session can exceed that, by default with more than 81 of them: the link of the next message is detached then.
    pub sender_credit: u32,
    /// The most transactions of a connection that are declared and not discharged. 64 by default.
    pub max_transactions: usize,
    /// The most bytes of the messages in the transactions of a connection that are not discharged, with the properties that their
    /// settlements change. 134,217,728 by default: 128 MiB. One more message is rejected with `amqp:resource-limit-exceeded`.
    pub max_transaction_bytes: usize,
    /// The most tokens of a connection. 1,024 by default.
    pub max_tokens: usize,
    /// The most requests of a connection whose answer is not sent yet, at least 1. 256 by default. Above it a request is answered with the status
    /// 503, above twice as many its link is detached with `amqp:resource-limit-exceeded`.
    pub max_requests: usize,
}

/// How long a server waits for a peer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Timeouts {
    /// How long a client may take to authenticate and to open the connection. 20 seconds by default.
    pub handshake: Duration,
    /// How long a connection may be without any frame of the client. 8 minutes by default; half of it is announced. Some clients
    /// send nothing while their program does not call them.
    pub silence: Duration,
    /// How long a link may be without a transfer, a settlement or a flow, at least 1 second. 10 minutes by default.
    pub idle_link: Duration,
    /// How long a connection may be without a link. 5 minutes by default.
    pub idle_connection: Duration,
    /// How long a new connection may be without a link. 1 minute by default.
    pub new_connection: Duration,
    /// How long a client may be without a token, where it needs one. 20 seconds by default.
    pub authorization: Duration,
    /// How long connections may take to close when the server shuts down. 10 seconds by default. Then they are dropped.
    pub shutdown: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: 5_000,
            max_unauthenticated: 1_000,
            max_sessions: 5_000,
            max_links: 256,
            max_connection_links: 5_000,
            max_unsettled: 8_192,
            max_frame_size: 65_536,
            max_message_size: (100 << 20) + (64 << 10),
            max_incomplete_bytes: 4 * ((100 << 20) + (64 << 10)),
            sender_credit: 100,
            max_transactions: 64,
            max_transaction_bytes: 128 << 20,
            max_tokens: 1_024,
            max_requests: 256,
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(20),
            silence: Duration::from_secs(8 * 60),
            idle_link: Duration::from_secs(10 * 60),
            idle_connection: Duration::from_secs(5 * 60),
            new_connection: Duration::from_secs(60),
            authorization: Duration::from_secs(20),
            shutdown: Duration::from_secs(10),
        }
    }
}

macro_rules! setters {
    ($of:ident { $($field:ident: $type:ty;)* }) => {
        impl $of {
            $(
                #[doc = concat!("Sets `", stringify!($field), "`.")]
                #[must_use]
                pub const fn $field(mut self, value: $type) -> Self {
                    self.$field = value;
                    self
                }
            )*
        }
    };
}

setters! {
    Limits {
        max_connections: usize;
        max_unauthenticated: usize;
        max_sessions: u16;
        max_links: u32;
        max_connection_links: u32;
        max_unsettled: usize;
        max_frame_size: u32;
        max_message_size: u64;
        max_incomplete_bytes: u64;
        sender_credit: u32;
        max_transactions: usize;
        max_transaction_bytes: usize;
        max_tokens: usize;
        max_requests: usize;
    }
}

setters! {
    Timeouts {
        handshake: Duration;
        silence: Duration;
        idle_link: Duration;
        idle_connection: Duration;
        new_connection: Duration;
        authorization: Duration;
        shutdown: Duration;
    }
}
