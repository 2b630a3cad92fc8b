use std::{error, fmt};

/// The name of the table of an outbox, and its definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The schema, quoted and with its dot, or nothing.
    schema: String,
    name: String,
}

impl Table {
    /// The name of the default table.
    pub const DEFAULT: &str = "consign_outbox";

    /// The longest part of a name in bytes. PostgreSQL's own limit is 63, and other names are made from it.
    pub const LONGEST: usize = 52;

    /// The version of the definition.
    pub const VERSION: i32 = 2;

    /// The SQLSTATE of a table that the statements do not change.
    pub(crate) const OTHER_VERSION: &str = "OUTBX";

    /// Parses the name of a table, alone or after that of its schema and a dot. Each of the two has 1 to 52 ASCII letters,
    /// digits and `_`, does not begin with a digit, and keeps its case. A name alone is found by the `search_path` of the
    /// connection: name the schema if the connection of the relay may have another one.
    ///
    /// # Errors
    ///
    /// [`InvalidTable`] for another name.
    pub fn new(name: &str) -> Result<Self, InvalidTable> {
        let (schema, name) = name.split_once('.').map_or((None, name), |(schema, name)| (Some(schema), name));
        if is_name(name) && schema.is_none_or(is_name) {
            let schema = schema.map_or_else(String::new, |schema| format!("\"{schema}\"."));
            Ok(Self { schema, name: name.to_owned() })
        } else {
            Err(InvalidTable(()))
        }
    }

    /// Returns the statements that create the table if it is missing, and change one of version 1: for a migration of your own.
    /// [`Outbox::create_table`](crate::Outbox::create_table) runs them.
    ///
    /// They create a second table, `NAME_version`, with the version of the definition in its one row. They do not create the
    /// schema. The first one is a `DO` block that raises an error if the table has a later version, or the encoding of the database
    /// is not UTF8. Run them in one transaction, or stop at the first error.
    #[must_use]
    pub fn sql(&self) -> String {
        let (table, version, name) = (self.quoted(), self.quoted_version(), &self.name);
        format!(
            "\
DO $$BEGIN
    IF current_setting('server_encoding') <> 'UTF8' THEN
        RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = 'the encoding of the database is not UTF8';
    END IF;
    IF to_regclass('{version}') IS NOT NULL THEN
        IF EXISTS (SELECT FROM {version} WHERE version NOT BETWEEN 1 AND {0}) THEN
            RAISE EXCEPTION USING ERRCODE = '{1}', MESSAGE = 'the table {table} has version '
                || (SELECT max(version) FROM {version}) || ', and these statements are those of version {0}';
        END IF;
    END IF;
END$$;
CREATE TABLE IF NOT EXISTS {table} (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    destination text NOT NULL,
    session text, -- the order of a destination is kept for each of its sessions
    message_id text NOT NULL,
    message bytea NOT NULL, -- an encoded message of AMQP 1.0
    added timestamptz NOT NULL DEFAULT clock_timestamp(),
    attempts integer NOT NULL DEFAULT 0, -- failed sends
    error text, -- of the last failed send
    refused timestamptz -- when the send failed for good; null while the message waits
);
CREATE INDEX IF NOT EXISTS \"{name}_waiting\" ON {table} (id) WHERE refused IS NULL;
CREATE INDEX IF NOT EXISTS \"{name}_groups\" ON {table}
    (destination COLLATE \"C\", coalesce('s' || session, 'n') COLLATE \"C\", id) WHERE refused IS NULL;
CREATE INDEX IF NOT EXISTS \"{name}_refused\" ON {table} (id) WHERE refused IS NOT NULL;
CREATE TABLE IF NOT EXISTS {version} (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    version integer NOT NULL
);
INSERT INTO {version} (version) VALUES ({0}) ON CONFLICT DO NOTHING;
UPDATE {version} SET version = {0} WHERE version = 1; -- which had other indexes
",
            Self::VERSION,
            Self::OTHER_VERSION
        )
    }

    pub(crate) fn quoted(&self) -> String {
        format!("{}\"{}\"", self.schema, self.name)
    }

    pub(crate) fn quoted_version(&self) -> String {
        format!("{}\"{}_version\"", self.schema, self.name)
    }
}

fn is_name(part: &str) -> bool {
    part.len() <= Table::LONGEST
        && part.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

impl Default for Table {
    fn default() -> Self {
        Self { schema: String::new(), name: Self::DEFAULT.to_owned() }
    }
}

/// A name that [`Table::new`] refuses.
#[derive(Debug)]
pub struct InvalidTable(());

impl fmt::Display for InvalidTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the name of a table is 1 to {} letters, digits and _, alone or after its schema and a dot",
            Table::LONGEST
        )
    }
}

impl error::Error for InvalidTable {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_letters_and_may_have_a_schema() {
        let longest = "x".repeat(Table::LONGEST);
        for (name, quoted) in [
            (Table::DEFAULT, r#""consign_outbox""#),
            ("shop.Outbox_2", r#""shop"."Outbox_2""#),
            (&longest, &format!("\"{longest}\"")),
        ] {
            assert_eq!(Table::new(name).unwrap().quoted(), quoted);
        }
        for name in ["", ".", "a.", ".a", "a.b.c", "2a", "a b", "a\"b", "a;b", "é", &format!("{longest}x")] {
            assert!(Table::new(name).is_err(), "{name}");
        }
    }
}
