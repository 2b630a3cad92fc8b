//! The code of the README for publishers without this crate.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use consign_conformance::left_out;

/// Rules: K-220.
/// The code runs as it stands there, on each of the test vectors.
#[test]
fn the_python_of_the_readme_finds_the_slot_of_a_session() {
    let Ok(python) = std::env::var("CONSIGN_PYTHON") else {
        return left_out("the Python of the README of consign-rabbitmq: CONSIGN_PYTHON names none");
    };
    let readme = include_str!("../README.md");
    let code = readme.split("```python\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block of Python");
    let check = "
import json, sys
vectors = json.load(sys.stdin)
for vector in vectors:
    found = slot_queue(vector['path'], vector['id'], vector['slots'])
    assert found == vector['queue'], (vector, found)
assert slot_queue('orders', 'customer-7') in sys.argv[1], slot_queue('orders', 'customer-7')
print(len(vectors))
";
    let mut process = Command::new(python)
        .args(["-c", &format!("{code}{check}"), readme])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a Python");
    process.stdin.take().expect("its input").write_all(include_bytes!("session_slots.json")).expect("its input");
    let answer = process.wait_with_output().expect("its output");
    assert!(answer.status.success());
    assert!(String::from_utf8_lossy(&answer.stdout).trim().parse::<usize>().expect("a number") > 10);
}
