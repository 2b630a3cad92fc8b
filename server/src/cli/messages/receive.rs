//! `consign receive`.

use std::{
    borrow::Cow,
    fs::OpenOptions,
    future::poll_fn,
    io::Write,
    mem,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args, ValueEnum};
use consign::{
    Disposition, Message,
    message::EntityPath,
    settlement::{Changes, DeadLetter, DeadLetterReason},
    transport::{
        AcceptSession, Delivery, DynLease, DynTransport, ErrorKind, Lease, ReceiveMode, Receiver, ReceiverExt, Session,
        SessionSource, Sessions, SettleError, Transport, deadline::OPERATION_TIMEOUT,
    },
};
use serde_json::json;

use super::show::{self, BodyOptions};
use crate::cli::{
    failure::{Exit, Failure},
    output::Output,
    progress::Progress,
    target::{Target, close, entity},
    values::duration,
};

/// How many messages are locked at once, at most.
const BATCH: usize = 16;

#[derive(Debug, Args)]
pub(crate) struct Receive {
    /// The path of the queue, the subscription or the dead-letter queue
    #[arg(value_parser = entity)]
    entity: EntityPath,
    /// The number of messages
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 1, conflicts_with = "all")]
    count: usize,
    /// Receive until no message arrives within the timeout; not with --settle abandon and release
    #[arg(long)]
    all: bool,
    /// How long to wait for a message
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    timeout: Duration,
    /// How to settle a message after it is printed
    #[arg(long, value_enum, default_value_t = Settle::Complete)]
    settle: Settle,
    /// The reason, for --settle dead-letter
    #[arg(long, value_name = "TEXT", default_value = "Operator")]
    reason: String,
    /// The description, for --settle dead-letter
    #[arg(long, value_name = "TEXT", default_value = "")]
    description: String,
    /// Receive from the session of this id
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Receive from the next session that has messages
    #[arg(long, conflicts_with = "session")]
    next_session: bool,
    /// Write each body to a new file in this folder, named by its place: 1, 2 and so on; an AMQP value that is not bytes
    /// as JSON: 1.json
    #[arg(long, value_name = "FOLDER")]
    bodies: Option<PathBuf>,
    #[command(flatten)]
    body: BodyOptions,
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Settle {
    /// Remove it
    Complete,
    /// Return it, when all are printed; the failed delivery counts
    Abandon,
    /// Return it, when all are printed; the delivery does not count
    Release,
    /// Move it to the dead-letter queue
    DeadLetter,
    /// Set it aside, to be received by its sequence number
    Defer,
    /// Remove it when it is delivered, before it is printed
    Delete,
}

impl Receive {
    pub(crate) async fn run(&self, out: &mut Output) -> Result<(), Failure> {
        let transport = self.target.connect().await?;
        let done = self.run_on(&transport, out).await;
        close(&transport, done).await
    }

    pub(crate) async fn run_on(&self, transport: &DynTransport, out: &mut Output) -> Result<(), Failure> {
        if self.all && matches!(self.settle, Settle::Abandon | Settle::Release) {
            return Err(Failure::usage(
                "--all returns no messages, as it would receive them again: set a number by -n",
            ));
        }
        if let Some(folder) = &self.bodies {
            std::fs::create_dir_all(folder).map_err(|error| Failure::file(folder, &error))?;
        }
        if self.session.is_none() && !self.next_session {
            let mode =
                if self.settle == Settle::Delete { ReceiveMode::ReceiveAndDelete } else { ReceiveMode::PeekLock };
            let mut receiver = transport.receiver(&self.entity, mode).await?;
            let received = self.receive_from(&mut receiver, out).await;
            receiver.stopped().await;
            return received;
        }
        if self.settle == Settle::Delete {
            return Err(Failure::usage("a session has no --settle delete"));
        }
        let mut source = transport.sessions(&self.entity).await?;
        let accepted = match &self.session {
            Some(id) => tokio::time::timeout(self.timeout, source.accept(id)).await,
            None => tokio::time::timeout(self.timeout, poll_fn(|cx| source.poll_accept(cx))).await,
        };
        let mut session = accepted.map_err(|_| no_message("no session has messages"))??;
        out.line(format_args!("session {}", consign::transport::Escaped(session.session_id())))?;
        let received = self.receive_from(&mut session, out).await;
        let closed = session.close().await;
        received?;
        Ok(closed?)
    }

    async fn receive_from<R>(&self, receiver: &mut R, out: &mut Output) -> Result<(), Failure>
    where
        R: Receiver<Lease = DynLease>,
    {
        let mut progress = Progress::new("receiving", (!self.all).then_some(self.count as u64), self.target.json);
        // What is returned before the end would be received again.
        let (mut printed, mut returned) = (0, Returned(Vec::new()));
        let received = self.print_all(receiver, out, &mut printed, &mut returned.0, &mut progress).await;
        if !returned.0.is_empty() {
            stopped(receiver).await;
        }
        let (_, settled) = self.settle(mem::take(&mut returned.0)).await;
        received.and(settled.map_err(Failure::from)).map_err(|failure| failure.after(printed))
    }

