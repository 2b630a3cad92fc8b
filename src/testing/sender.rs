use std::{ops::Deref, sync::Arc};

use crate::{
    Message,
    broker::QueueSender,
    time::Clock,
    transport::{Batch, Capabilities, PresettledSender, Sender},
};

/// A sender of a [`TestQueue`](super::TestQueue), which has the clock of its broker. It dereferences to [`QueueSender`].
#[derive(Clone, Debug)]
pub struct TestSender {
    sender: QueueSender,
}

impl TestSender {
    pub(super) fn new(sender: QueueSender) -> Self {
        Self { sender }
    }
}

impl Deref for TestSender {
    type Target = QueueSender;

    fn deref(&self) -> &QueueSender {
        &self.sender
    }
}

impl Sender for TestSender {
    type Send = <QueueSender as Sender>::Send;

    fn send(&self, message: Message) -> Self::Send {
        self.sender.send(message)
    }

    fn send_batch(&self, batch: Batch) -> Self::Send {
        self.sender.send_batch(batch)
    }

    fn capabilities(&self) -> Capabilities {
        self.sender.capabilities()
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.sender.clock()
    }
}

impl PresettledSender for TestSender {
    type HandOver = <QueueSender as PresettledSender>::HandOver;

    fn send_presettled(&self, message: Message) -> Self::HandOver {
        self.sender.send_presettled(message)
    }
}
