//! The rate limit of log lines of one kind about one entity.

use std::{
    cmp::Ordering,
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::Escaped;

/// Lines in any [`PERIOD`], for each entity and kind.
const LINES: usize = 10;
const PERIOD: Duration = Duration::from_secs(1);
/// Pairs of an entity and a kind that are counted. One more takes the place of the pair whose last line is the oldest, of which a
/// summary is written if lines were suppressed.
const ROWS: usize = 256;

/// Writes how many lines of an entity and a kind were suppressed, at the level, with the target and with the fields of these lines.
#[doc(hidden)]
pub type Summarise = fn(&str, &'static str, u64);

static ROWS_OF_PROCESS: Mutex<Vec<Row>> = Mutex::new(Vec::new());

struct Row {
    entity: Box<str>,
    kind: &'static str,
    /// When the last lines were written; `next` is the place of the oldest.
    lines: [Option<Instant>; LINES],
    next: usize,
    suppressed: u64,
    summarise: Summarise,
    /// When the first of those that were suppressed would have been written.
    since: Option<Instant>,
}

/// Returns whether a log line of this kind may be written about this entity now: at most 10 in any second, by tokio's
/// time, for all receivers and consumers of this process together. `kind` is from a closed list of the caller. The lines
/// have the level WARN.
///
/// `Some` if the line may be written, with the number of lines of the kind that were suppressed before it; `None` if it is
/// one to be suppressed.
#[must_use]
pub fn log_limit(entity: &str, kind: &'static str) -> Option<u64> {
    admit(entity, kind, summarise).ok()
}

/// As [`log_limit`], for lines of the level INFO.
#[must_use]
pub fn log_limit_info(entity: &str, kind: &'static str) -> Option<u64> {
    admit(entity, kind, summarise_info).ok()
}

/// As [`log_limit`]. `summarise` is called with `entity` as it is here. `Err` is when a summary of the lines that were suppressed is due.
#[doc(hidden)]
pub fn admit(entity: &str, kind: &'static str, summarise: Summarise) -> Result<u64, Instant> {
    let mut evicted = None;
    let admitted = {
        let mut rows = rows();
        // The lock first, so that the times of two threads are in order.
        let now = Instant::now();
        let found = rows.iter().position(|row| row.kind == kind && *row.entity == *entity);
        let at = found.unwrap_or_else(|| {
            let (at, other) = place(&mut rows, entity, kind, summarise);
            evicted = other;
            at
        });
        rows[at].admit(now)
    };
    // The subscriber is the application's code, and may log itself.
    if let Some(evicted) = evicted {
        (evicted.summarise)(&evicted.entity, evicted.kind, evicted.suppressed);
    }
    admitted
}

/// Writes a summary for each kind of which lines about `entity` were suppressed a second ago or longer; with `all`, for
/// each kind of which lines were suppressed. Returns when the next summary is due.
#[doc(hidden)]
#[must_use]
pub fn summaries(entity: &str, all: bool) -> Option<Instant> {
    let mut due = Vec::new();
    let mut next = None;
    {
        let mut rows = rows();
        let now = Instant::now();
        for row in rows.iter_mut().filter(|row| row.suppressed > 0 && *row.entity == *entity) {
            let at = row.summary_at().unwrap_or(now);
            // A time far ahead is of another clock, which only tests have.
            if all || at <= now || at > now + PERIOD {
                due.push((row.summarise, row.kind, row.take_suppressed()));
            } else {
                next = Some(next.map_or(at, |next: Instant| next.min(at)));
            }
        }
    }
    // The subscriber is the application's code, and may log itself.
    for (summarise, kind, suppressed) in due {
        summarise(entity, kind, suppressed);
    }
    next
}

fn rows() -> MutexGuard<'static, Vec<Row>> {
    ROWS_OF_PROCESS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The place of a new row, and the row that was there if a summary of it was due.
fn place(rows: &mut Vec<Row>, entity: &str, kind: &'static str, summarise: Summarise) -> (usize, Option<Row>) {
    let row = Row { entity: entity.into(), kind, lines: [None; LINES], next: 0, suppressed: 0, summarise, since: None };
    if rows.len() < ROWS {
        rows.push(row);
        return (rows.len() - 1, None);
    }
    let oldest = rows.iter().enumerate().min_by(|(_, one), (_, other)| one.order(other));
    let at = oldest.map_or(0, |(at, _)| at);
    let evicted = mem::replace(&mut rows[at], row);
    (at, Some(evicted).filter(|evicted| evicted.suppressed > 0))
}

impl Row {
    fn admit(&mut self, now: Instant) -> Result<u64, Instant> {
        let oldest = self.lines[self.next];
        // A time ahead is of another clock, which only tests have.
        if oldest.is_none_or(|oldest| now < oldest || now - oldest >= PERIOD) {
            self.lines[self.next] = Some(now);
            self.next = (self.next + 1) % LINES;
            return Ok(self.take_suppressed());
        }
        self.suppressed += 1;
        Err(*self.since.get_or_insert(now) + PERIOD)
    }

    fn summary_at(&self) -> Option<Instant> {
        self.since.map(|since| since + PERIOD)
    }

    fn take_suppressed(&mut self) -> u64 {
        self.since = None;
        mem::take(&mut self.suppressed)
    }

    /// Rows with nothing to summarise first, then the one whose last line is the oldest.
    fn order(&self, other: &Self) -> Ordering {
        let last = |row: &Self| row.lines[(row.next + LINES - 1) % LINES];
        (self.suppressed > 0, last(self)).cmp(&(other.suppressed > 0, last(other)))
    }
}

const TARGET: &str = "consign::transport";
const SUPPRESSED: &str = "more lines of this kind were suppressed";

/// Summarises lines of [`log_limit`], whose targets and fields differ.
#[cold]
fn summarise(entity: &str, kind: &'static str, suppressed: u64) {
    let of = tracing::field::display(Escaped(entity));
    tracing::warn!(target: TARGET, of, kind, suppressed, "{SUPPRESSED}");
}

#[cold]
fn summarise_info(entity: &str, kind: &'static str, suppressed: u64) {
    let of = tracing::field::display(Escaped(entity));
    tracing::info!(target: TARGET, of, kind, suppressed, "{SUPPRESSED}");
}

#[cfg(test)]
mod tests {
    use std::{
        fmt::{self, Write},
        sync::Arc,
    };

    use tokio::time::advance;
    use tracing::{
        Event, Metadata, Subscriber,
        field::{Field, Visit},
        span::{Attributes, Id, Record},
    };

    use super::*;

    /// The rows are those of the process, and `cargo test` runs tests side by side.
    static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

    /// The lines of this thread.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<String>>>);

    impl Subscriber for Lines {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            let mut line = Line(format!("{} {}", event.metadata().level(), event.metadata().target()));
            event.record(&mut line);
            self.0.lock().unwrap().push(line.0);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    struct Line(String);

    impl Visit for Line {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            write!(self.0, " {field}={value:?}").unwrap();
        }
    }

    /// Rules: O-270.
    #[tokio::test(start_paused = true)]
    async fn an_evicted_row_has_a_summary_as_its_lines() {
        fn own(entity: &str, kind: &'static str, suppressed: u64) {
            tracing::info!(target: "own", entity, reason = kind, suppressed, "suppressed");
        }
        let _alone = ALONE.lock().await;
        let lines = Lines::default();
        let _guard = tracing::subscriber::set_default(lines.clone());
        for _ in 0..LINES + 3 {
            let _ = admit("own\\n", "Own", own);
            let _ = log_limit("of\n", "Warned");
            let _ = log_limit_info("of\n", "Connected");
        }
        for number in 0..ROWS {
            advance(Duration::from_millis(1)).await;
            written(&format!("evicts-{number}"), LINES + 1);
        }
        let lines = lines.0.lock().unwrap().clone();
        let expected = [
            "INFO own message=suppressed entity=\"own\\\\n\" reason=\"Own\" suppressed=3",
            "WARN consign::transport message=more lines of this kind were suppressed of=of\\n kind=\"Warned\" suppressed=3",
            "INFO consign::transport message=more lines of this kind were suppressed of=of\\n kind=\"Connected\" suppressed=3",
        ];
        for expected in expected {
            assert!(lines.iter().any(|line| line == expected), "{expected}: {lines:?}");
        }
    }

    fn written(entity: &str, lines: usize) -> usize {
        (0..lines).filter(|_| log_limit(entity, "Kind").is_some()).count()
    }

    /// Rules: O-270.
    #[tokio::test(start_paused = true)]
    async fn ten_lines_a_second_are_written_for_each_entity_and_kind() {
        let _alone = ALONE.lock().await;
        assert_eq!((written("limit-1", 1_000), written("limit-2", 3)), (LINES, 3));
        assert_eq!(log_limit("limit-1", "Another"), Some(0));
        advance(Duration::from_millis(999)).await;
        assert_eq!(written("limit-1", 1), 0);
        advance(Duration::from_millis(1)).await;
        assert_eq!(log_limit("limit-1", "Kind"), Some(991));
        assert_eq!(written("limit-1", 1_000), LINES - 1);
    }

    /// Rules: O-270.
    #[tokio::test(start_paused = true)]
    async fn lines_in_any_second_are_counted_and_not_by_the_clock() {
        let _alone = ALONE.lock().await;
        assert_eq!(written("limit-3", 1), 1);
        advance(Duration::from_millis(900)).await;
        assert_eq!(written("limit-3", 20), LINES - 1);
        advance(Duration::from_millis(200)).await;
        assert_eq!(written("limit-3", 20), 1);
    }

    /// Rules: O-270.
    #[tokio::test(start_paused = true)]
    async fn a_summary_has_the_count_and_is_written_once() {
        let _alone = ALONE.lock().await;
        written("limit-4", 15);
        let lines = Lines::default();
        let _guard = tracing::subscriber::set_default(lines.clone());
        let due = summaries("limit-4", false);
        assert_eq!((due, lines.0.lock().unwrap().len()), (Some(Instant::now() + PERIOD), 0));
        advance(PERIOD).await;
        for _ in 0..2 {
            assert_eq!(summaries("limit-4", false), None);
        }
        let lines = lines.0.lock().unwrap().clone();
        assert!(lines.len() == 1 && lines[0].ends_with("of=limit-4 kind=\"Kind\" suppressed=5"), "{lines:?}");
        assert_eq!(log_limit("limit-4", "Kind"), Some(0));
    }

    /// Rules: O-270.
    #[tokio::test(start_paused = true)]
    async fn a_row_with_suppressed_lines_gives_its_place_up_last_and_with_its_count() {
        let mut rows = Vec::new();
        let mut add = |number: usize, lines: usize| {
            let (at, evicted) = place(&mut rows, &format!("evicted-{number}"), "Kind", summarise);
            for _ in 0..lines {
                let _ = rows[at].admit(Instant::now());
            }
            evicted.map(|row| (row.entity.into_string(), row.suppressed))
        };
        for number in 0..ROWS - 1 {
            assert_eq!(add(number, LINES + 3), None);
            advance(Duration::from_millis(1)).await;
        }
        assert_eq!(add(ROWS, 1), None);
        advance(Duration::from_millis(1)).await;
        assert_eq!(add(ROWS + 1, LINES + 1), None, "the one without suppressed lines has gone");
        advance(Duration::from_millis(1)).await;
        assert_eq!(add(ROWS + 2, 1), Some(("evicted-0".to_owned(), 3)));
    }

    /// Rules: O-270.
    /// However many lines the others have had in between.
    #[tokio::test(start_paused = true)]
    async fn the_row_whose_last_line_is_the_oldest_gives_its_place_up_first() {
        let mut rows = Vec::new();
        for number in 0..ROWS + 4 {
            let (at, _) = place(&mut rows, &format!("oldest-{number}"), "Kind", summarise);
            assert_eq!(at, number % ROWS);
            for _ in 0..if number % 2 == 0 { 1 } else { LINES } {
                advance(Duration::from_millis(1)).await;
                assert_eq!(rows[at].admit(Instant::now()), Ok(0));
            }
        }
    }

    /// Rules: O-270.
    #[tokio::test(start_paused = true)]
    async fn any_number_of_names_takes_the_memory_of_256() {
        let _alone = ALONE.lock().await;
        for number in 0..3 * ROWS {
            assert_eq!(log_limit(&format!("many-{number}"), "Kind"), Some(0));
        }
        assert!(rows().len() <= ROWS);
    }

    /// Rules: O-275.
    #[tokio::test(start_paused = true)]
    async fn a_summary_is_due_a_second_after_the_first_suppressed_line() {
        let _alone = ALONE.lock().await;
        let line = || admit("limit-5", "Kind", summarise);
        assert_eq!((0..LINES).map(|_| line()).collect::<Vec<_>>(), vec![Ok(0); LINES]);
        advance(Duration::from_millis(300)).await;
        let due = Instant::now() + Duration::from_secs(1);
        assert_eq!(line(), Err(due));
        advance(Duration::from_millis(600)).await;
        assert_eq!(line(), Err(due));
        assert_eq!(summaries("limit-5", false), Some(due));
    }
}
