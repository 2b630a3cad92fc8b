//! What must not compile, and what the compiler says then.
//!
//! After a change of the texts: `TRYBUILD=overwrite cargo test -p compile-fail`, and read them as a
//! user would. This also writes the table of `docs/compile-errors.md` again.

mod page;

use std::{
    env,
    io::{self, Write as _},
    process::Command,
};

/// The compiler that wrote the texts. Another one words them otherwise.
const COMPILER: &str = "rustc 1.95.";

/// Rules: X-11.
#[test]
fn misuse_does_not_compile_and_says_what_to_do() {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().expect("a test is run where it was compiled");
    if !version.stdout.starts_with(COMPILER.as_bytes()) {
        assert!(env::var_os("CONSIGN_LEAVE_NOTHING_OUT").is_none(), "the expected texts are those of {COMPILER}x");
        // Past the output capture of the test harness.
        let _ = writeln!(io::stderr(), "LEFT OUT: the expected texts of compile errors are those of {COMPILER}x");
        return;
    }
    // The cases run when they are dropped.
    let cases = trybuild::TestCases::new();
    cases.compile_fail("cases/*.rs");
    drop(cases);
    if env::var_os("TRYBUILD").is_some_and(|action| action == "overwrite") {
        page::write();
    }
}

/// The note of a property that the broker sets names these.
#[test]
fn what_a_note_advises_to_read_exists() {
    let received = |message: &consign::Message| {
        let received = message.received()?;
        Some((received.sequence_number.get(), received.delivery_count))
    };
    assert_eq!(received(&consign::Message::new("")), None);
    for case in ["builder", "setter"] {
        let text = std::fs::read_to_string(format!("cases/broker_property_by_{case}.stderr")).unwrap();
        let expected = "`message.received()` has it: `received.sequence_number`, `received.delivery_count`; in a handler, \
            the argument `Received`";
        assert!(text.contains(expected), "{text}");
    }
}
