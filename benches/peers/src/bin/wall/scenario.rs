//! The scenarios and who takes part in them.

use std::{fmt, time::Duration};

use crate::{
    latency,
    peer::{Apalis, Consign, ConsignSetup, Mpsc, Omniqueue, RustStreamPeer},
    pipelining,
    throughput::{self, Content, IN_FLIGHT, Load, Threads},
};

/// Names, and integers in the unit that the name ends with.
pub type Figures = Vec<(String, u64)>;

#[derive(Clone, Copy, PartialEq)]
pub enum Scenario {
    Throughput { size: usize, threads: Threads },
    Labelled { threads: Threads },
    Values { threads: Threads },
    InFlight { messages: usize },
    LatencyHalf,
    LatencySame,
    Driver { threads: Threads },
    Pipelining { window: usize },
}

const PEERS: [&str; 5] = ["consign", "ruststream", "apalis", "omniqueue", "mpsc"];
const DRIVERS: [&str; 4] = ["plain_16", "plain_1", "spawn_16", "spawn_1"];
const SENDERS: [&str; 3] = ["consign", "sleep", "arithmetic"];

/// The peer of a scenario by its name.
macro_rules! with_peer {
    ($name:expr, $consign:expr, $peer:ident => $run:expr) => {
        match $name {
            "consign" => {
                let $peer = &$consign;
                $run
            }
            "ruststream" => {
                let $peer = &RustStreamPeer;
                $run
            }
            "apalis" => {
                let $peer = &Apalis;
                $run
            }
            "omniqueue" => {
                let $peer = &Omniqueue;
                $run
            }
            "mpsc" => {
                let $peer = &Mpsc;
                $run
            }
            _ => return None,
        }
    };
}

impl Scenario {
    pub fn all() -> Vec<Self> {
        let threads = [Threads::One, Threads::Two];
        let sizes = [64, 256, 1_024, 65_536];
        let throughput = sizes.iter().flat_map(|&size| threads.map(|threads| Self::Throughput { size, threads }));
        let mut all: Vec<_> = throughput.collect();
        all.extend(threads.map(|threads| Self::Labelled { threads }));
        all.extend(threads.map(|threads| Self::Values { threads }));
        all.extend([16, 64, 1_024].map(|messages| Self::InFlight { messages }));
        all.extend([Self::LatencyHalf, Self::LatencySame]);
        all.extend(threads.map(|threads| Self::Driver { threads }));
        all.extend([1, 16, 128].map(|window| Self::Pipelining { window }));
        all
    }

    pub fn find(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|scenario| scenario.to_string() == name)
    }

    /// Who takes part. The others are compared to the first.
    pub fn peers(self) -> &'static [&'static str] {
        match self {
            Self::Driver { .. } => &DRIVERS,
            Self::Pipelining { .. } => &SENDERS,
            _ => &PEERS,
        }
    }

    /// One run. `None` if there is no such peer.
    pub fn run(self, peer: &str, argument: Option<usize>) -> Option<Figures> {
        match self {
            Self::Throughput { size, threads } => {
                throughput(peer, Consign::PLAIN, &load(threads, Content::Body(size), argument))
            }
            Self::Labelled { threads } => {
                throughput(peer, Consign::LABELLED, &load(threads, Content::Body(256), argument))
            }
            Self::Values { threads } => throughput(peer, Consign::PLAIN, &load(threads, Content::Value, argument)),
            Self::InFlight { messages } => {
                let load = load(Threads::Two, Content::Body(256), argument);
                throughput(peer, Consign::PLAIN, &Load { in_flight: messages, ..load })
            }
            Self::LatencyHalf => latency(peer, argument.unwrap_or(50_000), None),
            Self::LatencySame => {
                let offered = argument.unwrap_or(100_000);
                latency(peer, offered / 2, Some(offered as u64))
            }
            Self::Driver { threads } => driver(peer, threads, argument),
            Self::Pipelining { window } => sends(peer, window, Duration::from_millis(argument.unwrap_or(5) as u64)),
        }
    }
}

/// One that lasts a quarter of a second or so, unless it is said how many messages it has.
fn load(threads: Threads, content: Content, messages: Option<usize>) -> Load {
    let usual = if matches!(content, Content::Body(10_000..)) { 10_000 } else { 300_000 };
    Load { threads, content, in_flight: IN_FLIGHT, messages: messages.unwrap_or(usual) }
}

fn throughput(peer: &str, consign: Consign, load: &Load) -> Option<Figures> {
    let rate = with_peer!(peer, consign, peer => throughput::messages_per_second(peer, load));
    Some(vec![("messages_per_second".into(), rate)])
}

fn driver(handler: &str, threads: Threads, messages: Option<usize>) -> Option<Figures> {
    let (how, concurrency) = handler.split_once('_')?;
    let setup =
        ConsignSetup { concurrency: Some(concurrency.parse().ok()?), spawns: how == "spawn", ..Consign::PLAIN.0 };
    throughput("consign", Consign(setup), &load(threads, Content::Body(256), messages))
}

fn latency(peer: &str, messages: usize, offered: Option<u64>) -> Option<Figures> {
    let latency = with_peer!(peer, Consign::PLAIN, peer => latency::measure(peer, messages, offered));
    let capacity = latency.capacity.map(|capacity| ("capacity_messages_per_second", capacity));
    let figures = [
        ("offered_messages_per_second", latency.offered),
        ("p50_ns", latency.p50),
        ("p99_ns", latency.p99),
        ("p999_ns", latency.p999),
    ];
    Some(capacity.into_iter().chain(figures).map(|(name, value)| (name.into(), value)).collect())
}

fn sends(peer: &str, window: usize, round_trip: Duration) -> Option<Figures> {
    let rate = match peer {
        "consign" => pipelining::sends_per_second(window, round_trip),
        "sleep" => pipelining::sleeps_per_second(window, round_trip),
        "arithmetic" => pipelining::arithmetic_per_second(window, round_trip),
        _ => return None,
    };
    Some(vec![("messages_per_second".into(), rate)])
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Throughput { size, threads } => write!(f, "throughput_{size}_{threads}"),
            Self::Labelled { threads } => write!(f, "labelled_256_{threads}"),
            Self::Values { threads } => write!(f, "values_256_{threads}"),
            Self::InFlight { messages } => write!(f, "in_flight_{messages}_two"),
            Self::LatencyHalf => f.write_str("latency_half"),
            Self::LatencySame => f.write_str("latency_same"),
            Self::Driver { threads } => write!(f, "driver_{threads}"),
            Self::Pipelining { window } => write!(f, "pipelining_{window}"),
        }
    }
}
