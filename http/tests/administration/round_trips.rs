use std::time::Duration;

use bytes::Bytes;
use consign_core::{
    Message,
    administration::{AuthorizationRule, Counts, Metadata, QueueSettings, Status, SubscriptionSettings, TopicSettings},
    message::PropertyValue,
    time::Timestamp,
};
use consign_http::administration::{
    Description, Document, Entry, ErrorDocument, Feed, FilterDescription, NamespaceProperties, QueueDescription,
    RuleDescription, SqlDescription, SubscriptionDescription, TopicDescription, UNLIMITED, read,
};
use consign_rules::{CorrelationFilter, Filter, Rule, SqlAction, SqlFilter};

type Change<'a> = (&'a str, &'a dyn Fn(&mut QueueDescription));

fn entry(description: impl Into<Description>) -> Entry {
    let mut entry = Entry::new(description);
    entry.id = Some("http://host/a/Subscriptions/b & \"c\"?api-version=2021-05".into());
    entry.title = Some("b <c>".into());
    entry.published = Some(Timestamp::from_millis(1_700_000_000_000));
    entry.updated = Some(Timestamp::from_millis(1_700_000_000_001));
    entry
}

fn same(description: impl Into<Description>) -> Description {
    let entry = entry(description);
    let Document::Entry(read) = read(&entry.to_xml()).unwrap() else { panic!() };
    assert_eq!(read, entry);
    read.description
}

fn queue() -> QueueSettings {
    let mut settings = QueueSettings::default()
        .lock_duration(Duration::from_millis(90_500))
        .max_delivery_count(7)
        .default_time_to_live(Duration::from_secs(86_400))
        .duplicate_detection(Duration::from_secs(30))
        .requires_session(true)
        .status(Status::SendDisabled)
        .auto_delete_on_idle(Duration::from_secs(300));
    settings.dead_letter_on_expiration = true;
    settings.max_size = 5 << 20;
    settings.max_message_size = 1 << 20;
    settings.partitioned = true;
    settings.forward_dead_letters_to = Some("dead".into());
    settings
}

#[test]
fn settings_of_a_queue_are_kept() {
    for settings in [QueueSettings::default(), queue()] {
        let Description::Queue(read) = same(QueueDescription::from(&settings)) else { panic!() };
        assert_eq!(read.to_settings().unwrap(), settings);
        assert_eq!(read.update(&settings).unwrap(), settings);
    }
}

#[test]
fn settings_of_a_topic_and_a_subscription_are_kept() {
    let settings = TopicSettings::default().duplicate_detection(Duration::from_secs(30)).partitioned(true);
    let Description::Topic(read) = same(TopicDescription::from(&settings)) else { panic!() };
    assert_eq!(read.to_settings().unwrap(), settings);
    let settings = SubscriptionSettings::default()
        .requires_session(true)
        .forward_to("a/b")
        .dead_letter_on_filter_error(false)
        .status(Status::ReceiveDisabled);
    let Description::Subscription(read) = same(SubscriptionDescription::from(&settings)) else { panic!() };
    assert_eq!(read.to_settings().unwrap(), settings);
}

#[test]
fn a_size_that_is_no_whole_unit_is_not_changed_by_an_update() {
    let mut settings = QueueSettings::default();
    settings.max_size = 2_000;
    settings.max_message_size = 1_000;
    settings.max_duplicate_ids = 5;
    let mut shown = QueueDescription::from(&settings);
    assert_eq!((shown.max_size_in_megabytes, shown.max_message_size_in_kilobytes), (Some(1), Some(1)));
    assert_eq!(shown.update(&settings).unwrap(), settings);
    shown.max_size_in_megabytes = Some(2);
    assert_eq!(shown.update(&settings).unwrap().max_size, 2 << 20);
}

#[test]
fn what_is_fixed_or_not_represented_is_an_error() {
    let current = QueueSettings::default();
    let refusal = |change: &dyn Fn(&mut QueueDescription)| {
        let mut description = QueueDescription::from(&current);
        change(&mut description);
        description.update(&current).unwrap_err().to_string()
    };
    let changes: [Change<'_>; 7] = [
        ("RequiresSession", &|queue| queue.requires_session = Some(true)),
        ("EnablePartitioning", &|queue| queue.enable_partitioning = Some(true)),
        ("RequiresDuplicateDetection", &|queue| queue.requires_duplicate_detection = Some(true)),
        ("IsAnonymousAccessible", &|queue| queue.is_anonymous_accessible = Some(true)),
        ("Novelty", &|queue| queue.unknown.push("Novelty".into())),
        ("MaxSizeInMegabytes", &|queue| queue.max_size_in_megabytes = Some(u64::MAX)),
        ("MaxDeliveryCount", &|queue| queue.max_delivery_count = Some(u64::MAX)),
    ];
    for (field, change) in changes {
        assert!(refusal(change).contains(field), "{field}");
    }
}

