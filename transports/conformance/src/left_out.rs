use std::{
    collections::HashSet,
    env,
    io::{self, Write as _},
    sync::{Mutex, PoisonError},
};

/// The environment variable under which [`left_out`] panics.
const NOTHING: &str = "CONSIGN_LEAVE_NOTHING_OUT";

/// Reports that a test, or a part of one, does not run because something is missing, such as a server.
///
/// Each text is written to the standard error once per process, past the output capture of the test harness, so that
/// `cargo test` shows it.
///
/// # Panics
///
/// If the environment variable `CONSIGN_LEAVE_NOTHING_OUT` is set. A run that has to be complete sets it.
pub fn left_out(what: &str) {
    static REPORTED: Mutex<Option<HashSet<String>>> = Mutex::new(None);

    assert!(env::var_os(NOTHING).is_none(), "{NOTHING} is set, and this was left out: {what}");
    let mut reported = REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
    if reported.get_or_insert_default().insert(what.to_owned()) {
        // A standard error that is closed leaves nowhere to report to.
        let _ = writeln!(io::stderr(), "LEFT OUT: {what}");
    }
}
