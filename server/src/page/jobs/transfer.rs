//! Resubmission in transactions: a copy is sent and its dead letter is removed, or neither.

use std::{collections::HashSet, time::Duration};

use bytes::Bytes;
use consign::dead_letters::{DeadLetterFilter, DeadLetters, Explained};
use consign_core::{
    Disposition, Message,
    message::{EntityPath, MessageBody, Properties, SequenceNumber},
    transport::{
        Capability, Delivery, DynLease, DynSender, DynTransport, ErrorKind, Lease, ReceiveMode, ReceiverExt,
        Transaction, TransactionError, Transactions, Transport,
    },
};

use super::{
    Progress,
    held::Held,
    pace::{Pace, Paced},
    run::JobError,
};
use crate::page::{
    Shared,
    body::{FORMATS, codecs},
    live::target_of,
};

/// Most messages of one transaction.
const STEP: usize = 20;
/// How long to wait for dead letters that others may have locked.
const LOCK_WAIT: Duration = Duration::from_secs(1);

/// What is different in a copy.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Edit {
    /// The ContentType that the body is written in anew.
    pub(in super::super) transcode: Option<String>,
    pub(in super::super) content_type: Option<String>,
    pub(in super::super) subject: Option<String>,
    pub(in super::super) body: Option<Bytes>,
}

impl Edit {
    fn apply(&self, properties: &mut Properties, body: &mut MessageBody) -> Result<(), String> {
        if let Some(content_type) = &self.content_type {
            properties.set_content_type(content_type.clone());
        }
        if let Some(subject) = &self.subject {
            properties.set_subject(subject.clone());
        }
        if let Some(bytes) = &self.body {
            *body = bytes.clone().into();
        }
        if let Some(to) = &self.transcode {
            let bytes = body.codec_view().ok_or("the body is an AMQP value")?;
            let codecs = codecs!().map_err(|error| error.to_string())?;
            let encoded = codecs.transcode(properties.content_type(), bytes, to).map_err(|error| error.to_string())?;
            properties.set_content_type(encoded.content_type);
            *body = encoded.body.into();
        }
        Ok(())
    }

    /// Whether the format is one that bodies can be written in.
    pub(in super::super) fn is_format(format: &str) -> bool {
        FORMATS.contains(&format)
    }
}

/// A resubmission.
pub(super) struct Transfer<'t> {
    pub(super) source: &'t EntityPath,
    pub(super) target: &'t EntityPath,
    pub(super) filter: DeadLetterFilter,
    /// Nothing behind this one is touched.
    pub(super) last: SequenceNumber,
    /// So many match.
    pub(super) matching: u64,
    pub(super) edit: Edit,
    pub(super) pace: Pace,
}

/// Resubmits one dead letter with changes, at once. `false` if it is not there, or is locked by another receiver.
pub(in super::super) async fn one(
    shared: &Shared,
    source: &EntityPath,
    target: &EntityPath,
    number: SequenceNumber,
    edit: Edit,
) -> Result<bool, JobError> {
    let progress = Progress::default();
    let filter = DeadLetterFilter::number(number);
    let transfer = Transfer { source, target, filter, last: number, matching: 1, edit, pace: Pace::new(None) };
    transfer.run(shared, &progress).await?;
    match progress.failures.lock().pop() {
        Some(failure) => Err(JobError::Refused(failure)),
        None => Ok(progress.handled() > 0),
    }
}

