//! Listing on a transport without peek.

use std::{io, time::Duration};

use clap::Parser;
use consign::{
    Disposition, Message,
    administration::{Administration, Counts, Entity, EntitySettings, QueueSettings},
    broker::{Broker, Queue, QueueLease, QueueReceiver, QueueSender},
    dead_letters::ListLimit,
    message::EntityPath,
    settlement::DeadLetterReason,
    transport::{
        Capabilities, Capability, DynTransport, Lease, Level, ManageError, ReceiveError, ReceiveMode, ReceiverExt,
        SendError, Sender, Transport,
    },
};
use tokio::time::timeout;

use super::{super::failure::Exit, Command, CommandLine, Interrupt, Output, Printed, run, run_line};

/// The embedded broker, as if it had neither peek nor sequence numbers.
#[derive(Clone)]
struct Plain(Broker);

impl Transport for Plain {
    type Sender = QueueSender;
    type Lease = QueueLease;
    type Receiver = QueueReceiver;

    fn capabilities(&self) -> Capabilities {
        let broker = Transport::capabilities(&self.0);
        broker.with(Capability::Peek, Level::Unsupported).with(Capability::SequenceNumbers, Level::Unsupported)
    }

    async fn sender(&self, path: &EntityPath) -> Result<QueueSender, SendError> {
        Transport::sender(&self.0, path).await
    }

    async fn receiver(&self, path: &EntityPath, mode: ReceiveMode) -> Result<QueueReceiver, ReceiveError> {
        Transport::receiver(&self.0, path, mode).await
    }
}

/// It counts two messages that never arrive.
impl Administration for Plain {
    async fn create(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        Administration::create(&self.0, path, settings).await
    }

    async fn declare(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        Administration::declare(&self.0, path, settings).await
    }

    async fn update(&self, path: &EntityPath, settings: &EntitySettings) -> Result<(), ManageError> {
        Administration::update(&self.0, path, settings).await
    }

    async fn delete(&self, path: &EntityPath) -> Result<(), ManageError> {
        Administration::delete(&self.0, path).await
    }

    async fn settings(&self, path: &EntityPath) -> Result<EntitySettings, ManageError> {
        Administration::settings(&self.0, path).await
    }

    async fn list(&self) -> Result<Vec<Entity>, ManageError> {
        Administration::list(&self.0).await
    }

    async fn counts(&self, path: &EntityPath) -> Result<Counts, ManageError> {
        let mut counts = Administration::counts(&self.0, path).await?;
        counts.active += 2;
        Ok(counts)
    }
}

/// The number of lines that a command prints, and its last one.
async fn lines(transport: &DynTransport, line: &str) -> (i32, usize, String) {
    let (code, text) = run_line(line.split(' '), transport).await;
    (code, text.lines().count(), text.lines().last().unwrap_or_default().to_owned())
}

/// Rules: L-05, L-27.
#[tokio::test]
async fn a_command_that_cannot_list_all_prints_what_it_can_and_fails() {
    let broker = Broker::new();
    // No lock ends while a slow machine writes.
    let settings = QueueSettings::default().lock_duration(Duration::from_secs(300));
    let queue = broker.create_queue("orders", settings).unwrap();
    let (sender, mut receiver) = (queue.sender().unwrap(), queue.receiver());
    let (count, mut done) = (ListLimit::MAX + 1, 0);
    while done < count {
        for _ in done..count.min(done + 1_000) {
            sender.send(Message::new("")).await.unwrap();
        }
        for delivery in receiver.receive_batch(1_000).await.unwrap() {
            let dead_letter = Disposition::dead_letter(DeadLetterReason::HandlerPermanent, "why");
            delivery.lease.settle(dead_letter).await.unwrap();
            done += 1;
        }
    }
    let transport = DynTransport::builder(Plain(broker)).build();

    let (code, _, last) = lines(&transport, "dead-letters purge orders").await;
    assert_eq!((code, last.as_str()), (6, "dry run: would purge 16384, keep 0; do it with --apply"));
    for cut in ["dead-letters export orders", "export orders --dead-letters"] {
        let (code, count, _) = lines(&transport, cut).await;
        assert_eq!((code, count), (6, ListLimit::MAX), "{cut}");
    }

    let path = EntityPath::new("orders/$deadletterqueue").unwrap();
    let mut dead = transport.receiver(&path, ReceiveMode::PeekLock).await.unwrap();
    dead.receive().await.unwrap().complete().await.unwrap();
    for complete in ["dead-letters export orders", "export orders --dead-letters"] {
        let (code, count, _) = lines(&transport, complete).await;
        assert_eq!((code, count), (0, ListLimit::MAX), "{complete}");
    }
}

