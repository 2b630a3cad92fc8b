//! What all senders and receivers of a transport share: its connection, which is opened again when it is lost.

use std::{
    fmt,
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
    connect,
    error::Failure,
    log,
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
    slot: Mutex<Slot>,
    last_link: AtomicU64,
    is_closed: AtomicBool,
}

/// Where the server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) is_tls: bool,
}

/// The connection, and how it was reached.
#[derive(Default)]
struct Slot {
    wire: Option<Arc<Wire>>,
    /// Attempts that have failed since the last connection.
    failures: u32,
    not_before: Option<Instant>,
    has_connected: bool,
}

impl Core {
    /// Connects for the first time.
    pub(crate) async fn open(
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
        let core = Arc::new(Self {
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
        });
        core.wire().await?;
        Ok(core)
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

    /// Returns the connection, and opens it if there is none. An attempt continues when no caller waits for it.
    pub(crate) async fn wire(self: &Arc<Self>) -> Result<Arc<Wire>, Failure> {
        let this = Arc::clone(self);
        let opening = tokio::spawn(async move { this.connected().await });
        opening.await.unwrap_or_else(|_| Err(Failure::new(ErrorKind::General, "the task of the connection has ended")))
    }

    async fn connected(self: &Arc<Self>) -> Result<Arc<Wire>, Failure> {
        let mut slot = self.slot.lock().await;
        if self.is_closed() {
            return Err(Failure::closed());
        }
        if let Some(wire) = slot.wire.as_ref().filter(|wire| !wire.connection.is_closed()) {
            return Ok(Arc::clone(wire));
        }
        slot.wire = None;
        if let Some(not_before) = slot.not_before.take() {
            tokio::time::sleep_until(not_before).await;
        }
        let server = self.endpoint.to_string();
        match connect::open(self).await {
            Ok(connection) => {
                if slot.has_connected {
                    log::connected(&server, slot.failures);
                }
                let wire = Wire::new(connection, self);
                *slot = Slot { wire: Some(Arc::clone(&wire)), failures: 0, not_before: None, has_connected: true };
                if self.is_closed() {
                    slot.wire = None;
                    return Err(Failure::closed());
                }
                Ok(wire)
            }
            Err(failure) => {
                let pause = self.pause(slot.failures);
                slot.failures = slot.failures.saturating_add(1);
                slot.not_before = Some(Instant::now() + pause);
                log::not_connected(&server, &failure, pause);
                Err(failure)
            }
        }
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

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}
