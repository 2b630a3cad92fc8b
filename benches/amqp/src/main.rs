//! What an AMQP 1.0 message costs: its codec beside other codecs, and its transfer through two engines.
//!
//! `amqp list` prints the scenarios. `amqp SCENARIO MESSAGES` runs one so many times inside `hot_phase`, and prints the
//! allocations that it saw.
//!
//! A scenario is `WORK/SIDE`, and scenarios that differ in `SIDE` alone do the same work.

#[path = "../../counting/mod.rs"]
mod counting;
mod message;
#[allow(dead_code, reason = "the other program uses all of it")]
mod sample;
mod transfer;

use std::hint::black_box;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut suite = Suite::default();
    message::add(&mut suite);
    transfer::add(&mut suite);
    match &*arguments {
        [list] if list == "list" => suite.scenarios.iter().for_each(|(name, _)| println!("{name}")),
        [name, messages] => {
            let messages = messages.parse().expect("a number of messages");
            let found = suite.scenarios.iter_mut().find(|(known, _)| known == name);
            let (_, run) = found.unwrap_or_else(|| panic!("no scenario {name}"));
            let before = counting::allocations();
            hot_phase(run, messages);
            println!("allocations {}", counting::allocations() - before);
        }
        _ => println!("usage: amqp list | amqp SCENARIO MESSAGES"),
    }
}

/// A number of messages in, their work done.
type Run = Box<dyn FnMut(u64)>;

#[derive(Default)]
struct Suite {
    scenarios: Vec<(&'static str, Run)>,
}

impl Suite {
    fn add<R>(&mut self, name: &'static str, mut once: impl FnMut() -> R + 'static) {
        let run = move |messages| {
            for _ in 0..messages {
                black_box(once());
            }
        };
        self.scenarios.push((name, Box::new(run)));
    }
}

#[inline(never)]
fn hot_phase(run: &mut Run, messages: u64) {
    run(messages);
    black_box(());
}
