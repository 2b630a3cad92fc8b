use std::{error, fmt};

/// The name of the table of ids, and its definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The schema, quoted and with its dot, or nothing.
    schema: String,
    name: String,
}

impl Table {
    /// The name of the default table.
    pub const DEFAULT: &str = "consign_handled";

    /// The longest part of a name in bytes. PostgreSQL's own limit is 63, and other names are made from it.
    pub const LONGEST: usize = 56;

    /// Parses the name of a table, alone or after that of its schema and a dot. Each of the two has 1 to 56 ASCII letters,
    /// digits and `_`, does not begin with a digit, and keeps its case. A name alone is found by the `search_path` of the
    /// connection. So name the schema if the handlers' connections may have another one.
    pub fn new(name: &str) -> Result<Self, InvalidTable> {
        let (schema, name) = name.split_once('.').map_or((None, name), |(schema, name)| (Some(schema), name));
        if is_name(name) && schema.is_none_or(is_name) {
            let schema = schema.map_or_else(String::new, |schema| format!("\"{schema}\"."));
            Ok(Self { schema, name: name.to_owned() })
        } else {
            Err(InvalidTable(()))
        }
    }

    /// Returns the statements that create the table if it is missing, and otherwise do nothing: for a migration of your own.
    /// [`Builder::create_table`](crate::Builder::create_table) runs them.
    ///
    /// They create a second table, `NAME_secret`, with the secret of the digests in its one row. They lock the table even if it
    /// exists: they wait for each transaction that has committed an id in it, and later ones wait for them.
    #[must_use]
    pub fn sql(&self) -> String {
        let (table, secret, name) = (self.quoted(), self.quoted_secret(), &self.name);
        format!(
            "\
CREATE TABLE IF NOT EXISTS {table} (
    digest uuid PRIMARY KEY,
    holder bigint, -- of the reservation; null when the id is committed
    until timestamptz NOT NULL -- the end of the lease, or of the window
);
CREATE INDEX IF NOT EXISTS \"{name}_until\" ON {table} (until);
CREATE TABLE IF NOT EXISTS {secret} (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    secret uuid NOT NULL DEFAULT gen_random_uuid()
);
INSERT INTO {secret} DEFAULT VALUES ON CONFLICT DO NOTHING;
"
        )
    }

    pub(crate) fn quoted(&self) -> String {
        format!("{}\"{}\"", self.schema, self.name)
    }

    pub(crate) fn quoted_secret(&self) -> String {
        format!("{}\"{}_secret\"", self.schema, self.name)
    }

    pub(crate) fn quoted_index(&self) -> String {
        format!("{}\"{}_until\"", self.schema, self.name)
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
            "a table's name is 1 to {} letters, digits and _, behind its schema's and a dot or alone",
            Table::LONGEST
        )
    }
}

impl error::Error for InvalidTable {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_of_letters_and_may_have_a_schema() {
        let longest = "x".repeat(Table::LONGEST);
        for (name, quoted) in [
            (Table::DEFAULT, r#""consign_handled""#),
            ("shop.Handled_2", r#""shop"."Handled_2""#),
            ("_a._b", r#""_a"."_b""#),
            (&longest, &format!("\"{longest}\"")),
        ] {
            assert_eq!(Table::new(name).unwrap().quoted(), quoted);
        }
        for name in ["", ".", "a.", ".a", "a.b.c", "2a", "a b", "a\"b", "a;b", "é", &format!("{longest}x")] {
            assert!(Table::new(name).is_err(), "{name}");
        }
    }
}
