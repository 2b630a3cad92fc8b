//! CPU time and memory of this process and of a server on this machine, from `/proc`.

use std::{fs, path::Path};

/// CPU time in ns.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cpu {
    pub(crate) client: u64,
    pub(crate) server: u64,
}

/// The processes of a server: the one that listens, and its children.
#[derive(Clone, Debug, Default)]
pub(crate) struct Server(Option<u32>);

impl Server {
    /// Finds the process that listens at a port. Without the right to look at it, its CPU time is reported as 0.
    pub(crate) fn at(port: Option<u16>) -> Self {
        Self(port.and_then(listener))
    }

    pub(crate) fn cpu(&self) -> Cpu {
        Cpu { client: of("self"), server: self.processes().map(|pid| of(&pid.to_string())).sum() }
    }

    /// Resident memory in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.processes().map(|pid| resident(&pid.to_string())).sum()
    }

    fn processes(&self) -> impl Iterator<Item = u32> {
        let parent = self.0;
        let children = all().filter(move |pid| parent.is_some_and(|parent| parent_of(*pid) == Some(parent)));
        parent.into_iter().chain(children)
    }
}

/// The port of an address such as `amqp://guest:guest@127.0.0.1:5672/%2f`.
pub(crate) fn port_of(address: &str) -> Option<u16> {
    let host = address.rsplit('@').next()?.rsplit("//").next()?.split('/').next()?;
    host.rsplit_once(':')?.1.parse().ok()
}

/// Resident memory of a process, in bytes.
pub(crate) fn resident(pid: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()).and_then(|size| size.parse::<u64>().ok());
    kilobytes.unwrap_or_default() * 1_024
}

/// The time of all threads that run. A thread that has ended is not counted.
fn of(pid: &str) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.map(|thread| on_cpu(&thread.path())).sum()
}

fn on_cpu(thread: &Path) -> u64 {
    let schedstat = fs::read_to_string(thread.join("schedstat")).unwrap_or_default();
    schedstat.split_whitespace().next().and_then(|time| time.parse().ok()).unwrap_or_default()
}

fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may have spaces.
    stat.rsplit_once(") ")?.1.split_whitespace().nth(1)?.parse().ok()
}

fn listener(port: u16) -> Option<u32> {
    const LISTENS: &str = "0A";
    let local = format!(":{port:04X}");
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let socket = tables.iter().flat_map(|table| table.lines()).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_it = fields.get(1)?.ends_with(&local) && *fields.get(3)? == LISTENS;
        is_it.then(|| format!("socket:[{}]", fields.get(9).unwrap_or(&"")))
    })?;
    all().find(|pid| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        files.filter_map(|file| fs::read_link(file.path()).ok()).any(|link| link.to_str() == Some(&socket))
    })
}
