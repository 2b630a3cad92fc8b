//! Processes of servers: their memory and processor time, by `/proc`.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
};

use crate::Failure;

/// Ticks of `/proc/PID/stat` in a second. It is 100 on every Linux.
const TICKS: f64 = 100.0;

/// A server in a process, which is killed when this is dropped.
pub(crate) struct Server {
    process: Child,
    pub(crate) address: SocketAddr,
    output: BufReader<ChildStdout>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    /// Starts `consign serve` on a port that is free.
    pub(crate) fn consign(program: &Path, more: &[&str]) -> Result<Self, Failure> {
        let mut command = Command::new(program);
        command.args(["serve", "--amqp-port", "0", "--http-port", "0"]).args(more);
        Self::start(command, |line| line.strip_prefix("AMQP: Endpoint=sb://")?.split(';').next()?.parse().ok())
    }

    /// Waits until the server has printed its address of HTTP, once.
    pub(crate) fn http(&mut self) -> Result<SocketAddr, Failure> {
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line)? == 0 {
                return Err("the server has printed no address of HTTP".into());
            }
            if let Some(address) = line.strip_prefix("HTTP: http://") {
                return Ok(address.trim_end().parse()?);
            }
        }
    }

    /// Starts a program that prints the address that it listens on.
    pub(crate) fn other(program: &Path) -> Result<Self, Failure> {
        Self::start(Command::new(program), |line| line.trim_end().parse().ok())
    }

    fn start(mut command: Command, address: fn(&str) -> Option<SocketAddr>) -> Result<Self, Failure> {
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut output = BufReader::new(process.stdout.take().ok_or("no standard output")?);
        loop {
            let mut line = String::new();
            if output.read_line(&mut line)? == 0 {
                return Err(format!("the server has ended with {}", process.wait()?).into());
            }
            if let Some(address) = address(&line) {
                return Ok(Self { process, address, output });
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The bytes of memory now, and the most that there were.
    pub(crate) fn memory(&self) -> Result<(u64, u64), Failure> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let bytes = |name: &str| -> Option<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1_024)
        };
        bytes("VmRSS:").zip(bytes("VmHWM:")).ok_or_else(|| "no memory in /proc".into())
    }
}

/// The seconds of processor time of a process, in user and in system mode.
pub(crate) fn processor_time(pid: u32) -> Result<f64, Failure> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name of the program may have spaces and parentheses.
    let fields = stat.rsplit_once(')').ok_or("no name in /proc")?.1;
    let ticks: Vec<f64> = fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    Ok(ticks.iter().sum::<f64>() / TICKS)
}

/// The process that listens on an IPv4 or IPv6 port.
pub(crate) fn listener(port: u16) -> Result<u32, Failure> {
    let suffix = format!(":{port:04X}");
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let listening = tables.iter().flat_map(|table| table.lines()).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // State 0A is LISTEN.
        (fields.get(1)?.ends_with(&suffix) && *fields.get(3)? == "0A").then(|| format!("socket:[{}]", fields[9]))
    });
    let socket = listening.ok_or_else(|| format!("nothing listens on port {port}"))?;
    for process in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(files) = fs::read_dir(process.path().join("fd")) else { continue };
        if files.flatten().any(|file| fs::read_link(file.path()).is_ok_and(|to| to.as_os_str() == socket.as_str())) {
            return Ok(pid);
        }
    }
    Err(format!("the process that listens on port {port} is of another user").into())
}

/// Bytes as mebibytes, for people.
#[expect(clippy::cast_precision_loss, reason = "it is printed with one digit")]
pub(crate) fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
