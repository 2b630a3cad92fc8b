//! The transport and the model, which have to agree after each operation.

use std::{collections::BTreeMap, future::Future, pin::Pin, time::Duration};

use consign::{administration::QueueSettings, message::SequenceNumber, transport::Delivery};
use consign_postgres::{Postgres, PostgresLease, PostgresSession};

use crate::{
    clock,
    model::{Holder, Model, Part, Role, Settings, Source},
    server::Schema,
    shown::Shown,
};

/// Every so many operations everything is compared, and not the counts only.
const FULL: u64 = 64;

pub(crate) const QUEUES: [&str; 4] = ["plain", "lasting", "known", "talks"];

pub(crate) struct Driver {
    pub(crate) postgres: Postgres,
    schema: Schema,
    pub(crate) rng: fastrand::Rng,
    pub(crate) model: Model,
    /// The model's names of the queues.
    pub(crate) entities: Vec<u32>,
    pub(crate) held: Vec<Held>,
    pub(crate) sessions: Vec<(PostgresSession, Holder)>,
    pub(crate) scheduled: Vec<(usize, u64)>,
    pub(crate) next_body: u64,
    seed: u64,
    op: u64,
    last: &'static str,
    counts: BTreeMap<&'static str, u64>,
}

/// A delivery and the model's lock for it. Either may be lost by now.
pub(crate) struct Held {
    pub(crate) entity: u32,
    pub(crate) delivery: Delivery<PostgresLease>,
    pub(crate) lock: u64,
    pub(crate) in_session: bool,
}

type Operation = for<'d> fn(&'d mut Driver) -> Pin<Box<dyn Future<Output = ()> + 'd>>;

const KINDS: &[(&str, u32, Operation)] = &[
    ("send", 60, |driver| Box::pin(driver.send())),
    ("send with a time to live", 20, |driver| Box::pin(driver.send_with_ttl())),
    ("send a known id", 15, |driver| Box::pin(driver.send_known_id())),
    ("send with a time", 10, |driver| Box::pin(driver.send_scheduled())),
    ("send a batch", 40, |driver| Box::pin(driver.send_batch())),
    ("schedule", 16, |driver| Box::pin(driver.schedule())),
    ("cancel", 12, |driver| Box::pin(driver.cancel())),
    ("receive", 90, |driver| Box::pin(driver.receive())),
    ("receive and delete", 20, |driver| Box::pin(driver.receive_and_delete())),
    ("receive deferred", 18, |driver| Box::pin(driver.receive_deferred())),
    ("peek", 8, |driver| Box::pin(driver.peek())),
    ("purge", 3, |driver| Box::pin(driver.purge())),
    ("complete", 50, |driver| Box::pin(driver.complete())),
    ("complete several", 30, |driver| Box::pin(driver.complete_several())),
    ("settle otherwise", 60, |driver| Box::pin(driver.settle_any())),
    ("settle in a transaction", 12, |driver| Box::pin(driver.settle_in_transaction())),
    ("release", 12, |driver| Box::pin(driver.release())),
    ("renew", 15, |driver| Box::pin(driver.renew())),
    ("settle with an old lease", 10, |driver| Box::pin(driver.settle_stale())),
    ("pass a little time", 20, |driver| Box::pin(driver.pass_little())),
    ("pass to an edge", 40, |driver| Box::pin(driver.pass_to_edge())),
    ("accept a session", 16, |driver| Box::pin(driver.accept_session())),
    ("accept the next session", 20, |driver| Box::pin(driver.accept_next_session())),
    ("receive in a session", 40, |driver| Box::pin(driver.receive_in_session())),
    ("receive deferred in a session", 8, |driver| Box::pin(driver.receive_deferred_in_session())),
    ("renew a session", 8, |driver| Box::pin(driver.renew_session())),
    ("set a state", 10, |driver| Box::pin(driver.set_state())),
    ("close a session", 10, |driver| Box::pin(driver.close_session())),
    ("change the locks", 2, |driver| Box::pin(driver.change_locks())),
    ("create a queue again", 1, |driver| Box::pin(driver.create_again())),
];

