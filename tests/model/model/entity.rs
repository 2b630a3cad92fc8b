use consign::administration::Status;

use super::Rule;

/// The parts of an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Part {
    Main,
    Dead,
    Transfer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Queue,
    Topic,
    Subscription { topic: u32 },
}

/// The settings of an entity of any kind; what its kind has not is at its default.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "they are those of an entity")]
pub(crate) struct Settings {
    pub(crate) lock: u64,
    pub(crate) max_deliveries: u32,
    pub(crate) ttl: Option<u64>,
    pub(crate) bury_expired: bool,
    pub(crate) bury_filter_errors: bool,
    pub(crate) sessions: bool,
    /// Of duplicate detection.
    pub(crate) window: Option<u64>,
    pub(crate) max_ids: usize,
    pub(crate) partitioned: bool,
    pub(crate) max_size: u64,
    pub(crate) max_message_size: u64,
    pub(crate) forward_to: Option<String>,
    pub(crate) forward_dead_to: Option<String>,
    pub(crate) idle: Option<u64>,
    pub(crate) status: Status,
}

impl Settings {
    pub(crate) fn takes_sends(&self) -> bool {
        matches!(self.status, Status::Active | Status::ReceiveDisabled)
    }

    pub(crate) fn takes_receives(&self) -> bool {
        matches!(self.status, Status::Active | Status::SendDisabled)
    }
}

/// An id that was accepted.
#[derive(Clone, Debug)]
pub(crate) struct Remembered {
    pub(crate) id: (Option<String>, String),
    pub(crate) first: u64,
    /// When that was by UTC.
    #[cfg_attr(not(feature = "durable"), expect(dead_code, reason = "only a restart asks for it"))]
    pub(crate) accepted: i64,
    /// The number of the message, as long as it is scheduled.
    pub(crate) scheduled: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Entity {
    pub(crate) path: String,
    pub(crate) role: Role,
    pub(crate) settings: Settings,
    /// Of a subscription.
    pub(crate) rules: Vec<Rule>,
    pub(crate) ids: Vec<Remembered>,
    /// The last number given, in each partition; without partitions in the first.
    pub(crate) numbers: [u64; 16],
    /// Where the next message without a key goes.
    pub(crate) next_partition: usize,
    pub(crate) last_enqueued: i64,
    pub(crate) accessed: u64,
    /// When dead letters that could not be forwarded are tried again.
    pub(crate) retry: Option<u64>,
}

impl Entity {
    pub(crate) fn new(path: String, role: Role, settings: Settings, now: u64) -> Self {
        Self {
            path,
            role,
            settings,
            rules: Vec::new(),
            ids: Vec::new(),
            numbers: [0; 16],
            next_partition: 0,
            last_enqueued: 0,
            accessed: now,
            retry: None,
        }
    }

    /// An id is remembered up to the end of the window, which is not included.
    pub(crate) fn forget_ids(&mut self, now: u64) {
        if let Some(window) = self.settings.window {
            self.ids.retain(|remembered| now < remembered.first + window);
        }
    }

    /// The message of this number is scheduled no more.
    pub(crate) fn forget_scheduled(&mut self, number: u64) {
        for remembered in self.ids.iter_mut().filter(|remembered| remembered.scheduled == Some(number)) {
            remembered.scheduled = None;
        }
    }
}
