//! A web page to look into the queues of a server, or of any transport.
//!
//! It lists entities with live counts, messages and their bodies, dead letters by reason and first error, sessions and scheduled
//! messages. It resubmits, edits, transcodes and purges. [`Page::router`] has its routes, all below `/$page`; [`Page::run`] has its
//! background work, and has to be polled as long as the routes are served.
//!
//! ```no_run
//! use consign_broker::Broker;
//! use consign_server::page::Page;
//!
//! # async fn run() -> std::io::Result<()> {
//! let page = Page::builder(Broker::new()).build();
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
//! let served = async { axum::serve(listener, page.router()).await };
//! tokio::select! {
//!     served = served => served,
//!     () = page.run() => Ok(()),
//! }
//! # }
//! ```
//!
//! # Security
//!
//! - With a [key](Builder::key), every request needs a session, which begins with the key in a form. It ends after 12 hours.
//! - Without a key, the page is for a listener on loopback. It then answers only requests whose `Host` is a loopback name, so that
//!   no name of another site can be made to point to it.
//! - A request that changes something needs the token of its session, in the form, and is refused if a browser reports that another
//!   site has sent it.
//! - The Content-Security-Policy allows the script and the style sheet of the page, and nothing inline.
//! - Bodies are never in an address. All values are escaped.
//!
//! # Resubmission
//!
//! A group of dead letters is resubmitted by a job. On a transport with transactions, to the entity of the dead letters, the copy is
//! sent and the dead letter is removed in one transaction: nothing is lost or doubled when the process is killed. On other
//! transports the copy is sent first, so that a kill between the two leaves the dead letter beside its copy. With a
//! [file](Builder::open), jobs continue after a restart.

mod body;
mod browse;
mod error;
mod groups;
mod guard;
mod hex;
mod jobs;
mod live;
mod pretty;
mod text;
mod views;

use std::{fmt, io, path::PathBuf, sync::Arc, time::Duration};

use axum::{Router, middleware};
use consign_core::{
    time::{Clock, SystemClock, Timestamp},
    transport::{Capability, DynTransport, Transport},
};
use tokio::sync::watch;

use self::{guard::Guard, jobs::Jobs, live::Live};
use crate::AccessKey;

/// The page of one transport. Clones are handles to one page.
#[derive(Clone)]
pub struct Page {
    shared: Arc<Shared>,
}

/// Builds a [`Page`].
#[must_use]
pub struct Builder {
    transport: DynTransport,
    key: Option<AccessKey>,
    consume: bool,
    secure: bool,
    undo_window: Duration,
    clock: Arc<dyn Clock>,
}

/// What the routes and the background work share.
pub(crate) struct Shared {
    transport: DynTransport,
    consume: bool,
    undo_window: Duration,
    clock: Arc<dyn Clock>,
    guard: Guard,
    live: Live,
    jobs: Jobs,
    shutdown: watch::Sender<bool>,
}

impl Page {
    /// Starts a page over a transport, with its administration if it has one.
    pub fn builder(transport: impl Into<DynTransport>) -> Builder {
        Builder {
            transport: transport.into(),
            key: None,
            consume: false,
            secure: false,
            undo_window: Duration::from_secs(10),
            clock: Arc::new(SystemClock::new()),
        }
    }

    /// Returns the routes, all below `/$page`.
    pub fn router<S>(&self) -> Router<S> {
        let guarded = middleware::from_fn_with_state(Arc::clone(&self.shared), guard::check);
        views::routes().layer(guarded).with_state(Arc::clone(&self.shared))
    }

    /// Counts messages and runs jobs until [`Page::shutdown`] is called.
    ///
    /// # Cancel safety
    /// Dropping the future stops the jobs, and loses nothing.
    pub async fn run(&self) {
        let mut shutdown = self.shared.shutdown.subscribe();
        tokio::select! {
            _ = shutdown.wait_for(|shutdown| *shutdown) => {}
            never = self.shared.live.run(&self.shared) => match never {},
            never = jobs::run(&self.shared) => match never {},
        }
    }

    /// Ends the streams of live counts, and [`Page::run`].
    pub fn shutdown(&self) {
        self.shared.shutdown.send_replace(true);
    }
}

impl Builder {
    /// Requires a key. By default there is none, and the page is for a listener on loopback.
    pub fn key(mut self, key: AccessKey) -> Self {
        self.key = Some(key);
        self
    }

    /// Allows listing that counts deliveries, on a transport that has neither peek nor release. By default it is refused.
    pub fn consume(mut self, consume: bool) -> Self {
        self.consume = consume;
        self
    }

    /// Sets whether the listener has TLS, so that cookies are sent over TLS only. False by default.
    pub fn secure(mut self, secure: bool) -> Self {
        self.secure = secure;
        self
    }

    /// Sets how long a job, which resubmits or removes messages, waits before it begins, and can be undone: 10 s by default. One dead
    /// letter that is edited is resubmitted at once.
    pub fn undo_window(mut self, window: Duration) -> Self {
        self.undo_window = window;
        self
    }

    /// Sets the clock. A [`SystemClock`] by default.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Creates the page. Its jobs end with the process.
    #[must_use]
    pub fn build(self) -> Page {
        self.with(Jobs::default())
    }

    /// Creates the page with a file of the jobs that have not ended, and continues the jobs that are in it. The file is created
    /// with the first job.
    ///
    /// # Errors
    /// The file cannot be read, or is not one of jobs.
    pub fn open(self, jobs: impl Into<PathBuf>) -> io::Result<Page> {
        let jobs = Jobs::open(jobs.into())?;
        Ok(self.with(jobs))
    }

    fn with(self, jobs: Jobs) -> Page {
        let guard = Guard::new(self.key, self.secure, Arc::clone(&self.clock));
        let shared = Shared {
            transport: self.transport,
            consume: self.consume,
            undo_window: self.undo_window,
            clock: self.clock,
            guard,
            live: Live::default(),
            jobs,
            shutdown: watch::Sender::new(false),
        };
        Page { shared: Arc::new(shared) }
    }
}

impl Shared {
    fn now(&self) -> Timestamp {
        self.clock.now().utc
    }

    fn supports(&self, capability: Capability) -> bool {
        self.transport.capabilities().supports(capability)
    }

    /// The embedded broker, if it is the transport.
    fn broker(&self) -> Option<&consign_broker::Broker> {
        self.transport.extension()
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page").field("transport", &self.shared.transport).finish_non_exhaustive()
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("transport", &self.transport).finish_non_exhaustive()
    }
}
