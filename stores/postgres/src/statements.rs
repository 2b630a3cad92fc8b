use crate::Table;

/// The statements for one table. Durations are parameters in microseconds.
///
/// A row is locked before it is changed, so that of two transactions for one id the second sees the result of the first.
pub(crate) struct Statements {
    /// The table of the ids.
    pub(crate) table: String,
    /// Digest, holder, lease: whether this holder has reserved the id; otherwise whether the id is committed, and how many
    /// seconds are left.
    pub(crate) begin: String,
    /// Digest, holder, window: whether the id is committed; whether another holder has it.
    pub(crate) commit: String,
    /// Digest, window: changes a row if the id was not committed.
    pub(crate) commit_in: String,
    /// Digest, holder, lease: whether no other holder has reserved the id.
    pub(crate) renew: String,
    /// Digest, holder.
    pub(crate) forget: String,
    /// A maximum of rows.
    pub(crate) clean: String,
    pub(crate) secret: String,
}

impl Statements {
    pub(crate) fn new(table: &Table) -> Self {
        let (ids, secret) = (table.quoted(), table.quoted_secret());
        Self {
            // An expired row is taken unless a transaction has it locked: its handler is at work, whatever its lease says, and
            // waiting for it would block a connection.
            begin: format!(
                "\
WITH seen AS (
    SELECT holder, until - clock_timestamp() AS rest FROM {ids} WHERE digest = $1 AND until > clock_timestamp()
), free AS (
    SELECT digest FROM {ids} WHERE digest = $1 AND until <= clock_timestamp() FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE {ids} AS ids SET holder = $2, until = clock_timestamp() + $3::bigint * interval '1 microsecond'
    FROM free WHERE ids.digest = free.digest RETURNING 1
), added AS (
    INSERT INTO {ids} (digest, holder, until)
    SELECT $1, $2, clock_timestamp() + $3::bigint * interval '1 microsecond'
    WHERE NOT EXISTS (SELECT FROM {ids} WHERE digest = $1)
    ON CONFLICT DO NOTHING RETURNING 1
)
SELECT
    EXISTS (SELECT FROM taken) OR EXISTS (SELECT FROM added) OR EXISTS (SELECT FROM seen WHERE holder = $2),
    EXISTS (SELECT FROM seen WHERE holder IS NULL),
    coalesce((SELECT extract(epoch FROM rest)::float8 FROM seen), 0)"
            ),
            // Nothing is written if the handler's own transaction has committed.
            commit: format!(
                "\
WITH seen AS (
    SELECT holder FROM {ids} WHERE digest = $1 AND (holder IS NOT NULL OR until > clock_timestamp())
), written AS (
    INSERT INTO {ids} AS ids (digest, holder, until)
    SELECT $1, NULL, clock_timestamp() + $3::bigint * interval '1 microsecond'
    WHERE NOT EXISTS (SELECT FROM seen WHERE holder IS DISTINCT FROM $2)
    ON CONFLICT (digest) DO UPDATE SET holder = NULL, until = excluded.until
    WHERE ids.holder = $2 OR ids.holder IS NULL AND ids.until <= clock_timestamp()
    RETURNING 1
)
SELECT
    EXISTS (SELECT FROM written) OR EXISTS (SELECT FROM seen WHERE holder IS NULL),
    EXISTS (SELECT FROM seen WHERE holder <> $2)"
            ),
            commit_in: format!(
                "\
INSERT INTO {ids} AS ids (digest, holder, until)
VALUES ($1, NULL, clock_timestamp() + $2::bigint * interval '1 microsecond')
ON CONFLICT (digest) DO UPDATE SET holder = NULL, until = excluded.until
WHERE ids.holder IS NOT NULL OR ids.until <= clock_timestamp()"
            ),
            // A transaction that has the row locked is that of the handler. Waiting for it would block a connection.
            renew: format!(
                "\
WITH mine AS (
    SELECT digest FROM {ids} WHERE digest = $1 AND holder = $2 FOR UPDATE SKIP LOCKED
), renewed AS (
    UPDATE {ids} AS ids SET until = clock_timestamp() + $3::bigint * interval '1 microsecond'
    FROM mine WHERE ids.digest = mine.digest RETURNING 1
)
SELECT
    EXISTS (SELECT FROM renewed)
    OR EXISTS (SELECT FROM {ids} WHERE digest = $1 AND (holder = $2 OR holder IS NULL))"
            ),
            forget: format!("DELETE FROM {ids} WHERE digest = $1 AND holder = $2"),
            // The array is made once; a subquery may be run again for each row, limit and all.
            clean: format!(
                "\
DELETE FROM {ids} WHERE digest = ANY (ARRAY(
    SELECT digest FROM {ids} WHERE until <= statement_timestamp() ORDER BY until LIMIT $1 FOR UPDATE SKIP LOCKED
))"
            ),
            secret: format!("SELECT secret FROM {secret}"),
            table: ids,
        }
    }
}
