//! Entities that a process needs, whether it is the first or not.

use std::time::Duration;

use consign::{
    Message,
    administration::{QueueSettings, Status, SubscriptionSettings, TopicSettings},
    broker::Broker,
    rules::{CorrelationFilter, Filter, Rule, SqlAction, SqlFilter},
    transport::{ErrorKind, ManageError, Sender},
};

use crate::support::{Disk, receive, texts};

#[track_caller]
fn assert_other<T>(declared: Result<T, ManageError>, named: &str) {
    let Err(error) = declared else { panic!("it was declared") };
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    assert!(error.to_string().contains(named), "{error}");
}

fn queue() -> QueueSettings {
    QueueSettings::default().duplicate_detection(Duration::from_secs(60)).forward_dead_letters_to("Dead")
}

fn rule(text: &str) -> Rule {
    Rule::new("large", SqlFilter::parse(text).unwrap()).unwrap()
}

/// What a process does whenever it starts.
fn declare_all(broker: &Broker) -> Result<(), ManageError> {
    broker.declare_queue("dead", QueueSettings::default())?;
    broker.declare_queue("Orders", queue())?;
    let topic = broker.declare_topic("Prices", TopicSettings::default().max_size(1 << 20))?;
    let settings = SubscriptionSettings::default().max_delivery_count(3);
    let audit = topic.declare_subscription_with("Audit", settings, rule("amount > 1"))?;
    audit.declare_rule(Rule::new("red", CorrelationFilter::builder().subject("red").build()?)?)?;
    topic.declare_subscription("all", SubscriptionSettings::default()).map(drop)
}

/// Rules: D-11.
#[tokio::test]
async fn a_declared_entity_is_created_once() {
    let disk = Disk::new();
    for process in 1..=3 {
        let (broker, _) = disk.open();
        for _ in 0..2 {
            declare_all(&broker).unwrap();
        }
        assert_eq!(broker.entities().len(), 5);
        let orders = broker.declare_queue("ORDERS", queue().forward_dead_letters_to("dead")).unwrap();
        assert_eq!(orders.path().as_str(), "Orders", "as it was first written");
        let topic = broker.declare_topic("prices", TopicSettings::default().max_size(1 << 20)).unwrap();
        assert_eq!(topic.path().as_str(), "Prices");
        let all = topic.declare_subscription("ALL", SubscriptionSettings::default()).unwrap();
        assert_eq!((all.name(), all.rules().len()), ("all", 1));
        orders.sender().unwrap().send(Message::new(process.to_string())).await.unwrap();
        assert_eq!(orders.counts().active, process, "what it holds stays");
        let audit = topic.subscription("audit").unwrap();
        assert_eq!(audit.rules().iter().map(Rule::name).collect::<Vec<_>>(), ["large", "red"]);
        topic.sender().send(Message::builder().subject("red").build(process.to_string()).unwrap()).await.unwrap();
        broker.close().await.unwrap();
    }
    let (broker, _) = disk.open();
    let audit = broker.queue("prices/subscriptions/audit").unwrap();
    assert_eq!(texts(&receive(&audit).await), ["1", "2", "3"]);
}

