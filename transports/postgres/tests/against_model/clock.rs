//! A database whose time passes when the test says so.

use consign_postgres::Postgres;

use crate::server::Schema;

pub(crate) const START: i64 = 1_700_000_000_000;

pub(crate) async fn install(postgres: &Postgres, schema: &Schema) {
    let sql = format!(
        "CREATE TABLE {schema}.clock (at timestamptz NOT NULL);
        INSERT INTO {schema}.clock VALUES (to_timestamp({START} / 1000.0));
        CREATE OR REPLACE FUNCTION {schema}.now() RETURNS timestamptz LANGUAGE sql VOLATILE
        AS 'SELECT at FROM {schema}.clock'"
    );
    run(postgres, &sql).await;
}

pub(crate) async fn advance(postgres: &Postgres, schema: &Schema, millis: u64) {
    run(postgres, &format!("UPDATE {schema}.clock SET at = at + {millis} * interval '1 millisecond'")).await;
}

async fn run(postgres: &Postgres, sql: &str) {
    postgres.pool().get().await.unwrap().batch_execute(sql).await.unwrap();
}
