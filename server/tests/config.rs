//! Configuration files.

use std::time::Duration;

use consign_broker::Broker;
use consign_core::administration::{AuthorizationRule, QueueSettings};
use consign_server::config::Config;

const EMULATOR: &str = r#"{
  "UserConfig": {
    "Namespaces": [{
      "Name": "sbemulatorns",
      "Queues": [
        {"Name": "first", "Properties": {"ForwardTo": "second", "LockDuration": "PT30S", "MaxDeliveryCount": 7}},
        {"Name": "second", "Properties": {"RequiresDuplicateDetection": true, "ForwardDeadLetteredMessagesTo": ""}},
        {"Name": "sessions", "Properties": {"RequiresSession": true, "DefaultMessageTimeToLive": "P10675199DT2H48M5.4775807S"}}
      ],
      "Topics": [{
        "Name": "topic",
        "Properties": {"RequiresDuplicateDetection": false, "DuplicateDetectionHistoryTimeWindow": "PT20S"},
        "Subscriptions": [{"Name": "sub", "Rules": [
          {"Name": "sql", "Properties": {"FilterType": "Sql", "SqlFilter": {"SqlExpression": "a = 1"}, "Action": {"SqlExpression": "SET b = 2"}}},
          {"Name": "fields", "Properties": {"FilterType": "Correlation", "CorrelationFilter": {"Label": "l", "Properties": {"p": "v"}}}}
        ]}, {"Name": "all"}]
      }]
    }],
    "Logging": {"Type": "File"}
  }
}"#;

#[test]
fn a_file_of_the_emulator_creates_its_entities() {
    let (broker, config) = (Broker::new(), Config::from_emulator_json(EMULATOR).unwrap());
    config.apply(&broker).unwrap();
    let settings = |name: &str| broker.queue(name).unwrap().settings().unwrap();
    let first = settings("first");
    assert_eq!((first.lock_duration, first.max_delivery_count), (Duration::from_secs(30), 7));
    assert_eq!(first.forward_to.as_deref(), Some("second"));
    let defaults = QueueSettings::emulator();
    let second = settings("second");
    assert_eq!(second.duplicate_detection, Some(Duration::from_secs(20)));
    assert_eq!((second.max_delivery_count, second.default_time_to_live), (3, defaults.default_time_to_live));
    assert_eq!(second.forward_dead_letters_to, None);
    assert_eq!((settings("sessions").requires_session, settings("sessions").default_time_to_live), (true, None));
    let topic = broker.topic("topic").unwrap();
    assert_eq!(topic.settings().unwrap().duplicate_detection, None);
    let rules = |name: &str| topic.subscription(name).unwrap().rules();
    assert_eq!(rules("sub").iter().map(|rule| rule.name().to_owned()).collect::<Vec<_>>(), ["fields", "sql"]);
    assert!(rules("sub")[1].action().is_some());
    assert_eq!(rules("all")[0].name(), "$Default");
    // A second time changes nothing.
    config.apply(&broker).unwrap();
    assert_eq!(rules("sub").len(), 2);
    assert_eq!(config.entities(), broker.entities().len());
}

#[test]
fn a_file_may_begin_with_a_byte_order_mark() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("\u{feff}{text}")).unwrap();
        path
    };
    assert_eq!(Config::read(file("emulator.json", EMULATOR)).unwrap().entities(), 6);
    let keys = file("keys.toml", "[[keys]]\nname = 'k'\nkey = 'secret'\nrights = ['Send']");
    assert_eq!(Config::read_keys(keys).unwrap().len(), 1);
}

#[test]
fn a_rule_of_a_file_replaces_one_of_its_name_in_any_case() {
    let broker = Broker::new();
    for name in ["\u{c4}", "\u{e4}"] {
        let text = format!("[topics.t]\n[subscriptions.t.s]\n[[rules.t.s]]\nname = '{name}'\nsql = 'n = 1'");
        Config::from_toml(&text).unwrap().apply(&broker).unwrap();
        let rules = broker.topic("t").unwrap().subscription("s").unwrap().rules();
        assert_eq!(rules.iter().map(|rule| rule.name().to_owned()).collect::<Vec<_>>(), [name]);
    }
}

