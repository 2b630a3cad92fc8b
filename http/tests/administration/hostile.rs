use consign_http::administration::{DocumentErrorKind as Kind, read};

fn refusal(document: impl AsRef<[u8]>) -> Kind {
    read(document.as_ref()).unwrap_err().kind()
}

fn entry(content: &str) -> String {
    format!(
        "<entry xmlns=\"http://www.w3.org/2005/Atom\"><content type=\"application/xml\">{content}</content></entry>"
    )
}

#[test]
fn entities_are_not_expanded() {
    let laughs = r#"<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]><entry><content>&b;</content></entry>"#;
    assert_eq!(refusal(laughs), Kind::DocumentType);
    assert_eq!(refusal(r#"<!DOCTYPE a SYSTEM "file:///etc/passwd"><entry/>"#), Kind::DocumentType);
    assert_eq!(refusal(entry("<QueueDescription>&b;</QueueDescription>")), Kind::DocumentType);
    assert_eq!(refusal(entry("<QueueDescription a=\"&b;\"/>")), Kind::Malformed);
}

/// Attacks: 59.
#[test]
fn levels_elements_attributes_and_bytes_are_bounded() {
    let deep = "<a>".repeat(100_000);
    assert_eq!(refusal(&deep), Kind::TooLarge);
    let wide = format!("<entry>{}</entry>", "<a/>".repeat(70_000));
    assert_eq!(refusal(&wide), Kind::TooLarge);
    let attributes = " a=\"\"".repeat(40);
    assert_eq!(refusal(format!("<entry{attributes}/>")), Kind::TooLarge);
    assert_eq!(refusal(format!("<entry>{}</entry>", " ".repeat(4 << 20))), Kind::TooLarge);
}

#[test]
fn what_is_not_one_of_the_documents_is_refused() {
    for document in ["", " ", "a", "<entry>", "<entry></feed>", "</entry>", "<entry/><entry/>", "<entry/>a", "{}"] {
        assert_eq!(refusal(document), Kind::Malformed, "{document}");
    }
    assert_eq!(refusal(b"<entry>\xff</entry>"), Kind::Malformed);
    assert_eq!(refusal(b"\xff\xfe<\0e\0/\0>\0"), Kind::Malformed);
    assert_eq!(refusal("<html/>"), Kind::Unexpected);
    assert_eq!(refusal("<entry/>"), Kind::Missing);
    assert_eq!(refusal(entry("")), Kind::Missing);
    assert_eq!(refusal(entry("<Other/>")), Kind::Unexpected);
    assert_eq!(refusal(entry("<QueueDescription/><QueueDescription/>")), Kind::Unexpected);
}

#[test]
fn the_values_of_fields_are_checked() {
    for field in [
        "<LockDuration>1 minute</LockDuration>",
        "<LockDuration/>",
        "<MaxDeliveryCount>-1</MaxDeliveryCount>",
        "<MaxDeliveryCount>99999999999999999999999</MaxDeliveryCount>",
        "<RequiresSession>yes</RequiresSession>",
        "<Status>Gone</Status>",
        "<CreatedAt>now</CreatedAt>",
        "<ForwardTo><a/></ForwardTo>",
    ] {
        assert_eq!(
            refusal(entry(&format!("<QueueDescription>{field}</QueueDescription>"))),
            Kind::InvalidValue,
            "{field}"
        );
    }
    let twice = "<QueueDescription><Status>Active</Status><Status>Disabled</Status></QueueDescription>";
    assert_eq!(refusal(entry(twice)), Kind::Repeated);
    let filter = "<RuleDescription><Filter xmlns:i=\"http://www.w3.org/2001/XMLSchema-instance\" i:type=\"Other\"/></RuleDescription>";
    assert_eq!(refusal(entry(filter)), Kind::InvalidValue);
}

/// Rules: HT-21.
#[test]
fn elements_of_a_filter_or_an_action_that_are_not_read_are_refused() {
    let rule = |filter: &str, action: &str| {
        let xml = "xmlns:i=\"http://www.w3.org/2001/XMLSchema-instance\"";
        read(entry(&format!("<RuleDescription {xml}>{filter}{action}</RuleDescription>")).as_bytes())
    };
    let filter = |kind: &str, more: &str| format!("<Filter i:type=\"{kind}\">{more}</Filter>");
    let action = |kind: &str, more: &str| format!("<Action i:type=\"{kind}\">{more}</Action>");
    let sql = "<SqlExpression>1=1</SqlExpression>";
    let written = format!(
        "{sql}<CompatibilityLevel>20</CompatibilityLevel><Parameters/><RequiresPreprocessing>false</RequiresPreprocessing>"
    );
    let subject = "<Label>a</Label>";
    for (kind, known) in
        [("SqlFilter", &*written), ("TrueFilter", &written), ("FalseFilter", &written), ("CorrelationFilter", subject)]
    {
        rule(&filter(kind, known), "").unwrap();
        let error = rule(&filter(kind, &format!("{known}<Other>1</Other>")), "").unwrap_err();
        assert_eq!((error.kind(), error.to_string().contains("Other")), (Kind::Unexpected, true), "{kind}");
    }
    let one = filter("CorrelationFilter", subject);
    rule(&one, &action("SqlRuleAction", "<SqlExpression>SET a = 1</SqlExpression>")).unwrap();
    rule(&one, &action("EmptyRuleAction", "")).unwrap();
    let other = "<SqlExpression>SET a = 1</SqlExpression><Other/>";
    assert_eq!(rule(&one, &action("SqlRuleAction", other)).unwrap_err().kind(), Kind::Unexpected);
    assert_eq!(rule(&one, &action("EmptyRuleAction", "<Other/>")).unwrap_err().kind(), Kind::Unexpected);
}

#[test]
fn an_error_shows_no_text_of_the_document() {
    let error = read(entry("<QueueDescription><Status>canary</Status></QueueDescription>").as_bytes()).unwrap_err();
    assert!(error.to_string().contains("Status") && !error.to_string().contains("canary"), "{error}");
    let error = read(format!("<{}/>", "n".repeat(1_000)).as_bytes()).unwrap_err();
    assert_eq!(error.element().map(str::len), Some(64));
}
