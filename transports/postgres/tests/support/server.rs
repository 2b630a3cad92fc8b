//! The PostgreSQL of the tests.

use consign_postgres::{
    Postgres,
    tokio_postgres::{NoTls, error::SqlState},
};

const DEFAULT: &str = "postgresql://consign_test:consign_test@127.0.0.1:5432/consign_test";

/// Where it is. `None` if it is not there and nobody said that it is.
pub(crate) async fn url() -> Option<String> {
    if let Ok(url) = std::env::var("CONSIGN_POSTGRES") {
        return Some(url);
    }
    match consign_postgres::tokio_postgres::connect(DEFAULT, NoTls).await {
        Ok(_) => Some(DEFAULT.to_owned()),
        Err(error) => {
            println!("LEFT OUT: no PostgreSQL at {DEFAULT} ({error}); scripts/brokers starts one");
            None
        }
    }
}

/// The name of a schema that no other test has.
pub(crate) fn schema() -> String {
    format!("consign_test_{:016x}", fastrand::u64(..))
}

/// Brokers go on sweeping meanwhile. PostgreSQL ends one of two that wait for each other, and it may be this one.
pub(crate) async fn drop_schema(postgres: &Postgres, schema: &str) {
    let client = postgres.pool().get().await.unwrap();
    let drop = format!("SET lock_timeout = '30s'; DROP SCHEMA {schema} CASCADE");
    while let Err(error) = client.batch_execute(&drop).await {
        assert_eq!(error.code(), Some(&SqlState::T_R_DEADLOCK_DETECTED), "{error}");
    }
}
