//! Messages a second over loopback: the client of this library beside that of fe2o3-amqp, with the same servers.
//!
//! `loopback [--json]` prints for each server and each direction the rates of both clients and their ratio. The clients take turns,
//! and the ratio is the median of the rounds. A client encodes or decodes every section of each message, and has up to [`WINDOW`] of
//! them unsettled.
//!
//! The server `engine` is that of this library without queues, on a thread of its own: it accepts each message, or sends the same
//! one again and again. `RabbitMQ` is the plugin `rabbitmq_amqp1_0` at the address in `CONSIGN_AMQP10`, such as `127.0.0.1:5672`,
//! with the user `guest`; without the variable it is left out. `CONSIGN_MESSAGES` is the number of messages of a round.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures the time that passes")]

mod ours;
mod peer;
#[path = "../../sample.rs"]
#[allow(dead_code, reason = "the other program uses all of it")]
mod sample;
mod server;

use std::{env, time::Instant};

use serde_json::json;
use tokio::runtime::{Builder, Runtime};

/// The most unsettled messages of a client, and its credit.
const WINDOW: u32 = 200;
const ROUNDS: usize = 9;

type Failure = Box<dyn std::error::Error>;

/// A server, and the queue there.
#[derive(Clone)]
struct Server {
    name: &'static str,
    address: String,
    queue: &'static str,
}

/// Messages a second of each round.
#[derive(Default)]
struct Rates {
    ours: Vec<f64>,
    peer: Vec<f64>,
}

fn main() -> Result<(), Failure> {
    let messages = env::var("CONSIGN_MESSAGES").map_or(Ok(20_000), |count| count.parse())?;
    let mut servers = vec![Server { name: "engine", address: server::start()?, queue: "orders" }];
    let mut left_out = Vec::new();
    match env::var("CONSIGN_AMQP10") {
        Ok(address) => servers.push(Server { name: "RabbitMQ", address, queue: "/queue/consign-loopback" }),
        Err(_) => left_out.push(json!(["RabbitMQ", "CONSIGN_AMQP10 is not set"])),
    }
    let mut figures = Vec::new();
    for server in &servers {
        let [send, receive] = match measure(server, messages) {
            Ok(rates) => rates,
            Err(error) => {
                left_out.push(json!([server.name, error.to_string()]));
                continue;
            }
        };
        for (what, rates) in [("send", send), ("receive", receive)] {
            let ratio = median(rates.ours.iter().zip(&rates.peer).map(|(ours, peer)| ours / peer).collect());
            let (ours, peer) = (median(rates.ours), median(rates.peer));
            figures
                .push(json!({ "server": server.name, "what": what, "ours": ours, "fe2o3-amqp": peer, "ratio": ratio }));
        }
    }
    if env::args().nth(1).as_deref() == Some("--json") {
        println!("{}", json!({ "figures": figures, "left_out": left_out }));
    } else {
        for figure in figures {
            println!(
                "{} of {}: {:.0} messages a second, fe2o3-amqp {:.0}, ratio {:.2}",
                figure["what"],
                figure["server"],
                figure["ours"].as_f64().unwrap_or_default(),
                figure["fe2o3-amqp"].as_f64().unwrap_or_default(),
                figure["ratio"].as_f64().unwrap_or_default(),
            );
        }
        for one in left_out {
            println!("left out: {}, {}", one[0], one[1]);
        }
    }
    Ok(())
}

/// Sends, and receives as many, so that a queue is empty after each turn. The first round only warms up.
fn measure(server: &Server, messages: u32) -> Result<[Rates; 2], Failure> {
    let mut rates = [Rates::default(), Rates::default()];
    for round in 0..=ROUNDS {
        let ours_first = round % 2 == 0;
        for is_ours in [ours_first, !ours_first] {
            let (send, receive) = if is_ours {
                (timed(messages, ours::send(server, messages))?, timed(messages, ours::receive(server, messages))?)
            } else {
                (timed(messages, peer::send(server, messages))?, timed(messages, peer::receive(server, messages))?)
            };
            if round > 0 {
                for (rates, rate) in rates.iter_mut().zip([send, receive]) {
                    if is_ours { &mut rates.ours } else { &mut rates.peer }.push(rate);
                }
            }
        }
    }
    Ok(rates)
}

/// Runs the work of a client on a runtime of its own. It returns when the last message was settled, and when the first was begun.
fn timed(messages: u32, work: impl Future<Output = Result<Instant, Failure>>) -> Result<f64, Failure> {
    let began = runtime()?.block_on(work)?;
    Ok(f64::from(messages) / began.elapsed().as_secs_f64())
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
