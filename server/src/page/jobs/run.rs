//! One job, from its beginning or from where an earlier process has left it.

use std::{error, fmt};

use consign::dead_letters::{DeadLetterFilter, DeadLetters};
use consign_core::{
    message::SequenceNumber,
    transport::{Capability, ManageError, PurgeMessages, ReceiveError, SendError},
};

use super::{
    Action, Job, Progress, Spec, State,
    held::MAX_HELD,
    pace::Pace,
    transfer::{Edit, Transfer},
};
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
    TooManyHeld,
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Receive(error) => error.fmt(f),
            Self::Send(error) => error.fmt(f),
            Self::Manage(error) => error.fmt(f),
            Self::Refused(text) => f.write_str(text),
            Self::TooManyHeld => write!(f, "more than {MAX_HELD} other dead letters are before the last one"),
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
    job.state.send_replace(State::Running);
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

/// What is left of a job, the progress being what an earlier process has done.
async fn remaining(shared: &Shared, spec: &Spec, progress: &Progress) -> Result<u64, JobError> {
    let (mut left, last) = (0, spec.last());
    groups::each(shared, &spec.entity.0, &filter(spec), |dead| {
        let is_behind = dead.sequence_number() > last;
        left +=
            u64::from(!is_behind || dead.message().received().is_some_and(|received| received.partition_id.is_some()));
    })
    .await?;
    progress.set(spec.matching.saturating_sub(left));
    Ok(left)
}

async fn resubmit(shared: &Shared, spec: &Spec, progress: &Progress) -> Result<(), JobError> {
    let left = if shared.supports(Capability::Peek) { remaining(shared, spec, progress).await? } else { spec.matching };
    if left == 0 {
        return Ok(());
    }
    let transfer = Transfer {
        source: &spec.entity.0,
        target: &spec.target.0,
        filter: filter(spec),
        last: spec.last(),
        matching: left,
        edit: Edit { transcode: spec.content_type.clone(), ..Edit::default() },
        pace: Pace::new(spec.per_second),
    };
    transfer.run(shared, progress).await
}

async fn remove(shared: &Shared, spec: &Spec, progress: &Progress) -> Result<(), JobError> {
    if shared.supports(Capability::Peek) {
        remaining(shared, spec, progress).await?;
    }
    let before = progress.handled();
    let dead = DeadLetters::of(shared.transport.clone(), &spec.entity.0);
    let last = spec.last();
    // On a transport without numbers, the place in a list is none of a dead letter.
    let has_numbers = shared.supports(Capability::SequenceNumbers);
    let filter = filter(spec).matching(move |dead| !has_numbers || dead.sequence_number() <= last);
    let run = dead.purge(filter).on_progress(|report| progress.set(before + report.purged));
    let report = run.run().await.map_err(|error| JobError::Refused(error.to_string()))?;
    for failure in &report.failures {
        progress.fail(failure.to_string());
    }
    Ok(())
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
