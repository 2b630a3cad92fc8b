use std::time::Duration;

use consign_core::administration::{AuthorizationRule, QueueSettings, SubscriptionSettings, TopicSettings};
use consign_http::administration::{
    Description, Document, Entry, Feed, FilterDescription, QueueDescription, RuleDescription, SqlDescription,
    SubscriptionDescription, TopicDescription, read,
};

use consign_rules::{CorrelationFilter, Filter, Rule};

use crate::support::{Answer, Harness};

const IF_MATCH: &[(&str, &str)] = &[("If-Match", "*")];

fn entry(answer: &Answer) -> Entry {
    let Document::Entry(entry) = read(&answer.body).unwrap() else { panic!("{answer:?}") };
    entry
}

fn feed(answer: &Answer) -> Feed {
    let Document::Feed(feed) = read(&answer.body).unwrap() else { panic!("{answer:?}") };
    feed
}

fn document(description: impl Into<Description>) -> Vec<u8> {
    Entry::new(description).to_xml()
}

/// Rules: HT-21.
#[tokio::test]
async fn a_queue_is_created_read_updated_and_deleted() {
    let harness = Harness::new().await;
    let settings = QueueSettings::default().max_delivery_count(3).requires_session(true);
    let body = document(QueueDescription::from(&settings));
    let created = harness.call("PUT", "/a/b?api-version=2021-05", &[], &body).await;
    assert_eq!(created.status, 201, "{created:?}");
    assert_eq!(created.header("content-type"), Some("application/xml; charset=utf-8"));
    assert_eq!(harness.broker().queue("a/b").unwrap().settings().unwrap(), settings);
    let found = entry(&harness.call("GET", "/A/B?api-version=2021-05", &[], "").await);
    assert_eq!(found.id.as_deref(), Some("http://localhost:5300/a/b?api-version=2021-05"));
    assert_eq!(found.title.as_deref(), Some("a/b"));
    let Description::Queue(mut queue) = found.description else { panic!() };
    assert_eq!(queue.max_delivery_count, Some(3));

    queue.lock_duration = Some(Duration::from_secs(30));
    let body = document(queue);
    assert_eq!(harness.call("PUT", "/a/b", &[], &body).await.status, 409);
    assert_eq!(harness.call("PUT", "/a/b", &[("If-Match", "\"1\"")], &body).await.status, 412);
    assert_eq!(harness.call("PUT", "/a/b", IF_MATCH, &body).await.status, 200);
    assert_eq!(harness.broker().queue("a/b").unwrap().settings().unwrap().lock_duration, Duration::from_secs(30));

    assert_eq!(harness.call("DELETE", "/a/b", &[], "").await.status, 200);
    for (method, headers) in [("DELETE", &[][..]), ("GET", &[]), ("PUT", IF_MATCH)] {
        assert_eq!(harness.call(method, "/a/b", headers, &body).await.status, 404, "{method}");
    }
}

/// The entity itself exists.
/// Rules: HT-21.
#[tokio::test]
async fn an_update_that_forwards_to_an_entity_that_does_not_exist_is_refused() {
    let harness = Harness::new().await;
    let queue = QueueDescription::from(&QueueSettings::default().forward_to("Nope"));
    let topic = harness.broker().create_topic("t", TopicSettings::default()).unwrap();
    topic.create_subscription("s", SubscriptionSettings::default()).unwrap();
    let mut settings = SubscriptionSettings::default();
    settings.forward_to = Some("Nope".to_owned());
    let subscription = SubscriptionDescription::from(&settings);
    for (path, body) in [("/q", document(queue)), ("/t/Subscriptions/s", document(subscription))] {
        let answer = harness.call("PUT", path, IF_MATCH, &body).await;
        assert!(
            answer.status == 400 && answer.text().contains("There is no entity &apos;nope&apos;."),
            "{path}: {answer:?}"
        );
    }
}

