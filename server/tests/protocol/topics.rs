use std::time::Duration;

use consign_amqp::{
    engine::Delivery,
    message::{ApplicationProperties, Sections},
    types::Error,
    value::{Described, List, Symbol, Timestamp, Value},
};
use consign_core::administration::{QueueSettings, SubscriptionSettings};

use crate::support::*;

/// Rules: T-51, M-03.
#[tokio::test(start_paused = true)]
async fn a_topic_copies_to_its_subscriptions() {
    let harness = Harness::new();
    let session = harness.session().await;
    let mut one = receiver(&session, "prices/Subscriptions/one").await;
    let mut other = receiver(&session, "prices/Subscriptions/other").await;
    send(&session, "prices", &["a"]).await;
    for link in [&mut one, &mut other] {
        let delivery = receive(link).await;
        complete(link, &delivery).await;
        let sections = read(delivery);
        assert_eq!((body(&sections), sequence_number(&sections)), ("a", 1));
    }
}

/// Rules: T-62, T-63, C-07, M-03, M-05.
#[tokio::test(start_paused = true)]
async fn forwarded_messages_say_where_they_come_from() {
    let harness = Harness::new();
    let broker = harness.broker();
    broker.create_queue("all", QueueSettings::default()).unwrap();
    broker.create_queue("dead", QueueSettings::default()).unwrap();
    broker.create_queue("orders", QueueSettings::default().forward_to("all")).unwrap();
    broker.create_queue("bills", QueueSettings::default().forward_dead_letters_to("dead")).unwrap();
    let session = harness.session().await;
    send(&session, "orders", &["a"]).await;
    let forwarded = read(receive(&mut receiver(&session, "all").await).await);
    assert_eq!(annotation(&forwarded, "x-opt-enqueue-sequence-number"), Some(Value::Long(1)));

    send(&session, "bills", &["b"]).await;
    let mut link = receiver(&session, "bills").await;
    let delivery: Delivery = receive(&mut link).await;
    let error = Error::new(Symbol::from_static("com.microsoft:dead-letter"), "");
    settle(&link, &delivery, rejected(Some(error))).await;
    let dead = read(receive(&mut receiver(&session, "dead").await).await);
    assert_eq!(annotation(&dead, "x-opt-deadletter-source"), Some("bills".into()));
}

fn with_property(body: &str, name: &str, value: impl Into<Value>) -> consign_amqp::bytes::Bytes {
    let mut properties = ApplicationProperties::default();
    properties.push(name, value);
    encode(&Sections { application_properties: Some(properties), ..sections(body) })
}

fn described(value: &Value) -> (&Value, &[Value]) {
    match value {
        Value::Described(described) => {
            let Described { descriptor, value: Value::List(List(fields)) } = &**described else { panic!("{value:?}") };
            (descriptor, fields)
        }
        other => panic!("{other:?}"),
    }
}

/// Rules: G-30, G-31, G-32, G-40, G-41, G-42, G-43, G-44, G-45, T-52, T-56.
#[tokio::test(start_paused = true)]
async fn rules_are_added_listed_and_removed() {
    let harness = Harness::new();
    let session = harness.session().await;
    let mut link = receiver(&session, "prices/subscriptions/audit").await;
    let mut manage = Requester::attach(&session, "prices/subscriptions/audit/$management").await;
    tokio::time::advance(Duration::from_secs(5)).await;
    let expression = |text: &str| Value::from(fields([("expression", text.into())]));
    let large = fields([("sql-filter", expression("amount > 10")), ("sql-rule-action", expression("SET big = TRUE"))]);
    let request = fields([("rule-name", "large".into()), ("rule-description", large.into())]);
    assert_eq!(manage.call("com.microsoft:add-rule", request.clone()).await.status(), 200);
    let again = manage.call("com.microsoft:add-rule", request).await;
    assert_eq!((again.status(), again.condition()), (409, Some("com.microsoft:entity-already-exists")));
    let properties = fields([("colour", "red".into())]);
    let correlation = fields([("correlation-id", "c".into()), ("properties", properties.into())]);
    let description = fields([("correlation-filter", correlation.into()), ("sql-rule-action", Value::Null)]);
    let request = fields([("rule-name", "red".into()), ("rule-description", description.into())]);
    assert_eq!(manage.call("com.microsoft:add-rule", request).await.status(), 200);

    tokio::time::advance(Duration::from_secs(5)).await;
    let rules =
        manage.call("com.microsoft:enumerate-rules", fields([("top", 100_i32.into()), ("skip", 0_i32.into())])).await;
    let Value::List(List(rules)) = rules.field("rules") else { panic!("{rules:?}") };
    let mut listed = Vec::new();
    for rule in rules {
        let Value::Map(rule) = rule else { panic!("{rule:?}") };
        let (code, parts) = described(rule.get("rule-description").unwrap());
        assert_eq!(*code, Value::Ulong(0x137_0000_0004));
        let (filter, action) = (described(&parts[0]), described(&parts[1]));
        let created = if parts[2].as_str() == Some("$Default") { 0 } else { 5_000 };
        assert_eq!(parts[3], Value::Timestamp(Timestamp(START.as_millis() + created)));
        listed.push((parts[2].as_str().unwrap().to_owned(), filter.0.clone(), action.0.clone()));
        match parts[2].as_str().unwrap() {
            "large" => {
                assert_eq!((filter.1[0].as_str(), action.1[0].as_str()), (Some("amount > 10"), Some("SET big = TRUE")));
            }
            "red" => assert_eq!((filter.1[0].as_str(), filter.1.len()), (Some("c"), 9)),
            _ => {}
        }
    }
    let none = Value::Ulong(0x137_0000_0005);
    assert_eq!(
        listed,
        [
            ("$Default".to_owned(), Value::Ulong(0x13_7000_0007), none.clone()),
            ("large".to_owned(), Value::Ulong(0x13_7000_0006), Value::Ulong(0x137_0000_0006)),
            ("red".to_owned(), Value::Ulong(0x13_7000_0009), none),
        ]
    );

    let remove = |name: &str| fields([("rule-name", name.into())]);
    assert_eq!(manage.call("com.microsoft:remove-rule", remove("$Default")).await.status(), 200);
    let missing = manage.call("com.microsoft:remove-rule", remove("$Default")).await;
    assert_eq!(missing.status(), 404);
    let sender = sender(&session, "prices").await;
    for amount in [5_i32, 20] {
        sender.send(with_property(&amount.to_string(), "amount", amount)).await.unwrap();
    }
    let copy = read(receive(&mut link).await);
    assert_eq!(body(&copy), "20");
    assert_eq!(copy.application_properties.unwrap().get("big"), Some(&true.into()));
    assert_eq!(drain(&mut link).await, [""; 0]);
}