impl Driver {
    pub(crate) async fn new(url: &str, seed: u64) -> Self {
        let schema = Schema::new(url);
        // Nothing happens in the background.
        let options = Postgres::options().schema(&*schema).connections(3).poll_every(Duration::from_secs(86_400));
        let postgres = options.connect(url).await.unwrap();
        postgres.migrate().await.unwrap();
        clock::install(&postgres, &schema).await;
        let mut driver = Self {
            postgres,
            schema,
            rng: fastrand::Rng::with_seed(seed),
            model: Model::new(clock::START),
            entities: Vec::new(),
            held: Vec::new(),
            sessions: Vec::new(),
            scheduled: Vec::new(),
            next_body: 0,
            seed,
            op: 0,
            last: "the beginning",
            counts: BTreeMap::new(),
        };
        for path in QUEUES {
            let entity = driver.create(path).await;
            driver.entities.push(entity);
        }
        driver
    }

    async fn create(&mut self, path: &str) -> u32 {
        let mut settings = Settings::new();
        settings.lock = self.rng.u64(5_000..=20_000);
        settings.max_deliveries = self.rng.u32(1..=4);
        settings.ttl = (path != "lasting" && self.rng.bool()).then(|| self.rng.u64(1_000..=60_000));
        settings.bury_expired = self.rng.bool();
        settings.sessions = path == "talks";
        settings.window = (path == "known").then(|| self.rng.u64(20_000..=60_000));
        self.postgres.create_queue(path, real(&settings)).await.unwrap();
        self.model.create(path, Role::Queue, settings, Vec::new()).unwrap()
    }

    pub(crate) async fn run(&mut self, ops: u64) {
        for op in 0..ops {
            self.op = op;
            let mut at = self.rng.u32(0..KINDS.iter().map(|(_, weight, _)| weight).sum());
            let chosen = KINDS.iter().find(|(_, weight, _)| {
                let is_here = at < *weight;
                at = at.saturating_sub(*weight);
                is_here
            });
            let &(name, _, operation) = chosen.unwrap();
            self.last = name;
            operation(self).await;
            *self.counts.entry(name).or_default() += 1;
            // Each queue is brought up to date before time passes: a scheduled message that has no number when it is due keeps
            // the time of its send.
            self.compare_all(op % FULL == FULL - 1).await;
        }
        self.last = "the end";
        // Locks and times to live end meanwhile.
        for _ in 0..8 {
            self.advance(11_000).await;
        }
        self.compare_all(true).await;
    }

