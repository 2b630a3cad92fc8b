use std::path::Path;

use bytes::Bytes;
use consign::{
    Message,
    administration::QueueSettings,
    broker::{Broker, Queue, QueueReceiver, QueueSender},
    transport::{Batch, ReceiverExt, Sender},
};
use futures_util::future::try_join_all;

use crate::contestant::{Contestant, Entered, Error, Place, Step, body};

/// The broker of this library in a folder. Each message is sent by itself, unless they are sent as batches.
struct Durable {
    broker: Broker,
    sender: QueueSender,
    receiver: QueueReceiver,
    body: Bytes,
    in_batches: bool,
}

/// How many messages a batch has: 1 MiB is the most that it may.
const BATCH: usize = 256;

pub(crate) fn enter(place: Place<'_>) -> Step<'_, Entered> {
    Box::pin(async move { entered(place.folder, false) })
}

pub(crate) fn enter_in_batches(place: Place<'_>) -> Step<'_, Entered> {
    Box::pin(async move { entered(place.folder, true) })
}

/// A broker with the queue that is measured.
pub(crate) fn open(folder: &Path) -> Result<(Broker, Queue), Error> {
    let broker = Broker::open(folder)?;
    let queue = match broker.queue("bench") {
        Ok(queue) => queue,
        Err(_) => broker.create_queue("bench", QueueSettings::default().max_size(1 << 40))?,
    };
    Ok((broker, queue))
}

fn entered(folder: &Path, in_batches: bool) -> Result<Entered, Error> {
    let (broker, queue) = open(folder)?;
    let (sender, receiver) = (queue.sender()?, queue.receiver());
    let contestant = Box::new(Durable { broker, sender, receiver, body: body().into(), in_batches });
    let how = if in_batches { "send_batch of up to 256" } else { "each message by itself" };
    Ok(Entered { contestant, settings: format!("default options, {how}") })
}

impl Contestant for Durable {
    fn send(&mut self, window: usize) -> Step<'_> {
        Box::pin(async move {
            let message = || Message::new(self.body.clone());
            if self.in_batches {
                let sizes = (0..window).step_by(BATCH).map(|sent| BATCH.min(window - sent));
                let batches = sizes.map(|size| (0..size).map(|_| message()).collect::<Batch>());
                try_join_all(batches.map(|batch| self.sender.send_batch(batch))).await?;
            } else {
                try_join_all((0..window).map(|_| self.sender.send(message()))).await?;
            }
            Ok(())
        })
    }

    fn take(&mut self, window: usize) -> Step<'_> {
        Box::pin(async move {
            let mut left = window;
            let mut completions = Vec::with_capacity(window);
            while left > 0 {
                let deliveries = self.receiver.receive_batch(left).await?;
                left -= deliveries.len();
                completions.extend(deliveries.into_iter().map(|delivery| delivery.complete()));
            }
            try_join_all(completions).await?;
            Ok(())
        })
    }

    fn send_from(&mut self, senders: usize, each: usize) -> Option<Step<'_>> {
        let senders = (0..senders).map(|_| (self.sender.clone(), self.body.clone()));
        let tasks = senders.map(move |(sender, body)| async move {
            for _ in 0..each {
                sender.send(Message::new(body.clone())).await?;
            }
            Ok::<(), Error>(())
        });
        let tasks: Vec<_> = tasks.map(tokio::spawn).collect();
        Some(Box::pin(async move {
            for task in tasks {
                task.await??;
            }
            Ok(())
        }))
    }

    fn end(self: Box<Self>) -> Step<'static> {
        Box::pin(async move { Ok(self.broker.close().await?) })
    }
}
