use rusqlite::Connection;

use crate::contestant::{Contestant, Entered, Place, Step, Unexpected, body};

/// A table of SQLite as a queue: one transaction a window. Locks are in memory only, as ours are.
struct Sqlite {
    connection: Connection,
    body: Vec<u8>,
    sent: i64,
    /// The last message that was received.
    received: i64,
}

pub(crate) fn enter(place: Place<'_>) -> Step<'_, Entered> {
    Box::pin(async move {
        std::fs::create_dir_all(place.folder)?;
        let connection = Connection::open(place.folder.join("sqlite"))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.execute_batch("CREATE TABLE queue (id INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT")?;
        let synchronous: i64 = connection.query_row("PRAGMA synchronous", [], |row| row.get(0))?;
        let journal: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
        let settings = format!("SQLite {}, {journal}, synchronous = {synchronous} (FULL)", rusqlite::version());
        Ok(Entered { contestant: Box::new(Sqlite { connection, body: body(), sent: 0, received: 0 }), settings })
    })
}

impl Contestant for Sqlite {
    fn send(&mut self, window: usize) -> Step<'_> {
        Box::pin(async move {
            let transaction = self.connection.transaction()?;
            let mut insert = transaction.prepare_cached("INSERT INTO queue (id, body) VALUES (?1, ?2)")?;
            for _ in 0..window {
                self.sent += 1;
                insert.execute((self.sent, &self.body))?;
            }
            drop(insert);
            Ok(transaction.commit()?)
        })
    }

    fn take(&mut self, window: usize) -> Step<'_> {
        Box::pin(async move {
            let sql = "SELECT id, body FROM queue WHERE id > ?1 ORDER BY id LIMIT ?2";
            let mut select = self.connection.prepare_cached(sql)?;
            let rows =
                select.query_map((self.received, i64::try_from(window)?), |row| Ok((row.get(0)?, row.get(1)?)))?;
            let received = rows.collect::<Result<Vec<(i64, Vec<u8>)>, _>>()?;
            drop(select);
            if received.len() != window {
                return Err(Unexpected("a message is missing").into());
            }
            let transaction = self.connection.transaction()?;
            let mut delete = transaction.prepare_cached("DELETE FROM queue WHERE id = ?1")?;
            for (id, _) in &received {
                delete.execute([id])?;
            }
            drop(delete);
            transaction.commit()?;
            self.received = received.last().map_or(self.received, |(id, _)| *id);
            Ok(())
        })
    }
}
