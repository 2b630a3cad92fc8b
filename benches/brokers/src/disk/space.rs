//! What the system says of the disk.

use std::path::Path;

use crate::contestant::{Error, Unexpected};

/// What a run of all contestants takes at most.
const NEEDED: u64 = 8 << 30;

/// Fails if a run may fill the disk: a full disk slows every contestant down before it stops one.
pub(crate) fn check(folder: &Path) -> Result<(), Error> {
    let disk = rustix::fs::statvfs(folder)?;
    if disk.f_bavail.saturating_mul(disk.f_frsize) < NEEDED {
        return Err(Unexpected("there are less than 8 GiB of free disk").into());
    }
    Ok(())
}

/// Bytes that this process has made the system write to disks. `None` where the system does not count them.
///
/// The system counts what becomes dirty in its cache, in units of that cache. Where a file was filled by large writes such
/// a unit may have 1 MiB, of which only the changed blocks are written: the figure of a file that is written again is an
/// upper bound then.
pub(crate) fn written() -> Option<u64> {
    let counters = std::fs::read_to_string("/proc/self/io").ok()?;
    counters.lines().find_map(|line| line.strip_prefix("write_bytes: ")?.trim().parse().ok())
}
