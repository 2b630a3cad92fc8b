use std::time::Duration;

use consign_core::message::PropertyValue;
use consign_http::administration::{Description, Document, FilterDescription, read};

fn description(document: &str) -> Description {
    let Document::Entry(entry) = read(document.as_bytes()).unwrap() else { panic!() };
    entry.description
}

/// What azure-servicebus 7.15.0 writes has prefixes.
#[test]
fn a_queue_of_the_client_in_python_is_read() {
    let document = r#"<?xml version='1.0' encoding='utf-8'?>
<ns0:entry xmlns:ns0="http://www.w3.org/2005/Atom"><ns0:content type="application/xml">
<QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"><LockDuration>PT1M30S</LockDuration>
<RequiresSession>true</RequiresSession><ForwardTo>sb://host/other</ForwardTo><UserMetadata /></QueueDescription></ns0:content></ns0:entry>"#;
    let Description::Queue(queue) = description(document) else { panic!() };
    let settings = queue.to_settings().unwrap();
    assert_eq!((settings.lock_duration, settings.requires_session), (Duration::from_secs(90), true));
    assert_eq!(settings.forward_to.as_deref(), Some("other"));
}

/// What @azure/service-bus 7.9.5 writes.
#[test]
fn a_rule_of_the_client_in_javascript_is_read() {
    let document = r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<entry xmlns="http://www.w3.org/2005/Atom"><updated>2026-01-02T03:04:05.678Z</updated><content type="application/xml">
<RuleDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect" xmlns:i="http://www.w3.org/2001/XMLSchema-instance">
<Filter p4:type="CorrelationFilter" xmlns:p4="http://www.w3.org/2001/XMLSchema-instance"><Label>a</Label><Properties>
<KeyValueOfstringanyType><Key>n</Key><Value p4:type="l28:double" xmlns:l28="http://www.w3.org/2001/XMLSchema">1.5</Value></KeyValueOfstringanyType>
<KeyValueOfstringanyType><Key>d</Key><Value p4:type="l28:dateTime" xmlns:l28="http://www.w3.org/2001/XMLSchema">2026-01-02T03:04:05.678Z</Value></KeyValueOfstringanyType>
</Properties></Filter><Action p4:type="EmptyRuleAction" xmlns:p4="http://www.w3.org/2001/XMLSchema-instance"/><Name>r</Name></RuleDescription></content></entry>"#;
    let Description::Rule(rule) = description(document) else { panic!() };
    let FilterDescription::Correlation(filter) = &rule.filter else { panic!() };
    assert_eq!((filter.subject.as_deref(), filter.properties.len()), (Some("a"), 2));
    assert!(filter.properties.iter().any(|(key, value)| key == "n" && *value == PropertyValue::F64(1.5)));
    assert_eq!(rule.to_rule("x").unwrap().name(), "r");
}

#[test]
fn a_time_without_an_offset_is_utc() {
    let document = "<entry><updated>2026-01-02T03:04:05</updated><content><NamespaceInfo/></content></entry>";
    let Document::Entry(entry) = read(document.as_bytes()).unwrap() else { panic!() };
    assert_eq!(entry.updated.unwrap().to_string(), "2026-01-02T03:04:05.000Z");
}
