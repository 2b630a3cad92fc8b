use std::io::Read;

use serde_json::json;

use crate::support::{Shell, numbered, objects, text};

fn queue(settings: &[&str]) -> Shell {
    let shell = Shell::on_a_store();
    shell.ok(&[&["entities", "create", "orders"], settings].concat());
    shell
}

#[test]
fn lines_files_and_texts_become_messages() {
    let shell = queue(&[]);
    let sent = shell.with_input("one\ntwo\r\n\nlast", &["send", "orders", "--message-id", "m"]);
    assert_eq!((sent.code, sent.out.as_str()), (Some(0), "sent 4 to orders\n"));
    let (binary, other) = (shell.write("binary", b"\x00\xff\n"), shell.write("other", "a\nb\n"));
    shell.ok(&["send", "orders", "--file", text(&binary), "--file", text(&other), "--body", "typed"]);
    let whole = shell.with_input("1\n2\n", &["send", "orders", "--whole"]);
    assert_eq!(whole.code, Some(0), "{whole:?}");

    let messages = shell.json(&["receive", "orders", "-n", "8"]);
    let bodies: Vec<_> = messages.iter().map(|message| message["body"].clone()).collect();
    let texts = ["one", "two", "", "last", "typed"].map(|text| json!({ "text": text }));
    assert_eq!(bodies[..5], texts);
    assert_eq!(bodies[5..], [json!({"bytes": "AP8K"}), json!({"text": "a\nb\n"}), json!({"text": "1\n2\n"})]);
    let ids: Vec<_> = messages[..4].iter().map(|message| message["message_id"].clone()).collect();
    assert_eq!(ids, ["m-1", "m-2", "m-3", "m-4"]);
}

#[test]
fn every_property_of_a_message_is_an_option() {
    let shell = queue(&[]);
    let options = [
        "--content-type",
        "application/json",
        "--message-id",
        "m",
        "--subject",
        "order.created",
        "--correlation-id",
        "c",
        "--reply-to",
        "replies",
        "--reply-to-session",
        "r",
        "--to",
        "elsewhere",
        "--session",
        "s",
        "--partition-key",
        "s",
        "--time-to-live",
        "1h",
        "--property",
        "tenant=north",
        "--property",
        "attempt:i32=-3",
        "--property",
        "paid:bool=true",
        "--property",
        "rate:f64=1.5",
        "--property",
        "raw:bytes=00ff",
        "--property",
        "at:instant=1970-01-01T00:00:01Z",
        "--property",
        "id:uuid=67e55044-10b1-426f-9247-bb680e5fe0c8",
    ];
    shell.ok(&[&["send", "orders", "--body", "{}"], &options[..]].concat());
    let message = &shell.json(&["peek", "orders"])[0];
    for (name, value) in [
        ("content_type", json!("application/json")),
        ("message_id", json!("m")),
        ("subject", json!("order.created")),
        ("correlation_id", json!("c")),
        ("reply_to", json!("replies")),
        ("reply_to_session_id", json!("r")),
        ("to", json!("elsewhere")),
        ("session_id", json!("s")),
        ("partition_key", json!("s")),
        ("time_to_live", json!(3_600_000)),
        ("body", json!({"text": "{}"})),
        (
            "properties",
            json!({
                "tenant": "north",
                "attempt": {"i32": -3},
                "paid": true,
                "rate": {"f64": "1.5"},
                "raw": {"bytes": "AP8="},
                "at": {"date_time": 1_000},
                "id": {"uuid": "67e55044-10b1-426f-9247-bb680e5fe0c8"},
            }),
        ),
    ] {
        assert_eq!(message[name], value, "{name}: {message}");
    }
    let shown = shell.ok(&["peek", "orders"]);
    for text in ["id m,", "subject order.created", "  tenant: north\n", "  attempt: i32:-3\n", "body by json (exact)"] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
}

#[test]
fn a_message_is_scheduled() {
    let shell = queue(&[]);
    let scheduled = shell.json(&["send", "orders", "--body", "later", "--at", "2999-01-01T00:00:00Z"]);
    assert_eq!(scheduled, [json!({"scheduled": 1, "sequence_numbers": [1]})]);
    shell.ok(&["send", "orders", "--body", "in an hour", "--delay", "1h"]);
    let peeked = shell.json(&["peek", "orders"]);
    assert!(peeked.iter().all(|message| message["received"]["state"] == "scheduled"), "{peeked:?}");
    assert_eq!(peeked[0]["scheduled_enqueue_time"], 32_472_144_000_000_i64);
    shell.fails(7, &["receive", "orders", "--timeout", "50ms"]);
}