/// .NET sends the URL encoded.
#[test]
fn the_url_of_an_entity_is_decoded_and_a_path_is_not() {
    for (given, path) in [
        ("sb://h/b%C3%BCcher", "b\u{fc}cher"),
        ("sb://h/b\u{fc}cher", "b\u{fc}cher"),
        ("https://h:5300/a%2520b/", "a%20b"),
        ("a%20b", "a%20b"),
    ] {
        let mut queue = QueueDescription::default();
        queue.forward_to = Some(given.to_owned());
        assert_eq!(queue.to_settings().unwrap().forward_to.unwrap().as_str(), path, "{given}");
    }
    let mut queue = QueueDescription::default();
    queue.forward_to = Some("sb://h/%FF".to_owned());
    assert!(queue.to_settings().unwrap_err().to_string().contains("ForwardTo"));
}

/// Rules: S-14.
#[test]
fn rules_of_authorization_are_kept() {
    let mut listen = AuthorizationRule::new("listen & <more>", "primary", "secondary").listen(true);
    listen.created = Some(Timestamp::from_millis(1_700_000_000_000));
    let all = AuthorizationRule::new("all", "", "").send(true).listen(true).manage(true);
    let mut metadata = Metadata::default();
    metadata.authorization_rules = vec![listen, all];
    let settings = QueueSettings::default().metadata(metadata.clone());
    let Description::Queue(read) = same(QueueDescription::from(&settings)) else { panic!() };
    assert_eq!(read.to_settings().unwrap(), settings);
    let mut without = read.clone();
    without.authorization_rules = None;
    assert_eq!(without.update(&settings).unwrap(), settings);
    without.authorization_rules = Some(Vec::new());
    assert_eq!(without.update(&settings).unwrap().metadata, Metadata::default());
    let settings = TopicSettings::default().metadata(metadata);
    let Description::Topic(read) = same(TopicDescription::from(&settings)) else { panic!() };
    assert_eq!(read.to_settings().unwrap(), settings);
    assert!(!format!("{read:?}").contains("primary\""));
}

/// Rules: S-14.
#[test]
fn a_rule_of_authorization_is_as_the_service_writes_it() {
    let document = |rule: &str| {
        format!(
            "<entry xmlns=\"http://www.w3.org/2005/Atom\"><content><QueueDescription \
             xmlns=\"http://schemas.microsoft.com/netservices/2010/10/servicebus/connect\" \
             xmlns:i=\"http://www.w3.org/2001/XMLSchema-instance\"><AuthorizationRules>{rule}</AuthorizationRules>\
             </QueueDescription></content></entry>"
        )
    };
    let of = |fields: &str| {
        document(&format!("<AuthorizationRule i:type=\"SharedAccessAuthorizationRule\">{fields}</AuthorizationRule>"))
    };
    let written = "<ClaimType>SharedAccessKey</ClaimType><ClaimValue>None</ClaimValue><Rights><AccessRights>Manage\
                   </AccessRights><AccessRights>Listen</AccessRights><AccessRights>Send</AccessRights></Rights>\
                   <CreatedTime>2026-01-02T03:04:05.678Z</CreatedTime><ModifiedTime>2026-01-02T03:04:05.679Z\
                   </ModifiedTime><KeyName>all</KeyName><PrimaryKey>p</PrimaryKey><SecondaryKey>s</SecondaryKey>";
    let Document::Entry(entry) = read(of(written).as_bytes()).unwrap() else { panic!() };
    let Description::Queue(queue) = &entry.description else { panic!() };
    let rule = &queue.authorization_rules.as_ref().unwrap()[0];
    assert!(rule.is_same(&AuthorizationRule::new("all", "p", "s").send(true).listen(true).manage(true)));
    assert!(String::from_utf8(entry.to_xml()).unwrap().contains(written));
    let error = |document: String| read(document.as_bytes()).unwrap_err().to_string();
    for (fields, text) in [
        ("<ClaimType>canary</ClaimType>", "the value of the element 'ClaimType' is invalid"),
        ("<ClaimValue>canary</ClaimValue>", "the value of the element 'ClaimValue' is invalid"),
        ("<Rights><AccessRights>canary</AccessRights></Rights>", "the value of the element 'AccessRights' is invalid"),
        ("<Rights><Right>Send</Right></Rights>", "the element 'Right' is not expected there"),
        ("<CreatedTime>canary</CreatedTime>", "the value of the element 'CreatedTime' is invalid"),
        ("<PrimaryKey>canary</PrimaryKey><PrimaryKey>b</PrimaryKey>", "the element 'PrimaryKey' occurs twice"),
        ("<Novelty>canary</Novelty>", "the element 'Novelty' is not expected there"),
    ] {
        assert_eq!(error(of(fields)), text);
    }
    assert_eq!(error(document("<Other/>")), "the element 'Other' is not expected there");
    let other = document("<AuthorizationRule i:type=\"AllowRule\"/>");
    assert_eq!(error(other), "the value of the element 'AuthorizationRule' is invalid");
}

