//! What came of a run: a table for people, an object for programs.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use serde::Serialize;

use crate::{
    format::Format,
    ledger::{Books, Outcome, Row},
    plan::Plan,
};

#[derive(Debug, Serialize)]
pub struct Report {
    /// Whether every message is accounted for as it should be.
    pub ok: bool,
    pub sent: u64,
    pub handled: u64,
    pub dead_lettered: u64,
    /// Sent, and neither handled nor dead-lettered.
    pub lost: u64,
    /// Accounted for more than once.
    pub duplicates: u64,
    /// Read or dead-lettered in a way that such a message may not be, or with other content than was sent.
    pub unexpected: u64,
    /// Dead letters that had been delivered more than once.
    pub redelivered_dead_letters: u64,
    /// Accounted for by earlier runs on the same store.
    pub resumed: u64,
    /// Of these, those that came again, for a run was killed between the account and the settlement.
    pub repeated: u64,
    pub by_format: BTreeMap<&'static str, ByFormat>,
    pub dead_letters: Vec<DeadLetters>,
    pub events: usize,
    pub seed: u64,
    pub threads: usize,
    pub seconds: f64,
    pub messages_per_second: f64,
    /// Null where the system does not say.
    pub peak_rss_bytes: Option<u64>,
    #[serde(skip)]
    rows: BTreeMap<Row, u64>,
}

#[derive(Debug, Default, Serialize)]
pub struct ByFormat {
    pub sent: u64,
    pub handled: u64,
    /// Of the handled, those that were read by another codec than the declared, or without a declaration.
    pub rescued: u64,
    pub dead_lettered: u64,
    pub read_by: BTreeMap<Cow<'static, str>, u64>,
}

/// Dead letters with the same reason, for which the same was tried.
#[derive(Debug, Serialize)]
pub struct DeadLetters {
    pub reason: String,
    pub tried: String,
    pub messages: u64,
}

impl Report {
    pub fn new(plan: &Plan, books: &Books, sent: &BTreeMap<Format, u64>, seconds: f64, threads: usize) -> Self {
        let total: u64 = sent.values().sum();
        let lost = total.saturating_sub(books.entered());
        let is_right = books.entered() == total && books.twice + books.unexpected + books.dead_redelivered == 0;
        let dead = books.dead.iter();
        let mut dead_letters: Vec<_> = dead
            .map(|((reason, tried), &messages)| DeadLetters { reason: reason.clone(), tried: tried.clone(), messages })
            .collect();
        dead_letters.sort_by_key(|letters| std::cmp::Reverse(letters.messages));
        Self {
            ok: is_right,
            sent: total,
            handled: books.handled,
            dead_lettered: books.dead_lettered,
            lost,
            duplicates: books.twice,
            unexpected: books.unexpected,
            redelivered_dead_letters: books.dead_redelivered,
            resumed: books.resumed,
            repeated: books.repeated,
            by_format: by_format(books, sent),
            dead_letters,
            events: plan.events(),
            seed: plan.seed(),
            threads,
            seconds,
            messages_per_second: per_second(books.entered() - books.resumed, seconds),
            peak_rss_bytes: peak_rss_bytes(),
            rows: books.rows.clone(),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "2^52 messages are not sent")]
fn per_second(messages: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { (messages as f64 / seconds).round() } else { 0.0 }
}

fn by_format(books: &Books, sent: &BTreeMap<Format, u64>) -> BTreeMap<&'static str, ByFormat> {
    let mut formats: BTreeMap<_, _> =
        sent.iter().map(|(format, &sent)| (format.name(), ByFormat { sent, ..ByFormat::default() })).collect();
    for (row, &messages) in &books.rows {
        let format = formats.entry(row.format.name()).or_default();
        match row.outcome {
            Outcome::Dead(_) => format.dead_lettered += messages,
            Outcome::Handled => format.handled += messages,
            Outcome::Rescued => {
                format.handled += messages;
                format.rescued += messages;
            }
        }
        if !matches!(row.outcome, Outcome::Dead(_)) {
            *format.read_by.entry(row.by.clone()).or_default() += messages;
        }
    }
    formats
}

/// The most memory that the process has had at one time.
fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |f: &mut fmt::Formatter<'_>, cells: [&str; 5], messages: &str| {
            let [producer, declared, by, chosen, outcome] = cells;
            writeln!(f, "{producer:<18}{declared:<35}{by:<9}{chosen:<10}{outcome:<36}{messages:>10}")
        };
        line(f, ["producer", "declared", "read by", "chosen", "outcome"], "messages")?;
        for (row, messages) in &self.rows {
            let outcome = match &row.outcome {
                Outcome::Handled => "handled",
                Outcome::Rescued => "rescued",
                Outcome::Dead(reason) => &format!("dead: {reason}"),
            };
            line(f, [row.format.name(), &row.declared, &row.by, &row.chosen, outcome], &messages.to_string())?;
        }
        self.fmt_dead_letters(f)?;
        writeln!(
            f,
            "\n{} messages of {} events in {:.2} s on {} threads: {} messages/s; peak memory {}",
            self.sent,
            self.events,
            self.seconds,
            self.threads,
            self.messages_per_second,
            self.peak_rss_bytes.map_or_else(|| "unknown".to_owned(), |bytes| format!("{} KiB", bytes / 1024)),
        )?;
        writeln!(
            f,
            "{} handled, {} dead-lettered, {} lost, {} accounted for twice, {} not as expected, {} dead letters delivered \
             more than once",
            self.handled,
            self.dead_lettered,
            self.lost,
            self.duplicates,
            self.unexpected,
            self.redelivered_dead_letters
        )?;
        if self.resumed > 0 {
            writeln!(
                f,
                "{} accounted for by earlier runs, of which {} had not settled them",
                self.resumed, self.repeated
            )?;
        }
        let verdict = if self.ok { "every message is accounted for" } else { "FAILED: see the counts above" };
        write!(f, "{verdict} (seed {})", self.seed)
    }
}

impl Report {
    /// So many groups are shown; noise fails in many ways.
    const SHOWN: usize = 15;

    fn fmt_dead_letters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.dead_letters.is_empty() {
            return Ok(());
        }
        writeln!(f, "\n{:<23}{:<95}{:>10}", "dead letters", "tried", "messages")?;
        for letters in self.dead_letters.iter().take(Self::SHOWN) {
            writeln!(f, "{:<23}{:<95}{:>10}", letters.reason, letters.tried, letters.messages)?;
        }
        let others = self.dead_letters.iter().skip(Self::SHOWN);
        let (groups, messages) = (others.clone().count(), others.map(|letters| letters.messages).sum::<u64>());
        if groups > 0 {
            writeln!(f, "{:<118}{messages:>10}", format!("{groups} more ways to fail"))?;
        }
        Ok(())
    }
}
