use std::time::Duration;

use consign::{rpc::RecordedReply, time::Timestamp};
use redb::{Database, ReadableDatabase, ReadableTable, Table, TableDefinition, TableError, WriteTransaction};

/// Until when each reply is kept, in milliseconds of UTC, and its bytes.
const REPLIES: TableDefinition<u128, (i64, &[u8])> = TableDefinition::new("replies");
/// The same in the order of time, and how many bytes each counts for.
const ORDER: TableDefinition<(i64, u128), u64> = TableDefinition::new("reply_order");
/// The total bytes of all replies.
const TOTAL: TableDefinition<(), u64> = TableDefinition::new("reply_bytes");

/// How many replies are kept, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) window: Duration,
    pub(crate) max_bytes: u64,
}

/// A reply that is to be kept from an instant on.
pub(crate) struct NewReply {
    pub(crate) digest: u128,
    pub(crate) now: Timestamp,
    pub(crate) bytes: Vec<u8>,
}

/// The tables of replies while they are written.
struct Tables<'t> {
    replies: Table<'t, u128, (i64, &'static [u8])>,
    order: Table<'t, (i64, u128), u64>,
    total: u64,
}

/// The overhead of a reply: its key, its time, and its place in the order, twice.
const AROUND: u64 = 64;

/// Adds replies. Expired ones are removed first, and then the oldest, until the new ones fit.
pub(crate) fn write<'r>(
    transaction: &WriteTransaction,
    bounds: Bounds,
    replies: impl ExactSizeIterator<Item = &'r NewReply>,
) -> Result<(), redb::Error> {
    if replies.len() == 0 {
        return Ok(());
    }
    let mut totals = transaction.open_table(TOTAL)?;
    let total = totals.get(())?.map_or(0, |total| total.value());
    let mut tables = Tables { replies: transaction.open_table(REPLIES)?, order: transaction.open_table(ORDER)?, total };
    for reply in replies {
        tables.add(reply, bounds)?;
    }
    totals.insert((), tables.total)?;
    Ok(())
}

impl Tables<'_> {
    fn add(&mut self, reply: &NewReply, bounds: Bounds) -> Result<(), redb::Error> {
        let now = reply.now.as_millis();
        self.remove(reply.digest)?;
        let size = u64::try_from(reply.bytes.len()).unwrap_or(u64::MAX).saturating_add(AROUND);
        if size > bounds.max_bytes {
            return Ok(());
        }
        loop {
            let oldest = self.order.first()?.map(|(key, _)| key.value());
            let is_too_much = |until| until <= now || self.total.saturating_add(size) > bounds.max_bytes;
            let Some((_, digest)) = oldest.filter(|&(until, _)| is_too_much(until)) else { break };
            self.remove(digest)?;
        }
        let until = reply.now.saturating_add(bounds.window).as_millis();
        self.replies.insert(reply.digest, (until, &*reply.bytes))?;
        self.order.insert((until, reply.digest), size)?;
        self.total += size;
        Ok(())
    }

    fn remove(&mut self, digest: u128) -> Result<(), redb::Error> {
        let Some(until) = self.replies.remove(digest)?.map(|found| found.value().0) else { return Ok(()) };
        if let Some(size) = self.order.remove((until, digest))? {
            self.total -= size.value();
        }
        Ok(())
    }
}

/// Returns the stored reply, unless it has expired. `None` for a reply in a form of another version.
pub(crate) fn find(database: &Database, digest: u128, now: Timestamp) -> Result<Option<RecordedReply>, redb::Error> {
    let replies = match database.begin_read()?.open_table(REPLIES) {
        Ok(replies) => replies,
        // No reply was stored yet.
        Err(TableError::TableDoesNotExist(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let found = replies.get(digest)?;
    let lasting = found.as_ref().map(redb::AccessGuard::value).filter(|(until, _)| *until > now.as_millis());
    Ok(lasting.and_then(|(_, bytes)| RecordedReply::from_bytes(bytes)))
}