/// Rules: S-13.
#[test]
fn what_clients_read_again_is_a_setting() {
    let mut described = QueueDescription::from(&QueueSettings::default());
    described.user_metadata = Some("of the team".into());
    described.enable_express = Some(true);
    described.enable_batched_operations = Some(false);
    described.support_ordering = Some(false);
    described.duplicate_detection_history_time_window = Some(Duration::from_secs(720));
    let settings = described.to_settings().unwrap();
    assert_eq!((settings.metadata.user.as_deref(), settings.duplicate_detection), (Some("of the team"), None));
    assert_eq!(QueueDescription::from(&settings), described);
    assert_eq!(QueueDescription::default().update(&settings).unwrap(), settings);
    described.user_metadata = Some(String::new());
    assert_eq!(described.update(&settings).unwrap().metadata.user, None);
    described.duplicate_detection_history_time_window = Some(Duration::from_secs(25 * 24 * 3_600));
    assert!(described.to_settings().unwrap().check().is_err());
}

#[test]
fn an_update_removes_the_forwarding_that_it_lacks() {
    let mut current = QueueSettings::default();
    current.forward_to = Some("other".into());
    let updated = QueueDescription::default().update(&current).unwrap();
    assert_eq!((updated.forward_to, updated.lock_duration), (None, current.lock_duration));
    let mut description = QueueDescription::default();
    description.forward_to = Some("sb://host:5300/a/b".into());
    assert_eq!(description.update(&current).unwrap().forward_to.as_deref(), Some("a/b"));
}

/// The SDK for .NET leaves both out where they are unlimited.
#[test]
fn an_update_without_a_time_to_live_and_an_idle_time_has_no_limit() {
    let minute = Duration::from_secs(60);
    let current = QueueSettings::default().default_time_to_live(minute).auto_delete_on_idle(minute * 5);
    let updated = QueueDescription::default().update(&current).unwrap();
    assert_eq!((updated.default_time_to_live, updated.auto_delete_on_idle), (None, None));
    let current = TopicSettings::default().default_time_to_live(minute).auto_delete_on_idle(minute * 5);
    let updated = TopicDescription::default().update(&current).unwrap();
    assert_eq!((updated.default_time_to_live, updated.auto_delete_on_idle), (None, None));
    let current = SubscriptionSettings::default().default_time_to_live(minute).auto_delete_on_idle(minute * 5);
    let updated = SubscriptionDescription::default().update(&current).unwrap();
    assert_eq!((updated.default_time_to_live, updated.auto_delete_on_idle), (None, None));
}

