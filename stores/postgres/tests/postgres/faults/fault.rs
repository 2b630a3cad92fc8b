//! What goes wrong with one delivery of a message.

use std::sync::atomic::{AtomicBool, Ordering};

use fastrand::Rng;
use tokio::sync::Notify;

/// Where a handler is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Point {
    /// Its transaction has begun.
    Begun,
    /// The id is committed in the transaction.
    Claimed,
    /// So is the effect.
    Done,
    /// The commit is on its way to the database.
    Committing,
    /// It is answered.
    Committed,
}

/// What the layer asks of its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Begin,
    Commit,
}

/// What of it is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    Request,
    Answer,
    /// Nobody waits for the answer, before it has come.
    Interest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The call is dropped.
    Drop(Point),
    /// The process dies: the call is dropped, and nothing more is asked of the store.
    Die(Point),
    /// The connection of the transaction ends.
    EndConnection(Point),
    /// All connections of the store end.
    EndStore(Point),
    /// The handler fails; at [`Point::Committed`] it is the answer to the commit that it did not get.
    Fail(Point),
    /// The handler outlasts its lease.
    Outlast(Point),
    Lose(Request, Lost),
    /// The settlement is lost: the message was completed, and comes again.
    Redeliver,
}

impl Fault {
    /// One that depends on nothing but these three; none for a quarter of the deliveries, and for those of a message that
    /// has had its share.
    pub(super) fn draw(seed: u64, message: u64, delivery: u64) -> Option<Self> {
        const MOST: u64 = 8;
        const POINTS: [Point; 5] = [Point::Begun, Point::Claimed, Point::Done, Point::Committing, Point::Committed];
        const LOST: [Lost; 3] = [Lost::Request, Lost::Answer, Lost::Interest];
        let mut rng = Rng::with_seed(
            seed ^ message.wrapping_mul(MOST).wrapping_add(delivery).wrapping_mul(0x9E37_79B9_7F4A_7C15),
        );
        if delivery >= MOST || rng.u8(..4) == 0 {
            return None;
        }
        let (point, lost) = (POINTS[rng.usize(..POINTS.len())], LOST[rng.usize(..LOST.len())]);
        Some(match rng.u8(..10) {
            0 | 1 => Self::Drop(point),
            2 => Self::Die(point),
            3 => Self::EndConnection(point),
            4 => Self::EndStore(point),
            5 => Self::Fail(point),
            6 => Self::Outlast(point),
            7 => Self::Lose(Request::Begin, lost),
            8 => Self::Lose(Request::Commit, lost),
            _ => Self::Redeliver,
        })
    }

    pub(super) const NAMES: [&str; 8] = [
        "calls dropped",
        "deaths",
        "connections ended",
        "all connections of the store ended",
        "failures",
        "leases outlasted",
        "requests of the layer lost",
        "redeliveries",
    ];

    pub(super) fn number(self) -> usize {
        match self {
            Self::Drop(_) => 0,
            Self::Die(_) => 1,
            Self::EndConnection(_) => 2,
            Self::EndStore(_) => 3,
            Self::Fail(_) => 4,
            Self::Outlast(_) => 5,
            Self::Lose(..) => 6,
            Self::Redeliver => 7,
        }
    }
}

/// One delivery of a message.
#[derive(Debug)]
pub(super) struct Delivery {
    fault: Option<Fault>,
    has_come: AtomicBool,
    is_dead: AtomicBool,
    /// Tells whoever has the call that it is to be dropped.
    pub(super) give_up: Notify,
}

impl Delivery {
    pub(super) fn new(fault: Option<Fault>) -> Self {
        Self { fault, has_come: AtomicBool::new(false), is_dead: AtomicBool::new(false), give_up: Notify::new() }
    }

    pub(super) fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// Whether this one comes here. It comes once.
    pub(super) fn comes(&self, fault: Fault) -> bool {
        self.fault == Some(fault) && !self.has_come.swap(true, Ordering::Relaxed)
    }

    pub(super) fn has_come(&self) -> Option<Fault> {
        self.fault.filter(|_| self.has_come.load(Ordering::Relaxed))
    }

    pub(super) fn die(&self) {
        self.is_dead.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::Relaxed)
    }
}
