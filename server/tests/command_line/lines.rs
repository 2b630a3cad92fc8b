use crate::support::{Shell, objects, text};

/// Every field of a line, as the module `json_lines` of the broker has them.
const EVERY: &str = r#"{"message_id":"m","correlation_id":"c","content_type":"text/plain","subject":"s","reply_to":"r","to":"t","session_id":"p","reply_to_session_id":"rs","partition_key":"p","time_to_live":60000,"properties":{"b":true,"c":{"char":"x"},"d":{"decimal":"AAAAAAAAAAAAAAAAAAAAAA=="},"f":{"f32":"1.5"},"i":5,"n":null,"o":{"date_time_offset":7},"s":"text","t":{"time_span":8},"u":{"u64":18446744073709551615},"uri":{"uri":"a:b"}},"pass_through":{"user_id":"AQI=","content_encoding":"identity","group_sequence":3,"creation_time":5,"durable":true,"priority":4,"annotations":[["x-opt-a",{"symbol":"v"}]],"footer":[["f",1]]},"body":{"sections":["YQ==","Yg=="]}}"#;

#[test]
fn all_properties_survive_an_export_and_an_import() {
    let shell = Shell::on_a_store();
    for queue in ["one", "other"] {
        shell.ok(&["entities", "create", queue]);
    }
    let value = r#"{"message_id":"v","body":{"value":["map","k",["list",{"u8":5},"x"]]}}"#;
    let sequence = r#"{"message_id":"q","body":{"sequence":[[1,"a"],[]]}}"#;
    let imported = shell.with_input(format!("{EVERY}\n\n{value}\n{sequence}\n"), &["import", "one"]);
    assert_eq!((imported.code, imported.out.as_str()), (Some(0), "imported 3 into one\n"), "{imported:?}");

    let file = shell.path("one.jsonl");
    assert_eq!(shell.ok(&["export", "one", "--output", text(&file)]), "exported 3\n");
    shell.ok(&["import", "other", text(&file)]);
    let sent = |queue: &str| {
        let mut messages = objects(&shell.ok(&["export", queue]));
        for message in &mut messages {
            let message = message.as_object_mut().unwrap();
            message.remove("received");
            message.remove("entity");
        }
        messages
    };
    assert_eq!(sent("one"), sent("other"));
    assert_eq!(sent("one"), objects(&format!("{EVERY}\n{value}\n{sequence}")));
    shell.fails(1, &["export", "one", "--output", text(&file)]);
}

#[test]
fn a_wrong_line_ends_an_import_and_is_named() {
    let shell = Shell::on_a_store();
    shell.ok(&["entities", "create", "orders"]);
    let ran = shell.with_input("{\"body\":{\"text\":\"1\"}}\n{\"secret\":1}\n", &["import", "orders"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(6), "imported 1 into orders\n"));
    assert!(ran.err.contains("line 2") && !ran.err.contains("secret"), "{}", ran.err);
    assert!(ran.err.contains("expected one of `entity`, `received`"), "{}", ran.err);
    let lines = "{\"body\":{\"text\":\"1\"}}\n{\"body\":{\"text\":\"2\"}}\n";
    let ran = shell.with_input(lines, &["import", "orders", "--skip", "1"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(shell.bodies("orders"), ["1", "2"]);
    assert_eq!(shell.with_input("nothing\n", &["import", "orders"]).code, Some(8));
}

#[test]
fn an_export_that_fails_leaves_no_file() {
    let shell = Shell::on_a_store();
    shell.ok(&["entities", "create", "orders"]);
    for command in [&["export"][..], &["dead-letters", "export"]] {
        shell.fails(3, &[command, &["nothing", "--output", "lines"]].concat());
        assert!(!shell.path("lines").exists());
        shell.ok(&[command, &["orders", "--output", "lines"]].concat());
        // Of an empty queue.
        assert_eq!(std::fs::read(shell.path("lines")).unwrap(), b"");
        std::fs::remove_file(shell.path("lines")).unwrap();
    }
}

#[test]
fn an_import_tells_which_messages_were_dead_letters() {
    let shell = Shell::on_a_store();
    for queue in ["orders", "again"] {
        shell.ok(&["entities", "create", queue]);
    }
    shell.with_input("1\n2\n", &["send", "orders"]);
    shell.dead_letter("orders", 1, "Poison");
    shell.ok(&["dead-letters", "export", "orders", "--output", "dead"]);
    shell.ok(&["export", "orders", "--output", "alive"]);
    let printed = shell.ok(&["import", "again", "dead"]);
    assert!(printed.starts_with("imported 1 into again\nnote: 1 were dead letters"), "{printed}");
    assert_eq!(shell.ok(&["import", "again", "alive"]), "imported 1 into again\n");
    assert_eq!(shell.json(&["import", "again", "dead"])[0]["dead_letters"], 1);
    assert_eq!(shell.json(&["peek", "again"])[0]["properties"]["x-original-dead-letter-reason"], "Poison");
}
