//! What reading and writing one body costs, beside the same work by the format's own crate.
//!
//! `codecs list` prints the scenarios. `codecs SCENARIO MESSAGES` reads or writes that many bodies inside `hot_phase` and
//! prints the allocations that it saw.
//!
//! A scenario is `FORMAT/BODY/WORK/SIDE`, and scenarios that differ in `SIDE` alone do the same work:
//!
//! - `BODY`: `two` is an order of two numbers (28 bytes of JSON), `1k` one with texts and eight lines (about 1 KiB).
//! - `WORK`: `owned` and `borrowed` (its texts borrow from the body) read, `encode` writes, and the others say what is
//!   between the body and its value.
//! - `SIDE`: `ours` goes through a set of codecs. `raw` is the format's crate, called as its documentation has it.
//!   `raw_limits` is that behind the limits and nothing else: the codec without a set. `ours` by `raw_limits` is what a set
//!   costs, `raw_limits` by `raw` what the limits cost. Other sides stand beside these.
#![allow(unsafe_code, reason = "a counting allocator")]

#[path = "../counting/mod.rs"]
mod counting;
mod formats;
mod orders;
mod sets;

use std::hint::black_box;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let mut suite = Suite::default();
    formats::add(&mut suite);
    sets::add(&mut suite);
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
        _ => println!("usage: codecs list | codecs SCENARIO MESSAGES"),
    }
}

/// A number of messages in, their work done.
type Run = Box<dyn FnMut(u64)>;

#[derive(Default)]
struct Suite {
    scenarios: Vec<(String, Run)>,
}

impl Suite {
    fn add<R>(&mut self, name: impl Into<String>, mut once: impl FnMut() -> R + 'static) {
        let run = move |messages| {
            for _ in 0..messages {
                black_box(once());
            }
        };
        self.scenarios.push((name.into(), Box::new(run)));
    }
}

#[inline(never)]
fn hot_phase(run: &mut Run, messages: u64) {
    run(messages);
    black_box(());
}
