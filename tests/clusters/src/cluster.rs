//! The processes of a cluster that `scripts/cluster` has started, and the connections between its nodes.

use std::{
    collections::HashMap,
    fs,
    io::{Error, Result},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use consign_conformance::faults::Proxy;
use tokio::{
    net::TcpStream,
    process::Command,
    time::{Instant, sleep},
};

use crate::{epmd::Epmd, servers::Servers};

/// The names of the nodes; PostgreSQL has the first two.
pub(crate) const NODES: [&str; 3] = ["a", "b", "c"];
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/cluster");
/// The ports of a cluster beside its base: for clients, for other nodes, and of epmd.
const PORTS: [u16; 7] = [1, 2, 3, 11, 12, 13, 20];
/// So many bases are tried, each this far from the one before.
const BASES: u16 = 10;
const STEP: u16 = 300;
/// How long a node may take to end by itself.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster, which is stopped when it is dropped.
pub(crate) struct Cluster {
    pub(crate) servers: Servers,
    /// Of all nodes, for clients.
    pub(crate) url: String,
    folder: PathBuf,
    base: u16,
    /// Between a node and one that it connects to.
    proxies: HashMap<(usize, usize), Proxy>,
    /// Where the nodes of RabbitMQ look for each other.
    _epmds: Vec<Epmd>,
}

impl Cluster {
    pub(crate) async fn start(servers: Servers) -> Result<Self> {
        let base = free_base(servers.base())?;
        let nodes = servers.nodes();
        let mut proxies = HashMap::new();
        for from in 0..nodes {
            for to in (0..nodes).filter(|&to| to != from) {
                proxies.insert((from, to), Proxy::to(local(servers.peer_port(base, to))).await?);
            }
        }
        let mut epmds = Vec::new();
        let mut through = Vec::new();
        if servers == Servers::RabbitMq {
            for (node, name) in NODES.iter().enumerate() {
                let ports = (0..nodes).map(|to| {
                    let port =
                        proxies.get(&(node, to)).map_or(servers.peer_port(base, to), |proxy| proxy.address().port());
                    (NODES[to].to_owned(), port)
                });
                let epmd = Epmd::start(ports.collect()).await?;
                through.push(format!("{name}={}", epmd.port()));
                epmds.push(epmd);
            }
        } else {
            for (&(from, to), proxy) in &proxies {
                through.push(format!("{}-{}={}", NODES[from], NODES[to], proxy.address().port()));
            }
        }
        let mut command = Command::new(SCRIPT);
        command.args([servers.name(), "--base", &base.to_string(), "--through", &through.join(" ")]);
        let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let output = started.wait_with_output().await?;
        let printed = String::from_utf8_lossy(&output.stdout);
        let value = |name: &str| {
            let line = printed.lines().find_map(|line| line.strip_prefix(&format!("export {name}=")));
            line.map(|value| value.trim_matches('\'').to_owned())
        };
        let (Some(folder), Some(url)) = (value("CONSIGN_CLUSTER"), value("CONSIGN_CLUSTER_URL")) else {
            return Err(Error::other("scripts/cluster started no cluster"));
        };
        Ok(Self { servers, url: servers.url(&url), folder: folder.into(), base, proxies, _epmds: epmds })
    }

    /// The port of a node for clients.
    pub(crate) fn port(&self, node: usize) -> u16 {
        self.base + 1 + u16::try_from(node).expect("a node of three")
    }

    /// Whether each node takes connections.
    pub(crate) async fn listens(&self) -> bool {
        for node in 0..self.servers.nodes() {
            if TcpStream::connect(local(self.port(node))).await.is_err() {
                return false;
            }
        }
        true
    }

    pub(crate) fn folder(&self, node: usize) -> PathBuf {
        self.folder.join(NODES[node])
    }

    /// The port at which a node reaches another one.
    pub(crate) fn port_between(&self, from: usize, to: usize) -> Option<u16> {
        Some(self.proxies.get(&(from, to))?.address().port())
    }

    /// Sends a signal to a node with all that it has started.
    pub(crate) async fn signal(&self, node: usize, signal: &str) -> Result<()> {
        let pids = tree(self.pid(node)?);
        send(signal, &pids).await
    }

    /// Asks a node to end, and waits for that.
    pub(crate) async fn terminate(&self, node: usize) -> Result<()> {
        let pid = self.pid(node)?;
        let all = tree(pid);
        send(self.servers.end_signal(), &[pid]).await?;
        let began = Instant::now();
        while all.iter().any(|&pid| is_running(pid)) {
            if began.elapsed() > PATIENCE {
                eprintln!("{} does not end: it is killed", NODES[node]);
                return self.signal(node, "KILL").await;
            }
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Runs a node again.
    pub(crate) fn run(&self, node: usize) -> Result<()> {
        let mut command = Command::new("setsid");
        command.arg(self.folder(node).join("start"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().map(drop)
    }

    /// Cuts a node off from the others, or connects it again. Its packets wait, or its connections end.
    pub(crate) fn partition(&self, node: usize, is_cut: bool, by_silence: bool) {
        for (_, proxy) in self.proxies.iter().filter(|((from, to), _)| *from == node || *to == node) {
            if by_silence {
                proxy.freeze(is_cut);
            } else {
                proxy.refuse(is_cut);
                if is_cut {
                    proxy.cut();
                }
            }
        }
    }

    fn pid(&self, node: usize) -> Result<u32> {
        let pid = fs::read_to_string(self.folder(node).join("pid"))?;
        pid.trim().parse().map_err(Error::other)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let stopped = std::process::Command::new(SCRIPT).arg("--stop").arg(&self.folder).status();
        if !stopped.is_ok_and(|status| status.success()) {
            eprintln!("the cluster in {} was not stopped", self.folder.display());
        }
    }
}

/// The first base whose ports no other cluster has.
fn free_base(first: u16) -> Result<u16> {
    let is_free = |base: &u16| PORTS.iter().all(|port| TcpListener::bind(local(base + port)).is_ok());
    let mut bases = (0..BASES).map(|number| first + number * STEP);
    bases.find(is_free).ok_or_else(|| {
        Error::other(format!("each of {BASES} ranges of ports from {first} on is taken: scripts/cluster --stop FOLDER"))
    })
}

pub(crate) fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Sends a signal to processes, of which some may have ended.
async fn send(signal: &str, pids: &[u32]) -> Result<()> {
    let pids = pids.iter().map(ToString::to_string);
    let mut command = Command::new("kill");
    command.arg(format!("-{signal}")).args(pids).stderr(Stdio::null()).status().await.map(drop)
}

/// A process and all that it has started.
fn tree(root: u32) -> Vec<u32> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        if let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok())
            && let Some((_, parent)) = state(&entry.path())
        {
            parents.push((pid, parent));
        }
    }
    let mut tree = vec![root];
    let mut next = 0;
    while let Some(&parent) = tree.get(next) {
        tree.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    tree
}

fn is_running(pid: u32) -> bool {
    state(Path::new(&format!("/proc/{pid}"))).is_some_and(|(state, _)| state != 'Z')
}

/// The state and the parent of a process. They are behind the name, which is in brackets.
fn state(folder: &Path) -> Option<(char, u32)> {
    let stat = fs::read_to_string(folder.join("stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_has_ports_that_are_free() {
        for offset in PORTS {
            let taken = TcpListener::bind(local(0)).unwrap();
            let first = taken.local_addr().unwrap().port() - offset;
            let base = free_base(first).unwrap();
            assert!(base > first && (base - first).is_multiple_of(STEP), "{first} {base}");
        }
    }
}
