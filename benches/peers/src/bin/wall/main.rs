//! Wall clock of this library beside what a user would pick instead, over brokers in memory, in one process.
//!
//! ```text
//! wall list                                 the scenarios, one a line
//! wall peers SCENARIO                       who takes part in it, one a line; the first is what it is compared to
//! wall SCENARIO PEER [ARGUMENT]             one run
//! wall compare SCENARIO [ROUNDS [ARGUMENT]] ROUNDS (5) of all peers in turn
//! ```
//!
//! A run prints lines `NAME VALUE`, with integers: nanoseconds or a rate per second, as the name says. A comparison prints
//! `PEER_NAME VALUE` with medians, `PEER_lowest_NAME VALUE` for latencies, and `FIRST_to_PEER_NAME_per_mille VALUE`: the
//! median over the rounds of the ratio of the two in one round. A machine that others use is slower for all peers of a
//! round, so that the ratio is more reliable than the rates. Each round begins with another peer. Latencies need two cores that
//! are idle: where the consumer's core is taken away for a while, that is all that they show.
//!
//! # What is measured
//!
//! - `throughput_SIZE_one`, `throughput_SIZE_two`: messages in a second from a producer to a handler that has its JSON body
//!   of SIZE bytes decoded, both in one runtime, of one thread or of two workers. At most 256 are in flight: the producer
//!   then sleeps until half of them are handled, the same way for every peer. The argument is the number of messages.
//! - `labelled_256_one`, `labelled_256_two`: the same, where the messages of this library have an id, a ContentType that
//!   chooses the codec and a subject that chooses the handler. Those of the other peers have none of it.
//! - `values_256_one`, `values_256_two`: the producer has a value of ten fields, which each send encodes to 256 bytes of JSON,
//!   as the documentation of the peer says. apalis would pass the value on as it is; here it is encoded first.
//! - `in_flight_16_two`, `in_flight_64_two`, `in_flight_1024_two`: `throughput_256_two` with so many in flight: how often a
//!   consumer finds its queue empty and is woken again.
//! - `latency_half`: nanoseconds from when a message of 256 bytes should have been sent until it is decoded, at half of
//!   what the same peer can do with the same two threads, which is measured first. The producer sends on time, whatever
//!   becomes of the messages. The argument is the number of messages.
//! - `latency_same`: the same at 100,000 messages in a second for every peer, or at the argument.
//! - `driver_one`, `driver_two`: the consumer of this library in a runtime of one thread or of two workers. The peers are
//!   `plain_1`, `plain_16`, `spawn_1`, `spawn_16`: 1 or 16 handlers at once, which do their work, or spawn a task for it and
//!   await that.
//! - `pipelining_1`, `pipelining_16`, `pipelining_128`: sends in a second over a connection with a round trip of 5 ms, or of
//!   as many milliseconds as the argument says, with so many in flight. Beside it `sleep`, as many tasks that only sleep for
//!   that long, and `arithmetic`, which is W/L.
//!
//! # What differs in guarantees
//!
//! | peer | a message whose handler fails | bound of the queue | what else a message has |
//! |---|---|---|---|
//! | consign | locked, comes again, is dead-lettered after so many deliveries | bytes, a send is refused | ids, properties, ContentType, expiry, scheduling |
//! | ruststream | is sent again if the handler says so | none | headers |
//! | omniqueue | is sent again if the consumer says so | none | |
//! | apalis | is lost, unless a layer tries it again | none | an id, metadata |
//! | mpsc | is lost | messages, a send waits | |
//!
//! How each peer is set up is said at the top of its file in `peer/`.

mod arrivals;
mod compare;
mod latency;
mod peer;
mod pipelining;
mod scenario;
mod throughput;

use std::process::ExitCode;

use scenario::{Figures, Scenario};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if run(&arguments).is_some() {
        return ExitCode::SUCCESS;
    }
    eprintln!(
        "usage: wall list | wall peers SCENARIO | wall SCENARIO PEER [ARGUMENT] | wall compare SCENARIO [ROUNDS [ARGUMENT]]"
    );
    ExitCode::FAILURE
}

/// `None` if these are not valid arguments.
fn run(arguments: &[&str]) -> Option<()> {
    match arguments {
        ["list"] => Scenario::all().iter().for_each(|scenario| println!("{scenario}")),
        ["peers", scenario] => Scenario::find(scenario)?.peers().iter().for_each(|peer| println!("{peer}")),
        ["compare", scenario, options @ ..] => {
            let rounds = options.first().map_or(Some(5), |rounds| rounds.parse().ok())?;
            let argument = options.get(1).map_or(Some(None), |argument| argument.parse().ok().map(Some))?;
            print(&compare::compare(Scenario::find(scenario)?, rounds, argument));
        }
        [scenario, peer, options @ ..] => {
            let argument = options.first().map_or(Some(None), |argument| argument.parse().ok().map(Some))?;
            print(&Scenario::find(scenario)?.run(peer, argument)?);
        }
        _ => return None,
    }
    Some(())
}

fn print(figures: &Figures) {
    for (name, value) in figures {
        println!("{name} {value}");
    }
}
