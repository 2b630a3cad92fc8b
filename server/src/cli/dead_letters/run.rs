//! Runs over the dead letters: `resubmit`, `edit`, `transcode` and `purge`.

use consign::{
    Message,
    dead_letters::{
        Action, EntityDeadLetters, Explained, MAX_HOPS, Report, ResubmitGuarantee, Run, RunError, RunOutcome,
    },
    transport::{DynLease, DynTransport, Escaped},
};
use serde_json::json;

use super::{
    super::{
        failure::{Exit, Failure},
        output::Output,
        progress::Progress,
    },
    Source,
    change::Changes,
    list::all,
    run_options::{Limits, RunOptions},
};

/// How many dead letters a dry run prints for people.
const PRINTED: u64 = 20;

/// Sends copies of dead letters, with changes, and removes them.
pub(super) async fn resubmit(
    transport: &DynTransport,
    source: &Source,
    options: &RunOptions,
    changes: &Changes,
    out: &mut Output,
) -> Result<(), Failure> {
    let to = match &options.to {
        Some(to) => to.clone(),
        None if source.entity.subscription().is_some() => {
            return Err(Failure::usage(
                "copies of a subscription's dead letters need --to: its topic would copy them to all subscriptions",
            ));
        }
        None => source.entity.parent(),
    };
    source.filter.check_for_a_run(transport)?;
    if !options.limits.apply {
        return dry_run(transport, source, "resubmit", out, &|message| changes.applied(message).map(drop)).await;
    }
    let (dead, changes) = (source.dead_letters(transport), changes.clone());
    let run = dead.resubmit_to(source.filter.filter(), &to).await?;
    let run = run.edit(move |properties, body| changes.apply(properties, body));
    let ended = finish(run, &options.limits, "resubmitting", out.json).await;
    report(&ended, Some(dead.guarantee(&to)), out)
}

/// Removes dead letters.
pub(super) async fn purge(
    transport: &DynTransport,
    source: &Source,
    limits: &Limits,
    out: &mut Output,
) -> Result<(), Failure> {
    source.filter.check_for_a_run(transport)?;
    if !limits.apply {
        return dry_run(transport, source, "purge", out, &|_| Ok(())).await;
    }
    let dead = source.dead_letters(transport);
    let ended = finish(dead.purge(source.filter.filter()), limits, "purging", out.json).await;
    report(&ended, None, out)
}

async fn finish<A: Action<DynLease>>(
    mut run: Run<'_, EntityDeadLetters, A>,
    limits: &Limits,
    label: &'static str,
    json: bool,
) -> Result<Report, RunError> {
    let mut progress = Progress::new(label, Some(0), json);
    if let Some(rate) = limits.rate {
        run = run.rate(rate);
    }
    run.concurrency(limits.concurrency.into())
        .max_held(usize::try_from(limits.max_held).unwrap_or(usize::MAX))
        .on_progress(move |report| {
            progress.set_total(report.matching);
            progress.set(report.resubmitted + report.purged);
        })
        .run()
        .await
}

