//! The command line of a program that is counted, the same for every library.
//!
//! `PROGRAM list` prints its scenarios, one a line. `PROGRAM SCENARIO N` does the work of N messages inside `hot_phase` and
//! prints a line `allocations K` with those inside it. `cargo xtask bench` runs that under callgrind for N and for 2N, and
//! divides the difference by N, so what is done once cancels. No other function has `hot_phase` in its name.
//!
//! A program is built with all its scenarios, or with the one alone that `CONSIGN_BENCH_ALONE` names: a second scenario is
//! a second caller of the same functions, which the compiler then no longer inlines into either.
//!
//! A program that takes times is run as `PROGRAM SCENARIO [ARGUMENT]` and prints lines `NAME VALUE`, in integers:
//! nanoseconds, or how many in a second, as the name says.

use std::hint::black_box;

use crate::counting;

/// Whether this build has the scenario.
pub(crate) const fn is_built(name: &str) -> bool {
    let Some(alone) = option_env!("CONSIGN_BENCH_ALONE") else { return true };
    let (name, alone) = (name.as_bytes(), alone.as_bytes());
    let mut at = 0;
    while at < name.len() && at < alone.len() && name[at] == alone[at] {
        at += 1;
    }
    at == name.len() && at == alone.len()
}

/// The scenario that the command line asks for, and how many messages.
pub(crate) fn requested(names: &[&str]) -> Option<(String, u64)> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    match &*arguments {
        [list] if list == "list" => names.iter().for_each(|name| println!("{name}")),
        [name, messages] => return Some((name.clone(), messages.parse().expect("a number of messages"))),
        _ => println!("usage: list | SCENARIO MESSAGES"),
    }
    None
}

/// `main` of a program: each scenario's name, and what takes a number of messages.
macro_rules! scenarios {
    ($($name:literal => $run:expr,)*) => {
        fn main() {
            let Some((name, messages)) = scenario::requested(&[$($name),*]) else { return };
            $(if const { scenario::is_built($name) } {
                if name == $name {
                    let run: fn(u64) = $run;
                    return run(messages);
                }
            })*
            panic!("no scenario {name} in this build");
        }
    };
}

/// Counts this, and nothing else.
pub(crate) fn counted(phase: &mut dyn FnMut()) {
    let before = counting::allocations();
    hot_phase(phase);
    println!("allocations {}", counting::allocations() - before);
}

#[inline(never)]
fn hot_phase(phase: &mut dyn FnMut()) {
    phase();
    black_box(());
}
