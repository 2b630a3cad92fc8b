mod application;
mod ledger;
mod pair;
mod peer;
mod reader;

use crate::source::Source;

/// Runs an engine with a peer that the bytes describe, or two engines with each other if the first bit of the first byte is set.
///
/// # Panics
/// An engine panics, exceeds a limit, writes what cannot be read, or settles a delivery twice; of two engines also if a delivery is
/// lost.
pub fn engine(data: &[u8]) {
    let mut source = Source::new(data);
    let mode = source.byte();
    if mode >= 0x80 { pair::run(source) } else { application::run(mode, source) }
}
