//! Where the messages are, and in a store on a disk the entries of the books too.
//!
//! An entry is a message in a queue of its own. It is there before the message that it is about is settled, so that a run
//! that was killed has entered everything that it has settled, and perhaps a little more.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use consign::{
    Message,
    administration::QueueSettings,
    broker::{Broker, Queue, QueueReceiver, QueueSender},
    message::SequenceNumber,
    transport::Sender,
};
use tower::BoxError;

use crate::{
    failure::Failure,
    format::Format,
    ledger::{Entry, Ledger},
    place::Place,
};

/// The embedded broker.
pub struct Store {
    broker: Broker,
    webhooks: Queue,
    books: Option<QueueSender>,
}

impl Place for Store {
    type Sender = QueueSender;
    type Receiver = QueueReceiver;

    async fn sender(&self) -> Result<QueueSender, Failure> {
        Ok(self.webhooks.sender()?)
    }

    async fn receiver(&self) -> Result<QueueReceiver, Failure> {
        Ok(self.webhooks.receiver())
    }

    async fn dead_letters(&self) -> Result<QueueReceiver, Failure> {
        Ok(self.webhooks.dead_letter().receiver())
    }

    fn books(&self) -> Option<QueueSender> {
        self.books.clone()
    }

    /// Whether nothing is left in the queue, nor in its dead-letter sub-queue.
    fn is_drained(&self, _: &Ledger, _: u64) -> bool {
        let counts = self.webhooks.counts();
        counts.active + counts.locked + counts.deferred + counts.dead_lettered == 0
    }

    async fn close(self) -> Result<(), Failure> {
        Ok(self.broker.close().await?)
    }
}

impl Store {
    const WEBHOOKS: &str = "webhooks";
    const BOOKS: &str = "books";
    /// One message, which says what run the store is of.
    const RUN: &str = "run";
    /// Messages that are looked at together.
    const PAGE: usize = 1_000;

    pub fn in_memory() -> Result<Self, Failure> {
        let broker = Broker::new();
        let webhooks = broker.create_queue(Self::WEBHOOKS, Self::settings())?;
        Ok(Self { broker, webhooks, books: None })
    }

    /// Opens the store of a run, and takes over what an earlier one has left there. Answers with the messages of each format
    /// that were sent.
    pub async fn open(path: &Path, ledger: &Ledger) -> Result<(Self, BTreeMap<Format, usize>), Failure> {
        let broker = Broker::open(path)?;
        let webhooks = broker.declare_queue(Self::WEBHOOKS, Self::settings())?;
        let books = broker.declare_queue(Self::BOOKS, QueueSettings::default().max_size(1 << 40))?;
        let run = broker.declare_queue(Self::RUN, QueueSettings::default())?;
        let plan = ledger.plan();
        let expected = format!("{} messages of {} events with seed {}", plan.messages(), plan.events(), plan.seed());
        let mut found = String::new();
        each(&run, |message| found = String::from_utf8_lossy(message.payload().unwrap_or_default()).into_owned());
        if found.is_empty() {
            run.sender()?.send(Message::new(expected)).await?;
        } else if found != expected {
            return Err(Failure::OtherRun { found, expected });
        }

        let mut left = BTreeSet::new();
        for queue in [webhooks.dead_letter(), webhooks.clone()] {
            each(&queue, |message| left.extend(plan.number(&message)));
        }
        let (mut entries, mut broken) = (Vec::new(), None);
        each(&books, |message| match serde_json::from_slice::<Entry>(message.payload().unwrap_or_default()) {
            Ok(entry) => entries.push(entry),
            Err(error) => broken = Some(error),
        });
        if let Some(error) = broken {
            return Err(error.into());
        }
        ledger.resume(entries, &left);
        let sent = {
            let books = ledger.books();
            // A producer sends one after the other: what is before the last one was sent, wherever it is.
            let sent = |number: &usize| left.contains(number) || books.has(*number);
            let count = |format| plan.numbers(format).enumerate().filter(|(_, number)| sent(number)).last();
            plan.formats().map(|format| (format, count(format).map_or(0, |(nth, _)| nth + 1))).collect()
        };
        let books = Some(books.sender()?);
        Ok((Self { broker, webhooks, books }, sent))
    }

    fn settings() -> QueueSettings {
        QueueSettings::default().max_size(64 << 20)
    }
}

fn each(queue: &Queue, mut see: impl FnMut(Message)) {
    let mut from = SequenceNumber::new(1);
    loop {
        let page = queue.peek(from, Store::PAGE);
        let Some(last) = page.last().and_then(Message::received) else { return };
        from = last.sequence_number.next();
        page.into_iter().for_each(&mut see);
    }
}

/// Writes an entry, and waits until it is safe.
pub async fn write(books: &QueueSender, entry: &Entry) -> Result<(), BoxError> {
    let body = serde_json::to_vec(entry)?;
    let message = Message::builder().message_id(entry.number.to_string()).content_type("application/json");
    Ok(books.send(message.build(body)?).await?)
}