/// Rules: G-14.
#[tokio::test(start_paused = true)]
async fn bad_rules_and_rules_of_a_queue_are_refused() {
    let harness = Harness::new();
    let session = harness.session().await;
    harness.broker().create_queue("orders", QueueSettings::default()).unwrap();
    let topic =
        harness.broker().create_topic("prices", consign_core::administration::TopicSettings::default()).unwrap();
    topic.create_subscription("audit", SubscriptionSettings::default()).unwrap();
    let rule = |text: &str| {
        let filter = fields([("expression", text.into())]);
        let description = fields([("sql-filter", filter.into())]);
        fields([("rule-name", "r".into()), ("rule-description", description.into())])
    };
    let mut manage = Requester::attach(&session, "prices/subscriptions/audit/$management").await;
    let answer = manage.call("com.microsoft:add-rule", rule("amount >")).await;
    assert_eq!((answer.status(), answer.condition()), (400, Some("com.microsoft:argument-error")));
    let filter = |text: &str| Value::from(fields([("expression", text.into())]));
    // Names of fields have a case.
    let expression = fields([("Expression", "a=1".into())]);
    for description in [
        fields([("sql-filter", expression.clone().into())]),
        fields([("sql-filter", fields([]).into())]),
        fields([("sql-filter", fields([("expression", Value::Null)]).into())]),
        fields([("correlation-filter", fields([]).into()), ("sql-filter", fields([]).into())]),
        fields([("sql-filter", filter("1=1")), ("sql-rule-action", expression.into())]),
        // It would match every message.
        fields([]),
        fields([("false-filter", fields([]).into())]),
        fields([("sql-filter", Value::Null), ("sql-rule-action", filter("SET a = 1"))]),
        fields([("sql-filter", filter("1=1")), ("correlation-filter", fields([("label", "a".into())]).into())]),
    ] {
        let request = fields([("rule-name", "r".into()), ("rule-description", description.clone().into())]);
        let answer = manage.call("com.microsoft:add-rule", request).await;
        assert_eq!(
            (answer.status(), answer.condition()),
            (400, Some("com.microsoft:argument-error")),
            "{description:?}"
        );
    }
    assert_eq!(topic.subscription("audit").unwrap().rules().len(), 1);
    // The filters of azservicebus, which has an empty action where there is none.
    for (name, kind, map) in
        [("sql", "sql-filter", filter("1=1")), ("label", "correlation-filter", fields([("label", "a".into())]).into())]
    {
        let description = fields([(kind, map), ("sql-rule-action", fields([]).into())]);
        let request = fields([("rule-name", name.into()), ("rule-description", description.into())]);
        assert_eq!(manage.call("com.microsoft:add-rule", request).await.status(), 200);
    }
    let rules = topic.subscription("audit").unwrap().rules();
    assert!(rules.len() == 3 && rules.iter().all(|rule| rule.action().is_none()));
    let mut manage = Requester::attach(&session, "orders/$management").await;
    let answer = manage.call("com.microsoft:add-rule", rule("1=1")).await;
    assert_eq!((answer.status(), answer.condition()), (400, Some("amqp:not-allowed")));
}