/// Rules: HT-21.
#[tokio::test]
async fn topics_subscriptions_and_rules_are_administered() {
    let harness = Harness::new().await;
    let put = async |path: &str, headers, body: &[u8]| harness.call("PUT", path, headers, body).await.status;
    assert_eq!(put("/t", &[], &document(TopicDescription::default())).await, 201);
    let mut subscription = SubscriptionDescription::from(&SubscriptionSettings::default());
    subscription.default_rule_description =
        Some(RuleDescription::new("first", FilterDescription::Sql(SqlDescription::new("n = 1"))));
    assert_eq!(put("/t/Subscriptions/s", &[], &document(subscription.clone())).await, 201);
    assert_eq!(put("/t/Subscriptions/s", &[], &document(subscription.clone())).await, 409);
    subscription.max_delivery_count = Some(5);
    assert_eq!(put("/t/Subscriptions/s", IF_MATCH, &document(subscription)).await, 200);
    let rules = harness.call("GET", "/t/subscriptions/s/rules", &[], "").await;
    let ids: Vec<_> = feed(&rules).entries.into_iter().filter_map(|entry| entry.id).collect();
    assert_eq!(ids, ["http://localhost:5300/t/subscriptions/s/rules/first"]);

    let rule = |text| document(RuleDescription::new("r", FilterDescription::Sql(SqlDescription::new(text))));
    assert_eq!(put("/t/Subscriptions/s/Rules/r", IF_MATCH, &rule("n = 1")).await, 404);
    assert_eq!(put("/t/Subscriptions/s/Rules/r", &[], &rule("n = 1")).await, 201);
    assert_eq!(put("/t/Subscriptions/s/Rules/r", &[], &rule("n = 1")).await, 409);
    assert_eq!(put("/t/Subscriptions/s/Rules/r", IF_MATCH, &rule("n = 2")).await, 200);
    assert_eq!(put("/t/Subscriptions/s/Rules/r", IF_MATCH, &rule("n = =")).await, 400);
    assert_eq!(put("/t/Subscriptions/s/Rules/other", &[], &rule("n = 2")).await, 400);
    let named = document(RuleDescription::new("\u{c4}", FilterDescription::Sql(SqlDescription::new("n = 1"))));
    assert_eq!(put("/t/Subscriptions/s/Rules/%C3%A4", &[], &named).await, 201);
    for (page, entries, is_last) in [("$skip=0&$top=2", 2, false), ("$skip=2&$top=2", 1, true)] {
        let page = feed(&harness.call("GET", &format!("/t/Subscriptions/s/Rules?{page}"), &[], "").await);
        assert_eq!((page.entries.len(), page.next.is_none()), (entries, is_last));
    }
    let found = entry(&harness.call("GET", "/t/subscriptions/s/rules/R", &[], "").await);
    let Description::Rule(found) = found.description else { panic!() };
    assert_eq!(found.filter, FilterDescription::Sql(SqlDescription::new("n = 2")));
    assert_eq!(harness.call("DELETE", "/t/Subscriptions/s/Rules/r", &[], "").await.status, 200);
    assert_eq!(harness.call("DELETE", "/t/Subscriptions/s/Rules/r", &[], "").await.status, 404);
    assert_eq!(harness.call("DELETE", "/t/Subscriptions/s", &[], "").await.status, 200);
    for path in ["/t/Subscriptions/s", "/t/Subscriptions/s/rules", "/none/subscriptions", "/q/subscriptions"] {
        assert_eq!(harness.call("GET", path, &[], "").await.status, 404, "{path}");
    }
}

/// Rules: HT-21.
#[tokio::test]
async fn a_rule_has_its_name_from_the_document_if_the_path_has_none() {
    let harness = Harness::new().await;
    let topic = harness.broker().create_topic("t", TopicSettings::default()).unwrap();
    let subscription = topic.create_subscription("s", SubscriptionSettings::default()).unwrap();
    subscription.delete_rule("$Default").unwrap();
    let put = async |path: &str, name: &str| {
        let body = document(RuleDescription::new(name, FilterDescription::True));
        harness.call("PUT", path, &[], &body).await.status
    };
    for path in ["/t/Subscriptions/s/Rules/", "/t/subscriptions/s/rules"] {
        assert_eq!(put(path, "$Default").await, 201);
        assert_eq!(put(path, "$Default").await, 409);
        assert_eq!(put(path, "").await, 400);
        subscription.delete_rule("$Default").unwrap();
    }
}