    /// Prints and settles messages. Those that are returned to the entity are left to the caller.
    async fn print_all<R>(
        &self,
        receiver: &mut R,
        out: &mut Output,
        printed: &mut u64,
        returned: &mut Vec<DynLease>,
        progress: &mut Progress,
    ) -> Result<(), Failure>
    where
        R: Receiver<Lease = DynLease>,
    {
        let wanted = if self.all { u64::MAX } else { self.count as u64 };
        while *printed < wanted {
            let most = usize::try_from(wanted - *printed).unwrap_or(usize::MAX).min(BATCH);
            let batch = match tokio::time::timeout(self.timeout, receiver.receive_batch(most)).await {
                Ok(batch) => batch.map_err(Failure::from)?,
                Err(_) if self.all && *printed > 0 => break,
                Err(_) => {
                    let text = format!("{printed} received, and no further message arrived within {:?}", self.timeout);
                    return Err(no_message(text));
                }
            };
            let (messages, leases): (Vec<_>, Vec<_>) =
                batch.into_iter().map(|Delivery { message, lease }| (message, lease)).unzip();
            let shown =
                messages.iter().zip(*printed + 1..).try_for_each(|(message, number)| self.print(out, message, number));
            // What is settled has been printed: a kill in between prints it again, and loses nothing.
            if let Err(failure) = shown.and_then(|()| out.flush()) {
                // They are not all printed, so no delivery counts. The first failure is the one that is reported.
                stopped(receiver).await;
                drop(futures_util::future::join_all(leases.into_iter().map(Lease::release)).await);
                return Err(failure);
            }
            let count = messages.len() as u64;
            match self.settle {
                Settle::Abandon | Settle::Release => returned.extend(leases),
                Settle::Delete => {}
                _ => {
                    let (done, settled) = self.settle(leases).await;
                    if let Err(error) = settled {
                        *printed += done;
                        return Err(error.into());
                    }
                }
            }
            *printed += count;
            progress.set(*printed);
        }
        Ok(())
    }

    fn print(&self, out: &mut Output, message: &Message, number: u64) -> Result<(), Failure> {
        let Some(folder) = &self.bodies else {
            return show::print(out, &self.entity, message, &self.body);
        };
        let (name, bytes): (_, Cow<'_, [u8]>) = match message.payload() {
            Some(bytes) => (number.to_string(), bytes.into()),
            None => (format!("{number}.json"), serde_json::to_vec(&show::json_of(message)?)?.into()),
        };
        let file = folder.join(name);
        write_new(&file, &bytes).map_err(|error| Failure::file(&file, &error))?;
        let object = json!({
            "file": file.to_string_lossy(),
            "message_id": message.message_id(),
            "content_type": message.content_type(),
        });
        out.either(format_args!("{}: {} B", file.display(), message.body().size()), &object)
    }

    /// Settles messages. Returns how many are settled, and the first error.
    async fn settle(&self, leases: Vec<DynLease>) -> (u64, Result<(), SettleError>) {
        let settled = leases.into_iter().map(|lease| match self.settle {
            Settle::Complete | Settle::Delete => lease.settle(Disposition::Complete),
            Settle::Abandon => lease.settle(Disposition::ABANDON),
            Settle::Release => lease.release(),
            Settle::Defer => lease.settle(Disposition::Defer(Changes::NONE)),
            Settle::DeadLetter => {
                let dead_letter = DeadLetter::new(
                    DeadLetterReason::Application(self.reason.clone().into()),
                    self.description.clone(),
                );
                lease.settle(Disposition::DeadLetter(Box::new(dead_letter)))
            }
        });
        let settled = futures_util::future::join_all(settled).await;
        let count = settled.iter().filter(|settled| settled.is_ok()).count() as u64;
        (count, settled.into_iter().collect())
    }
}

/// Stops a receiver before its messages are returned: a broker would deliver them to it once more, and then in another order.
async fn stopped(receiver: &mut impl Receiver) {
    // What is returned later is in another order only.
    let _ = tokio::time::timeout(OPERATION_TIMEOUT, receiver.stopped()).await;
}

/// Messages that go back to the entity. Without a count, if the command is interrupted before.
struct Returned(Vec<DynLease>);

impl Drop for Returned {
    fn drop(&mut self) {
        self.0.drain(..).for_each(|lease| drop(lease.release()));
    }
}

/// Writes a file that does not exist, to the disk.
fn write_new(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn no_message(text: impl Into<String>) -> Failure {
    Failure::new(Exit::NoMessage, ErrorKind::ServiceTimeout.code(), text)
}
