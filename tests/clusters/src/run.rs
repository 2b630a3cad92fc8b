//! A run: rounds of faults on one cluster.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use consign::{administration::Administration, message::EntityPath, transport::DynTransport};
use consign_store_postgres::{
    Table,
    tokio_postgres::{Client as Database, NoTls},
};
use tokio::time::{Instant, sleep};
use tower::BoxError;

pub(crate) use crate::clients::CLIENTS;
use crate::{
    check::{History, Kind, Violation, check},
    clients::{Clients, faketime},
    clock::Clock,
    cluster::{Cluster, NODES},
    faults::{Fault, Plan},
    history::{self, Queue},
    pauses,
    progress::Progress,
    report::{Injected, Origin, Report, Round},
    servers::Servers,
    workload::{path, replies, requests, tables, transports},
};

/// The faults of a round.
const ROUND: usize = 10;
/// How long the cluster may take to be complete after a fault, and then each kind of work to go on.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long no message may come before the last ones: as long as locks and leases of clients that were killed, several times.
const DRAINING: Duration = Duration::from_secs(60);
/// The violations of a kind that are printed.
const SHOWN: u64 = 5;
const POSTGRES: &str = "postgresql://consign_test:consign_test@127.0.0.1:5432/consign_test";

pub(crate) struct Run {
    pub(crate) servers: Servers,
    pub(crate) faults: usize,
    pub(crate) seed: u64,
    /// The commit.
    pub(crate) code: String,
    /// Of the histories and the results.
    pub(crate) folder: PathBuf,
}

impl Run {
    pub(crate) async fn run(&self) -> Result<Report, BoxError> {
        fs::create_dir_all(&self.folder)?;
        let origin = Origin { code: self.code.clone(), seed: self.seed };
        let mut report = Report::open(&self.folder, &origin)?;
        if report.faults() >= self.faults {
            return Ok(report);
        }
        let mut faults = self.servers.faults().to_vec();
        if faketime().is_none() {
            eprintln!("no fault of clocks: there is no libfaketime; on Debian: apt-get install faketime");
            faults.retain(|fault| *fault != Fault::Skew);
        }
        let cluster = Cluster::start(self.servers).await?;
        while report.faults() < self.faults {
            let number = report.rounds.len() as u64 + 1;
            // Each round has its own numbers, so that one that is repeated has the same.
            let mut random = fastrand::Rng::with_seed(self.seed.wrapping_add(number));
            let left = ROUND.min(self.faults - report.faults());
            let plans: Vec<_> = (0..left).map(|_| Plan::random(&mut random, &faults, self.servers.nodes())).collect();
            let round = self.round(&cluster, number, plans, &mut random).await?;
            eprintln!("round {number}: violations {:?}, {:?}", round.violations, round.counts);
            let is_stuck = round.faults.is_empty();
            report.add(&self.folder, round)?;
            if is_stuck {
                // Neither would the next round begin to work.
                break;
            }
        }
        Ok(report)
    }

