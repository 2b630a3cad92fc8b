//! Random operations on a broker and on the model of it, which have to agree after each.

mod admin;
mod compare;
#[cfg(feature = "durable")]
mod disk;
mod receive;
mod send;
mod session;
mod settle;
mod time;
mod transaction;
mod world;

use std::{collections::BTreeMap, sync::Arc};

use consign::{
    broker::{Broker, QueueLease, SessionReceiver, Transaction},
    time::ManualClock,
    transport::Delivery,
};

use self::world::{Handle, World};
use crate::model::{self, Holder, Model, Part};

/// Operations on one world, before another with other settings is begun.
const EACH: u64 = 2_000;
/// Every so many operations everything is compared, and not the counts only.
const FULL: u64 = 256;

/// What one run did.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) operations: u64,
    pub(crate) kinds: BTreeMap<&'static str, u64>,
    /// Operations on sessions, and deliveries that were new and came after a later one of their session.
    pub(crate) session_operations: u64,
    pub(crate) inversions: u64,
    /// How often a broker on a disk was closed and opened again.
    pub(crate) reopens: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Self) {
        self.operations += other.operations;
        self.session_operations += other.session_operations;
        self.inversions += other.inversions;
        self.reopens += other.reopens;
        for (kind, count) in other.kinds {
            *self.kinds.entry(kind).or_default() += count;
        }
    }
}

/// Where the broker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Memory,
    /// It is closed now and then, and opened again.
    #[cfg(feature = "durable")]
    Disk,
}

impl Place {
    /// The test that runs there.
    fn test(self) -> &'static str {
        match self {
            Self::Memory => "random_operations_agree_with_the_model",
            #[cfg(feature = "durable")]
            Self::Disk => "random_operations_on_a_disk_agree_with_the_model",
        }
    }
}

/// Runs so many operations, in worlds that follow from the seed.
pub(crate) fn run(place: Place, seed: u64, ops: u64) -> Tally {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    // A receiver that finds nothing sets a timer.
    let _entered = runtime.enter();
    let mut tally = Tally::default();
    for world in 0..ops.div_ceil(EACH) {
        let ops = EACH.min(ops - world * EACH);
        let mut driver = Driver::new(place, seed.wrapping_add(world));
        driver.run(ops);
        tally.add(std::mem::take(&mut driver.tally));
    }
    tally
}

/// The broker, the model, and what has been received from both.
struct Driver {
    place: Place,
    world_seed: u64,
    rng: fastrand::Rng,
    clock: Arc<ManualClock>,
    broker: Broker,
    #[cfg(feature = "durable")]
    disk: Option<disk::Disk>,
    model: Model,
    world: World,
    /// Of entities, some of which are deleted.
    handles: Vec<Handle>,
    held: Vec<Held>,
    sessions: Vec<HeldSession>,
    transactions: Vec<Open>,
    /// Numbers of scheduled messages, most of which are active or gone by now.
    scheduled: Vec<(usize, u64)>,
    next_body: u64,
    op: u64,
    last: &'static str,
    tally: Tally,
    order: session::Order,
}

/// A delivery and the model's lock for it. Either may be lost by now.
struct Held {
    entity: u32,
    delivery: Delivery<QueueLease>,
    lock: u64,
    in_session: bool,
    part: Part,
}

struct HeldSession {
    receiver: SessionReceiver,
    holder: Holder,
    deletes: bool,
    cursor: u64,
}

/// A transaction that is not committed yet, and the locks of its leases.
struct Open {
    transaction: Transaction,
    model: model::Transaction,
    leases: Vec<(u32, u64, bool)>,
}

