use std::collections::{HashSet, VecDeque};

use tokio::time::Instant;

use crate::Message;

/// What is known of a call that takes several replies.
pub(super) struct Several {
    deadline: Instant,
    /// Replies that may still come.
    pub(super) wanted: usize,
    pub(super) replies: VecDeque<Message>,
    /// The ids of the replies, as many as are wanted at most.
    seen: HashSet<Box<str>>,
}

impl Several {
    pub(super) fn new(wanted: usize, deadline: Instant) -> Self {
        Self { deadline, wanted, replies: VecDeque::new(), seen: HashSet::new() }
    }

    pub(super) fn take(&mut self, reply: Message) -> Result<(), Message> {
        let is_over = self.wanted == 0 || Instant::now() >= self.deadline;
        if is_over || reply.message_id().is_some_and(|id| !self.seen.insert(id.into())) {
            return Err(reply);
        }
        self.wanted -= 1;
        self.replies.push_back(reply);
        Ok(())
    }
}
