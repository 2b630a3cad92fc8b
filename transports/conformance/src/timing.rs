use std::time::Duration;

/// How the suite waits for one broker. The default suits virtual time and brokers nearby.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The lock duration of the suite's entities: the shortest that the broker has. 5 s.
    pub lock: Duration,
    /// How long a receive waits until it counts as empty. 100 ms.
    pub receive_wait: Duration,
    /// How long a receive waits for a message that must arrive, and an accept for a session. It is less than half of `lock`, so
    /// that a redelivery after the end of a lock is not mistaken for it. 400 ms.
    pub arrival: Duration,
    /// How far from its instant a due event may happen, and how exactly a clock is read. It must be less than a fifth of
    /// `lock`, and more than three times `receive_wait`. 400 ms.
    pub margin: Duration,
    /// How long one case may take. 10 min.
    pub deadline: Duration,
}

impl Timing {
    /// For a server on which many cases wait at the same time: each lock is longer, and each instant less exact.
    pub const BUSY: Self = Self {
        lock: Duration::from_secs(8),
        receive_wait: Duration::from_millis(450),
        arrival: Duration::from_millis(3_500),
        margin: Duration::from_millis(1_500),
        deadline: Duration::from_secs(240),
    };
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            lock: Duration::from_secs(5),
            receive_wait: Duration::from_millis(100),
            arrival: Duration::from_millis(400),
            margin: Duration::from_millis(400),
            deadline: Duration::from_secs(600),
        }
    }
}
