//! What all senders and receivers of a transport share.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use consign_core::{
    time::Timestamp,
    transport::{BoxFuture, ErrorKind},
};
use futures_util::future::Shared;
use parking_lot::Mutex;
use tokio::{task::AbortHandle, time::Instant};

use crate::{
    TokenCredential,
    authorization::Wire,
    endpoint::Endpoint,
    error::Failure,
    options::Options,
    proxy::{self, Proxy},
};

pub(crate) struct Core {
    pub(crate) options: Options,
    pub(crate) endpoint: Endpoint,
    pub(crate) credential: Arc<dyn TokenCredential>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<Arc<rustls::ClientConfig>>,
    pub(crate) proxy: Option<Proxy>,
    /// The name of the AMQP container.
    pub(crate) container: String,
    pub(crate) slot: Mutex<Slot>,
    last_link: AtomicU64,
    is_closed: AtomicBool,
}

/// The connection, and how it was reached.
#[derive(Default)]
pub(crate) struct Slot {
    pub(crate) wire: Option<Arc<Wire>>,
    /// The attempt that is under way, for all callers.
    pub(crate) opening: Option<Opening>,
    /// Attempts that have failed since the last connection that was of use.
    pub(crate) failures: u32,
    pub(crate) not_before: Option<Instant>,
    pub(crate) has_connected: bool,
    /// Whether the server has answered a ping on the connection.
    pub(crate) has_answered: bool,
}

/// The first pause, doubled with each failure before the last one, up to the longest.
pub(crate) fn backoff((first, longest): (Duration, Duration), failures: u32) -> Duration {
    // Doubled 64 times, a nanosecond is longer than any option.
    (0..failures.min(64)).fold(first, |pause, _| pause.saturating_mul(2)).min(longest)
}

/// A task that opens the connection.
pub(crate) struct Opening {
    pub(crate) opened: Shared<BoxFuture<Result<Arc<Wire>, Failure>>>,
    pub(crate) task: AbortHandle,
}

impl Core {
    /// Checks the options. It opens no connection.
    pub(crate) fn new(
        options: Options,
        endpoint: Endpoint,
        credential: Arc<dyn TokenCredential>,
    ) -> Result<Arc<Self>, Failure> {
        #[cfg(feature = "tls")]
        let tls = if endpoint.is_tls { Some(crate::tls::config(&options)?) } else { None };
        #[cfg(not(feature = "tls"))]
        if endpoint.is_tls {
            let detail = "TLS needs the feature `tls-aws-lc`, `tls-ring` or `tls` of consign-servicebus";
            return Err(Failure::new(ErrorKind::NotSupported, detail));
        }
        if options.web_socket && cfg!(not(feature = "websocket")) {
            let detail = "WebSocket needs the feature `websocket` of consign-servicebus";
            return Err(Failure::new(ErrorKind::NotSupported, detail));
        }
        let invalid_proxy = || Failure::new(ErrorKind::InvalidArgument, proxy::FORM);
        let proxy = options.proxy.as_deref().map(|url| Proxy::parse(url).ok_or_else(invalid_proxy)).transpose()?;
        let container = options.name.clone().unwrap_or_else(|| format!("consign-{:016x}", fastrand::u64(..)));
        Ok(Arc::new(Self {
            options,
            endpoint,
            credential,
            #[cfg(feature = "tls")]
            tls,
            proxy,
            container,
            slot: Mutex::default(),
            last_link: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
        }))
    }

    /// Returns where the server has HTTP.
    #[cfg(feature = "administration")]
    pub(crate) fn http_endpoint(&self) -> Endpoint {
        let default = if self.endpoint.is_tls { 443 } else { 5300 };
        Endpoint { port: self.options.http_port.unwrap_or(default), ..self.endpoint.clone() }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.options.clock.now().utc
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Returns a name that no other link of the container has.
    pub(crate) fn link_name(&self, entity: &str) -> String {
        format!("{entity}-{}-{}", self.container, self.last_link.fetch_add(1, Ordering::Relaxed))
    }

    /// The pause after so many failures before the last one, with a random part.
    pub(crate) fn pause(&self, failures: u32) -> Duration {
        backoff(self.options.backoff, failures).mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// Closes the connection, and opens no other.
    pub(crate) async fn close(&self) -> Result<(), Failure> {
        self.is_closed.store(true, Ordering::Release);
        if let Some(opening) = self.slot.lock().opening.take() {
            opening.task.abort();
        }
        self.disconnect().await
    }

    /// Closes the connection. The next call opens another one.
    pub(crate) async fn disconnect(&self) -> Result<(), Failure> {
        let wire = {
            let mut slot = self.slot.lock();
            let wire = slot.wire.take();
            if let Some(wire) = &wire {
                self.ended(&mut slot, wire);
            }
            wire
        };
        match wire {
            Some(wire) if !wire.connection.is_closed() => Ok(wire.connection.clone().close().await?),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let range = (Duration::from_millis(100), Duration::from_secs(10));
        for (failures, millis) in [(0, 100), (1, 200), (3, 800), (7, 10_000), (u32::MAX, 10_000)] {
            assert_eq!(backoff(range, failures), Duration::from_millis(millis), "{failures}");
        }
        let day = Duration::from_secs(24 * 3_600);
        for first in [Duration::from_nanos(1), Duration::from_millis(1), day] {
            assert_eq!(backoff((first, day), 64), day, "{first:?}");
        }
    }
}
