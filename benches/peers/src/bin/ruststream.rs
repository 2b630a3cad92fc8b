//! What `RustStream` costs: instructions and allocations per message, over its broker in memory.
//!
//! The contract of every counted program: `PROGRAM` with `list` prints its scenarios, one a line. `PROGRAM SCENARIO N` does
//! the work of N messages inside `#[inline(never)] fn hot_phase(..)`, and prints a line `allocations K` with those inside
//! the phase. The frame runs it for N and for 2N, and divides the difference by N.
//!
//! A program that measures wall clock is run as `PROGRAM SCENARIO [ARGUMENT]` and prints lines `NAME VALUE`, with integers:
//! nanoseconds or a rate per second, as the name says.

fn main() {
    if std::env::args().nth(1).as_deref() == Some("list") {
        println!("none yet");
    }
}