/// Rules: HT-25.
#[tokio::test]
async fn parameters_of_a_rule_are_used_and_shown() {
    let harness = Harness::new().await;
    let topic = harness.broker().create_topic("t", TopicSettings::default()).unwrap();
    let subscription = topic.create_subscription("s", SubscriptionSettings::default()).unwrap();
    subscription.delete_rule("$Default").unwrap();
    let mut filter = SqlDescription::new("colour = @colour");
    filter.parameters = vec![("@colour".into(), "red".into())];
    let mut action = SqlDescription::new("SET level = @level");
    action.parameters = vec![("@level".into(), 7_i32.into())];
    let mut rule = RuleDescription::new("r", FilterDescription::Sql(filter));
    rule.action = Some(action);
    assert_eq!(harness.call("PUT", "/t/Subscriptions/s/Rules/r", &[], &document(rule.clone())).await.status, 201);
    let found = entry(&harness.call("GET", "/t/Subscriptions/s/Rules/r", &[], "").await);
    let Description::Rule(found) = found.description else { panic!() };
    assert_eq!((&found.filter, &found.action), (&rule.filter, &rule.action));
    let message = |colour: &str| consign_core::Message::builder().property("colour", colour).build("").unwrap();
    let copies = subscription.rules()[0].filter().matches(&message("red"));
    assert_eq!((copies, subscription.rules()[0].filter().matches(&message("blue"))), (Ok(true), Ok(false)));
    let without = RuleDescription::new("o", FilterDescription::Sql(SqlDescription::new("colour = @colour")));
    assert_eq!(harness.call("PUT", "/t/Subscriptions/s/Rules/o", &[], &document(without)).await.status, 400);
}

/// Rules: HT-23.
#[tokio::test]
async fn filters_are_counted_in_the_last_version() {
    let harness = Harness::new().await;
    let topic = harness.broker().create_topic("t", TopicSettings::default()).unwrap();
    let subscription = topic.create_subscription("s", SubscriptionSettings::default()).unwrap();
    let correlation = CorrelationFilter::builder().subject("a").build().unwrap();
    subscription.create_rule(Rule::new("c", correlation).unwrap()).unwrap();
    subscription.create_rule(Rule::new("f", Filter::False).unwrap()).unwrap();
    for (version, counts) in [("2021-05", (None, None)), ("2024-05", (Some(2), Some(1)))] {
        let found = entry(&harness.call("GET", &format!("/t?api-version={version}"), &[], "").await);
        let Description::Topic(topic) = found.description else { panic!() };
        assert_eq!((topic.sql_filter_count, topic.correlation_filter_count), counts, "{version}");
    }
}

/// Rules: HT-23.
/// Older clients take the name of an entity from the URL, and look there for their own words.
#[tokio::test]
async fn urls_have_the_version_the_words_and_the_slash_of_the_request() {
    let harness = Harness::new().await;
    let topic = harness.broker().create_topic("t", TopicSettings::default()).unwrap();
    topic.create_subscription("Rules", SubscriptionSettings::default()).unwrap();
    let id = async |path: &str| entry(&harness.call("GET", path, &[], "").await).id.unwrap();
    let ids = async |path: &str| {
        let feed = feed(&harness.call("GET", path, &[], "").await);
        (feed.id.unwrap(), feed.entries.into_iter().next().and_then(|entry| entry.id).unwrap())
    };
    let at = |path: &str| format!("http://localhost:5300/{path}");
    assert_eq!(id("/q").await, at("q"));
    assert_eq!(id("/q?api-version=2013-10").await, at("q?api-version=2013-10"));
    assert_eq!(id("/t/subscriptions/Rules").await, at("t/subscriptions/Rules"));
    assert_eq!(id("/t/Subscriptions/Rules/rules/$Default").await, at("t/Subscriptions/Rules/rules/$Default"));
    assert_eq!(ids("/t/Subscriptions/").await, (at("t/Subscriptions/"), at("t/Subscriptions/Rules")));
    let rules = ids("/t/Subscriptions/Rules/RULES/?api-version=2021-05").await;
    let version = "?api-version=2021-05";
    let default = at("t/Subscriptions/Rules/RULES/$Default");
    assert_eq!(rules, (at("t/Subscriptions/Rules/RULES/") + version, default + version));
}

