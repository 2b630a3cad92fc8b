use std::fmt;

use serde::Serialize;

/// Times in microseconds, sorted.
pub(super) struct Times(Vec<u32>);

#[derive(Debug, Serialize, PartialEq, Eq)]
pub(super) struct Percentiles {
    pub(super) min: u32,
    pub(super) p50: u32,
    pub(super) p90: u32,
    pub(super) p99: u32,
    #[serde(rename = "p99.9")]
    pub(super) p999: u32,
    pub(super) max: u32,
}

impl Times {
    pub(super) fn new(mut times: Vec<u32>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    /// The smallest time that at least this many of a thousand times do not exceed.
    pub(super) fn per_mille(&self, per_mille: usize) -> u32 {
        let rank = (self.0.len() * per_mille).div_ceil(1_000).max(1);
        self.0.get(rank - 1).copied().unwrap_or(0)
    }

    pub(super) fn percentiles(&self) -> Percentiles {
        Percentiles {
            min: self.0.first().copied().unwrap_or(0),
            p50: self.per_mille(500),
            p90: self.per_mille(900),
            p99: self.per_mille(990),
            p999: self.per_mille(999),
            max: self.0.last().copied().unwrap_or(0),
        }
    }

    /// A line for each power of two that has times.
    pub(super) fn histogram(&self) -> String {
        const WIDTH: usize = 40;
        let mut counts = [0_usize; 33];
        for time in &self.0 {
            counts[(32 - time.leading_zeros()) as usize] += 1;
        }
        let most = counts.iter().copied().max().unwrap_or(0).max(1);
        let lines = counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(bits, count)| {
            let below = 1_u64 << bits;
            let bar = "#".repeat((count * WIDTH).div_ceil(most));
            format!("  < {:>9} {bar} {count}", Micros(below).to_string())
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Percentiles { min, p50, p90, p99, p999, max } = self.percentiles();
        let [min, p50, p90, p99, p999, max] = [min, p50, p90, p99, p999, max].map(|time| Micros(time.into()));
        write!(f, "min {min}, p50 {p50}, p90 {p90}, p99 {p99}, p99.9 {p999}, max {max}")
    }
}

/// Microseconds with the unit that suits.
pub(super) struct Micros(pub(super) u64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            micros @ ..1_000 => write!(f, "{micros} us"),
            micros @ ..1_000_000 => write!(f, "{}.{} ms", micros / 1_000, micros / 100 % 10),
            micros => write!(f, "{}.{} s", micros / 1_000_000, micros / 100_000 % 10),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let times = Times::new((1..=1_000).rev().collect());
        let expected = Percentiles { min: 1, p50: 500, p90: 900, p99: 990, p999: 999, max: 1_000 };
        assert_eq!(times.percentiles(), expected);
        assert_eq!(Times::new(vec![7]).percentiles().p50, 7);
        assert_eq!(Times::new(vec![]).percentiles().max, 0);
    }

    #[test]
    fn a_histogram_has_every_time() {
        let shown = Times::new(vec![0, 1, 1, 1_500, 3_000_000]).histogram();
        let counts: Vec<_> = shown.lines().filter_map(|line| line.rsplit(' ').next()).collect();
        assert_eq!(counts, ["1", "2", "1", "1"], "{shown}");
    }
}
