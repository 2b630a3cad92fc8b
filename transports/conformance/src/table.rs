//! The table of all transports: a row for each capability, a column for each transport.

use std::{env, error, ffi::OsStr, fmt, fs, io, path::Path};

use consign::transport::{Capability, Level};

use crate::{Report, report::Tally};

/// The environment variable that makes [`keep`] write: the path of the file for the report as JSON.
pub const REPORT_VARIABLE: &str = "CONSIGN_CONFORMANCE_REPORT";

const HEAD: &str = "# Conformance

This page lists which capabilities of the message model each transport has. One conformance suite, in
`transports/conformance`, runs on every transport. `cargo xtask conformance --transport NAME` runs it and writes the column.

A cell begins with the level that the transport declares:

- *native*: the broker does it. The cell has the number of cases that pass, out of the cases that were run.
- *emulated*: the transport does it on top of the broker. The numbers have the same meaning as for *native*.
- *unsupported, refused*: the call returned `NotSupported` with this capability, in that many cases.
- *unsupported, tried*: the capability is a promise about other calls, so there is no call to refuse. The cell has the
  number of cases that were run. At least one of them fails, unless the capability is listed
  [below](#unsupported-by-declaration).
- *unsupported, not tested*: see [below](#unsupported-by-declaration).

A case is *not run* if the transport lacks another capability that the case needs, or a detail that no capability promises, such as
entities that can be disabled. The tests of each transport implement the trait `Backend`. If they leave out a method that the case needs,
the case fails for a supported capability, and is not run for an unsupported one.

*embedded* is the embedded broker in memory, *durable* the embedded broker on a disk, and *example* the transport of
[Writing a transport](writing-a-transport.md). *amqp10* is the transport for AMQP 1.0, without `Options::scheduling`, on a test
broker written with Qpid Proton's `Container` API, and *amqp10-rabbitmq* the same on RabbitMQ 3 with the plugin `rabbitmq_amqp1_0`.
*servicebus* is the transport for
Azure Service Bus on `consign-server` with `OnDisconnect::HoldUntilExpiry`, so that it holds the locks of a lost connection as the
hosted service does; the suite was not run on the hosted service. The README of each transport gives the reasons and the costs:
[amqp10](../transports/amqp10/README.md), [nats](../transports/nats/README.md), [postgres](../transports/postgres/README.md),
[rabbitmq](../transports/rabbitmq/README.md), [servicebus](../transports/servicebus/README.md).
";

const CRASHES: &str = "
K-37 on *embedded* and *durable* is about a receiver that is dropped in a running process: its deliveries are abandoned, which
increments DeliveryCount. For a crash of the process, see [Crashes and DeliveryCount](operating.md#crashes-and-deliverycount).
";

const NOTES: &str = "
## Unsupported by declaration

No case shows that these capabilities are unsupported. Either there is no call to refuse, or the cases that were run pass in the
environment of the tests.

| transport | capability | why |
| --- | --- | --- |
";

/// Returns the table with the report as the column of its transport. The columns of other transports stay unchanged; a new
/// column comes last. `table` may be empty.
#[must_use]
pub fn with_report(table: &str, report: &Report) -> String {
    let mut columns = columns(table);
    let cells = Capability::ALL.iter().map(|&capability| cell(report, capability)).collect();
    match columns.iter_mut().find(|(name, _)| name == report.transport) {
        Some((_, old)) => *old = cells,
        None => columns.push((report.transport.into(), cells)),
    }
    let is_other = |note: &[String; 3]| note[0] != report.transport;
    let mut notes: Vec<[String; 3]> = notes(table).into_iter().filter(is_other).collect();
    let note = |(capability, why): &(Capability, &str)| {
        let capability = format!("{} {}", capability.id(), capability.title());
        [report.transport.into(), capability, (*why).into()]
    };
    notes.extend(report.not_tested.iter().map(note));
    notes.sort();
    render(&columns, &notes)
}

/// Checks that the report is of the whole suite and passed, and that the table at `path` has the same column for the transport.
/// `cargo xtask conformance` sets [`REPORT_VARIABLE`] when it runs the test: then the report is written, and the column if the
/// report passed.
pub fn keep(report: &Report, path: impl AsRef<Path>) -> Result<(), TableError> {
    keep_in(report, path.as_ref(), env::var_os(REPORT_VARIABLE).as_deref())
}

fn keep_in(report: &Report, path: &Path, file: Option<&OsStr>) -> Result<(), TableError> {
    if let Some(file) = file {
        fs::write(file, format!("{:#}\n", report.json()))?;
    }
    if report.whole != Capability::ALL {
        return Err(TableError::Partial(report.transport));
    }
    if !report.is_passed() {
        return Err(TableError::NotPassed(report.to_string()));
    }
    let old = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read?,
    };
    let new = with_report(&old, report);
    if file.is_some() {
        fs::write(path, new)?;
    } else if new != old {
        return Err(TableError::OutOfDate(report.transport));
    }
    Ok(())
}

/// Why the table is not up to date.
#[derive(Debug)]
#[non_exhaustive]
pub enum TableError {
    /// A file could not be read or written.
    Io(io::Error),
    /// The column of this transport differs from the report.
    OutOfDate(&'static str),
    /// The report of this transport is not of all capabilities, each of them once.
    Partial(&'static str),
    /// The report has failures or complaints, which are listed here.
    NotPassed(String),
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(_) => f.write_str("the table cannot be read or written"),
            Self::OutOfDate(name) => write!(f, "out of date; run `cargo xtask conformance --transport {name}`"),
            Self::Partial(name) => write!(f, "the report of {name} is not of each capability once"),
            Self::NotPassed(report) => f.write_str(report),
        }
    }
}

impl error::Error for TableError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::OutOfDate(_) | Self::Partial(_) | Self::NotPassed(_) => None,
        }
    }
}

