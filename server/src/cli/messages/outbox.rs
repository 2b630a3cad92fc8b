//! Sends that are not answered yet.

use std::pin::pin;

use consign::{
    Message,
    transport::{DynSender, SendError, Sender},
};
use futures_util::{StreamExt, stream::FuturesOrdered};

/// A sender with up to 64 sends in flight. They begin in order.
pub(crate) struct Outbox {
    sender: DynSender,
    in_flight: FuturesOrdered<<DynSender as Sender>::Send>,
    /// Messages that the broker has accepted, up to the first that it has not.
    pub(crate) accepted: u64,
    /// The error of that message.
    failed: Option<SendError>,
}

impl Outbox {
    const MOST: usize = 64;

    pub(crate) fn new(sender: DynSender) -> Self {
        Self { sender, in_flight: FuturesOrdered::new(), accepted: 0, failed: None }
    }

    /// Begins a send. It waits while 64 are in flight.
    ///
    /// # Errors
    ///
    /// That of an earlier message. Nothing is sent then.
    pub(crate) async fn send(&mut self, message: Message) -> Result<(), SendError> {
        while self.in_flight.len() >= Self::MOST {
            self.one().await;
        }
        if self.failed.is_some() {
            return self.finish().await;
        }
        self.in_flight.push_back(self.sender.send(message));
        Ok(())
    }

    /// Waits for something else, and sends meanwhile.
    ///
    /// # Errors
    ///
    /// That of an earlier message.
    pub(crate) async fn meanwhile<T>(&mut self, other: impl Future<Output = T>) -> Result<T, SendError> {
        let mut other = pin!(other);
        loop {
            tokio::select! {
                biased;
                done = &mut other => return Ok(done),
                () = self.one(), if !self.in_flight.is_empty() => {}
            }
            if self.failed.is_some() {
                self.finish().await?;
            }
        }
    }

    async fn one(&mut self) {
        match self.in_flight.next().await {
            Some(Ok(())) if self.failed.is_none() => self.accepted += 1,
            Some(Err(error)) if self.failed.is_none() => self.failed = Some(error),
            _ => {}
        }
    }

    /// Waits until all are answered.
    ///
    /// # Errors
    ///
    /// That of the first message that was not accepted. It is reported once.
    pub(crate) async fn finish(&mut self) -> Result<(), SendError> {
        while !self.in_flight.is_empty() {
            self.one().await;
        }
        self.failed.take().map_or(Ok(()), Err)
    }
}
