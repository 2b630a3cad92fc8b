//! The commands against `consign serve`.

use std::{
    io::{BufRead, BufReader},
    process::{Child, ChildStdout, Command, Stdio},
};

use crate::{session, support::Shell};

/// A server that is killed when this is dropped.
pub(crate) struct Server {
    process: Child,
    pub(crate) url: String,
    /// Kept open, so that it can write.
    _output: BufReader<ChildStdout>,
}

impl Server {
    /// Ends the process by a signal that it cannot handle.
    pub(crate) fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    pub(crate) fn port(&self) -> &str {
        self.url.rsplit(':').next().unwrap().split('?').next().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A server whose broker is in memory.
pub(crate) fn serve() -> Server {
    serve_on("0", &[])
}

/// A server on a port, or on any: 0.
pub(crate) fn serve_on(port: &str, options: &[&str]) -> Server {
    let mut command = Command::new(env!("CARGO_BIN_EXE_consign"));
    command
        .args(["serve", "--amqp-port", port, "--http-port", "0"])
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut process = command.spawn().unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    let mut printed = String::new();
    while !printed.contains("Ready") {
        assert_ne!(output.read_line(&mut printed).unwrap(), 0, "it ended: {printed}");
    }
    let address = printed.lines().find_map(|line| line.strip_prefix("AMQP: Endpoint=sb://")?.split_once(';'));
    let url = format!("servicebus://any:any@{}?emulator=true", address.unwrap().0);
    Server { process, url, _output: output }
}

/// Entities are created on first use, and the transport has no administration: these steps of the session are left out.
#[test]
fn dead_letters_are_the_same_on_a_server_in_memory() {
    let server = serve();
    let shell = Shell::on(&server.url);
    session::check("servicebus:", "orders", &mut |arguments| match arguments[..2] {
        [ref entities, ref create] if entities == "entities" && create == "create" => {
            (0, "created queue orders\n".into())
        }
        [ref entities, _] if entities == "entities" => (0, "deleted queue orders\n".into()),
        _ => {
            let ran = shell.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
            (ran.code.unwrap(), ran.out)
        }
    });
}

#[test]
fn messages_are_scheduled_and_peeked_on_a_server() {
    let server = serve();
    let shell = Shell::on(&server.url);
    shell.ok(&["send", "orders", "--body", "now"]);
    shell.ok(&["send", "orders", "--body", "later", "--delay", "1h"]);
    let states: Vec<_> = shell.json(&["peek", "orders"]).iter().map(|it| it["received"]["state"].clone()).collect();
    assert_eq!(states, ["active", "scheduled"]);
}