#[test]
fn a_received_message_is_settled_as_requested() {
    let shell = queue(&["--max-delivery-count", "5"]);
    shell.ok(&["send", "orders", "--body", "it"]);
    let count = |shell: &Shell| shell.json(&["peek", "orders"])[0]["received"]["delivery_count"].clone();
    shell.ok(&["receive", "orders", "--settle", "release"]);
    assert_eq!(count(&shell), 0);
    shell.ok(&["receive", "orders", "--settle", "abandon"]);
    assert_eq!(count(&shell), 1);
    shell.ok(&["receive", "orders", "--settle", "dead-letter", "--reason", "Wrong", "--description", "as a test"]);
    let dead = &shell.json(&["peek", "orders", "--dead-letters"])[0];
    assert_eq!(dead["properties"]["DeadLetterReason"], "Wrong", "{dead}");
    shell.ok(&["receive", "orders/$deadletterqueue"]);
    shell.ok(&["send", "orders", "--body", "set aside", "--body", "removed"]);
    shell.ok(&["receive", "orders", "--settle", "defer"]);
    assert_eq!(shell.ok(&["receive", "orders", "--settle", "delete"]).lines().last(), Some("  removed"));
    let left = shell.json(&["peek", "orders"]);
    assert!(left.len() == 1 && left[0]["received"]["state"] == "deferred", "{left:?}");
}

#[test]
fn a_receive_ends_at_its_count_or_its_timeout() {
    let shell = queue(&[]);
    shell.with_input("1\n2\n3\n", &["send", "orders"]);
    assert_eq!(shell.json(&["receive", "orders", "-n", "2"]).len(), 2);
    let ran = shell.run(&["receive", "orders", "-n", "2", "--timeout", "50ms", "--json"]);
    assert_eq!((ran.code, objects(&ran.out).len()), (Some(7), 1), "what arrived is printed: {ran:?}");
    assert_eq!(objects(&ran.err)[0]["error"]["exit"], 7);
    shell.with_input("4\n5\n", &["send", "orders"]);
    assert_eq!(shell.json(&["receive", "orders", "--all", "--timeout", "50ms"]).len(), 2);
}

#[test]
fn bodies_are_written_to_new_files() {
    let shell = queue(&[]);
    shell.ok(&["send", "orders", "--body", "one", "--body", "two"]);
    let folder = shell.path("bodies");
    shell.ok(&["receive", "orders", "-n", "2", "--bodies", text(&folder)]);
    assert_eq!(std::fs::read(folder.join("1")).unwrap(), b"one");
    assert_eq!(std::fs::read(folder.join("2")).unwrap(), b"two");
    shell.ok(&["send", "orders", "--body", "three"]);
    shell.fails(1, &["receive", "orders", "--bodies", text(&folder)]);
    assert_eq!(std::fs::read(folder.join("1")).unwrap(), b"one", "a file is not replaced");
    assert_eq!(shell.bodies("orders"), ["three"], "it was not completed");
}

/// A message is removed after it was printed: no part of its body may be left out.
#[test]
fn a_body_that_is_not_bytes_is_printed_and_written_as_json() {
    let shell = queue(&[]);
    let bodies = [r#"{"value":["map","count",{"i32":5}]}"#, r#"{"sequence":[["a",7],[true]]}"#, r#"{"value":"text"}"#];
    let import =
        || shell.with_input(bodies.map(|body| format!("{{\"body\":{body}}}\n")).concat(), &["import", "orders"]);
    assert_eq!(import().code, Some(0));
    let folder = shell.path("bodies");
    let written = shell.json(&["receive", "orders", "-n", "3", "--bodies", text(&folder)]);
    for (number, body) in ["1.json", "2.json"].iter().zip(bodies) {
        assert_eq!(std::fs::read_to_string(folder.join(number)).unwrap(), body);
    }
    assert_eq!(std::fs::read(folder.join("3")).unwrap(), b"text");
    assert!(written[0]["file"].as_str().unwrap().ends_with("1.json"), "{written:?}");
    assert_eq!(import().code, Some(0));
    let printed = shell.ok(&["receive", "orders", "-n", "3"]);
    for line in [
        "  the body is an AMQP map value, not bytes:",
        "  {\"value\":[\"map\",\"count\",{\"i32\":5}]}",
        "  {\"sequence\":[[\"a\",7],[true]]}",
        "  text",
    ] {
        assert!(printed.lines().any(|printed| printed == line), "{line}: {printed}");
    }
}

#[test]
fn what_cannot_be_printed_uses_up_no_delivery() {
    let shell = queue(&["--max-delivery-count", "2"]);
    shell.ok(&["send", "orders", "--body", "one", "--body", "two", "--body", "three"]);
    let folder = shell.path("bodies");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("2"), "of somebody else").unwrap();
    for _ in 0..3 {
        let error = shell.fails(1, &["receive", "orders", "-n", "3", "--bodies", text(&folder)]);
        assert!(error.contains("exists"), "{error}");
        std::fs::remove_file(folder.join("1")).unwrap();
    }
    let counts: Vec<_> =
        shell.json(&["peek", "orders"]).iter().map(|it| it["received"]["delivery_count"].clone()).collect();
    assert_eq!(counts, [0, 0, 0]);
}

