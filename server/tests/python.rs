//! The client of Python, in a process of its own: beside a server in this process, and while a server is killed.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use std::{
    env,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdout, Command, Stdio},
};

use consign_broker::Broker;
use consign_core::administration::QueueSettings;
use consign_server::Server;

/// The Python of `scripts/foreign`, which has the package azure-servicebus.
fn python(script: &str, arguments: &[&str]) -> Option<Command> {
    let Some(python) = env::var_os("CONSIGN_PYTHON") else {
        let what = "the client of Python beside a server: CONSIGN_PYTHON names none";
        assert!(env::var_os("CONSIGN_LEAVE_NOTHING_OUT").is_none(), "left out: {what}");
        // Past the output capture of the test harness.
        let _ = writeln!(std::io::stderr(), "LEFT OUT: {what}");
        return None;
    };
    let mut command = Command::new(python);
    command.arg("-c").arg(script).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
    Some(command)
}

const SCRIPT: &str = r#"
import sys
from azure.servicebus import ServiceBusClient, ServiceBusMessage

with ServiceBusClient.from_connection_string(sys.argv[1]) as client:
    with client.get_queue_receiver("orders") as receiver, client.get_queue_sender("invoices") as sender:
        handled = 0
        while handled < 2:
            orders = receiver.receive_messages(max_message_count=10, max_wait_time=60)
            if not orders:
                sys.exit("an order does not arrive")
            for order in orders:
                sender.send_messages(ServiceBusMessage(b"invoice of " + b"".join(order.body), session_id="one"))
                receiver.complete_message(order)
                handled += 1
    with client.get_queue_receiver("invoices", session_id="one") as receiver:
        receiver.session.set_state(b"sent")
"#;

/// A test in Rust and a program in Python share a broker.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_in_this_process_serves_its_own_broker() {
    let broker = Broker::new();
    let orders = broker.create_queue("orders", QueueSettings::default()).unwrap();
    let invoices = broker.create_queue("invoices", QueueSettings::default().requires_session(true)).unwrap();
    for order in ["first", "second"] {
        use consign_core::transport::Sender;
        orders.sender().unwrap().send(consign_core::Message::new(order)).await.unwrap();
    }
    let server = Server::builder().broker(broker).create_entities(false).build();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn({
        let server = server.clone();
        async move { server.serve(listener).await }
    });

    let connection =
        format!("Endpoint=sb://{address};SharedAccessKeyName=any;SharedAccessKey=any;UseDevelopmentEmulator=true");
    let Some(mut command) = python(SCRIPT, &[&connection]) else { return };
    let status = tokio::task::spawn_blocking(move || command.status()).await.unwrap().unwrap();
    assert!(status.success(), "{status}");

    let counts = orders.counts();
    assert_eq!((counts.active, counts.locked), (0, 0));
    let peeked = invoices.peek(consign_core::message::SequenceNumber::new(0), 10);
    let bodies: Vec<_> = peeked.iter().map(|message| message.payload().unwrap()).collect();
    assert_eq!(bodies, [b"invoice of first".as_slice(), b"invoice of second"]);
    let state = invoices.accept_session("one").unwrap().state().unwrap();
    assert_eq!(state.as_deref(), Some(b"sent".as_slice()));
    server.shutdown().await;
    serving.await.unwrap().unwrap();
}

/// Sends numbers, each of which it prints when it is accepted, then receives them all by the same client.
const NUMBERS: &str = r#"
import sys
from azure.servicebus import ServiceBusClient, ServiceBusMessage

options = dict(retry_total=30, retry_backoff_factor=0.1, retry_backoff_max=1)
with ServiceBusClient.from_connection_string(sys.argv[1], **options) as client:
    with client.get_queue_sender("orders") as sender:
        for number in range(int(sys.argv[2])):
            sender.send_messages(ServiceBusMessage(str(number)))
            print("accepted", number, flush=True)
    with client.get_queue_receiver("orders") as receiver:
        seen = set()
        def receive(longest):
            messages = receiver.receive_messages(max_message_count=50, max_wait_time=longest)
            for message in messages:
                receiver.complete_message(message)
                seen.add(str(message))
                print("received", str(message), flush=True)
            return messages
        while len(seen) < int(sys.argv[2]) and receive(60):
            pass
        # What is there twice, or was not sent.
        while receive(2):
            pass
"#;

/// How many messages are sent.
const COUNT: usize = 60;

/// A server that is killed when this is dropped.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts `consign serve`, and returns it with its connection string.
fn serve(data: &str, port: &str) -> (Program, String, BufReader<ChildStdout>) {
    let options = ["serve", "--data", data, "--create-entities", "--amqp-port", port, "--http-port", "0"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_consign"));
    command.args(options).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut program = Program(command.spawn().unwrap());
    let mut output = BufReader::new(program.0.stdout.take().unwrap());
    let mut connection = String::new();
    loop {
        let mut line = String::new();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "the server has ended");
        if let Some(found) = line.trim_end().strip_prefix("AMQP: ") {
            found.clone_into(&mut connection);
        } else if line.starts_with("Ready") {
            return (program, connection, output);
        }
    }
}

fn signal(server: &Program, name: &str) {
    assert!(Command::new("kill").args([name, &server.0.id().to_string()]).status().unwrap().success());
}

/// A client that goes on by its own retries loses no message, whether the server is killed or ends.
#[test]
fn a_client_of_a_server_that_is_killed_and_one_that_ends_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let (mut server, connection, mut _output) = serve(data.to_str().unwrap(), "0");
    let port = connection.split(';').next().unwrap().rsplit(':').next().unwrap().to_owned();
    let Some(mut command) = python(NUMBERS, &[&connection, &COUNT.to_string()]) else { return };
    let mut client = command.spawn().unwrap();
    let (mut accepted, mut received) = (Vec::new(), Vec::new());
    for line in BufReader::new(client.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let (what, number) = line.split_once(' ').unwrap();
        let number: usize = number.parse().unwrap();
        if what == "received" {
            received.push(number);
            continue;
        }
        accepted.push(number);
        if number == COUNT / 3 || number == 2 * COUNT / 3 {
            signal(&server, if number == COUNT / 3 { "-KILL" } else { "-TERM" });
            let status = server.0.wait().unwrap();
            assert_eq!(status.success(), number != COUNT / 3, "{status}");
            (server, _, _output) = serve(data.to_str().unwrap(), &port);
        }
    }
    assert!(client.wait().unwrap().success());
    assert_eq!(accepted, (0..COUNT).collect::<Vec<_>>());
    // A message whose answer was lost may have been sent twice.
    received.sort_unstable();
    received.dedup();
    assert_eq!(received, accepted);
}