impl From<io::Error> for TableError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn cell(report: &Report, capability: Capability) -> String {
    let Tally { good, run, not_run } = report.tally(Some(capability));
    let level = report.capabilities.level(capability);
    if level != Level::Unsupported {
        let rest = if not_run == 0 { String::new() } else { format!(", {not_run} not run") };
        return format!("{level} {good}/{run}{rest}");
    }
    if run == 0 {
        return format!("{level}, not tested");
    }
    if capability.is_promise() {
        // The number of promises that hold by chance may differ from run to run.
        return format!("{level}, tried {run}");
    }
    let rest = if not_run == 0 { String::new() } else { format!(", {not_run} not run") };
    format!("{level}, refused {good}/{run}{rest}")
}

type Column = (String, Vec<String>);

/// Returns the transports of a table with their cells, one for each capability. A missing cell is empty.
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

/// Returns the rows of the table of capabilities that are not tested.
fn notes(table: &str) -> Vec<[String; 3]> {
    let rows = table.lines().skip_while(|line| *line != "## Unsupported by declaration").filter_map(cells);
    rows.skip(2).filter_map(|row| <[&str; 3]>::try_from(row).ok().map(|row| row.map(str::to_owned))).collect()
}

fn render(columns: &[Column], notes: &[[String; 3]]) -> String {
    let line = |cells: Vec<&str>| format!("| {} |\n", cells.join(" | "));
    let names = columns.iter().map(|(name, _)| name.as_str());
    let mut text = format!("{HEAD}\n");
    text += &line(["id", "capability"].into_iter().chain(names).collect());
    text += &line(vec!["---"; 2 + columns.len()]);
    for (index, capability) in Capability::ALL.iter().enumerate() {
        let cells = columns.iter().map(|(_, cells)| cells[index].as_str());
        text += &line([capability.id(), capability.title()].into_iter().chain(cells).collect());
    }
    text += CRASHES;
    if !notes.is_empty() {
        text += NOTES;
        text.extend(notes.iter().map(|note| line(note.iter().map(String::as_str).collect())));
    }
    text
}

#[cfg(test)]
mod tests {
    use consign::transport::Capabilities;

    use super::*;
    use crate::{CaseReport, Failure, Outcome};