    pub(crate) async fn end(mut self) -> BTreeMap<&'static str, u64> {
        // Their background jobs end before the schema is dropped.
        self.held.clear();
        self.sessions.clear();
        consign::transport::Transport::close(&self.postgres).await.unwrap();
        std::mem::take(&mut self.counts)
    }

    pub(crate) fn any_queue(&mut self) -> usize {
        // Most of them take the common path.
        if self.rng.bool() { self.rng.usize(0..2) } else { self.rng.usize(0..QUEUES.len()) }
    }

    pub(crate) fn one_in(&mut self, times: u32) -> bool {
        self.rng.u32(0..times) == 0
    }

    pub(crate) async fn advance(&mut self, by: u64) {
        clock::advance(&self.postgres, &self.schema, by).await;
        self.model.advance(by);
        self.compare_all(false).await;
    }

    async fn pass_little(&mut self) {
        let by = self.rng.u64(0..200);
        self.advance(by).await;
    }

    /// To just before, at or just after an instant at which something happens by itself.
    async fn pass_to_edge(&mut self) {
        let mut edges: Vec<u64> = self.model.due().into_iter().map(|(at, ..)| at).collect();
        edges.extend(self.model.entities.values().flat_map(|entity| {
            let window = entity.settings.window;
            entity.ids.iter().filter_map(move |remembered| Some(remembered.first + window?))
        }));
        edges.retain(|&at| at > self.model.now && at < self.model.now + 70_000);
        edges.sort_unstable();
        if edges.is_empty() {
            return self.pass_little().await;
        }
        let by = edges[0] - self.model.now + self.rng.u64(0..3) - 1;
        self.advance(by).await;
    }

    /// Other locks than before release what is locked.
    async fn change_locks(&mut self) {
        let at = self.any_queue();
        let entity = self.entities[at];
        let mut settings = self.model.entity(entity).settings.clone();
        settings.lock = self.rng.u64(5_000..=20_000);
        let path = consign::message::EntityPath::new(QUEUES[at]).unwrap();
        consign::administration::Administration::update(&self.postgres, &path, &real(&settings).into()).await.unwrap();
        self.model.update(entity, settings).unwrap();
    }

    async fn create_again(&mut self) {
        let at = self.any_queue();
        self.postgres.delete(QUEUES[at]).await.unwrap();
        self.model.delete(self.entities[at]).unwrap();
        self.entities[at] = self.create(QUEUES[at]).await;
        self.scheduled.retain(|(of, _)| *of != at);
    }

    async fn compare_all(&mut self, is_full: bool) {
        for at in 0..QUEUES.len() {
            self.compare(at, is_full).await;
        }
    }

    /// Every message is in one state.
    async fn compare(&mut self, at: usize, is_full: bool) {
        let expected = self.model.counts();
        let main = expected.get(&(self.entities[at], Part::Main)).copied().unwrap_or_default();
        let found = self.postgres.counts(QUEUES[at]).await.unwrap();
        let found = (found.active, found.locked, found.deferred, found.scheduled, found.dead_lettered);
        let wanted = (main.active, main.locked, main.deferred, main.scheduled, main.dead_lettered);
        assert_eq!(found, wanted, "{}", QUEUES[at]);
        if is_full {
            self.compare_peek(at, Part::Main, 0, 1_000).await;
            self.compare_peek(at, Part::Dead, 0, 1_000).await;
        }
    }

    pub(crate) async fn compare_peek(&mut self, at: usize, part: Part, from: u64, max: usize) {
        let peeked = self.postgres.peek(&path_of(at, part), SequenceNumber::new(from), max).await.unwrap();
        let peeked: Vec<_> = peeked.iter().map(Shown::of_message).collect();
        let expected = self.model.peek(self.entities[at], Source::Part(part), from, max);
        let expected: Vec<_> =
            expected.into_iter().map(|stored| Shown::of_model(stored, stored.shown_failures())).collect();
        for (found, wanted) in peeked.iter().zip(&expected) {
            assert_eq!(found, wanted, "{}", QUEUES[at]);
        }
        assert_eq!(peeked.len(), expected.len(), "{}", QUEUES[at]);
    }
}

/// Says how to repeat a run that fails.
impl Drop for Driver {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let variables = format!("SEED={} CONSIGN_OPS={}", self.seed, self.op + 1);
            println!(
                "operation {}, `{}`; replay: {variables} cargo test -p consign-postgres --test against_model",
                self.op, self.last
            );
        }
    }
}

pub(crate) fn path_of(at: usize, part: Part) -> String {
    match part {
        Part::Dead => format!("{}/$DeadLetterQueue", QUEUES[at]),
        _ => QUEUES[at].to_owned(),
    }
}

fn real(settings: &Settings) -> QueueSettings {
    let millis = Duration::from_millis;
    let mut real = QueueSettings::default()
        .lock_duration(millis(settings.lock))
        .max_delivery_count(settings.max_deliveries)
        .dead_letter_on_expiration(settings.bury_expired)
        .requires_session(settings.sessions);
    if let Some(ttl) = settings.ttl {
        real = real.default_time_to_live(millis(ttl));
    }
    if let Some(window) = settings.window {
        real = real.duplicate_detection(millis(window));
    }
    real
}
