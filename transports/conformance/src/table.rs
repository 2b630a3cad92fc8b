//! The table of all transports: a row for each capability, a column for each transport.

use std::{env, error, fmt, fs, io, path::Path};

use consign::transport::Capability;

use crate::{Report, report::Tally};

/// The variable that makes [`keep`] write: the path of the file for the report as JSON.
pub const REPORT_VARIABLE: &str = "CONSIGN_CONFORMANCE_REPORT";

const HEAD: &str = "# Conformance

What each transport does of the message model, as one suite of cases finds it. `cargo xtask conformance` with
`--transport NAME` runs the suite and writes the column. The cases are in `transports/conformance`.

A cell has the level that the transport declares, how many cases hold, and of how many. *Native* is done by the broker,
*emulated* by the transport on top of it, and of what is *unsupported* a case holds if the transport says so when it is
asked. Cases that need something that the transport does not have are left out.

*embedded* is the broker of this library in memory, *durable* the same on a disk. Why a transport emulates a capability or
does without it, and at what price, is in its README: [nats](../transports/nats/README.md),
[postgres](../transports/postgres/README.md), [rabbitmq](../transports/rabbitmq/README.md).
";

/// The table with the report as the column of its transport. The columns of other transports stay as they are in
/// `table`; a column that is not there yet comes last. `table` may be empty.
#[must_use]
pub fn with_report(table: &str, report: &Report) -> String {
    let mut columns = columns(table);
    let cells = Capability::ALL.iter().map(|&capability| cell(report, capability)).collect();
    match columns.iter_mut().find(|(name, _)| name == report.transport) {
        Some((_, old)) => *old = cells,
        None => columns.push((report.transport.into(), cells)),
    }
    render(&columns)
}

/// Checks that the table at `path` says of the transport what the report says. When `cargo xtask conformance` runs the
/// test it sets [`REPORT_VARIABLE`]: then the column is written, and the report beside it.
pub fn keep(report: &Report, path: impl AsRef<Path>) -> Result<(), TableError> {
    let path = path.as_ref();
    let old = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read?,
    };
    let new = with_report(&old, report);
    if let Some(file) = env::var_os(REPORT_VARIABLE) {
        fs::write(path, new)?;
        fs::write(file, format!("{:#}\n", report.json()))?;
        return Ok(());
    }
    if new == old { Ok(()) } else { Err(TableError::OutOfDate(report.transport)) }
}

/// The table is not as it should be.
#[derive(Debug)]
#[non_exhaustive]
pub enum TableError {
    /// A file could not be read or written.
    Io(io::Error),
    /// The column of this transport says something else than the report.
    OutOfDate(&'static str),
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(_) => f.write_str("the table cannot be read or written"),
            Self::OutOfDate(name) => write!(f, "out of date; run `cargo xtask conformance --transport {name}`"),
        }
    }
}

impl error::Error for TableError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::OutOfDate(_) => None,
        }
    }
}

impl From<io::Error> for TableError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn cell(report: &Report, capability: Capability) -> String {
    let Tally { good, all } = report.tally(Some(capability));
    format!("{} {good}/{all}", report.capabilities.level(capability))
}

type Column = (String, Vec<String>);

/// The transports of a table with their cells, one for each capability. A cell that is missing is empty.
fn columns(table: &str) -> Vec<Column> {
    let mut rows = table.lines().filter_map(cells).filter(|cells| cells.len() > 2);
    let Some(names) = rows.next() else { return Vec::new() };
    let rows: Vec<Vec<&str>> = rows.collect();
    let column = |(index, name): (usize, &&str)| {
        let cell = |capability: &Capability| {
            let row = rows.iter().find(|row| row[0] == capability.id());
            row.and_then(|row| row.get(index)).copied().unwrap_or_default().to_owned()
        };
        ((*name).to_owned(), Capability::ALL.iter().map(cell).collect())
    };
    names.iter().enumerate().skip(2).map(column).collect()
}

fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split('|').map(str::trim).collect())
}

fn render(columns: &[Column]) -> String {
    let line = |cells: Vec<&str>| format!("| {} |\n", cells.join(" | "));
    let names = columns.iter().map(|(name, _)| name.as_str());
    let mut text = format!("{HEAD}\n");
    text += &line(["id", "capability"].into_iter().chain(names).collect());
    text += &line(vec!["---"; 2 + columns.len()]);
    for (index, capability) in Capability::ALL.iter().enumerate() {
        let cells = columns.iter().map(|(_, cells)| cells[index].as_str());
        text += &line([capability.id(), capability.title()].into_iter().chain(cells).collect());
    }
    text
}

#[cfg(test)]
mod tests {
    use consign::transport::{Capabilities, Level};

    use super::*;
    use crate::{CaseReport, Failure, Outcome};

    fn report(transport: &'static str, outcomes: Vec<Outcome>) -> Report {
        let case = |outcome| CaseReport {
            name: "a",
            rows: Vec::new(),
            capability: Capability::Peek,
            level: Level::Native,
            outcome,
        };
        let capabilities = Capabilities::all(Level::Native).with(Capability::Purge, Level::Unsupported);
        Report { transport, capabilities, seed: None, cases: outcomes.into_iter().map(case).collect() }
    }

    #[test]
    fn a_column_is_added_and_replaced_and_the_others_stay() {
        let failed = || Outcome::Failed(Failure::behaviour("no"));
        let one = with_report("", &report("one", vec![Outcome::Passed, failed()]));
        let two = with_report(&one, &report("two", vec![Outcome::Passed, Outcome::NoSuchDetail]));
        assert!(two.contains("| id | capability | one | two |\n| --- | --- | --- | --- |\n"), "{two}");
        assert!(two.contains("| K-19 | peek | native 1/2 | native 1/1 |\n"), "{two}");
        assert!(two.contains("| K-36 | purge | unsupported 0/0 | unsupported 0/0 |\n"), "{two}");
        let mended = with_report(&two, &report("one", vec![Outcome::Passed]));
        assert!(mended.contains("| K-19 | peek | native 1/1 | native 1/1 |\n"), "{mended}");
        assert_eq!(with_report(&mended, &report("one", vec![Outcome::Passed])), mended);
    }
}
