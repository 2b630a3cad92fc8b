//! Rules of subscriptions.

use consign::{
    Message,
    administration::{Administration, QueueSettings, SubscriptionSettings, TopicSettings},
    rules::{CorrelationFilter, ManageRules, Rule, SqlAction, SqlFilter},
    transport::ErrorKind,
};

use crate::{Fixture, path, receive, receiver, send, text};

#[tokio::test]
async fn rules_are_created_listed_by_another_process_and_deleted() {
    let Some(fixture) = Fixture::new().await else { return };
    let topic = fixture.create("prices", TopicSettings::default()).await;
    let audit = fixture.create("prices/Subscriptions/audit", SubscriptionSettings::default()).await;
    let other = fixture.other().await;
    let red = Rule::new("Red", CorrelationFilter::builder().property("colour", "red").build().unwrap()).unwrap();
    let large = Rule::new("large", SqlFilter::parse("price > 1000").unwrap()).unwrap();
    let large = large.with_action(SqlAction::parse("SET priority = 'high'").unwrap());
    fixture.transport.create_rule(&audit, &red).await.unwrap();
    fixture.transport.create_rule(&audit, &large).await.unwrap();
    let error = other.create_rule(&audit, &Rule::new("RED", large.filter().clone()).unwrap()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    assert_eq!(other.rules(&audit).await.unwrap(), [Rule::default(), large.clone(), red.clone()]);
    for rule in [Rule::DEFAULT_NAME, "LARGE"] {
        other.delete_rule(&audit, rule).await.unwrap();
    }
    assert_eq!(fixture.transport.rules(&audit).await.unwrap(), [red]);

    let coloured = |colour: &'static str| Message::builder().property("colour", colour).build(colour).unwrap();
    send(&fixture.transport, &topic, [coloured("blue"), coloured("red")]).await;
    assert_eq!(text(&receive(&mut receiver(&other, &audit).await).await.message), b"red");
    other.delete_rule(&audit, "red").await.unwrap();
    assert!(other.rules(&audit).await.unwrap().is_empty());
    fixture.end().await;
}

#[tokio::test]
async fn a_rule_needs_its_subscription() {
    let Some(fixture) = Fixture::new().await else { return };
    let (transport, queue) = (&fixture.transport, fixture.create("orders", QueueSettings::default()).await);
    let missing = path("prices/Subscriptions/audit");
    for path in [&queue, &missing] {
        let kinds = [
            transport.create_rule(path, &Rule::default()).await.unwrap_err().kind(),
            transport.delete_rule(path, "one").await.unwrap_err().kind(),
            transport.rules(path).await.unwrap_err().kind(),
        ];
        assert_eq!(kinds, [ErrorKind::EntityNotFound; 3], "{path}");
    }
    fixture.create("prices", TopicSettings::default()).await;
    transport.create(&missing, &SubscriptionSettings::default().into()).await.unwrap();
    assert_eq!(transport.delete_rule(&missing, "one").await.unwrap_err().kind(), ErrorKind::EntityNotFound);
    fixture.end().await;
}
