//! CPU time and memory of this process and of a server on this machine, from `/proc`.

use std::{fs, io, path::Path};

/// CPU time in ns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpu {
    pub(crate) client: u64,
    /// `None` where there is no server, or its process was not found.
    pub(crate) server: Option<u64>,
}

/// The processes of a server: the one that listens, and its children.
#[derive(Clone, Debug)]
pub(crate) struct Server(Option<u32>);

impl Server {
    /// Finds the process that listens at a port. It is not found where this process may not look at its files.
    pub(crate) fn at(port: Option<u16>) -> io::Result<Self> {
        let Some(port) = port else { return Ok(Self(None)) };
        let process = listener(port)?;
        if process.is_none() {
            eprintln!("no process was found that listens at port {port}: its CPU time and its memory are left out");
        }
        Ok(Self(process))
    }

    pub(crate) fn cpu(&self) -> io::Result<Cpu> {
        Ok(Cpu { client: cpu_of("self")?, server: self.sum(cpu_of)? })
    }

    /// Resident memory in bytes. `None` as in [`Cpu`].
    pub(crate) fn memory(&self) -> io::Result<Option<u64>> {
        self.sum(resident)
    }

    /// Returns the sum of a figure of all processes.
    fn sum(&self, of: impl Fn(&str) -> io::Result<u64>) -> io::Result<Option<u64>> {
        let Some(parent) = self.0 else { return Ok(None) };
        let mut sum = of(&parent.to_string())?;
        for pid in all()? {
            if parent_of(pid)? == Some(parent) {
                sum += of(&pid.to_string())?;
            }
        }
        Ok(Some(sum))
    }
}

/// The port of an address such as `amqp://guest:guest@127.0.0.1:5672/%2f`.
pub(crate) fn port_of(address: &str) -> Option<u16> {
    let host = address.rsplit('@').next()?.rsplit("//").next()?.split('/').next()?;
    host.rsplit_once(':')?.1.parse().ok()
}

/// Resident memory of a process, in bytes. 0 if it has ended.
pub(crate) fn resident(pid: &str) -> io::Result<u64> {
    let Some(status) = read(Path::new(&format!("/proc/{pid}/status")))? else { return Ok(0) };
    // A process that has ended, and was not waited for, has no such line.
    let Some(line) = status.lines().find_map(|line| line.strip_prefix("VmRSS:")) else { return Ok(0) };
    let kilobytes: u64 = line.split_whitespace().next().and_then(|size| size.parse().ok()).ok_or_else(unreadable)?;
    Ok(kilobytes * 1_024)
}

/// The time of all threads that run. A thread that has ended is not counted.
fn cpu_of(pid: &str) -> io::Result<u64> {
    let threads = match fs::read_dir(format!("/proc/{pid}/task")) {
        Err(error) if has_ended(&error) => return Ok(0),
        threads => threads?,
    };
    threads.map(|thread| on_cpu(&thread?.path())).sum()
}

fn on_cpu(thread: &Path) -> io::Result<u64> {
    let Some(schedstat) = read(&thread.join("schedstat"))? else { return Ok(0) };
    schedstat.split_whitespace().next().and_then(|time| time.parse().ok()).ok_or_else(unreadable)
}

fn all() -> io::Result<Vec<u32>> {
    let mut processes = Vec::new();
    for entry in fs::read_dir("/proc")? {
        // Most other entries are files about the system.
        processes.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(processes)
}

/// `None` if the process has ended.
fn parent_of(pid: u32) -> io::Result<Option<u32>> {
    let Some(stat) = read(Path::new(&format!("/proc/{pid}/stat")))? else { return Ok(None) };
    // The name, in parentheses, may have spaces.
    let fields = stat.rsplit_once(") ").map(|(_, fields)| fields.split_whitespace());
    let parent = fields.and_then(|mut fields| fields.nth(1)?.parse().ok());
    parent.map(Some).ok_or_else(unreadable)
}

fn listener(port: u16) -> io::Result<Option<u32>> {
    const LISTENS: &str = "0A";
    let local = format!(":{port:04X}");
    let mut tables = fs::read_to_string("/proc/net/tcp")?;
    // There is none where IPv6 is turned off.
    tables.extend(read(Path::new("/proc/net/tcp6"))?);
    let socket = tables.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_it = fields.get(1)?.ends_with(&local) && *fields.get(3)? == LISTENS;
        is_it.then(|| fields.get(9).map(|inode| format!("socket:[{inode}]")))?
    });
    let Some(socket) = socket else { return Ok(None) };
    for pid in all()? {
        // The files of other users' processes cannot be read, and those of a process that has ended are gone.
        let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        let mut links = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
        if links.any(|link| link.to_str() == Some(&socket)) {
            return Ok(Some(pid));
        }
    }
    Ok(None)
}

/// Reads a file of `/proc`. `None` if it is not there, as where the process or the thread has ended.
fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Err(error) if has_ended(&error) => Ok(None),
        text => text.map(Some),
    }
}

fn has_ended(error: &io::Error) -> bool {
    /// What Linux returns if the thread ends while its file is read.
    const ESRCH: i32 = 3;
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(ESRCH)
}

fn unreadable() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a file in /proc has another format")
}
