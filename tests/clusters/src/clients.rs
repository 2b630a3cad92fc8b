//! The processes of the clients.

use std::{
    collections::HashSet,
    fs::{self, File},
    io,
    ops::Range,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::{
    io::AsyncWriteExt,
    process::{Child, Command},
    time::timeout,
};

/// How many clients work at once.
pub(crate) const CLIENTS: u32 = 2;
/// Of a clock that is wrong.
const SKEWS: [&str; 2] = ["+3600s", "-3600s"];

/// The clients of a round.
pub(crate) struct Clients {
    /// What the process of every client is started with.
    arguments: Vec<String>,
    folder: PathBuf,
    running: Vec<(u32, Child)>,
    next: u32,
    pub(crate) killed: HashSet<u32>,
    /// The client whose clock is wrong.
    skewed: Option<u32>,
}

impl Clients {
    pub(crate) fn start(arguments: Vec<String>, folder: &Path) -> io::Result<Self> {
        let mut clients = Self {
            arguments,
            folder: folder.into(),
            running: Vec::new(),
            next: CLIENTS,
            killed: HashSet::new(),
            skewed: None,
        };
        for number in 0..CLIENTS {
            let client = clients.spawn(number, None)?;
            clients.running.push((number, client));
        }
        Ok(clients)
    }

    /// The numbers of those that run.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        self.running.iter().map(|(number, _)| *number).collect()
    }

    /// The numbers of all that were started: one that was killed has a history too.
    pub(crate) fn started(&self) -> Range<u32> {
        0..self.next
    }

    /// Kills a client, and starts one with a wrong clock in its place. If only one may be wrong, and that of another client is, it
    /// has a right one.
    pub(crate) async fn skew(&mut self, random: &mut fastrand::Rng, only_one: bool) -> io::Result<()> {
        let place = random.usize(..self.running.len());
        let (before, process) = &mut self.running[place];
        process.kill().await?;
        let before = *before;
        self.killed.insert(before);
        // Its place is known by the remainder.
        let number = self.next + (self.next + CLIENTS - before % CLIENTS) % CLIENTS;
        self.next = number + 1;
        let is_wrong = !only_one || self.skewed.is_none_or(|skewed| skewed == before);
        let skew = SKEWS[random.usize(..SKEWS.len())];
        let client = self.spawn(number, is_wrong.then_some(skew))?;
        if is_wrong {
            self.skewed = Some(number);
        }
        self.running[place] = (number, client);
        Ok(())
    }

    fn spawn(&self, number: u32, skew: Option<&str>) -> io::Result<Child> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(&self.arguments).args(["--number", &number.to_string()]);
        let log = File::create(self.folder.join(format!("client-{number}.log")))?;
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log).kill_on_drop(true);
        if let (Some(skew), Some(library)) = (skew, faketime()) {
            // Monotonic time stays, as where an administrator sets the clock.
            command.env("LD_PRELOAD", library).env("FAKETIME", skew).env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
            command.env("DONT_FAKE_MONOTONIC", "1").env("FAKETIME_NO_CACHE", "1");
        }
        command.spawn()
    }

    /// Ends the producers.
    pub(crate) async fn end_producers(&mut self) {
        for (_, client) in &mut self.running {
            if let Some(input) = &mut client.stdin {
                let _ = input.write_all(b"\n").await;
                let _ = input.flush().await;
            }
        }
    }

    /// Ends the clients.
    pub(crate) async fn end(mut self) -> HashSet<u32> {
        for (number, client) in &mut self.running {
            drop(client.stdin.take());
            if timeout(Duration::from_secs(10), client.wait()).await.is_err() {
                eprintln!("client {number} does not end: it is killed");
                let _ = client.kill().await;
            }
        }
        self.killed
    }
}

/// The library that changes the time of a process: Debian's package `faketime`.
pub(crate) fn faketime() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?.flatten();
    folders.map(|folder| folder.path().join("faketime/libfaketime.so.1")).find(|library| library.exists())
}
