//! What all senders and receivers of a transport share.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use consign_core::{time::Timestamp, transport::ErrorKind};
use tokio::{sync::Mutex, time::Instant};

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
    /// Attempts that have failed since the last connection.
    pub(crate) failures: u32,
    pub(crate) not_before: Option<Instant>,
    pub(crate) has_connected: bool,
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
        let (first, longest) = self.options.backoff;
        let pause = first.saturating_mul(1 << failures.min(16)).min(longest);
        pause.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// Closes the connection, and opens no other.
    pub(crate) async fn close(&self) -> Result<(), Failure> {
        self.is_closed.store(true, Ordering::Release);
        self.disconnect().await
    }

    /// Closes the connection. The next call opens another one.
    pub(crate) async fn disconnect(&self) -> Result<(), Failure> {
        let wire = self.slot.lock().await.wire.take();
        match wire {
            Some(wire) if !wire.connection.is_closed() => Ok(wire.connection.clone().close().await?),
            _ => Ok(()),
        }
    }
}