impl Transfer<'_> {
    /// Resubmits, in transactions where the transport has them for these entities.
    pub(super) async fn run(&self, shared: &Shared, progress: &Progress) -> Result<(), JobError> {
        let in_transactions = shared.supports(Capability::Transactions)
            && shared.supports(Capability::Peek)
            && target_of(self.source).key() == target_of(self.target).key();
        if in_transactions {
            self.in_transactions(shared, progress).await
        } else {
            self.one_by_one(shared, progress).await
        }
    }

    /// Sends each copy, and removes its dead letter when the copy is accepted.
    async fn one_by_one(&self, shared: &Shared, progress: &Progress) -> Result<(), JobError> {
        let dead = DeadLetters::of(shared.transport.clone(), self.source);
        let sender: DynSender = shared.transport.sender(self.target).await?;
        let sender = Paced { sender, pace: self.pace.clone() };
        let before = progress.handled();
        let edit = self.edit.clone();
        let run =
            dead.resubmit(self.filter.clone(), sender).edit(move |properties, body| Ok(edit.apply(properties, body)?));
        let run = run.on_progress(|report| progress.set(before + report.resubmitted));
        let report = run.run().await.map_err(|error| JobError::Refused(error.to_string()))?;
        for failure in &report.failures {
            progress.fail(failure.to_string());
        }
        (0..report.stopped_at_hop_limit).for_each(|_| progress.fail(at_limit()));
        Ok(())
    }

    async fn in_transactions(&self, shared: &Shared, progress: &Progress) -> Result<(), JobError> {
        let mut receiver = shared.transport.receiver(&self.source.dead_letter(), ReceiveMode::PeekLock).await?;
        let mut held = Held::default();
        let mut failed: HashSet<SequenceNumber> = HashSet::new();
        let begun = progress.handled();
        let (mut is_over, mut step) = (false, self.pace.step(STEP));
        while !is_over && progress.handled() - begun < self.matching {
            if held.is_full() {
                return Err(JobError::TooManyHeld);
            }
            let Ok(received) = tokio::time::timeout(LOCK_WAIT, receiver.receive_batch(step)).await else {
                break;
            };
            let mut copies = Vec::new();
            for Delivery { message, lease } in received? {
                let received = message.received().copied();
                let number = received.map(|received| received.sequence_number).unwrap_or_default();
                // The numbers of several partitions come in no order.
                let is_behind = number > self.last && received.is_none_or(|received| received.partition_id.is_none());
                let dead = Explained::new(message, shared.now());
                if is_behind || failed.contains(&number) || !self.filter.matches(&dead) {
                    is_over |= is_behind;
                    held.push(lease);
                    continue;
                }
                match self.copy(&dead) {
                    Ok(copy) => copies.push((number, lease, copy)),
                    Err(failure) => {
                        progress.fail(format!("{number}: {failure}"));
                        failed.insert(number);
                        held.push(lease);
                    }
                }
            }
            held.keep().await;
            if copies.is_empty() {
                continue;
            }
            self.pace.wait(copies.len()).await;
            let (count, first) = (copies.len() as u64, copies[0].0);
            let copies: Vec<_> = copies.into_iter().map(|(_, lease, copy)| (lease, copy)).collect();
            match self.commit(&shared.transport, copies).await {
                Ok(()) => progress.add(count),
                Err(refused) if is_fatal(&refused) => return Err(JobError::Refused(describe(&refused))),
                Err(refused) if count == 1 => {
                    progress.fail(format!("{first}: {}", describe(&refused)));
                    failed.insert(first);
                    refused.into_leases().into_iter().for_each(|lease| held.push(lease));
                }
                // One of them is refused. From now on each has a transaction of its own.
                Err(refused) => {
                    step = 1;
                    refused.into_leases().into_iter().for_each(|lease| drop(lease.release()));
                }
            }
        }
        Ok(())
    }

    fn copy(&self, dead: &Explained) -> Result<Message, String> {
        let copy = dead.resubmission().ok_or_else(at_limit)?;
        let (mut properties, mut body) = (copy.properties().clone(), copy.body().clone());
        self.edit.apply(&mut properties, &mut body)?;
        Ok(Message::from_parts(properties, body))
    }

    /// Sends these copies and removes their dead letters, all or none.
    async fn commit(
        &self,
        transport: &DynTransport,
        copies: Vec<(DynLease, Message)>,
    ) -> Result<(), TransactionError<DynLease>> {
        let mut transaction = transport.begin().await?;
        let mut copies = copies.into_iter();
        let mut failure = None;
        for (lease, copy) in copies.by_ref() {
            if let Err(error) = transaction.settle(lease, Disposition::Complete).await {
                failure = Some(error);
                break;
            }
            if let Err(error) = transaction.send(self.target, copy).await {
                failure = Some(error.into());
                break;
            }
        }
        match failure {
            None => transaction.commit().await.map(drop),
            Some(failure) => {
                Err(failure.with_leases(transaction.rollback()).with_leases(copies.map(|(lease, _)| lease)))
            }
        }
    }
}

/// Whether the other messages would fare no better, or it is not known how this one has fared.
fn is_fatal(error: &TransactionError<DynLease>) -> bool {
    error.kind() == ErrorKind::EntityNotFound || error.is_outcome_unknown()
}

fn describe(error: &TransactionError<DynLease>) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn at_limit() -> String {
    format!("it was resubmitted {} times already", consign::dead_letters::MAX_HOPS)
}