#[test]
fn a_message_that_is_returned_is_received_once() {
    let shell = queue(&[]);
    shell.with_input("1\n2\n3\n", &["send", "orders"]);
    for settle in ["release", "abandon"] {
        let ran = shell.run(&["receive", "orders", "-n", "5", "--settle", settle, "--timeout", "50ms", "--json"]);
        assert_eq!((ran.code, objects(&ran.out).len()), (Some(7), 3), "{settle}: {ran:?}");
        let error = shell.fails(2, &["receive", "orders", "--all", "--settle", settle]);
        assert!(error.contains("--all returns no messages"), "{error}");
    }
    let peeked = shell.json(&["peek", "orders"]);
    assert!(peeked.iter().all(|message| message["received"]["delivery_count"] == 1), "{peeked:?}");
}

#[test]
fn a_failure_after_some_messages_has_an_exit_code_of_its_own() {
    let shell = queue(&[]);
    shell.with_input(numbered(40), &["send", "orders"]);
    let folder = shell.path("bodies");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("20"), "of somebody else").unwrap();
    // The first 16 are settled, and the next ones are not.
    shell.fails(6, &["receive", "orders", "-n", "40", "--bodies", text(&folder)]);
    assert_eq!(shell.json(&["peek", "orders", "-n", "100"]).len(), 24);
}

#[test]
fn sessions_are_received_by_their_ids() {
    let shell = queue(&["--sessions"]);
    for (session, body) in [("a", "a1"), ("b", "b1"), ("a", "a2")] {
        shell.ok(&["send", "orders", "--session", session, "--body", body]);
    }
    shell.fails(1, &["receive", "orders"]);
    let of_a = shell.json(&["receive", "orders", "--session", "a", "-n", "2"]);
    assert_eq!(of_a.iter().map(|message| message["body"]["text"].clone()).collect::<Vec<_>>(), ["a1", "a2"]);
    let next = shell.ok(&["receive", "orders", "--next-session"]);
    assert!(next.starts_with("session b\n") && next.contains("b1"), "{next}");
    shell.fails(7, &["receive", "orders", "--next-session", "--timeout", "50ms"]);
}

#[test]
fn messages_are_peeked_in_pages() {
    let shell = queue(&[]);
    shell.with_input(numbered(250), &["send", "orders"]);
    assert_eq!(shell.json(&["peek", "orders"]).len(), 10);
    let from = shell.json(&["peek", "orders", "--from", "101", "-n", "140"]);
    assert_eq!((from.len(), &from[0]["body"]["text"], &from[139]["body"]["text"]), (140, &json!("101"), &json!("240")));
    let hidden = shell.ok(&["peek", "orders", "-n", "1", "--no-body"]);
    assert_eq!(hidden.lines().count(), 1, "{hidden}");
}

#[test]
fn a_refused_message_ends_a_send_and_the_others_are_counted() {
    let shell = queue(&["--max-message-size", "100"]);
    let lines = format!("1\n2\n{}\n4\n", "x".repeat(200));
    let ran = shell.with_input(lines, &["send", "orders"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(6), "sent 2 to orders\n"), "{ran:?}");
    assert!(ran.err.contains("too large"), "{ran:?}");
    assert_eq!(shell.bodies("orders")[..2], ["1", "2"]);
}

/// As after `| head`.
#[test]
fn a_closed_output_ends_a_command_quietly() {
    let shell = Shell::on_a_store();
    shell.ok(&["entities", "create", "orders"]);
    // More than a pipe holds.
    let line = "x".repeat(2_000) + "\n";
    shell.with_input(line.repeat(200), &["send", "orders"]);
    for arguments in
        [&["peek", "orders", "-n", "200"][..], &["peek", "orders", "-n", "200", "--json"], &["export", "orders"]]
    {
        let mut process = shell.command(arguments).spawn().unwrap();
        let mut first = [0; 100];
        let mut output = process.stdout.take().unwrap();
        output.read_exact(&mut first).unwrap();
        drop(output);
        let ended = process.wait_with_output().unwrap();
        let error = String::from_utf8(ended.stderr).unwrap();
        assert_eq!((ended.status.code(), error.as_str()), (Some(141), ""), "{arguments:?}");
    }
}
