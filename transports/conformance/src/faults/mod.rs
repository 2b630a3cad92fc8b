//! Faults between a transport and its real server: a [`Proxy`] on loopback that cuts, tears and freezes connections, and an
//! [`Account`] of every message.
//!
//! A transport implements [`Server`], and its test runs a [`Plan`]:
//!
//! ```no_run
//! # async fn run(server: impl consign_conformance::faults::Server) {
//! use consign_conformance::faults::Plan;
//!
//! let report = Plan::from_env().run(&server).await;
//! println!("faults: {}", report.to_json());
//! assert!(report.is_passed(), "{report}");
//! # }
//! ```
//!
//! `cargo xtask faults --transport NAME` runs the test `faults_lose_nothing` of the test binary `faults` of the package
//! `consign-NAME`, and reads the line that begins with `faults: `.
//!
//! # Parts of a run
//!
//! 1. *Steps*: a connection sends, receives and completes one message. It is cut before its first step, then after it, then in
//!    the middle of the server's answer, and so on for every step until there is none left. A step is the result of one read
//!    from the socket.
//! 2. *Random*: producers and consumers with a connection each, and one message at a time. Each connection is cut, torn, frozen
//!    or refused at random steps. Now and then the server is restarted, where [`Server::restart`] can.
//! 3. *Full*: a queue is filled until it refuses messages, and continues when it has space again.
//!
//! A producer repeats an unacknowledged send under the same MessageId. As each connection has one message in flight, a fault
//! costs one repetition at most.
//!
//! # Requirements
//!
//! Acknowledged messages arrive. No message arrives that was not sent. Of each message the arrivals beyond the first are no
//! more than the faults. No call hangs. Each worker recovers soon after its fault.

mod account;
mod full;
mod ping;
mod plan;
mod proxy;
mod random;
mod report;
mod server;
mod steps;
mod worker;

pub use self::{
    account::Account,
    ping::check_pings,
    plan::Plan,
    proxy::{Direction, How, Proxy, Trip},
    report::FaultReport,
    server::Server,
};