/// Rules: HT-22.
#[tokio::test]
async fn lists_have_pages() {
    let harness = Harness::new().await;
    for number in 0..4 {
        harness.broker().create_queue(&format!("queue-{number}"), QueueSettings::default()).unwrap();
    }
    harness.broker().create_topic("t", TopicSettings::default()).unwrap();
    let mut path = "/$Resources/Queues?$top=2&api-version=2021-05".to_owned();
    let mut sizes = Vec::new();
    let mut names = Vec::new();
    loop {
        let page = feed(&harness.call("GET", &path, &[], "").await);
        sizes.push(page.entries.len());
        names.extend(page.entries.into_iter().filter_map(|entry| entry.title));
        let Some(next) = page.next else { break };
        path = next.strip_prefix("http://localhost:5300").unwrap().to_owned();
    }
    assert_eq!(sizes, [2, 2, 1]);
    assert_eq!(names, ["q", "queue-0", "queue-1", "queue-2", "queue-3"]);
    let topics = feed(&harness.call("GET", "/$resources/topics?%24skip=0", &[], "").await);
    assert_eq!(topics.entries.len(), 1);
    let none = feed(&harness.call("GET", "/$Resources/queues?$skip=18446744073709551615", &[], "").await);
    assert!(none.entries.is_empty() && none.next.is_none());
    let none = feed(&harness.call("GET", "/$Resources/queues?$top=0", &[], "").await);
    assert!(none.entries.is_empty() && none.next.is_none());
}

/// Rules: HT-23.
#[tokio::test]
async fn versions_are_checked_and_the_first_has_no_sizes_of_messages() {
    let harness = Harness::new().await;
    for (version, size) in [("2017-04", None), ("2021-05", Some(256)), ("2024-05", Some(256))] {
        let found = entry(&harness.call("GET", &format!("/q?api-version={version}"), &[], "").await);
        let Description::Queue(queue) = found.description else { panic!() };
        assert_eq!(queue.max_message_size_in_kilobytes, size, "{version}");
    }
    for (version, status) in [("2016-07", 200), ("2011-06", 200), ("2010-01", 400), ("2013-11", 400), ("2025-01", 400)]
    {
        let path = format!("/q?api-version={version}");
        assert_eq!(harness.call("GET", &path, &[], "").await.status, status, "{version}");
    }
    let mut sized = QueueDescription::default();
    sized.max_message_size_in_kilobytes = Some(1_024);
    for (version, status) in [("2017-04", 400), ("2021-05", 201)] {
        let path = format!("/new?api-version={version}");
        assert_eq!(harness.call("PUT", &path, &[], &document(sized.clone())).await.status, status, "{version}");
    }
}

#[tokio::test]
async fn the_namespace_and_counts_are_shown() {
    let harness = Harness::new().await;
    harness.send("q", "1").await;
    let found = entry(&harness.call("GET", "/$namespaceinfo", &[], "").await);
    let Description::Namespace(namespace) = found.description else { panic!() };
    assert_eq!(namespace.name.as_deref(), Some("localhost:5300"));
    let found = entry(&harness.call("GET", "/q", &[], "").await);
    let Description::Queue(queue) = found.description else { panic!() };
    assert_eq!((queue.count_details.unwrap().active, queue.message_count), (1, Some(1)));
}

#[tokio::test]
async fn forwarding_is_a_url_of_the_namespace() {
    let harness = Harness::new().await;
    let mut queue = QueueDescription::default();
    queue.forward_to = Some("sb://anywhere/q".into());
    assert_eq!(harness.call("PUT", "/from", &[], document(queue.clone())).await.status, 201);
    let found = entry(&harness.call("GET", "/from", &[], "").await);
    let Description::Queue(shown) = found.description else { panic!() };
    assert_eq!(shown.forward_to.as_deref(), Some("sb://localhost:5300/q"));
    queue.forward_to = Some("nothing".into());
    assert_eq!(harness.call("PUT", "/other", &[], document(queue)).await.status, 400);
}

