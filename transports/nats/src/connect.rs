//! The ways to a connection.

use std::{
    panic::{AssertUnwindSafe, resume_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_nats::{Client, jetstream};
use consign_core::transport::{ErrorKind, ManageError, ServerAddress};
use futures_util::FutureExt;

use crate::{
    connection::Nats,
    options::Options,
    servers::{Identity, Servers},
    tls,
};

impl Nats {
    /// Connects to a server, such as `nats://127.0.0.1:4222`; see [`Options::connect`].
    pub async fn connect(url: &str) -> Result<Self, ManageError> {
        Self::options().connect(url).await
    }

    /// Returns the default options, to be changed.
    pub fn options() -> Options {
        Options::new()
    }

    /// Wraps an existing client; see [`Options::wrap`].
    pub async fn wrap(client: Client) -> Result<Self, ManageError> {
        Self::options().wrap(client).await
    }
}

impl Options {
    /// Connects to a server, such as `nats://127.0.0.1:4222`, or to one of several that are separated by commas. `tls://`
    /// requires TLS. A user with a password, `nats://user:password@127.0.0.1`, or a token, `nats://token@127.0.0.1`, is that of
    /// all servers, and is percent-encoded. Several servers share the timeout of connecting.
    ///
    /// # Errors
    ///
    /// - [`CommunicationProblem`](ErrorKind::CommunicationProblem) if there is no server
    /// - [`ServiceTimeout`](ErrorKind::ServiceTimeout) if the server does not answer in time
    /// - [`Unauthorized`](ErrorKind::Unauthorized) if it refuses the credentials, or does not permit requests of JetStream
    /// - [`NotSupported`](ErrorKind::NotSupported) if it or the account is without JetStream, if it is older than 2.9, or if `tls://`
    ///   or a server that requires TLS has no provider of cryptography
    /// - [`InvalidArgument`](ErrorKind::InvalidArgument) for an address or a namespace that breaks a rule
    pub async fn connect(self, url: &str) -> Result<Nats, ManageError> {
        let refused = |expected| ManageError::new(ErrorKind::InvalidArgument).with_detail(expected);
        self.connect_to(Servers::parse(url).map_err(refused)?).await
    }

    pub(crate) async fn connect_to(mut self, servers: Servers) -> Result<Nats, ManageError> {
        let Servers { addresses, requires_tls, identity } = servers;
        let has_provider = tls::has_provider();
        let without_provider = || ManageError::new(ErrorKind::NotSupported).with_detail(tls::NO_PROVIDER);
        if !has_provider && requires_tls {
            return Err(without_provider());
        }
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
        if !self.has_foreign_client {
            let refusals = self.refusals.clone();
            options = options.event_callback(move |event| {
                refusals.observe(&event);
                std::future::ready(())
            });
        }
        if requires_tls {
            options = options.require_tls(true);
        }
        options = match identity {
            None => options,
            Some(Identity::User { name, password }) => options.user_and_password(name, password),
            Some(Identity::Token(token)) => options.token(token),
        };
        // Without a provider the client panics if the server requires TLS, which only the server says.
        let connecting = AssertUnwindSafe(options.connect(addresses)).catch_unwind();
        let client = match tokio::time::timeout(self.timeout, connecting).await {
            Ok(Ok(Ok(client))) => client,
            Ok(Ok(Err(error))) => return Err(connect_error(&error)),
            Ok(Err(_)) if !has_provider => return Err(without_provider()),
            Ok(Err(panic)) => resume_unwind(panic),
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
    use crate::options::DAY;

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
    fn no_wait_overflows() {
        for attempt in 0..100 {
            assert!(delay(attempt, DAY, DAY) <= DAY);
        }
    }
}
