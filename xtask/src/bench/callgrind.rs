//! What callgrind counts inside a program's `hot_phase`, or of a whole program, and what the program prints of it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use super::programs::Program;
use crate::error::Error;
use crate::workspace::{output, root};

/// What one message costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cost {
    pub(crate) instructions: f64,
    pub(crate) allocations: f64,
}

/// What one run of a program counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Total {
    instructions: u64,
    allocations: u64,
}

/// The cost of one message more, from a run of so many messages to one of twice as many.
pub(crate) fn cost(program: &Program, built: &Path, scenario: &str, messages: u64) -> Result<Cost, Error> {
    let total = |messages: u64| {
        let (instructions, printed) = counted(program, built, &[scenario, &messages.to_string()])?;
        let allocations = figure(&printed, "allocations");
        let allocations =
            allocations.ok_or_else(|| Error::NoCount { command: format!("{} {scenario}", program.name) })?;
        Ok(Total { instructions, allocations })
    };
    Ok(slope(total(messages)?, total(2 * messages)?, messages))
}

/// Whole instructions, and thousandths of an allocation.
#[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
fn slope(once: Total, twice: Total, messages: u64) -> Cost {
    let each = |once: u64, twice: u64| twice.saturating_sub(once) as f64 / messages as f64;
    Cost {
        instructions: each(once.instructions, twice.instructions).round(),
        allocations: (each(once.allocations, twice.allocations) * 1_000.0).round() / 1_000.0,
    }
}

/// Instructions inside `hot_phase`, and what the program printed. Of a program that waits nothing is counted at all until
/// it is ready, which is ten times as fast.
pub(crate) fn counted(program: &Program, built: &Path, arguments: &[&str]) -> Result<(u64, String), Error> {
    let name = format!("{} {}", program.name, arguments.join(" "));
    let start = |source| Error::Start { command: name.clone(), source };
    let mut command = callgrind(program, built, arguments);
    let stdin = if program.waits { Stdio::piped() } else { Stdio::null() };
    let mut child = command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(start)?;
    // Open until the program has ended, which may print more than this. If it ends before, its status says why.
    let mut lines = child.stdout.take().map(|stdout| BufReader::new(stdout).lines());
    if let Some(lines) = lines.as_mut().filter(|_| program.waits) {
        lines.find(|line| line.as_ref().map_or(true, |line| line == "ready"));
        let mut control = Command::new("callgrind_control");
        control.args(["-i", "on", &child.id().to_string()]).stdin(Stdio::null());
        control.output().map_err(|source| Error::Start { command: "callgrind_control".into(), source })?;
    }
    let ran = child.wait_with_output().map_err(start)?;
    if !ran.status.success() {
        eprintln!("{}", String::from_utf8_lossy(&ran.stderr));
        return Err(Error::Failed { command: name, status: ran.status });
    }
    let printed: Vec<String> = lines.into_iter().flatten().collect::<Result<_, _>>().map_err(start)?;
    let instructions = collected(&String::from_utf8_lossy(&ran.stderr)).ok_or(Error::NoCount { command: name })?;
    Ok((instructions, printed.join("\n")))
}

fn callgrind(program: &Program, built: &Path, arguments: &[&str]) -> Command {
    let out = format!("--callgrind-out-file={}", root().join("target/bench.callgrind").display());
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", &out]);
    if !program.is_whole {
        command.args(["--collect-atstart=no", "--toggle-collect=*hot_phase*"]);
    }
    if program.waits {
        command.arg("--instr-atstart=no");
    }
    command.arg(built).args(arguments).current_dir(root());
    command
}

/// What a program prints that is not counted.
pub(crate) fn printed(built: &Path, arguments: &[&str]) -> Result<String, Error> {
    output(Command::new(built).args(arguments).current_dir(root()).stdin(Stdio::null()))
}

/// The number on the line that begins with this name.
pub(crate) fn figure(printed: &str, name: &str) -> Option<u64> {
    figures(printed).find(|&(other, _)| other == name).map(|(_, number)| number)
}

/// The number on the line that begins with this name. A program that does not print it has not measured it.
pub(crate) fn expected(printed: &str, name: &str, command: &str) -> Result<u64, Error> {
    figure(printed, name).ok_or_else(|| Error::NoCount { command: format!("{command}: {name}") })
}

/// The lines of a name and a number.
pub(crate) fn figures(printed: &str) -> impl Iterator<Item = (&str, u64)> {
    let pairs = printed.lines().filter_map(|line| line.split_once(' '));
    pairs.filter_map(|(name, number)| Some((name, number.trim().parse().ok()?)))
}

/// The number behind `Collected :`. Nothing was counted if it is 0.
fn collected(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok()).filter(|&count| count > 0)
}

/// Fails if valgrind is not there, and says how to get it.
pub(crate) fn present() -> Result<String, Error> {
    let version = output(Command::new("valgrind").arg("--version").stdin(Stdio::null()));
    version.map(|version| version.trim().to_owned()).map_err(|_| Error::NoValgrind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found() {
        assert_eq!(collected("==7== \n==7== Collected : 905014\n==7== "), Some(905_014));
        assert_eq!(collected("==7== Events : Ir"), None);
        assert_eq!(collected("==7== Collected : 0"), None);
    }

    #[test]
    fn a_figure_is_found_by_its_name() {
        let printed = "ready\nallocations 12\np50 7\np99 many\n";
        assert_eq!(figure(printed, "allocations"), Some(12));
        assert_eq!(figure(printed, "p5"), None);
        assert_eq!(figures(printed).collect::<Vec<_>>(), [("allocations", 12), ("p50", 7)]);
    }

    #[test]
    fn work_done_once_is_in_no_cost() {
        let total = |instructions, allocations| Total { instructions, allocations };
        let cost = slope(total(5_000_100, 7), total(5_000_850, 23), 1_000);
        assert_eq!(cost, Cost { instructions: 1.0, allocations: 0.016 });
    }
}