/// Beside a rule that is always true the others filter nothing.
#[test]
fn the_first_rules_of_a_file_replace_the_default_rule() {
    let broker = Broker::new();
    let names = |text: &str| {
        Config::from_toml(&format!("[topics.t]\n[subscriptions.t.s]\n{text}")).unwrap().apply(&broker).unwrap();
        let rules = broker.topic("t").unwrap().subscription("s").unwrap().rules();
        rules.iter().map(|rule| rule.name().to_owned()).collect::<Vec<_>>()
    };
    let rule = |name: &str, filter: &str| format!("[[rules.t.s]]\nname = '{name}'\n{filter}\n");
    assert_eq!(names(""), ["$Default"]);
    assert_eq!(names(&(rule("urgent", "sql = 'priority > 5'") + &rule("$default", ""))), ["$default", "urgent"]);
    assert_eq!(names(&rule("urgent", "sql = 'priority > 5'")), ["urgent"]);
    // A rule that filters is kept, whatever its name is, and so are rules that are no longer in the file.
    assert_eq!(names(&rule("$Default", "sql = 'priority = 1'")), ["$Default", "urgent"]);
    assert_eq!(names(&rule("urgent", "sql = 'priority > 6'")), ["$Default", "urgent"]);
    assert_eq!(names(""), ["$Default", "urgent"]);
}

#[test]
fn settings_of_existing_entities_change_and_fixed_ones_are_errors() {
    let broker = Broker::new();
    broker.create_queue("orders", QueueSettings::default()).unwrap();
    Config::from_toml("[queues.orders]\nlock_duration = 'PT9S'").unwrap().apply(&broker).unwrap();
    assert_eq!(broker.queue("orders").unwrap().settings().unwrap().lock_duration, Duration::from_secs(9));
    let error = Config::from_toml("[queues.orders]\nrequires_session = true").unwrap().apply(&broker).unwrap_err();
    assert!(error.to_string().starts_with("orders: requires_session"), "{error}");
}

#[test]
fn a_forward_to_an_entity_that_does_not_exist_names_the_setting() {
    for (text, place) in [
        ("[queues.orders]\nforward_to = 'Nope'", "orders: forward_to"),
        ("[queues.orders]\nforward_dead_lettered_messages_to = 'Nope'", "orders: forward_dead_lettered_messages_to"),
        ("[topics.t]\n[subscriptions.t.s]\nforward_to = 'Nope'", "t: s: forward_to"),
    ] {
        let error = Config::from_toml(text).unwrap().apply(&Broker::new()).unwrap_err().to_string();
        assert_eq!(error, format!("{place}: The messaging entity 'nope' could not be found."), "{text}");
    }
}

#[test]
fn an_error_names_the_entity_and_the_setting() {
    for (text, parts) in [
        ("[queues.orders]\nlock = 'PT9S'", ["line 2", "`lock`"]),
        ("[queues.orders]\nlock_duration = 'PT1S'", ["orders", "lock_duration"]),
        ("[queues.orders]\nlock_duration = '9s'", ["line 2", "ISO 8601"]),
        ("[subscriptions.none.a]", ["none", "topic"]),
        ("[topics.t]\n[subscriptions.t.a]\n[[rules.t.a]]\nname = 'r'\nsql = 'a >'", ["t: a: r: ", ""]),
        ("[topics.t]\n[[rules.t.b]]\nname = 'r'", ["t: b", "subscription"]),
        ("[[keys]]\nname = 'k'\nkey = ''\nrights = ['Send']", ["k", "a key"]),
    ] {
        let error = Config::from_toml(text).unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{text}: {error}");
    }
    let error = Config::from_emulator_json(&EMULATOR.replace("a = 1", "a =")).unwrap_err().to_string();
    assert!(error.starts_with("topic: sub: sql: "), "{error}");
}

/// Not a key for all entities.
#[test]
fn the_entity_of_a_key_is_a_path() {
    let key = |entity: &str| {
        let text = format!("[[keys]]\nname = 'k'\nkey = 'secret'\nrights = ['Send']\nentity = '{entity}'");
        Config::from_toml(&text).map(|mut config| format!("{:?}", config.take_keys()))
    };
    for entity in ["", "/", "$management", "sb://host/", "a//b", "$cbs"] {
        let error = key(entity).unwrap_err().to_string();
        assert!(error.starts_with("k: entity: ") && !error.contains("secret"), "{entity}: {error}");
    }
    for entity in ["orders", "/Orders/", "sb://host/orders", "orders/$management"] {
        assert!(key(entity).unwrap().contains("\"orders\""), "{entity}");
    }
}