    type Reasons = &'static [(Capability, &'static str)];

    /// Returns a report of a transport that has everything but three capabilities.
    fn report(transport: &'static str, of_peek: &[Outcome], not_tested: Reasons) -> Report {
        let capabilities = Capabilities::none()
            .with_each(Capability::ALL, Level::Native)
            .with(Capability::Purge, Level::Unsupported)
            .with(Capability::Deferral, Level::Unsupported)
            .with(Capability::EnqueuedTime, Level::Unsupported);
        let mut report = Report {
            transport,
            capabilities,
            seed: None,
            whole: Capability::ALL.to_vec(),
            without_trait: Vec::new(),
            not_tested,
            cases: Vec::new(),
        };
        for &capability in Capability::ALL {
            let outcomes = match capability {
                Capability::Peek => of_peek.to_vec(),
                Capability::Purge => Vec::new(),
                Capability::Deferral => vec![Outcome::Refused],
                Capability::EnqueuedTime => vec![Outcome::Absent(Failure::behaviour("no")), Outcome::Unpromised],
                _ => vec![Outcome::Passed],
            };
            let level = capabilities.level(capability);
            let case =
                |outcome| CaseReport { name: "a", rules: Vec::new(), capability, level, outcome, outages: Vec::new() };
            report.cases.extend(outcomes.into_iter().map(case));
        }
        report
    }

    const NO_PURGE: Reasons = &[(Capability::Purge, "there is no call")];

    #[test]
    fn a_column_is_added_and_replaced_and_the_others_stay() {
        let over = || Outcome::PassedOver(Capability::Purge);
        let one = with_report("", &report("one", &[Outcome::Passed, over()], NO_PURGE));
        let two = with_report(&one, &report("two", &[Outcome::Passed], NO_PURGE));
        assert!(two.contains("| id | capability | one | two |\n| --- | --- | --- | --- |\n"), "{two}");
        assert!(two.contains("| K-19 | peek | native 1/1, 1 not run | native 1/1 |\n"), "{two}");
        assert!(two.contains("| K-36 | purge | unsupported, not tested | unsupported, not tested |\n"), "{two}");
        assert!(two.contains("| K-20 | deferral | unsupported, refused 1/1 | unsupported, refused 1/1 |\n"), "{two}");
        assert!(two.contains(" by the broker | unsupported, tried 2 |"), "{two}");
        assert!(two.contains("\n| one | K-36 purge | there is no call |\n| two | K-36 purge |"), "{two}");
        let changed = with_report(&two, &report("one", &[Outcome::Passed], &[]));
        assert!(changed.contains("| K-19 | peek | native 1/1 | native 1/1 |\n"), "{changed}");
        assert!(!changed.contains("| one | K-36") && changed.contains("| two | K-36 purge |"), "{changed}");
        assert_eq!(with_report(&changed, &report("one", &[Outcome::Passed], &[])), changed);
    }

    /// A file that is deleted when this is dropped.
    struct Table(std::path::PathBuf);

    impl Drop for Table {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    #[test]
    fn a_table_is_kept_for_a_whole_report_that_passed() {
        let table = Table(env::temp_dir().join(format!("consign-table-{:016x}", fastrand::u64(..))));
        let path = table.0.as_path();
        let passed = report("one", &[Outcome::Passed], NO_PURGE);
        assert!(matches!(keep_in(&passed, path, None), Err(TableError::OutOfDate("one"))));
        fs::write(path, with_report("", &passed)).unwrap();
        keep_in(&passed, path, None).unwrap();
        let failed = report("one", &[Outcome::Failed(Failure::behaviour("no"))], NO_PURGE);
        let complained = report("one", &[Outcome::Passed], &[]);
        for report in [failed, complained, report("one", &[], NO_PURGE)] {
            assert!(matches!(keep_in(&report, path, None), Err(TableError::NotPassed(_))), "{report}");
            // It is not written either.
            let file = Table(env::temp_dir().join(format!("consign-report-{:016x}", fastrand::u64(..))));
            assert!(keep_in(&report, path, Some(file.0.as_os_str())).is_err());
            assert_eq!(fs::read_to_string(path).unwrap(), with_report("", &passed));
            assert!(file.0.exists());
        }
        let mut partial = passed.clone();
        partial.whole.pop();
        assert!(matches!(keep_in(&partial, path, None), Err(TableError::Partial("one"))));
        assert!(matches!(keep_in(&passed.clone().and(passed), path, None), Err(TableError::Partial("one"))));
    }
}
