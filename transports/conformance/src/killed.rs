//! A process that is killed while it holds a message or a session.

use std::{
    env,
    io::{self, Write},
    process::Stdio,
};

use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

const ARGUMENT: &str = "CONSIGN_KILLED";
const READY: &str = "it holds what it is to hold";

/// A separate process that runs one test of this executable. It is killed with SIGKILL.
#[derive(Debug)]
pub struct Killed(Child);

impl Killed {
    /// Runs the test of this name, which reads its [`argument`], and waits until it has called [`ready`].
    ///
    /// # Errors
    /// Those of starting a process; `UnexpectedEof` if the test has ended without that call.
    pub async fn run(test: &str, argument: &str) -> io::Result<Self> {
        let mut command = Command::new(env::current_exe()?);
        command.args(["--exact", test, "--nocapture"]).env(ARGUMENT, argument);
        let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let out = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut lines = BufReader::new(out).lines();
        while let Some(line) = lines.next_line().await? {
            if line.contains(READY) {
                // The pipe stays open: the test may write more.
                tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                return Ok(Self(child));
            }
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }

    /// Kills it, and waits until it has ended.
    ///
    /// # Errors
    /// Those of the operating system.
    pub async fn kill(mut self) -> io::Result<()> {
        self.0.kill().await
    }
}

/// Returns the argument, in the process that is killed; `None` if the test runs among the others.
#[must_use]
pub fn argument() -> Option<String> {
    env::var(ARGUMENT).ok()
}

/// Reports that this process can be killed, and waits for that.
pub async fn ready() {
    let mut out = io::stdout().lock();
    // The reader kills the process.
    let _ = writeln!(out, "{READY}");
    let _ = out.flush();
    drop(out);
    std::future::pending::<()>().await;
}