/// Prints what a run has done. It succeeds if every dead letter that passed the filter is gone.
fn report(
    ended: &Result<Report, RunError>,
    guarantee: Option<ResubmitGuarantee>,
    out: &mut Output,
) -> Result<(), Failure> {
    let failed = ended.as_ref().err().map(RunError::receive_error);
    let report = match ended {
        Ok(report) => report,
        Err(error) => error.report(),
    };
    let failures: Vec<_> = report
        .failures
        .iter()
        .map(|failure| json!({ "sequence_number": failure.sequence_number().get(), "error": failure.to_string() }))
        .collect();
    let Report { matching, skipped, resubmitted, purged, stopped_at_hop_limit, missed, end, .. } = report;
    let mut parts = vec![format!("{resubmitted} resubmitted, {purged} purged, {} failed", failures.len())];
    if *stopped_at_hop_limit > 0 {
        parts.push(format!("{stopped_at_hop_limit} resubmitted {MAX_HOPS} times before and kept"));
    }
    if *missed > 0 {
        parts.push(format!("{missed} locked by other receivers or gone"));
    }
    let end_text = if *end == RunOutcome::Done { String::new() } else { format!("; {end}") };
    let text = format!("{matching} matching: {}{end_text}", parts.join(", "));
    out.line(text)?;
    for failure in &failures {
        let (number, error) = (&failure["sequence_number"], failure["error"].as_str().unwrap_or_default());
        out.line(format_args!("  #{number}: {}", Escaped(error)))?;
    }
    out.object(&json!({
        "matching": matching,
        "resubmitted": resubmitted,
        "purged": purged,
        "skipped": skipped,
        "at_hop_limit": stopped_at_hop_limit,
        "missed": missed,
        "failures": failures,
        "end": end.to_string(),
        "guarantee": guarantee.map(code),
    }))?;
    if let Some(error) = failed {
        return Err(Failure::of_kind(error.kind(), error).after(resubmitted + purged));
    }
    if *end == RunOutcome::Done && failures.is_empty() && *stopped_at_hop_limit == 0 && *missed == 0 {
        return Ok(());
    }
    Err(Failure::new(Exit::Partly, "Partly", "some dead letters remain"))
}

/// The word for a guarantee.
fn code(guarantee: ResubmitGuarantee) -> &'static str {
    match guarantee {
        ResubmitGuarantee::Transaction => "transaction",
        ResubmitGuarantee::SameMessageId => "same-message-id",
        _ => "same-first-id",
    }
}

/// Prints what a run would do, and changes nothing.
async fn dry_run(
    transport: &DynTransport,
    source: &Source,
    what: &'static str,
    out: &mut Output,
    change: &(dyn Fn(&Message) -> Result<(), tower::BoxError> + Sync),
) -> Result<(), Failure> {
    let (mut count, mut refused, mut at_limit) = (0_u64, 0_u64, 0_u64);
    let filter = source.filter.filter();
    let listed = all(transport, source, &filter, &mut |letter| {
        let hops = if what == "purge" { 0 } else { letter.resubmit_count() };
        let error = change(letter.message()).err().map(|error| error.to_string());
        let (would, kept) = match error {
            _ if hops >= MAX_HOPS => {
                at_limit += 1;
                ("keep", Some(format!("it was resubmitted {MAX_HOPS} times before")))
            }
            Some(error) => {
                refused += 1;
                ("keep", Some(error))
            }
            None => {
                count += 1;
                (what, None)
            }
        };
        out.object(&json!({
            "sequence_number": letter.sequence_number().get(),
            "message_id": letter.message().message_id(),
            "reason": letter.reason(),
            "would": would,
            "error": kept,
        }))?;
        if count + refused + at_limit > PRINTED {
            return Ok(());
        }
        let outcome = kept.map_or_else(|| format!("would {what}"), |error| format!("kept: {}", Escaped(&error)));
        out.line(format_args!("#{} {}: {outcome}", letter.sequence_number(), shown(&letter)))
    })
    .await?;
    let printed = count + refused + at_limit;
    if printed > PRINTED {
        out.line(format_args!("… and {} more", printed - PRINTED))?;
    }
    let object = json!({
        "dry_run": true,
        format!("would_{what}"): count,
        "would_fail": refused,
        "at_hop_limit": at_limit,
    });
    out.either(
        format_args!("dry run: would {what} {count}, keep {}; do it with --apply", refused + at_limit),
        &object,
    )?;
    listed.check()
}

fn shown(letter: &Explained) -> String {
    let reason = Escaped(letter.reason().unwrap_or("(no reason)")).to_string();
    match letter.message().message_id() {
        Some(id) => format!("{reason}, id {}", Escaped(id)),
        None => reason,
    }
}
