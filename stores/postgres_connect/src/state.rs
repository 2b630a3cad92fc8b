//! What an error of the server says about its connection.

use tokio_postgres::error::{DbError, Severity, SqlState};

/// Returns whether the server has ended the connection with this error, or refuses it for now.
#[must_use]
pub fn ends_connection(error: &DbError) -> bool {
    let state = error.code();
    let ends = [
        // The server is no longer the primary: another connection may lead to that.
        &SqlState::READ_ONLY_SQL_TRANSACTION,
        &SqlState::ADMIN_SHUTDOWN,
        &SqlState::CRASH_SHUTDOWN,
        &SqlState::CANNOT_CONNECT_NOW,
        &SqlState::IDLE_SESSION_TIMEOUT,
        &SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
    ];
    // The server refuses a user, a database, a right or an option of the configuration in the same way.
    let is_refused = ["0A", "22", "28", "3D", "42"].iter().any(|class| state.code().starts_with(class));
    let is_fatal = matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic)) && !is_refused;
    is_fatal || ends.contains(&state) || state.code().starts_with("08")
}
