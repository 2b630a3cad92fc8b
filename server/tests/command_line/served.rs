//! The commands against `consign serve`, whose broker is in memory.

use std::{
    io::{BufRead, BufReader},
    process::{Child, ChildStdout, Command, Stdio},
};

use crate::support::Shell;

/// A server that is killed when this is dropped.
struct Server {
    process: Child,
    url: String,
    /// Kept open, so that it can write.
    _output: BufReader<ChildStdout>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn serve() -> Server {
    let mut command = Command::new(env!("CARGO_BIN_EXE_consign"));
    command.args(["serve", "--amqp-port", "0"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = command.spawn().unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    let mut printed = String::new();
    while !printed.contains("Ready") {
        assert_ne!(output.read_line(&mut printed).unwrap(), 0, "it ended: {printed}");
    }
    let address = printed.lines().find_map(|line| line.strip_prefix("AMQP: Endpoint=sb://")?.split_once(';'));
    let url = format!("amqp10://{}", address.unwrap().0);
    Server { process, url, _output: output }
}

#[test]
fn commands_work_on_a_server_in_memory() {
    let (server, shell) = (serve(), Shell::on_a_store());
    let url = ["--url", &server.url];
    let ok = |arguments: &[&str]| shell.ok(&[arguments, &url].concat());
    assert_eq!(ok(&["send", "orders", "--body", "one", "--body", "two", "--message-id", "m"]), "sent 2 to orders\n");
    // Azure Service Bus dead-letters by its own operation, which AMQP 1.0 does not have: the server does it after ten failures.
    for _ in 0..10 {
        ok(&["receive", "orders", "-n", "2", "--no-body", "--settle", "abandon"]);
    }
    let groups = ok(&["dead-letters", "group", "orders"]);
    assert!(groups.starts_with("2 × MaxDeliveryCountExceeded: "), "{groups}");
    ok(&["dead-letters", "resubmit", "orders", "--message-id", "m-1", "--apply"]);
    ok(&["dead-letters", "purge", "orders", "--apply"]);
    let received = ok(&["receive", "orders"]);
    assert!(received.contains("x-original-message-id: m-1"), "{received}");
    shell.fails(4, &[&["entities", "list"], &url[..]].concat());
}