/// A kind of operation: its name, how often it is chosen, and what it does.
type Kind = (&'static str, u32, fn(&mut Driver));

const KINDS: &[Kind] = &[
    ("send", 60, Driver::send),
    ("send with a time to live", 20, Driver::send_with_ttl),
    ("send a known id", 15, Driver::send_known_id),
    ("send with a time", 10, Driver::send_scheduled),
    ("send a large message", 6, Driver::send_large),
    ("send a batch", 20, Driver::send_batch),
    ("send and forget", 5, Driver::send_presettled),
    ("send to a sub-queue", 1, Driver::send_to_sub_queue),
    ("schedule", 10, Driver::schedule),
    ("schedule many", 6, Driver::schedule_many),
    ("cancel", 10, Driver::cancel),
    ("cancel an unknown number", 3, Driver::cancel_unknown),
    ("receive one", 50, Driver::receive_one),
    ("receive many", 30, Driver::receive_many),
    ("receive and delete", 20, Driver::receive_and_delete),
    ("receive deferred", 15, Driver::receive_deferred),
    ("receive what is not deferred", 4, Driver::receive_not_deferred),
    ("peek", 6, Driver::peek),
    ("peek on", 4, Driver::peek_on),
    ("delete messages", 3, Driver::delete_messages),
    ("ages", 4, Driver::ages),
    ("complete", 60, Driver::complete),
    ("abandon", 30, Driver::abandon),
    ("abandon with changes", 15, Driver::abandon_with_changes),
    ("defer", 12, Driver::defer),
    ("defer with changes", 6, Driver::defer_with_changes),
    ("dead-letter", 12, Driver::dead_letter),
    ("dead-letter with changes", 6, Driver::dead_letter_with_changes),
    ("release", 12, Driver::release),
    ("renew", 15, Driver::renew),
    ("settle with an old lease", 10, Driver::settle_stale),
    ("drop a delivery", 10, Driver::drop_delivery),
    ("lose locks", 5, Driver::lose_locks),
    ("pass a little time", 30, Driver::pass_little),
    ("pass to an edge", 30, Driver::pass_to_edge),
    ("pass a long time", 3, Driver::pass_long),
    ("step the wall clock", 4, Driver::step_utc),
    ("accept a session", 20, Driver::accept_session),
    ("accept the next session", 30, Driver::accept_next_session),
    ("receive in a session", 40, Driver::receive_in_session),
    ("receive deferred in a session", 8, Driver::receive_deferred_in_session),
    ("peek in a session", 4, Driver::peek_in_session),
    ("renew a session", 8, Driver::renew_session),
    ("set a state", 10, Driver::set_state),
    ("get a state", 5, Driver::get_state),
    ("close a session", 10, Driver::close_session),
    ("drop a session", 5, Driver::drop_session),
    ("list sessions", 3, Driver::list_sessions),
    ("create a rule", 6, Driver::create_rule),
    ("delete a rule", 4, Driver::delete_rule),
    ("update settings", 4, Driver::update_settings),
    ("update the status", 4, Driver::update_status),
    ("open again", 6, Driver::open_again),
    ("update forwards", 4, Driver::update_forwards),
    ("update, refused", 2, Driver::update_refused),
    ("create what is there", 1, Driver::create_existing),
    ("delete an entity", 1, Driver::delete_entity),
    ("create an entity again", 8, Driver::create_again),
    ("use what is deleted", 3, Driver::use_deleted),
    ("list entities", 1, Driver::list_entities),
    ("send in a transaction", 12, Driver::send_in_transaction),
    ("send via in a transaction", 6, Driver::send_via_in_transaction),
    ("schedule in a transaction", 4, Driver::schedule_in_transaction),
    ("settle in a transaction", 14, Driver::settle_in_transaction),
    ("renew in a transaction", 3, Driver::renew_in_transaction),
    ("commit", 12, Driver::commit),
    ("roll back", 3, Driver::roll_back),
    ("drop a transaction", 1, Driver::drop_transaction),
];

/// How many kinds there are.
pub(crate) const KINDS_COUNT: usize = KINDS.len();

impl Driver {
    fn run(&mut self, ops: u64) {
        for op in 0..ops {
            self.op = op;
            #[cfg(feature = "durable")]
            self.reopen_sometimes();
            self.step();
            self.compare_counts();
            if op % FULL == FULL - 1 {
                self.compare_all();
            }
        }
        self.compare_all();
        self.drain();
    }

    fn step(&mut self) {
        // Whatever comes next finds what is due, and nobody has looked before.
        if self.rng.u32(0..12) == 0 {
            self.pass_to_edge();
        }
        let mut at = self.rng.u32(0..KINDS.iter().map(|(_, weight, _)| weight).sum());
        let chosen = KINDS.iter().find(|(_, weight, _)| {
            let is_here = at < *weight;
            at = at.saturating_sub(*weight);
            is_here
        });
        let (name, _, operation) = chosen.unwrap();
        self.last = name;
        operation(self);
        self.tally.operations += 1;
        *self.tally.kinds.entry(name).or_default() += 1;
        self.tally.session_operations += u64::from(name.contains("session") || name.contains("state"));
    }

    /// One time in so many.
    fn one_in(&mut self, times: u32) -> bool {
        self.rng.u32(0..times) == 0
    }
}

/// Says how to repeat a run that fails.
impl Drop for Driver {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Each world has a seed of its own, which begins a run as well.
            let (seed, ops, last, test) = (self.world_seed, self.op + 1, self.last, self.place.test());
            let variables = format!("SEED={seed} CONSIGN_OPS={ops}");
            eprintln!("operation {ops}, `{last}`; replay: {variables} cargo test --features full --test model {test}");
        }
    }
}