    async fn round(
        &self,
        cluster: &Cluster,
        number: u64,
        plans: Vec<Plan>,
        random: &mut fastrand::Rng,
    ) -> Result<Round, BoxError> {
        let folder = self.folder.join(format!("round-{number}"));
        if folder.exists() {
            // Of a round that was interrupted.
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        complete(cluster).await?;
        let stage = Stage::new(self.servers, cluster, &folder).await?;
        let clock = Clock::new();
        let mut clients = Clients::start(stage.arguments(cluster, &folder), &folder)?;
        let mut progress = Progress::new(folder.clone());
        let mut violations = Vec::new();
        let mut injected = Vec::new();
        let mut goes_on = goes_on(&mut progress, &clients, clock).await;
        for plan in plans {
            if goes_on.is_err() {
                break;
            }
            sleep(Duration::from_millis(random.u64(500..2_000))).await;
            let node = node(cluster, &plan, &stage).await;
            let from = clock.now();
            let (fault, seconds) = (plan.fault.name(), from / 1_000);
            eprintln!("round {number}: {seconds} s: {fault} of {} for {:?}", NODES[node], plan.lasts);
            if plan.fault == Fault::Skew {
                clients.skew(random, self.servers.needs_a_right_clock()).await?;
            } else {
                plan.inject(cluster, node).await?;
            }
            complete(cluster).await?;
            goes_on = self::goes_on(&mut progress, &clients, clock).await;
            injected.push((plan.fault, node, from, clock.now()));
        }
        if let Err(missing) = goes_on {
            violations.push(Violation::new(Kind::Hung, format!("after {:?}: {missing}", injected.last())));
        }
        drain(&mut progress, &mut clients).await?;
        let stuck = progress.waiting() as u64;
        if stuck > 0 && self.servers.allowed().stuck_sessions {
            eprintln!("round {number}: {stuck} messages do not come: the servers are restarted");
            restart(cluster).await?;
            drain(&mut progress, &mut clients).await?;
        }
        let killed = clients.end().await;
        let effects = stage.end().await?;
        let events = history::read(&folder)?;
        let history = History { events: &events, killed: &killed, effects: &effects };
        let (found, counts) = check(&history, self.servers.allowed());
        violations.extend(found);
        let mut round = Round { number, counts, ..Round::default() };
        round.counts.insert("not received before a restart".into(), stuck);
        for violation in &violations {
            let times = round.violations.entry(violation.kind).or_default();
            *times += 1;
            if *times <= SHOWN {
                eprintln!("round {number}: {violation}");
            }
        }
        for (fault, node, from, to) in injected {
            round.faults.push(Injected { fault, node, pause_ms: pauses::longest(&events, from, to) });
        }
        if violations.is_empty() {
            fs::remove_dir_all(&folder)?;
        } else {
            eprintln!("the history is in {}", folder.display());
        }
        Ok(round)
    }
}

/// The node of a fault. A failover is always that of the primary.
async fn node(cluster: &Cluster, plan: &Plan, stage: &Stage) -> usize {
    let of_leader = plan.of_leader || plan.fault == Fault::Failover;
    let leader = if of_leader { cluster.leader(&path(&stage.name, Queue::Work)).await } else { None };
    leader.unwrap_or(plan.node)
}

/// Waits until all nodes take part.
pub(crate) async fn complete(cluster: &Cluster) -> Result<(), BoxError> {
    let began = Instant::now();
    while !cluster.is_complete().await {
        if began.elapsed() > PATIENCE {
            return Err("the cluster does not become complete".into());
        }
        sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

/// Waits until each kind of work has had a success from now on; names those that have none.
async fn goes_on(progress: &mut Progress, clients: &Clients, clock: Clock) -> Result<(), String> {
    let (since, began) = (clock.now(), Instant::now());
    loop {
        progress.read(clients.started()).map_err(|error| error.to_string())?;
        let missing = progress.missing(&clients.numbers(), since);
        if missing.is_empty() {
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            return Err(missing.join(", "));
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Restarts one node after the other.
async fn restart(cluster: &Cluster) -> Result<(), BoxError> {
    for node in 0..cluster.servers.nodes() {
        cluster.terminate(node).await?;
        cluster.run(node)?;
        complete(cluster).await?;
    }
    Ok(())
}

/// Ends the producers, and waits until all messages were received, then a few seconds for redelivered ones.
async fn drain(progress: &mut Progress, clients: &mut Clients) -> Result<(), BoxError> {
    clients.end_producers().await;
    // A send or a call that has begun ends.
    sleep(Duration::from_secs(6)).await;
    let (mut since, mut waiting) = (Instant::now(), usize::MAX);
    while waiting > 0 && since.elapsed() < DRAINING {
        sleep(Duration::from_millis(200)).await;
        progress.read(clients.started())?;
        if progress.waiting() < waiting {
            (since, waiting) = (Instant::now(), progress.waiting());
        }
    }
    sleep(Duration::from_secs(3)).await;
    Ok(())
}

/// What a round needs on the servers.
struct Stage {
    name: String,
    transport: DynTransport,
    /// The URL of the database of the effects.
    effects: String,
    entities: Vec<EntityPath>,
    detects_duplicates: bool,
}

impl Stage {
    async fn new(servers: Servers, cluster: &Cluster, folder: &Path) -> Result<Self, BoxError> {
        let name = format!("r{:08x}", fastrand::u32(..));
        fs::write(folder.join("name"), &name)?;
        let effects = if servers == Servers::Postgres {
            let addresses = (0..servers.nodes()).map(|node| format!("127.0.0.1:{}", cluster.port(node)));
            let addresses: Vec<_> = addresses.collect();
            let (addresses, user) = (addresses.join(","), "consign_test:consign_test");
            format!("postgresql://{user}@{addresses}/consign_test?target_session_attrs=read-write&connect_timeout=2")
        } else {
            std::env::var("CONSIGN_POSTGRES").unwrap_or_else(|_| POSTGRES.into())
        };
        let database = connect(&effects).await?;
        let (ids, rows) = tables(&name);
        database.batch_execute(&Table::new(&ids)?.sql()).await?;
        database.batch_execute(&format!("CREATE TABLE {rows} (message text NOT NULL)")).await?;
        let transport = transports().connect(&cluster.url).await?;
        let detects_duplicates = servers.detects_duplicates();
        let mut entities = Vec::new();
        let queues = [
            (path(&name, Queue::Work), false, false),
            (path(&name, Queue::Sessions), true, false),
            (requests(&name), false, false),
        ];
        let detected = detects_duplicates.then(|| (path(&name, Queue::Detected), false, true));
        let replies = (0..CLIENTS).map(|client| (replies(&name, client), false, false));
        for (entity, requires_session, detects) in queues.into_iter().chain(detected).chain(replies) {
            servers.create(&transport, &entity, requires_session, detects).await?;
            entities.push(entity);
        }
        Ok(Self { name, transport, effects, entities, detects_duplicates })
    }

    /// The arguments of the processes of clients.
    fn arguments(&self, cluster: &Cluster, folder: &Path) -> Vec<String> {
        let mut arguments: Vec<String> =
            ["client", "--url", &cluster.url, "--effects", &self.effects, "--name", &self.name, "--folder"]
                .map(Into::into)
                .into();
        arguments.push(folder.display().to_string());
        arguments.extend(self.detects_duplicates.then(|| "--detects-duplicates".into()));
        arguments
    }

    /// Deletes it all, and returns how often each message had its effect.
    async fn end(self) -> Result<HashMap<String, u64>, BoxError> {
        let database = connect(&self.effects).await?;
        let (ids, rows) = tables(&self.name);
        let counted = format!("SELECT message, count(*) FROM {rows} GROUP BY message");
        let counted = database.query(&counted, &[]).await?;
        let effects = counted.iter().map(|row| (row.get(0), row.get::<_, i64>(1).unsigned_abs())).collect();
        database.batch_execute(&format!("DROP TABLE {rows}, {ids}, {ids}_secret")).await?;
        for entity in &self.entities {
            if let Err(error) = self.transport.delete(entity).await {
                eprintln!("delete {entity}: {error}");
            }
        }
        Ok(effects)
    }
}

async fn connect(url: &str) -> Result<Database, BoxError> {
    let (database, connection) = consign_store_postgres::tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(database)
}
