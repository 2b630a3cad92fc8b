//! The commands of the program `consign` on the brokers of all transports.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod brokers;
mod killed;
mod order;
mod session;
#[path = "../command_line/support.rs"]
#[allow(dead_code, reason = "the other program of tests uses more of it")]
mod support;

use brokers::{Broker, brokers};
use support::Shell;

#[test]
fn dead_letters_are_the_same_on_every_broker() {
    for Broker { name, url, entities } in brokers() {
        let (shell, of_entities) = (Shell::on(&url), Shell::on(&entities));
        let queue = brokers::queue();
        session::check(name, &queue, &mut |arguments| {
            let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
            let shell = if arguments[0] == "entities" { &of_entities } else { &shell };
            let ran = shell.run(&arguments);
            (ran.code.unwrap(), ran.out)
        });
    }
}

/// What a transport does not have is reported as that, and nothing else happens.
#[test]
fn what_a_broker_does_not_have_has_an_exit_code() {
    for Broker { name, url, .. } in brokers() {
        let shell = Shell::on(&url);
        match name {
            "RabbitMQ" => {
                let error = shell.fails(4, &["dead-letters", "purge", "orders", "--number", "1", "--apply"]);
                assert!(error.contains("--message-id"), "{error}");
                shell.fails(4, &["entities", "list"]);
                let queue = brokers::queue();
                shell.ok(&["entities", "create", &queue, "--sessions"]);
                for list in ["peek", "export"] {
                    let error = shell.fails(4, &[list, &queue]);
                    assert!(error.contains("receive --session"), "{error}");
                }
                shell.ok(&["entities", "delete", &queue, "--apply"]);
            }
            "AMQP 1.0" => {
                shell.fails(4, &["entities", "list"]);
                shell.fails(4, &["bench"]);
            }
            _ => {}
        }
    }
}

#[test]
fn messages_survive_an_export_and_an_import_on_every_broker() {
    for Broker { name, url, entities } in brokers() {
        let (shell, of_entities, queue) = (Shell::on(&url), Shell::on(&entities), brokers::queue());
        of_entities.ok(&["entities", "create", &queue]);
        let line = r#"{"message_id":"m","correlation_id":"c","content_type":"text/plain","subject":"s","properties":{"a":{"u8":1},"t":"x"},"body":{"text":"é"}}"#;
        assert_eq!(shell.with_input(line, &["import", &queue]).code, Some(0), "{name}");
        let exported = support::objects(&shell.ok(&["export", &queue]));
        let sent = support::objects(line).remove(0);
        for (field, value) in sent.as_object().unwrap() {
            assert_eq!(exported[0][field], *value, "{name}: {field}");
        }
        // It was not consumed, where it was received and released. A broker may take a while to return it.
        let received = support::objects(&shell.ok(&["receive", &queue, "--json"]));
        assert_eq!(received[0]["body"]["text"], "é", "{name}");
        assert!(shell.bodies(&queue).is_empty(), "{name}");
        of_entities.ok(&["entities", "delete", &queue, "--apply"]);
    }
}