/// Rules: D-11.
#[test]
fn a_queue_with_another_setting_is_refused_and_stays() {
    let broker = Broker::new();
    let minute = Duration::from_secs(60);
    broker.declare_queue("sink", QueueSettings::default()).unwrap();
    broker.declare_queue("orders", QueueSettings::default()).unwrap();
    let others = [
        (QueueSettings::default().lock_duration(minute / 2), "lock_duration"),
        (QueueSettings::default().max_delivery_count(3), "max_delivery_count"),
        (QueueSettings::default().default_time_to_live(minute), "default_time_to_live"),
        (QueueSettings::default().dead_letter_on_expiration(true), "dead_letter_on_expiration"),
        (QueueSettings::default().max_size(1 << 20), "max_size"),
        (QueueSettings::default().max_message_size(7), "max_message_size"),
        (QueueSettings::default().requires_session(true), "requires_session"),
        (QueueSettings::default().duplicate_detection(minute), "duplicate_detection"),
        (QueueSettings::default().max_duplicate_ids(7), "max_duplicate_ids"),
        (QueueSettings::default().partitioned(true), "partitioned"),
        (QueueSettings::default().forward_to("sink"), "forward_to"),
        (QueueSettings::default().forward_dead_letters_to("sink"), "forward_dead_letters_to"),
        (QueueSettings::default().auto_delete_on_idle(60 * minute), "auto_delete_on_idle"),
        (QueueSettings::default().status(Status::SendDisabled), "status"),
    ];
    for (settings, named) in others {
        assert_other(broker.declare_queue("Orders", settings), &format!("its {named} differs"));
        assert_eq!(broker.queue("orders").unwrap().settings().unwrap(), QueueSettings::default());
    }
    let changed = QueueSettings::default().max_delivery_count(3);
    broker.update_queue("orders", changed.clone()).unwrap();
    broker.declare_queue("orders", changed).unwrap();
    let invalid = broker.declare_queue("orders", QueueSettings::default().max_delivery_count(0)).unwrap_err();
    assert_eq!(invalid.kind(), ErrorKind::InvalidArgument);
    let missing = broker.declare_queue("new", QueueSettings::default().forward_to("nowhere")).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::EntityNotFound);
    assert_eq!(broker.entities().len(), 2);
}

/// Rules: D-11.
#[test]
fn another_topic_subscription_or_rule_is_refused() {
    let broker = Broker::new();
    declare_all(&broker).unwrap();
    assert_other(broker.declare_queue("prices", QueueSettings::default()), "prices: it is a topic");
    assert_other(broker.declare_topic("orders", TopicSettings::default()), "orders: it is a queue");
    assert_other(broker.declare_topic("prices", TopicSettings::default()), "its max_size differs");
    let topic = broker.topic("prices").unwrap();
    let audit = SubscriptionSettings::default().max_delivery_count(3);
    let other = audit.clone().dead_letter_on_filter_error(false);
    assert_other(topic.declare_subscription("audit", other), "its dead_letter_on_filter_error differs");
    let other = audit.clone().max_delivery_count(4);
    assert_other(topic.declare_subscription("audit", other), "its max_delivery_count differs");
    let declared = topic.declare_subscription_with("audit", audit.clone(), rule("amount > 2"));
    assert_other(declared, "the rule large differs");
    let unknown = Rule::new("small", Filter::True).unwrap();
    assert_other(topic.declare_subscription_with("audit", audit.clone(), unknown), "it has no rule small");
    let audit = topic.declare_subscription("audit", audit).unwrap();
    audit.declare_rule(rule("amount > 1")).unwrap();
    let with_action = rule("amount > 1").with_action(SqlAction::parse("SET a = 1").unwrap());
    for other in [rule("amount > 2"), with_action] {
        assert_other(audit.declare_rule(other), "the rule large differs");
    }
    assert_eq!(audit.rules().len(), 2);
    broker.delete("prices").unwrap();
    let gone = topic.declare_subscription("audit", SubscriptionSettings::default()).err().unwrap();
    assert_eq!(gone.kind(), ErrorKind::EntityNotFound);
    let gone = audit.declare_rule(rule("amount > 1")).unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::EntityNotFound);
}

/// Rules: D-11.
/// Who declares an entity uses it.
#[test]
fn an_entity_that_is_declared_again_is_not_idle() {
    let hour = Duration::from_secs(3_600);
    let clock = std::sync::Arc::new(consign::time::ManualClock::new(crate::support::START));
    let broker = Broker::with_clock(std::sync::Arc::clone(&clock));
    let settings = || QueueSettings::default().auto_delete_on_idle(hour);
    broker.declare_queue("orders", settings()).unwrap();
    for _ in 0..3 {
        clock.advance(hour / 2 + Duration::from_secs(1));
        broker.declare_queue("orders", settings()).unwrap();
    }
    clock.advance(hour / 2 + Duration::from_secs(1));
    assert_eq!(broker.entities().len(), 1);
    clock.advance(hour);
    assert_eq!(broker.entities().len(), 0);
}
