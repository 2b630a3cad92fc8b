use serde_json::{Value, json};

use crate::{
    session,
    support::{Shell, objects, text},
};

/// A queue with four dead letters: three for one reason, one for another.
fn shell() -> Shell {
    let shell = Shell::on_a_store();
    shell.ok(&["entities", "create", "orders"]);
    let json = ["--content-type", "application/json"];
    shell.ok(&[&["send", "orders", "--message-id", "a", "--body", r#"{"sku":"nail","cuont":3}"#], &json[..]].concat());
    shell.ok(&[
        &["send", "orders", "--message-id", "b", "--body", r#"{"sku":"bolt"}"#, "-p", "tenant=north"],
        &json[..],
    ]
    .concat());
    let packed = shell.write("packed", b"\x82\xa3sku\xa5screw\xa5count\x05");
    shell
        .ok(&[&["send", "orders", "--message-id", "c", "--file", text(&packed), "--subject", "legacy"], &json[..]]
            .concat());
    shell.ok(&["send", "orders", "--message-id", "d", "--body", "noise"]);
    shell.dead_letter("orders", 3, "DeserializationFailed");
    shell.dead_letter("orders", 1, "Noise");
    shell
}

fn numbers(objects: &[Value]) -> Vec<u64> {
    objects.iter().map(|object| object["sequence_number"].as_u64().unwrap()).collect()
}

#[test]
fn dead_letters_are_listed_with_their_reasons() {
    let shell = shell();
    let listed = shell.ok(&["dead-letters", "list", "orders"]);
    assert!(listed.starts_with("#1 DeserializationFailed, enqueued "), "{listed}");
    assert!(listed.contains("  the first line\n  the second\n"), "{listed}");
    let objects = shell.json(&["dead-letters", "list", "orders", "--from", "2", "-n", "2"]);
    assert_eq!(numbers(&objects), [2, 3]);
    assert_eq!(objects[0]["reason"], "DeserializationFailed");
    assert_eq!(objects[0]["message"]["message_id"], "b");
}

#[test]
fn filters_choose_dead_letters() {
    let shell = shell();
    for (filter, expected) in [
        (&["--number", "1", "--number", "4"][..], &[1, 4][..]),
        (&["--message-id", "b"], &[2]),
        (&["--reason", "Noise"], &[4]),
        (&["--error", "FIRST"], &[1, 2, 3, 4]),
        (&["--error", "other"], &[]),
        (&["--subject", "legacy"], &[3]),
        (&["--content-type", "application/json"], &[1, 2, 3]),
        (&["--content-type", ""], &[4]),
        (&["--having", "tenant=north"], &[2]),
        (&["--older-than", "1h"], &[]),
        (&["--before", "2999-01-01T00:00:00Z", "--reason", "Noise"], &[4]),
        (&["--since", "2999-01-01T00:00:00Z"], &[]),
        (&["--tried", "json"], &[]),
    ] {
        assert_eq!(
            numbers(&shell.json(&[&["dead-letters", "list", "orders"], filter].concat())),
            expected,
            "{filter:?}"
        );
    }
}

#[test]
fn dead_letters_are_grouped_by_reason_and_first_error() {
    let shell = shell();
    let groups = shell.ok(&["dead-letters", "group", "orders"]);
    assert_eq!(groups, "3 × DeserializationFailed: the first line (#1 to #3)\n1 × Noise: the first line (#4 to #4)\n");
    let first = &shell.json(&["dead-letters", "group", "orders"])[0];
    assert_eq!((&first["count"], &first["error"]), (&json!(3), &json!("the first line")));
}

#[test]
fn a_dead_letter_is_shown_with_its_body() {
    let shell = shell();
    let shown = shell.ok(&["dead-letters", "show", "orders", "--number", "3"]);
    assert!(
        shown.contains("body by msgpack (fallback):\n  {\n    \"sku\": \"screw\",\n    \"count\": 5\n  }"),
        "{shown}"
    );
    let hex = shell.ok(&["dead-letters", "show", "orders", "--number", "3", "--codec", "hex"]);
    assert!(hex.contains("00000000  82 a3 73 6b 75 a5 73 63 72 65 77 a5 63 6f 75 6e\n  00000010  74 05"), "{hex}");
    let wrong = shell.ok(&["dead-letters", "show", "orders", "--number", "3", "--codec", "cbor"]);
    assert!(wrong.contains("the codec does not read the body: cbor") && wrong.contains("00000000  82 a3"), "{wrong}");
    let object = &shell.json(&["dead-letters", "show", "orders", "--number", "3"])[0];
    assert_eq!(object["body"]["decoded"]["value"], json!({"sku": "screw", "count": 5}));
    shell.fails(3, &["dead-letters", "show", "orders", "--number", "9"]);
    shell.fails(2, &["dead-letters", "show", "orders", "--codec", "jsn"]);
}

#[test]
fn all_dead_letters_are_shown() {
    let shell = Shell::on_a_store();
    shell.ok(&["entities", "create", "orders"]);
    shell.with_input(crate::support::numbered(250), &["send", "orders"]);
    shell.dead_letter("orders", 250, "R");
    let shown = shell.json(&["dead-letters", "show", "orders"]);
    assert_eq!(numbers(&shown), (1..=250).collect::<Vec<_>>());
}

/// Rules: L-19.
#[test]
fn a_run_locks_as_many_that_stay_as_it_may() {
    let shell = shell();
    let purge = ["dead-letters", "purge", "orders", "--reason", "Noise", "--apply", "--max-held"];
    let ran = shell.run(&[&purge[..], &["2"]].concat());
    assert!(ran.code == Some(6) && ran.out.starts_with("1 matching: 0 resubmitted, 0 purged"), "{ran:?}");
    assert_eq!(shell.json(&["dead-letters", "list", "orders"]).len(), 4);
    shell.ok(&[&purge[..], &["4"]].concat());
    assert_eq!(numbers(&shell.json(&["dead-letters", "list", "orders"])), [1, 2, 3]);
}

/// Rules: L-10, L-13, L-27.
#[test]
fn a_dry_run_changes_nothing_and_a_run_resubmits() {
    let shell = shell();
    let dry = shell.ok(&["dead-letters", "resubmit", "orders", "--reason", "DeserializationFailed"]);
    assert!(dry.ends_with("dry run: would resubmit 3, keep 0; do it with --apply\n"), "{dry}");
    assert!(dry.starts_with("#1 DeserializationFailed, id a: would resubmit\n"), "{dry}");
    assert_eq!(shell.json(&["dead-letters", "list", "orders"]).len(), 4);

    let report = &shell.json(&["dead-letters", "resubmit", "orders", "--message-id", "b", "--apply"])[0];
    assert_eq!((&report["resubmitted"], &report["guarantee"]), (&json!(1), &json!("transaction")));
    let copy = &shell.json(&["receive", "orders"])[0];
    assert_eq!(copy["properties"]["x-original-message-id"], "b");
    assert_eq!(copy["properties"]["tenant"], "north");
    assert!(copy["properties"]["DeadLetterReason"].is_null() && copy["message_id"] != "b", "{copy}");
    assert_eq!(copy["properties"].as_object().unwrap().len(), 3, "nothing of the run is sent: {copy}");
    assert_eq!(numbers(&shell.json(&["dead-letters", "list", "orders"])), [1, 3, 4]);
}

#[test]
fn copies_go_to_another_entity_on_request() {
    let shell = shell();
    shell.ok(&["entities", "create", "archive"]);
    shell.ok(&["dead-letters", "resubmit", "orders", "--to", "archive", "--apply", "--reason", "Noise"]);
    assert_eq!(shell.bodies("archive"), ["noise"]);
    let error = shell.fails(3, &["dead-letters", "resubmit", "orders", "--to", "nothing", "--apply"]);
    assert!(error.contains("no such entity"), "{error}");
    assert_eq!(shell.json(&["dead-letters", "list", "orders"]).len(), 3);

    shell.ok(&["entities", "create", "events", "--kind", "topic"]);
    shell.ok(&["entities", "create", "events/Subscriptions/all"]);
    let error = shell.fails(2, &["dead-letters", "resubmit", "events/Subscriptions/all"]);
    assert!(error.contains("--to"), "{error}");
}

#[test]
fn an_edit_changes_the_copy() {
    let shell = shell();
    let edit = |options: &[&str]| {
        shell.run(&[&["dead-letters", "edit", "orders", "--reason", "DeserializationFailed"], options].concat())
    };
    let dry = objects(&edit(&["--replace", "cuont=count", "--json"]).out);
    let (changed, kept, totals) = (&dry[0], &dry[1], &dry[3]);
    assert_eq!(
        (&changed["message_id"], &changed["would"], &changed["error"]),
        (&json!("a"), &json!("resubmit"), &json!(null))
    );
    assert_eq!((&kept["sequence_number"], &kept["would"]), (&json!(2), &json!("keep")));
    assert!(kept["error"].as_str().unwrap().contains("the body does not have the text"), "{kept}");
    assert_eq!((&totals["would_resubmit"], &totals["would_fail"]), (&json!(1), &json!(2)));
    let dry = edit(&["--replace", "cuont=count"]);
    assert!(dry.out.contains("#2 DeserializationFailed, id b: kept: the body does not have the text"), "{dry:?}");
    assert!(dry.out.contains("#3 DeserializationFailed, id c: kept: the body is not text"), "{dry:?}");
    assert!(dry.out.ends_with("would resubmit 1, keep 2; do it with --apply\n"), "{dry:?}");

    let changes = ["--replace", "cuont=count", "--set-subject", "fixed", "--set-property", "by:i32=7"];
    let ran = edit(&[&changes[..], &["--apply"]].concat());
    assert_eq!(ran.code, Some(6), "two remain: {ran:?}");
    assert!(ran.out.contains("3 matching: 1 resubmitted, 0 purged, 2 failed"), "{ran:?}");
    let copy = &shell.json(&["receive", "orders"])[0];
    assert_eq!(copy["body"]["text"], r#"{"sku":"nail","count":3}"#);
    assert_eq!((&copy["subject"], &copy["properties"]["by"]), (&json!("fixed"), &json!({"i32": 7})));

    let file = shell.write("body", "from a file");
    let options = [
        "--message-id",
        "b",
        "--body-file",
        text(&file),
        "--set-content-type",
        "text/plain",
        "--remove-property",
        "tenant",
    ];
    shell.ok(&[&["dead-letters", "edit", "orders", "--apply"], &options[..]].concat());
    let copy = &shell.json(&["receive", "orders"])[0];
    assert_eq!((&copy["body"]["text"], &copy["content_type"]), (&json!("from a file"), &json!("text/plain")));
    assert!(copy["properties"]["tenant"].is_null());
    shell.fails(2, &["dead-letters", "edit", "orders", "--apply"]);
}

/// The receiver would decompress the new body, or read another one in place of it.
#[test]
fn a_body_that_is_compressed_or_elsewhere_is_not_edited() {
    let shell = Shell::on_a_store();
    shell.ok(&["entities", "create", "orders"]);
    let lines = [
        r#"{"message_id":"zip","content_type":"application/json","pass_through":{"content_encoding":"gzip"},"body":{"text":"{}"}}"#,
        r#"{"message_id":"claim","content_type":"application/json","properties":{"x-claim":"c"},"body":{"text":"{}"}}"#,
        r#"{"message_id":"plain","content_type":"application/json","pass_through":{"content_encoding":"identity"},"body":{"text":"{}"}}"#,
    ];
    assert_eq!(shell.with_input(lines.join("\n"), &["import", "orders"]).code, Some(0));
    shell.dead_letter("orders", 3, "R");
    for change in [
        &["edit", "orders", "--body", "new"][..],
        &["edit", "orders", "--replace", "{}=[]"],
        &["transcode", "orders", "--as", "application/cbor"],
    ] {
        let dry = shell.ok(&[&["dead-letters"], change].concat());
        for kept in ["id zip: kept: the body has a content encoding", "id claim: kept: the body is in a blob store"] {
            assert!(dry.contains(kept), "{kept}: {dry}");
        }
        assert!(dry.ends_with("would resubmit 1, keep 2; do it with --apply\n"), "{dry}");
    }
    let without = ["--message-id", "claim", "--body", "new", "--remove-property", "x-claim", "--apply"];
    shell.ok(&[&["dead-letters", "edit", "orders"], &without[..]].concat());
    let subject = ["--message-id", "zip", "--set-subject", "fixed", "--apply"];
    shell.ok(&[&["dead-letters", "edit", "orders"], &subject[..]].concat());
    assert_eq!(shell.bodies("orders"), ["new", "{}"]);
}

#[test]
fn bodies_are_transcoded() {
    let shell = shell();
    let transcode = ["dead-letters", "transcode", "orders", "--subject", "legacy", "--as", "application/json"];
    assert!(shell.ok(&transcode).ends_with("would resubmit 1, keep 0; do it with --apply\n"));
    shell.ok(&[&transcode[..], &["--apply"]].concat());
    let copy = &shell.json(&["receive", "orders"])[0];
    assert_eq!(copy["body"]["text"], r#"{"sku":"screw","count":5}"#);
    assert_eq!(copy["content_type"], "application/json");

    let noise = ["dead-letters", "transcode", "orders", "--reason", "Noise", "--as", "application/cbor", "--apply"];
    let ran = shell.run(&noise);
    assert!(ran.code == Some(6) && ran.out.contains("#4: not changed"), "{ran:?}");
    shell.fails(2, &["dead-letters", "transcode", "orders", "--as", "application/nothing"]);
    shell.fails(2, &["dead-letters", "transcode", "orders", "--as", "application/json", "--chain", "jsn"]);
}

#[test]
fn dead_letters_are_exported_and_kept() {
    let shell = shell();
    let exported = objects(&shell.ok(&["dead-letters", "export", "orders", "--reason", "Noise"]));
    assert_eq!((exported.len(), &exported[0]["entity"]), (1, &json!("orders/$deadletterqueue")));
    let file = shell.path("dead.jsonl");
    assert_eq!(shell.ok(&["dead-letters", "export", "orders", "-o", text(&file)]), "exported 4\n");
    assert_eq!(shell.json(&["dead-letters", "list", "orders"]).len(), 4);
}

#[test]
fn a_purge_removes_what_passes_the_filter() {
    let shell = shell();
    assert_eq!(
        shell.ok(&["dead-letters", "purge", "orders", "--reason", "Noise"]),
        "#4 Noise, id d: would purge\ndry run: would purge 1, keep 0; do it with --apply\n"
    );
    let purged = shell.ok(&["dead-letters", "purge", "orders", "--reason", "Noise", "--apply", "--rate", "1000"]);
    assert_eq!(purged, "1 matching: 0 resubmitted, 1 purged, 0 failed\n");
    assert_eq!(numbers(&shell.json(&["dead-letters", "list", "orders"])), [1, 2, 3]);
}

#[test]
fn a_message_that_was_resubmitted_too_often_stays() {
    let shell = Shell::on_a_store();
    shell.ok(&["entities", "create", "orders"]);
    shell.ok(&["send", "orders", "--body", "bomb"]);
    for _ in 0..4 {
        shell.dead_letter("orders", 1, "HandlerFailed");
        shell.ok(&["dead-letters", "resubmit", "orders", "--apply"]);
    }
    shell.dead_letter("orders", 1, "HandlerFailed");
    assert!(shell.ok(&["dead-letters", "resubmit", "orders"]).contains("kept: it was resubmitted 4 times before"));
    let ran = shell.run(&["dead-letters", "resubmit", "orders", "--apply", "--json"]);
    assert_eq!((ran.code, &objects(&ran.out)[0]["at_hop_limit"]), (Some(6), &json!(1)), "{ran:?}");
}

/// Rules: L-11, L-25.
/// The copy and the removal are one transaction: a copy that is refused leaves the dead letter, uncounted.
#[test]
fn a_refused_copy_leaves_its_dead_letter() {
    let shell = shell();
    shell.ok(&["entities", "update", "orders", "--status", "send-disabled"]);
    let ran = shell.run(&["dead-letters", "resubmit", "orders", "--apply", "--json"]);
    let report = &objects(&ran.out)[0];
    assert_eq!((ran.code, &report["resubmitted"]), (Some(6), &json!(0)), "{ran:?}");
    let failures = report["failures"].as_array().unwrap();
    assert!(
        failures.iter().all(|failure| failure["error"].as_str().unwrap().starts_with("not resubmitted")),
        "{report}"
    );
    assert_eq!((failures.len(), shell.json(&["peek", "orders"]).len()), (4, 0));
    let left = shell.json(&["dead-letters", "list", "orders"]);
    assert_eq!(numbers(&left), [1, 2, 3, 4]);
    let counts = left.iter().map(|dead| dead["message"]["received"]["delivery_count"].clone());
    assert_eq!(counts.collect::<Vec<_>>(), [0, 0, 0, 0], "{left:?}");
}

#[test]
fn dead_letters_are_the_same_on_a_store() {
    let shell = Shell::on_a_store();
    session::check("file:", "orders", &mut |arguments| {
        let ran = shell.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        (ran.code.unwrap(), ran.out)
    });
}
