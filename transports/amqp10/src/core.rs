//! What all senders and receivers of a transport share.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

use consign_core::{
    message::EntityPath,
    time::{Clock, SystemClock, Timestamp},
    transport::{Capabilities, ErrorKind},
};
use parking_lot::Mutex;

use crate::{
    Product,
    broker::PATH,
    capabilities::capabilities,
    error::Failure,
    numbers::Numbers,
    options::{Options, is_request_path},
    servers::Servers,
    slot::{self, WeakSlot},
};

pub(crate) struct Core {
    pub(crate) options: Options,
    pub(crate) servers: Servers,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<Arc<rustls::ClientConfig>>,
    /// The name of the AMQP container.
    pub(crate) container: String,
    pub(crate) numbers: Numbers,
    /// Those that may have a connection.
    pub(crate) dialers: Mutex<Vec<WeakSlot>>,
    /// The server that a new dialer tries first.
    pub(crate) first_server: AtomicUsize,
    /// That of the options, or of the first connection.
    pub(crate) product: OnceLock<Product>,
    clock: SystemClock,
    last_link: AtomicU64,
    is_closed: AtomicBool,
}

impl Core {
    /// Checks the options. It opens no connection.
    pub(crate) fn new(options: Options, servers: Servers) -> Result<Arc<Self>, Failure> {
        for address in options.address.iter().chain(&options.dead_letter_address) {
            if !address.contains(PATH) {
                return Err(Failure::new(ErrorKind::InvalidArgument, "an address of entities contains `{path}`"));
            }
        }
        if options.web_socket.as_deref().is_some_and(|path| !is_request_path(path)) {
            let detail = "the path of WebSocket begins with `/`, and is percent-encoded";
            return Err(Failure::new(ErrorKind::InvalidArgument, detail));
        }
        if options.web_socket.is_some() && cfg!(not(feature = "websocket")) {
            let detail = "WebSocket needs the feature `websocket` of consign-amqp10";
            return Err(Failure::new(ErrorKind::NotSupported, detail));
        }
        #[cfg(feature = "tls")]
        let tls = if servers.is_tls { Some(crate::tls::config(&options)?) } else { None };
        #[cfg(not(feature = "tls"))]
        if servers.is_tls {
            let detail = "`amqps10:` needs the feature `tls-aws-lc`, `tls-ring` or `tls` of consign-amqp10";
            return Err(Failure::new(ErrorKind::NotSupported, detail));
        }
        let container = options.name.clone().unwrap_or_else(|| format!("consign-{:016x}", fastrand::u64(..)));
        Ok(Arc::new(Self {
            product: options.product.map_or_else(OnceLock::new, OnceLock::from),
            options,
            servers,
            #[cfg(feature = "tls")]
            tls,
            container,
            numbers: Numbers::new(),
            dialers: Mutex::default(),
            first_server: AtomicUsize::new(0),
            clock: SystemClock::new(),
            last_link: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
        }))
    }

    pub(crate) fn product(&self) -> Product {
        *self.product.get_or_init(|| Product::Generic)
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        capabilities(self.product(), &self.options)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now().utc
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Returns a name that no other link of the container has.
    pub(crate) fn link_name(&self, entity: &str) -> String {
        format!("{entity}-{}", self.last_link.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the address of an entity or a dead-letter sub-queue.
    pub(crate) fn address(&self, path: &EntityPath) -> String {
        let product = self.product();
        let entity = self.options.address.as_deref().unwrap_or(product.address());
        let (form, path) = match &self.options.dead_letter_address {
            Some(form) if path.is_dead_letter() => (form.as_str(), path.parent()),
            // It may be written in another case.
            _ if path.is_dead_letter() => (entity, path.parent().dead_letter()),
            _ => (entity, path.clone()),
        };
        form.replace(PATH, &product.written(path.as_str()))
    }

    /// Returns the path whose address is `address`, if it has one.
    pub(crate) fn path_of(&self, address: &str) -> Option<EntityPath> {
        let form = self.options.address.as_deref().unwrap_or(self.product().address());
        let (begin, end) = form.split_once(PATH)?;
        let path = EntityPath::new(address.strip_prefix(begin)?.strip_suffix(end)?).ok()?;
        (self.address(&path) == address).then_some(path)
    }

    /// Closes all connections, and opens no other. Returns the first failure.
    pub(crate) async fn close(&self) -> Result<(), Failure> {
        self.is_closed.store(true, Ordering::Release);
        let dialers = std::mem::take(&mut *self.dialers.lock());
        let slots: Vec<_> = dialers.iter().filter_map(WeakSlot::upgrade).collect();
        let closing = slots.iter().map(|slot| slot::close(slot));
        futures_util::future::join_all(closing).await.into_iter().collect()
    }
}
