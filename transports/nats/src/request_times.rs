use std::time::Duration;

/// How long the server keeps the first request of a receiver that waits. A message that is to be redelivered as a request ends is forgotten until its lock would
/// have ended (observed with nats-server 2.9.10). Requests are often made when a message was just returned with a delay, so
/// this is not a round time.
pub(crate) const EXPIRES: Duration = Duration::from_millis(4_650);

/// How long it keeps a request of a receiver that has waited for long: each that ends without a message makes the next one last
/// twice as long, so that idle receivers make few requests.
pub(crate) const LONGEST: Duration = EXPIRES.saturating_mul(4);

/// How long after its end a request is taken as lost.
pub(crate) const GRACE: Duration = EXPIRES;