#[test]
fn rules_are_kept() {
    let values = [
        ("null", PropertyValue::Null),
        ("bool", true.into()),
        ("u8", 1_u8.into()),
        ("u16", 1_u16.into()),
        ("u32", 1_u32.into()),
        ("u64", u64::MAX.into()),
        ("i8", (-1_i8).into()),
        ("i16", (-1_i16).into()),
        ("i32", (-1_i32).into()),
        ("i64", i64::MIN.into()),
        ("f32", 1.5_f32.into()),
        ("f64", 1e300_f64.into()),
        ("infinite", f64::NEG_INFINITY.into()),
        ("char", '\u{1F600}'.into()),
        ("text", " <a> & \"b\"\r\n".into()),
        ("uuid", PropertyValue::Uuid([7; 16])),
        ("time", PropertyValue::DateTime(Timestamp::from_millis(1_700_000_000_123))),
        ("span", PropertyValue::TimeSpan(-12_345_678)),
        ("uri", PropertyValue::Uri("http://a/b".into())),
    ];
    let mut correlation = CorrelationFilter::builder().subject("a").content_type("b/c").message_id("d");
    for (key, value) in values {
        correlation = correlation.property(key, value);
    }
    let sql = SqlFilter::parse("a < 1 AND b <> 'c & d'").unwrap();
    for filter in [Filter::True, Filter::False, sql.into(), correlation.build().unwrap().into()] {
        for action in [None, Some(SqlAction::parse("SET a = 1").unwrap())] {
            let rule = Rule::new("r", filter.clone()).unwrap();
            let rule = match action {
                Some(action) => rule.with_action(action),
                None => rule,
            };
            let Description::Rule(read) = same(RuleDescription::from(&rule)) else { panic!() };
            assert_eq!(read.to_rule("other").unwrap(), rule);
        }
    }
}

#[test]
fn parameters_are_kept_in_a_document_and_in_a_rule() {
    let mut sql = SqlDescription::new("a = @b");
    sql.parameters = vec![("@b".into(), 1_i32.into())];
    let Description::Rule(read) = same(RuleDescription::new("r", FilterDescription::Sql(sql.clone()))) else {
        panic!()
    };
    assert_eq!(read.filter, FilterDescription::Sql(sql));
    let rule = read.to_rule("r").unwrap();
    assert_eq!(RuleDescription::from(&rule), read);
    let matches = |value: i32| rule.filter().matches(&Message::builder().property("a", value).build("").unwrap());
    assert_eq!((matches(1), matches(2)), (Ok(true), Ok(false)));
    let unknown = RuleDescription::new("r", FilterDescription::Sql(SqlDescription::new("a = @b")));
    assert!(unknown.to_rule("r").unwrap_err().to_string().contains("@b"));
}

#[test]
fn a_subscription_has_its_first_rule() {
    let mut description = SubscriptionDescription::default();
    description.default_rule_description = Some(RuleDescription::new("first", FilterDescription::False));
    let Description::Subscription(read) = same(description) else { panic!() };
    assert_eq!(read.default_rule_description.unwrap().name.as_deref(), Some("first"));
}

#[test]
fn counts_a_namespace_feeds_and_errors_are_kept() {
    let mut counts = Counts::default();
    (counts.active, counts.locked, counts.deferred, counts.scheduled, counts.dead_lettered) = (1, 2, 3, 4, 5);
    let mut queue = QueueDescription::default();
    queue.count_details = Some(counts.into());
    queue.default_message_time_to_live = Some(UNLIMITED);
    assert_eq!(queue.count_details.unwrap().total(), 15);
    same(queue.clone());
    let mut namespace = NamespaceProperties::default();
    (namespace.name, namespace.messaging_units) = (Some("n".into()), Some(1));
    same(namespace);
    for entries in [vec![], vec![entry(queue.clone())], vec![entry(queue), entry(TopicDescription::default())]] {
        let mut feed = Feed::default();
        feed.title = Some("Queues".into());
        feed.id = Some("http://h/a".into());
        feed.next = Some("http://h/$Resources/queues?$skip=2&$top=2".into());
        feed.entries = entries;
        assert_eq!(read(&feed.to_xml()).unwrap(), Document::Feed(feed));
    }
    let error = ErrorDocument::new(404, "no <entity>");
    assert_eq!(read(&error.to_xml()).unwrap(), Document::Error(error));
}

#[test]
fn a_character_that_xml_lacks_does_not_make_the_document_malformed() {
    let error = ErrorDocument::new(400, "a\0b\u{ffff}c");
    let Document::Error(read) = read(&error.to_xml()).unwrap() else { panic!() };
    assert_eq!(read.detail, "a\u{fffd}b\u{fffd}c");
}

#[test]
fn bytes_are_written_and_not_read() {
    let filter = CorrelationFilter::builder().property("b", Bytes::from_static(b"a")).build().unwrap();
    let rule = Rule::new("r", filter).unwrap();
    read(&Entry::new(RuleDescription::from(&rule)).to_xml()).unwrap_err();
}
