//! One job, from its beginning or from where an earlier process has left it.

use std::{error, fmt};

use consign::dead_letters::{DeadLetterFilter, DeadLetters, EntityDeadLetters, Explained, MAX_HOPS, Run, RunOutcome};
use consign_core::{
    message::{EntityPath, SequenceNumber},
    transport::{Capability, DynLease, ManageError, PurgeMessages, ReceiveError, SendError},
};

use super::{Action, Edit, Job, Progress, Spec};
use crate::page::{Shared, groups};

/// Messages that one purge of the transport removes.
const PURGED: usize = 1_000;

/// Why a job has ended early.
#[derive(Debug)]
pub(in super::super) enum JobError {
    Receive(ReceiveError),
    Send(SendError),
    Manage(ManageError),
    /// What an operation has reported.
    Refused(String),
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Receive(error) => error.fmt(f),
            Self::Send(error) => error.fmt(f),
            Self::Manage(error) => error.fmt(f),
            Self::Refused(text) => f.write_str(text),
        }
    }
}

impl error::Error for JobError {}

macro_rules! from {
    ($($error:ident => $variant:ident),*) => {$(
        impl From<$error> for JobError {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        }
    )*};
}

from!(ReceiveError => Receive, SendError => Send, ManageError => Manage);

pub(super) async fn run(shared: &Shared, job: &Job) -> Result<(), JobError> {
    tokio::time::sleep(job.spec.begins_at().saturating_since(shared.now())).await;
    if !job.begin() {
        return Ok(());
    }
    match job.spec.action {
        Action::Resubmit => resubmit(shared, &job.spec, &job.progress).await,
        Action::Remove => remove(shared, &job.spec, &job.progress).await,
        Action::Purge => purge(shared, &job.spec, &job.progress).await,
    }
}

/// The dead letters of a job.
fn filter(spec: &Spec) -> DeadLetterFilter {
    let filter = groups::filter(spec.group.as_deref());
    match spec.number {
        Some(number) => {
            let number = SequenceNumber::new(number);
            filter.matching(move |dead| dead.sequence_number() == number)
        }
        None => filter,
    }
}

/// Whether a dead letter was there when the job was created. Without numbers, its place in a list is none of its own, and the
/// numbers of several partitions come in no order: there, the time tells, if it is known.
fn was_there(has_numbers: bool, spec: &Spec, dead: &Explained) -> bool {
    let in_a_partition = dead.message().received().is_some_and(|received| received.partition_id.is_some());
    if has_numbers && !in_a_partition {
        return dead.sequence_number() <= spec.last();
    }
    dead.enqueued_time().is_none_or(|enqueued| enqueued <= spec.created_at())
}

/// What is left of a job, the progress being what an earlier process has done.
async fn remaining(shared: &Shared, spec: &Spec, progress: &Progress) -> Result<u64, JobError> {
    let (mut left, has_numbers) = (0, shared.supports(Capability::SequenceNumbers));
    groups::each(shared, &spec.entity.0, &filter(spec), |dead| left += u64::from(was_there(has_numbers, spec, &dead)))
        .await?;
    progress.set(spec.matching.saturating_sub(left));
    Ok(left)
}

/// Those of them that the job has to do with.
fn that_were_there(shared: &Shared, spec: &Spec) -> DeadLetterFilter {
    let (has_numbers, of_job) = (shared.supports(Capability::SequenceNumbers), spec.clone());
    filter(spec).matching(move |dead| was_there(has_numbers, &of_job, dead))
}

async fn resubmit(shared: &Shared, spec: &Spec, progress: &Progress) -> Result<(), JobError> {
    if shared.supports(Capability::Peek) && remaining(shared, spec, progress).await? == 0 {
        return Ok(());
    }
    let edit = Edit { transcode: spec.content_type.clone(), ..Edit::default() };
    resubmit_each(shared, spec, that_were_there(shared, spec), edit, progress).await
}

async fn resubmit_each(
    shared: &Shared,
    spec: &Spec,
    filter: DeadLetterFilter,
    edit: Edit,
    progress: &Progress,
) -> Result<(), JobError> {
    let dead = DeadLetters::of(shared.transport.clone(), &spec.entity.0);
    let run = dead.resubmit_to(filter, &spec.target.0).await?;
    let mut run = run.edit(move |properties, body| Ok(edit.apply(properties, body)?));
    if let Some(per_second) = spec.per_second {
        run = run.rate(per_second.into());
    }
    follow(run, progress).await
}

/// Resubmits one dead letter with changes, at once. `false` if it is not there, or is locked by another receiver.
pub(in super::super) async fn resubmit_one(
    shared: &Shared,
    source: &EntityPath,
    target: &EntityPath,
    number: SequenceNumber,
    edit: Edit,
) -> Result<bool, JobError> {
    let progress = Progress::default();
    let dead = DeadLetters::of(shared.transport.clone(), source);
    let run = dead.resubmit_to(DeadLetterFilter::number(number), target).await?;
    follow(run.edit(move |properties, body| Ok(edit.apply(properties, body)?)), &progress).await?;
    match progress.failures.lock().pop() {
        Some(failure) => Err(JobError::Refused(failure)),
        None => Ok(progress.handled() > 0),
    }
}

/// Runs to the end, with the progress.
async fn follow<A: consign::dead_letters::Action<DynLease>>(
    run: Run<'_, EntityDeadLetters, A>,
    progress: &Progress,
) -> Result<(), JobError> {
    let before = progress.handled();
    let run = run.max_held(groups::MAX_LETTERS);
    let ended = run.on_progress(|report| progress.set(before + report.resubmitted + report.purged)).run().await;
    let (report, failed) = match &ended {
        Ok(report) => (report, None),
        Err(error) => (error.report(), Some(error.receive_error().to_string())),
    };
    for failure in &report.failures {
        progress.fail(format!("#{}: {failure}", failure.sequence_number()));
    }
    for _ in 0..report.stopped_at_hop_limit {
        progress.fail(format!("it was resubmitted {MAX_HOPS} times already"));
    }
    match (failed, report.end) {
        (Some(error), _) => Err(JobError::Refused(error)),
        (None, RunOutcome::Done) => Ok(()),
        (None, end) => Err(JobError::Refused(end.to_string())),
    }
}

async fn remove(shared: &Shared, spec: &Spec, progress: &Progress) -> Result<(), JobError> {
    if shared.supports(Capability::Peek) {
        remaining(shared, spec, progress).await?;
    }
    let dead = DeadLetters::of(shared.transport.clone(), &spec.entity.0);
    follow(dead.purge(that_were_there(shared, spec)), progress).await
}

/// Removes what was accepted before the job was created.
async fn purge(shared: &Shared, spec: &Spec, progress: &Progress) -> Result<(), JobError> {
    loop {
        match shared.transport.purge(&spec.entity.0, PURGED, Some(spec.created_at())).await? {
            0 => return Ok(()),
            removed => progress.add(removed as u64),
        }
    }
}
