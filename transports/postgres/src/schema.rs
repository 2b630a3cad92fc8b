//! The tables and functions, by version.

use std::time::Duration;

use consign_core::transport::{ErrorKind, ManageError};
use tokio_postgres::types::Type;

use crate::{
    database::{Database, within},
    failure::Failure,
};

/// The versions in their order. A released version is never changed; a change is another version.
const VERSIONS: [&str; 6] = [VERSION_1, VERSION_2, VERSION_3, VERSION_4, VERSION_5, VERSION_6];

const VERSION_1: &str = concat!(
    include_str!("../schema/1/tables.sql"),
    include_str!("../schema/1/due.sql"),
    include_str!("../schema/1/send.sql"),
    include_str!("../schema/1/receive.sql"),
    include_str!("../schema/1/settle.sql"),
    include_str!("../schema/1/manage.sql"),
    include_str!("../schema/1/sessions.sql"),
    include_str!("../schema/1/upkeep.sql"),
);

const VERSION_2: &str = concat!(include_str!("../schema/2/reply_queues.sql"), include_str!("../schema/2/clients.sql"));

const VERSION_3: &str = concat!(
    include_str!("../schema/3/tables.sql"),
    include_str!("../schema/3/due.sql"),
    include_str!("../schema/3/send.sql"),
    include_str!("../schema/3/receive.sql"),
    include_str!("../schema/3/settle.sql"),
    include_str!("../schema/3/upkeep.sql"),
    include_str!("../schema/3/clients.sql"),
);

const VERSION_4: &str = concat!(
    include_str!("../schema/4/tables.sql"),
    include_str!("../schema/4/due.sql"),
    include_str!("../schema/4/send.sql"),
    include_str!("../schema/4/receive.sql"),
    include_str!("../schema/4/settle.sql"),
    include_str!("../schema/4/upkeep.sql"),
    include_str!("../schema/4/clients.sql"),
);

const VERSION_5: &str = concat!(
    include_str!("../schema/5/receive.sql"),
    include_str!("../schema/5/due.sql"),
    include_str!("../schema/5/settle.sql"),
    include_str!("../schema/5/upkeep.sql"),
    include_str!("../schema/5/sessions.sql"),
);

const VERSION_6: &str = concat!(
    include_str!("../schema/6/tables.sql"),
    include_str!("../schema/6/due.sql"),
    include_str!("../schema/6/upkeep.sql"),
);

/// How long a migration may take, including the wait for another one.
const LONGEST: Duration = Duration::from_secs(60);

/// The name of a schema, quoted.
#[derive(Clone, Debug)]
pub(crate) struct Schema {
    pub(crate) identifier: String,
    pub(crate) literal: String,
    /// The channel of its notifications, quoted.
    pub(crate) channel: String,
    pub(crate) channel_literal: String,
}

impl Schema {
    pub(crate) fn new(name: &str) -> Self {
        let identifier = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let literal = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let channel = format!("consign {name}");
        Self {
            identifier: identifier(name),
            literal: literal(name),
            channel: identifier(&channel),
            channel_literal: literal(&channel),
        }
    }

    fn fill(&self, sql: &str) -> String {
        sql.replace("{s}", &self.identifier).replace("{l}", &self.literal)
    }

    /// Returns whether the schema has the newest version.
    async fn is_newest(&self, database: &Database) -> Result<bool, Failure> {
        let table = format!("{}.version", self.identifier);
        let exists = database.row("SELECT to_regclass($1) IS NOT NULL", &[(&table, Type::TEXT)]).await?;
        if !exists.map(|row| row.try_get(0)).transpose()?.unwrap_or(false) {
            return Ok(false);
        }
        let version = database.row(&self.fill("SELECT max(version) FROM {s}.version"), &[]).await?;
        let version: Option<i32> = version.map(|row| row.try_get(0)).transpose()?.flatten();
        Ok(version.is_some_and(|version| usize::try_from(version) == Ok(VERSIONS.len())))
    }

    /// Brings the schema to the newest version, in one transaction. One that is up to date is not written to.
    pub(crate) async fn migrate(&self, database: &Database) -> Result<(), ManageError> {
        if self.is_newest(database).await? {
            return Ok(());
        }
        // Of several concurrent migrations the others wait.
        let begin = format!(
            "SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0; SET LOCAL client_min_messages = warning;
            SELECT pg_advisory_xact_lock(hashtext('consign'), hashtext({}));",
            self.literal
        );
        let table = self.fill(
            "CREATE SCHEMA IF NOT EXISTS {s};
            CREATE TABLE IF NOT EXISTS {s}.version (version integer NOT NULL);",
        );
        let newest = i32::try_from(VERSIONS.len()).unwrap_or(i32::MAX);
        let mut client = database.client().await?;
        let migrating = async {
            let transaction = client.transaction().await?;
            transaction.batch_execute(&begin).await?;
            let encoding = transaction.query_one("SELECT current_setting('server_encoding')", &[]).await?;
            if encoding.try_get::<_, &str>(0)? != "UTF8" {
                let refused = ManageError::new(ErrorKind::NotSupported);
                return Ok(Err(refused.with_detail("the encoding of the database is not UTF8")));
            }
            transaction.batch_execute(&table).await?;
            let version = self.fill("SELECT coalesce(max(version), 0) FROM {s}.version");
            let version: i32 = transaction.query_one(&version, &[]).await?.try_get(0)?;
            if version > newest {
                let detail = format!("the schema has version {version}, and this library knows {newest}");
                return Ok(Err(ManageError::new(ErrorKind::NotSupported).with_detail(detail)));
            }
            for (sql, number) in VERSIONS.iter().zip(1..).skip(usize::try_from(version).unwrap_or(0)) {
                transaction.batch_execute(&self.fill(sql)).await?;
                let done = self.fill("INSERT INTO {s}.version (version) VALUES ($1)");
                transaction.execute(&done, &[&number]).await?;
            }
            transaction.commit().await?;
            Ok(Ok(()))
        };
        let migrated: Result<Result<(), ManageError>, Failure> = within(database.timeout.max(LONGEST), migrating).await;
        if migrated.as_ref().is_err_and(Failure::is_of_connection) {
            // Its transaction ends with it.
            database.give_up(client, matches!(migrated, Err(Failure::TooLate(_))));
        }
        migrated?
    }
}
