use std::{cell::Cell, future::Future, time::Duration};

use consign::{
    Message,
    message::EntityPath,
    transport::{Delivery, DynReceiver, DynTransport, ErrorKind, Lease, ReceiveMode, ReceiverExt, Sender, Transport},
};
use tokio::time::{Instant, sleep, timeout};

use super::{Account, Proxy, Server};
use crate::Failure;

/// A worker with a connection of its own to a server, behind a proxy of its own.
pub(super) struct Worker<'w, S: Server> {
    pub(super) server: &'w S,
    pub(super) queue: &'w EntityPath,
    pub(super) account: &'w Account,
    pub(super) proxy: Proxy,
    /// How many calls have succeeded.
    successes: Cell<u64>,
    /// Since when calls fail.
    broken: Cell<Option<Instant>>,
    /// Until when the last fault kept calls from succeeding.
    faulty_until: Cell<Instant>,
    /// Whether that was a restart.
    was_restarted: Cell<bool>,
}

impl<'w, S: Server> Worker<'w, S> {
    /// A call may take this much longer than its deadline: to reconnect, and on a busy machine.
    const GRACE: Duration = Duration::from_secs(20);
    const PAUSE: Duration = Duration::from_millis(20);

    pub(super) async fn new(server: &'w S, queue: &'w EntityPath, account: &'w Account) -> Result<Self, Failure> {
        let proxy = Proxy::to(server.address()).await;
        let proxy = proxy.map_err(|error| Failure::behaviour(format!("no proxy: {error}")))?;
        Ok(Self {
            server,
            queue,
            account,
            proxy,
            successes: Cell::new(0),
            broken: Cell::new(None),
            faulty_until: Cell::new(Instant::now()),
            was_restarted: Cell::new(false),
        })
    }

    pub(super) fn successes(&self) -> u64 {
        self.successes.get()
    }

    /// Records the end of the last fault of the connection.
    pub(super) fn fault_is_over(&self) {
        self.faulty_until.set(Instant::now());
        self.was_restarted.set(false);
    }

    /// Records that the server goes down, or listens again.
    pub(super) fn restarts(&self) {
        self.faulty_until.set(Instant::now());
        self.was_restarted.set(true);
    }

    /// Connects, with as many attempts as necessary.
    pub(super) async fn connect(&self) -> DynTransport {
        loop {
            if let Some(transport) = self.call("connecting", self.server.connect(self.proxy.address())).await {
                return transport;
            }
        }
    }

    /// Sends the message until it is accepted.
    pub(super) async fn send(&self, transport: &DynTransport, id: &str) -> Result<(), Failure> {
        let message = Message::builder().message_id(id.to_owned()).build(id.to_owned())?;
        let mut sender = None;
        loop {
            let Some(ready) = &sender else {
                sender = self.call("making a sender", transport.sender(self.queue)).await;
                continue;
            };
            self.account.attempts(id);
            if self.call("sending", ready.send(message.clone())).await.is_some() {
                self.account.accepted(id);
                return Ok(());
            }
            self.account.unknown(id);
        }
    }

    /// Creates a receiver, with as many attempts as necessary.
    pub(super) async fn receiver(&self, transport: &DynTransport) -> DynReceiver {
        loop {
            let made = self.call("making a receiver", transport.receiver(self.queue, ReceiveMode::PeekLock)).await;
            if let Some(receiver) = made {
                return receiver;
            }
        }
    }

    /// Waits for a message, completes it once, and returns whether there was one within a while.
    pub(super) async fn handle(&self, receiver: &mut DynReceiver) -> bool {
        match receiver.receive_within(Duration::from_millis(500)).await {
            Ok(delivery) => {
                self.succeeded();
                self.complete(delivery).await;
                return true;
            }
            // There was no message, or so it seems while the connection is frozen.
            Err(error) if error.kind() == ErrorKind::ServiceTimeout => {}
            Err(error) => self.failed("receiving", &error.into()).await,
        }
        false
    }

    async fn complete<L: Lease>(&self, delivery: Delivery<L>) {
        let id = delivery.message.message_id().unwrap_or_default().to_owned();
        self.account.arrived(&id);
        let Ok(completed) = timeout(self.limit(), delivery.complete()).await else {
            return self.account.hung("completing");
        };
        match completed {
            Ok(()) => {
                self.succeeded();
                self.account.completed(&id);
            }
            // The lock ended during the fault.
            Err(error) if error.kind() == ErrorKind::MessageLockLost => {}
            Err(error) => self.failed("completing", &error.into()).await,
        }
    }

    /// Returns the result of the call; `None` if it failed as calls may while the connection is broken.
    async fn call<T, E: Into<Failure>>(&self, what: &str, call: impl Future<Output = Result<T, E>>) -> Option<T> {
        match timeout(self.limit(), call).await {
            Err(_) => self.account.hung(what),
            Ok(Ok(answer)) => {
                self.succeeded();
                return Some(answer);
            }
            Ok(Err(error)) => self.failed(what, &error.into()).await,
        }
        None
    }

    fn limit(&self) -> Duration {
        self.server.deadline() + Self::GRACE
    }

    fn succeeded(&self) {
        self.successes.set(self.successes.get() + 1);
        if let Some(broken) = self.broken.take() {
            let after = broken.max(self.faulty_until.get()).elapsed();
            if self.was_restarted.get() {
                self.account.returned_after_restart(after);
            } else {
                self.account.returned(after);
            }
        }
    }

    async fn failed(&self, what: &str, failure: &Failure) {
        if !failure.kind().is_some_and(ErrorKind::is_transient) {
            self.account.failed(format!("{what}: {failure}"));
        }
        self.broken.set(self.broken.get().or_else(|| Some(Instant::now())));
        sleep(Self::PAUSE).await;
    }
}
