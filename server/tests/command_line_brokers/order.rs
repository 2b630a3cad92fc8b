//! The order of a queue of RabbitMQ after its messages were received and released.

use crate::{
    brokers::{Broker, brokers, queue},
    support::{Shell, numbered, objects},
};

/// RabbitMQ keeps the order of up to 32 messages that are released at once.
#[test]
fn a_few_released_messages_keep_their_order() {
    for Broker { name, url, .. } in brokers() {
        if name != "RabbitMQ" {
            continue;
        }
        let shell = Shell::on(&url);
        for (command, options) in [("peek", &["-n", "30"][..]), ("export", &[]), ("receive", &["-n", "30"])] {
            let queue = queue();
            shell.ok(&["entities", "create", &queue]);
            shell.with_input(numbered(30), &["send", &queue]);
            let release: &[&str] = if command == "receive" { &["--settle", "release"] } else { &[] };
            shell.ok(&[&[command, &queue], options, release].concat());
            let received = objects(&shell.ok(&["receive", &queue, "-n", "30", "--json"]));
            let bodies: Vec<_> = received.iter().map(|message| message["body"]["text"].as_str().unwrap()).collect();
            assert_eq!(bodies.join("\n") + "\n", numbered(30), "{command}");
            shell.ok(&["entities", "delete", &queue, "--apply"]);
        }
    }
}
