use std::time::Duration;

/// How the suite waits for one broker. The default suits virtual time and brokers nearby.
/// [`Suite::run`](crate::Suite::run) panics for a time that is not in its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The lock duration of the suite's entities: the shortest that the broker has. 5 s.
    pub lock: Duration,
    /// How long a receive waits until it counts as empty. It is less than `arrival`. 100 ms.
    pub receive_wait: Duration,
    /// How long a receive waits for a message that must arrive, and an accept for a session. It is less than half of `lock`, so
    /// that a redelivery after the end of a lock is not mistaken for it. 400 ms.
    pub arrival: Duration,
    /// How far from its instant a due event may happen, and how exactly a clock is read. It must be less than a fifth of
    /// `lock`, and more than three times `receive_wait`. 400 ms.
    pub margin: Duration,
    /// How long one case may take. It is more than `lock`. 10 min.
    pub deadline: Duration,
}

impl Timing {
    /// For a server on which many cases wait at the same time: each lock is longer, and each instant less exact. The machine may
    /// stand still for 2 s at any instant.
    pub const BUSY: Self = Self {
        lock: Duration::from_secs(20),
        receive_wait: Duration::from_millis(450),
        arrival: Duration::from_secs(8),
        margin: Duration::from_millis(3_500),
        deadline: Duration::from_secs(300),
    };

    /// # Panics
    ///
    /// If a time is not in its range.
    pub(crate) fn check(&self) {
        let Self { lock, receive_wait, arrival, margin, deadline } = *self;
        assert!(receive_wait < arrival, "receive_wait {receive_wait:?} is not less than arrival {arrival:?}");
        assert!(arrival * 2 < lock, "arrival {arrival:?} is not less than half of lock {lock:?}");
        assert!(margin * 5 < lock, "margin {margin:?} is not less than a fifth of lock {lock:?}");
        assert!(
            margin > receive_wait * 3,
            "margin {margin:?} is not more than three times receive_wait {receive_wait:?}"
        );
        assert!(deadline > lock, "deadline {deadline:?} is not more than lock {lock:?}");
    }
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

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn a_time_that_is_not_in_its_range_is_refused() {
        let default = Timing::default();
        for timing in [default, Timing::BUSY] {
            timing.check();
        }
        let wrong = [
            Timing { receive_wait: default.arrival, ..default },
            Timing { arrival: default.lock / 2, ..default },
            Timing { margin: default.lock / 5, ..default },
            Timing { margin: default.receive_wait * 3, ..default },
            Timing { deadline: default.lock, ..default },
        ];
        for timing in wrong {
            assert!(catch_unwind(|| timing.check()).is_err(), "{timing:?}");
        }
    }
}
