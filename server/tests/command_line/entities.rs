use serde_json::json;

use crate::support::Shell;

#[test]
fn entities_are_created_listed_changed_and_deleted() {
    let shell = Shell::on_a_store();
    assert_eq!(shell.ok(&["entities", "create", "orders", "--lock-duration", "5s"]), "created queue orders\n");
    shell.ok(&["entities", "create", "events", "--kind", "topic", "--duplicate-detection", "10m"]);
    let created = shell.json(&["entities", "create", "events/Subscriptions/all", "--max-delivery-count", "3"]);
    assert_eq!(created, [json!({"created": "events/Subscriptions/all", "kind": "subscription"})]);

    let listed = shell.json(&["entities", "list"]);
    let kinds: Vec<_> = listed.iter().map(|entity| (entity["entity"].clone(), entity["kind"].clone())).collect();
    let expected = [("events", "topic"), ("events/Subscriptions/all", "subscription"), ("orders", "queue")];
    assert_eq!(kinds, expected.map(|(entity, kind)| (json!(entity), json!(kind))));
    assert_eq!(listed[2]["counts"]["active"], 0);
    assert!(shell.json(&["entities", "list", "--no-counts"])[2]["counts"].is_null());

    shell.ok(&[
        "entities",
        "update",
        "orders",
        "--time-to-live",
        "1h",
        "--dead-letter-on-expiration",
        "--status",
        "send-disabled",
    ]);
    let settings = shell.json(&["entities", "show", "orders"])[0]["settings"].clone();
    assert_eq!(settings["lock_duration"], 5_000, "it was not named in the update: {settings}");
    assert_eq!(settings["time_to_live"], 3_600_000);
    assert_eq!((&settings["dead_letter_on_expiration"], &settings["status"]), (&json!(true), &json!("send-disabled")));
    shell.ok(&["entities", "update", "orders", "--time-to-live", "none", "--dead-letter-on-expiration=false"]);
    let settings = shell.json(&["entities", "show", "orders"])[0]["settings"].clone();
    assert_eq!((&settings["time_to_live"], &settings["dead_letter_on_expiration"]), (&json!(null), &json!(false)));
    shell.ok(&["entities", "update", "orders", "--dead-letter-on-expiration", "true"]);
    assert_eq!(shell.json(&["entities", "show", "orders"])[0]["settings"]["dead_letter_on_expiration"], true);
    shell.ok(&["entities", "update", "--dead-letter-on-expiration", "false", "orders"]);
    assert_eq!(shell.json(&["entities", "show", "orders"])[0]["settings"]["dead_letter_on_expiration"], false);

    let dry = shell.ok(&["entities", "delete", "orders"]);
    assert!(dry.starts_with("would delete queue orders: 0 active"), "{dry}");
    assert_eq!(shell.ok(&["entities", "delete", "orders", "--yes"]), "deleted queue orders\n");
    shell.fails(3, &["entities", "delete", "orders", "--apply"]);
}

#[test]
fn a_setting_that_an_entity_does_not_have_is_named() {
    let shell = Shell::on_a_store();
    shell.ok(&["entities", "create", "events", "--kind", "topic"]);
    let error = shell.fails(2, &["entities", "update", "events", "--lock-duration", "5s"]);
    assert_eq!(error, "error: a topic does not have --lock-duration\n");
    shell.fails(2, &["entities", "create", "events/Subscriptions/all", "--max-size", "4096"]);
    shell.fails(2, &["entities", "create", "orders", "--kind", "subscription"]);
    shell.fails(2, &["entities", "create", "orders", "--lock-duration", "1s"]);
}

#[test]
fn an_entity_that_exists_is_not_created_again_unless_it_is_the_same() {
    let shell = Shell::on_a_store();
    shell.ok(&["entities", "create", "orders"]);
    shell.fails(1, &["entities", "create", "orders"]);
    shell.ok(&["entities", "create", "orders", "--if-absent"]);
    let error = shell.fails(1, &["entities", "create", "orders", "--if-absent", "--max-delivery-count", "3"]);
    assert!(error.contains("max_delivery_count"), "{error}");
}

#[test]
fn rules_choose_the_messages_of_a_subscription() {
    let shell = Shell::on_a_store();
    shell.ok(&["entities", "create", "events", "--kind", "topic"]);
    let red = "events/Subscriptions/red";
    shell.ok(&["entities", "create", red]);
    shell.ok(&["entities", "rules", "delete", red, "$Default"]);
    shell.ok(&[
        "entities",
        "rules",
        "create",
        red,
        "colour",
        "--property",
        "colour=red",
        "--correlation",
        "subject=paint",
    ]);
    shell.ok(&["entities", "rules", "create", red, "large", "--sql", "size > 10", "--action", "SET checked = TRUE"]);
    let listed = shell.ok(&["entities", "rules", "list", red]);
    assert!(listed.contains("large: sql size > 10, action SET checked = TRUE"), "{listed}");
    let names: Vec<_> =
        shell.json(&["entities", "rules", "list", red]).iter().map(|rule| rule["name"].clone()).collect();
    assert_eq!(names, ["colour", "large"]);

    shell.ok(&["send", "events", "--body", "red paint", "--subject", "paint", "-p", "colour=red"]);
    shell.ok(&["send", "events", "--body", "blue paint", "--subject", "paint", "-p", "colour=blue"]);
    shell.ok(&["send", "events", "--body", "a large one", "-p", "size:i64=11"]);
    assert_eq!(shell.bodies(red), ["red paint", "a large one"]);
    shell.fails(2, &["entities", "rules", "create", red, "wrong", "--sql", "size >"]);
    let refused = |options: &[&str], names: &str| {
        let error = shell.fails(2, &[&["entities", "rules", "create", red, "wrong"], options].concat());
        assert!(error.contains(names), "{error}");
    };
    refused(&["--correlation", "subject=a", "--correlation", "label=urgent"], "`label`");
    refused(&["--correlation", "subject=a", "--correlation", "subject=b"], "`subject` is given twice");
    refused(&["--property", "n=a", "--property", "n:i64=1"], "`n` is given twice");
    shell.fails(3, &["entities", "rules", "delete", red, "nothing"]);
}