/// Rules: HT-27.
#[tokio::test]
async fn rules_of_authorization_are_created_read_and_updated() {
    let harness = Harness::new().await;
    let key = |byte: char| byte.to_string().repeat(43) + "=";
    let read = async |path: &str| match entry(&harness.call("GET", path, &[], "").await).description {
        Description::Queue(queue) => queue.authorization_rules.unwrap_or_default(),
        Description::Topic(topic) => topic.authorization_rules.unwrap_or_default(),
        other => panic!("{other:?}"),
    };
    let listen = AuthorizationRule::new("listen", key('p'), key('s')).listen(true);
    // Its keys are made.
    let made = AuthorizationRule::new("made", "", "").send(true).listen(true).manage(true);
    let mut topic = TopicDescription::default();
    topic.authorization_rules = Some(vec![listen.clone()]);
    assert_eq!(harness.call("PUT", "/t", &[], &document(topic)).await.status, 201);
    assert!(read("/t").await[0].is_same(&listen));
    let mut queue = QueueDescription::default();
    queue.authorization_rules = Some(vec![listen, made]);
    assert_eq!(harness.call("PUT", "/rules", &[], &document(queue.clone())).await.status, 201);
    let before = read("/rules").await;
    assert!(before[0].is_same(&queue.authorization_rules.clone().unwrap()[0]));
    assert_ne!(before[1].primary_key, before[1].secondary_key);
    assert!(before.iter().all(|rule| rule.created.is_some() && rule.created == rule.modified));

    // A rule keeps the keys that are left out, and one that is left out is removed.
    queue.authorization_rules = Some(vec![AuthorizationRule::new("made", key('n'), "").send(true)]);
    assert_eq!(harness.call("PUT", "/rules", IF_MATCH, &document(queue.clone())).await.status, 200);
    let after = read("/rules").await;
    let expected = AuthorizationRule::new("made", key('n'), &*before[1].secondary_key).send(true);
    assert!(after.len() == 1 && after[0].is_same(&expected) && after[0].created == before[1].created);

    // A description without the element keeps them.
    queue.authorization_rules = None;
    queue.max_delivery_count = Some(3);
    assert_eq!(harness.call("PUT", "/rules", IF_MATCH, &document(queue)).await.status, 200);
    assert_eq!(read("/rules").await, after);
}

/// Rules: HT-27, S-14.
#[tokio::test]
async fn a_rule_of_authorization_that_is_refused_is_named_without_its_key() {
    let harness = Harness::new().await;
    let key = |byte: char| byte.to_string().repeat(43) + "=";
    let rule = |name: &str| AuthorizationRule::new(name, key('p'), key('s')).send(true);
    let many = (0..13).map(|number| rule(&number.to_string())).collect();
    for (rules, named) in [
        (many, "authorization_rules are more than 12"),
        (vec![rule("a"), rule("a")], "key_name occurs twice"),
        (vec![rule("a").send(false)], "rights must not be empty"),
        (vec![rule("a").manage(true)], "rights is malformed"),
        (vec![AuthorizationRule::new("a", "canary", "").send(true)], "primary_key is malformed"),
        (vec![AuthorizationRule::new("a", "", "canary").send(true)], "secondary_key is malformed"),
    ] {
        let mut queue = QueueDescription::default();
        queue.authorization_rules = Some(rules);
        let refused = harness.call("PUT", "/new", &[], &document(queue)).await;
        assert!(refused.status == 400 && refused.text().contains(named), "{named}: {}", refused.text());
        assert!(!refused.text().contains("canary") && !refused.text().contains("ppp"), "{}", refused.text());
    }
    let body = "<entry><content><QueueDescription><AuthorizationRules><AuthorizationRule>\
                <ClaimType>canary</ClaimType></AuthorizationRule></AuthorizationRules></QueueDescription></content></entry>";
    let refused = harness.call("PUT", "/new", &[], body).await;
    assert!(refused.status == 400 && refused.text().contains("ClaimType") && !refused.text().contains("canary"));
}
