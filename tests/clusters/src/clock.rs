//! A time that all processes of a run share, and that no change of the wall clock moves.

use std::{fs, time::Duration};

use tokio::time::Instant;

/// Milliseconds since the machine was started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
    offset: u64,
}

impl Clock {
    /// The kernel counts in steps of 10 ms: it is read until it changes.
    pub(crate) fn new() -> Self {
        let first = uptime();
        loop {
            let (now, start) = (uptime(), Instant::now());
            if now != first {
                return Self { start, offset: now };
            }
        }
    }

    pub(crate) fn now(&self) -> u64 {
        self.offset + millis(self.start.elapsed())
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// `/proc/uptime`: seconds with two digits behind the point.
fn uptime() -> u64 {
    let text = fs::read_to_string("/proc/uptime").expect("Linux has /proc/uptime");
    let seconds = text.split_whitespace().next().unwrap_or_default();
    let hundredths: u64 = seconds.replace('.', "").parse().expect("/proc/uptime begins with seconds");
    hundredths * 10
}