#[test]
fn a_name_that_is_given_twice_is_an_error() {
    let subscriptions = |names: [&str; 2], rules: [&str; 2]| {
        let rules = rules.map(|name| format!(r#"{{"Name": "{name}"}}"#)).join(",");
        let subscriptions = names.map(|name| format!(r#"{{"Name": "{name}", "Rules": [{rules}]}}"#)).join(",");
        format!(r#""Topics": [{{"Name": "t", "Subscriptions": [{subscriptions}]}}]"#)
    };
    for (entities, place) in [
        (r#""Queues": [{"Name": "a"}, {"Name": "b"}, {"Name": "A"}]"#.to_owned(), "A: "),
        (r#""Topics": [{"Name": "a"}, {"Name": "a"}]"#.to_owned(), "a: "),
        (r#""Queues": [{"Name": "a"}], "Topics": [{"Name": "\u00c4"}, {"Name": "\u00e4"}]"#.to_owned(), "\u{e4}: "),
        (r#""Queues": [{"Name": "a"}], "Topics": [{"Name": "A"}]"#.to_owned(), "A: "),
        (subscriptions(["a", "A"], ["x", "y"]), "t: A: "),
        (subscriptions(["a", "b"], ["x", "X"]), "t: a: X: "),
    ] {
        let text = format!(r#"{{"UserConfig": {{"Namespaces": [{{"Name": "n", {entities}}}]}}}}"#);
        let error = Config::from_emulator_json(&text).unwrap_err().to_string();
        assert_eq!(error, format!("{place}the name is given twice"), "{text}");
    }
    for (text, place) in [
        ("[queues.a]\n[queues.A]", "a: "),
        ("[queues.a]\n[topics.A]", "A: "),
        ("[topics.t]\n[subscriptions.t.a]\n[subscriptions.t.A]", "t: a: "),
        ("[topics.t]\n[subscriptions.t.a]\n[[rules.t.a]]\nname = 'r'\n[[rules.t.a]]\nname = 'R'", "t: a: R: "),
    ] {
        let error = Config::from_toml(text).unwrap_err().to_string();
        assert_eq!(error, format!("{place}the name is given twice"), "{text}");
    }
}

/// What clients have set and the file leaves out is kept.
#[test]
fn metadata_is_read_from_a_file_and_otherwise_kept() {
    let broker = Broker::new();
    let own = |text: &str| {
        let mut settings = QueueSettings::default();
        settings.metadata.user = Some(text.to_owned());
        settings.metadata.express = Some(true);
        let key = |digit: &str| digit.repeat(43) + "=";
        settings.metadata.authorization_rules = vec![AuthorizationRule::new("sender", key("A"), key("E")).send(true)];
        settings
    };
    broker.create_queue("orders", own("of a client")).unwrap();
    let metadata = |text: &str| {
        Config::from_toml(text).unwrap().apply(&broker).unwrap();
        broker.queue("orders").unwrap().settings().unwrap().metadata
    };
    assert_eq!(metadata("[queues.orders]\nmax_delivery_count = 3"), own("of a client").metadata);
    let read = metadata("[queues.orders]\nuser_metadata = \"of the file\"\nenable_batched_operations = false");
    assert_eq!(
        (read.user.as_deref(), read.batched_operations, read.express),
        (Some("of the file"), Some(false), Some(true))
    );
    assert_eq!(read.authorization_rules, own("").metadata.authorization_rules);
    let topic = "[topics.news]\nuser_metadata = \"a\"\n[subscriptions.news.mail]\nuser_metadata = \"b\"";
    for _ in 0..2 {
        Config::from_toml(topic).unwrap().apply(&broker).unwrap();
        let topic = broker.topic("news").unwrap();
        let mail = topic.subscription("mail").unwrap().subscription_settings().unwrap();
        assert_eq!(topic.settings().unwrap().metadata.user.as_deref(), Some("a"));
        assert_eq!(mail.metadata.user.as_deref(), Some("b"));
    }
    let long = format!("[queues.orders]\nuser_metadata = \"{}\"", "x".repeat(1_025));
    assert!(Config::from_toml(&long).is_err());
}
