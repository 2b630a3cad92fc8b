//! How a log is read when a store is opened.
//!
//! The head names the segments and where each of them ends, so that damage there is damage. Only after the end of the last
//! one, frames may follow that the head does not count, and the last of them may be incomplete. Where the next frame is
//! not good, the power was lost while it was written, or the disk has changed it. Each header reports the last commit that
//! was on the disk when it was written. If a header further on reports this frame as on the disk, it is damaged. Otherwise
//! no later commit was acknowledged, and the log ends here.

use std::sync::Arc;

use crate::sabotage::Defect;

use super::{
    super::StorageError,
    blocks::{Blocks, read_and_apply},
    damage::{at, damaged},
    entry::Malformed,
    frames::Frames,
    head::{Extent, Head},
    state::State,
};

/// Applies the records of all segments of the head, which the state has. Moves the end of the last one behind its last
/// frame.
pub(super) fn scan(state: &mut State, head: &Head, has_thread: bool) -> Result<(), StorageError> {
    let extents = head.segments.iter();
    let segments: Vec<_> =
        extents.filter_map(|extent| Some((extent, frames(state, head.store, extent.number)?))).collect();
    read_and_apply(
        has_thread,
        |blocks| read(&segments, blocks),
        |(number, offset), records| apply(state, number, offset, records),
    )?;
    match head.segments.last() {
        Some(last) if head.records.is_none() => scan_tail(state, head, last.number),
        _ => Ok(()),
    }
}

/// Reads the records of each frame, with the number of their segment and their offset in it.
fn read(segments: &[(&Extent, Frames)], blocks: &mut Blocks<'_, (u32, u32)>) -> Result<(), StorageError> {
    for (extent, frames) in segments {
        let (mut offset, mut commit) = (0, extent.first);
        while offset < extent.end {
            let found = frames.read(offset, blocks.bytes())?;
            let found = found.map_err(|what| damaged(at(extent.number, offset, what)))?;
            if found.header.commit != commit {
                return Err(damaged(at(extent.number, offset, "a commit is missing")));
            }
            if !blocks.end_piece((extent.number, found.records)) {
                return Ok(());
            }
            (offset, commit) = (found.end, commit + 1);
        }
        if (offset, commit) != (extent.end, extent.next) {
            return Err(damaged(at(extent.number, offset, "it does not end where it should")));
        }
    }
    Ok(())
}

/// Applies the frames that were written since the head was.
fn scan_tail(state: &mut State, head: &Head, number: u32) -> Result<(), StorageError> {
    let Some(frames) = frames(state, head.store, number) else { return Ok(()) };
    let Some((mut end, mut next)) = state.segments.get(&number).map(|last| (last.end, last.next)) else {
        return Ok(());
    };
    let mut records = Vec::new();
    while let Ok(found) = frames.read(end, &mut records)? {
        if found.header.commit != next || found.header.epoch != head.epoch {
            break;
        }
        apply(state, number, found.records, &records)?;
        records.clear();
        (end, next) = (found.end, next + 1);
    }
    if !Defect::TruncateAtDamage.is_there()
        && let Some((offset, _)) = frames.find(end, |header| header.epoch == head.epoch && header.synced >= next)?
    {
        let what = format!("a frame is damaged that was on the disk, as offset {offset} reports");
        return Err(damaged(at(number, end, &what)));
    }
    if let Some(last) = state.segments.get_mut(&number) {
        (last.end, last.next) = (end, next);
    }
    Ok(())
}

fn frames(state: &State, store: u64, number: u32) -> Option<Frames> {
    let segment = state.segments.get(&number)?;
    Some(Frames { file: Arc::clone(&segment.file), store, segment: number, size: segment.size })
}

fn apply(state: &mut State, segment: u32, offset: u32, records: &[u8]) -> Result<(), StorageError> {
    let malformed = |Malformed { offset }| damaged(at(segment, offset, "a record is malformed"));
    state.apply(segment, offset, records).map_err(malformed)
}