/// Rules: L-27.
#[tokio::test]
async fn a_peek_begins_at_its_number() {
    let broker = Broker::new();
    let queue = broker.create_queue("orders", QueueSettings::default()).unwrap();
    for body in ["1", "2", "3", "4"] {
        queue.sender().unwrap().send(Message::new(body)).await.unwrap();
    }
    let transport = DynTransport::builder(Plain(broker)).build();
    for (from, expected) in [("1", "#1"), ("3", "#3")] {
        let (code, text) = run_line(format!("peek orders -n 1 --no-body --from {from}").split(' '), &transport).await;
        assert_eq!((code, text.split(' ').next()), (0, Some(expected)));
    }
    let (code, text) = run_line("peek orders --from 5".split(' '), &transport).await;
    assert_eq!((code, text.as_str()), (0, ""));
    assert_eq!(queue.counts().active, 4);
}

/// Rules: L-05.
#[tokio::test(start_paused = true)]
async fn fewer_than_the_broker_has_counted_are_not_all() {
    let (_, broker) = filled(3).await;
    let transport = DynTransport::builder(Plain(broker)).administration().build();
    for (line, expected) in [("export orders", 6), ("peek orders -n 4", 6), ("peek orders -n 3", 0)] {
        let (code, text) = run_line(line.split(' '), &transport).await;
        assert_eq!((code, text.replace('_', " ").matches("delivery count").count()), (expected, 3), "{line}: {text}");
    }
}

/// Rules: L-27.
#[tokio::test]
async fn a_dry_run_refuses_what_its_run_refuses() {
    let (_, broker) = filled(0).await;
    let transport = DynTransport::builder(Plain(broker)).build();
    for line in ["purge orders", "resubmit orders", "purge orders --apply"] {
        let (code, text) = run_line(format!("dead-letters {line} --number 1").split(' '), &transport).await;
        assert_eq!((code, text.as_str()), (4, ""), "{line}");
    }
}

/// An output whose reader has gone.
struct Closed;

impl io::Write for Closed {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

/// A queue of messages, and its broker.
async fn filled(count: usize) -> (Queue, Broker) {
    let broker = Broker::new();
    let queue = broker.create_queue("orders", QueueSettings::default()).unwrap();
    for _ in 0..count {
        queue.sender().unwrap().send(Message::new("x")).await.unwrap();
    }
    (queue, broker)
}

/// No message is locked, and no delivery has counted.
async fn assert_uncounted(queue: &Queue, count: usize) {
    assert_eq!((queue.counts().active, queue.counts().locked), (count, 0));
    for delivery in queue.receiver().receive_batch(count).await.unwrap() {
        assert_eq!(delivery.message.received().unwrap().delivery_count, 1);
    }
}

/// Rules: L-05.
#[tokio::test(start_paused = true)]
async fn an_output_that_is_closed_counts_no_delivery() {
    let (queue, broker) = filled(20).await;
    let transport = DynTransport::builder(Plain(broker)).build();
    let line = CommandLine::try_parse_from("consign peek orders -n 20 --url memory:".split(' ')).unwrap();
    let mut out = Output::to(Closed, false);
    let failure = run(&line.command, &transport, &mut out).await.unwrap_err();
    assert_eq!(failure.exit, Exit::OutputClosed);
    assert_uncounted(&queue, 20).await;
}

/// Rules: L-05.
#[tokio::test(start_paused = true)]
async fn an_interrupted_list_releases_what_it_holds() {
    let (queue, broker) = filled(3).await;
    let transport = DynTransport::builder(Plain(broker)).build();
    let line = CommandLine::try_parse_from("consign export orders --url memory:".split(' ')).unwrap();
    let Command::Export(export) = line.command else { panic!("another command") };
    let (sender, interrupt) = Interrupt::new();
    let mut out = Output::to(Printed::default(), false);
    let interrupting = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        drop(sender);
    };
    // Before a silence ends the list.
    let exporting = timeout(Duration::from_millis(600), export.run_on(&transport, &mut out, &interrupt));
    let (done, ()) = tokio::join!(exporting, interrupting);
    assert_eq!(done.unwrap().unwrap_err().exit, Exit::Interrupted);
    assert_uncounted(&queue, 3).await;
}
