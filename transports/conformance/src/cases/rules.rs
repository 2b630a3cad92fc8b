//! K-29 and K-30: which messages a subscription gets, and how its actions change them.

use consign::rules::{CorrelationFilter, CorrelationFilterBuilder, Filter, ParseError, Rule, SqlAction, SqlFilter};

use super::prelude::*;

cases! {
    CorrelationFilters:
        /// Rules: T-54.
        every_field_can_be_compared [Topics],
        /// Rules: T-54.
        all_fields_must_be_equal [Topics],
        /// Rules: T-54.
        text_is_compared_with_its_case [Topics],
        /// Rules: T-54.
        user_properties_can_be_compared [Topics],
        /// Rules: T-53.
        one_of_several_filters_is_enough [Topics],
        /// Rules: T-55.
        a_false_filter_lets_nothing_in [Topics];
    SqlRules:
        /// Rules: T-59a.
        comparisons_and_logic [Topics],
        /// Rules: T-59a.
        like_in_and_arithmetic [Topics],
        /// Rules: T-59b.
        a_missing_property_is_unknown [Topics],
        /// Rules: T-59c.
        a_missing_system_property_is_an_error [Topics],
        /// Rules: T-59f.
        system_properties_can_be_compared [Topics],
        /// Rules: T-56.
        an_action_changes_its_copy_only [Topics],
        /// Rules: T-56.
        an_action_can_remove [Topics],
        /// Rules: T-53.
        each_rule_with_an_action_makes_a_copy [Topics],
        /// Rules: T-58.
        a_filter_does_not_see_the_body [Topics],
        /// Rules: S-95.
        a_filter_that_fails_dead_letters_the_copy [Topics];
}

/// Creates a subscription for the messages that `filter` matches.
async fn filtered(
    bench: &Bench<'_>,
    topic: &EntityPath,
    name: &str,
    filter: impl Into<Filter>,
) -> Result<EntityPath, Failure> {
    let spec = SubscriptionSettings::default().dead_letter_on_filter_error(true);
    let subscription = bench.subscription(topic, name, spec).await?;
    bench.delete_rule(&subscription, Rule::DEFAULT_NAME).await?;
    bench.create_rule(&subscription, &Rule::new("only", filter)?).await?;
    Ok(subscription)
}

fn unreadable(error: &ParseError) -> Failure {
    Failure::answer(ErrorKind::InvalidArgument, error.to_string())
}

pub(super) fn sql(expression: &str) -> Result<SqlFilter, Failure> {
    SqlFilter::parse(expression).map_err(|error| unreadable(&error))
}

fn action(statements: &str) -> Result<SqlAction, Failure> {
    SqlAction::parse(statements).map_err(|error| unreadable(&error))
}

/// A filter, whether it matches the message that sets everything, and whether it matches the one that sets nothing.
type Expectation = (&'static str, bool, bool);

async fn every_field_can_be_compared(bench: &Bench<'_>) -> Verdict {
    let with = CorrelationFilter::builder;
    let filters = [
        with().content_type("value"),
        with().correlation_id("value"),
        with().subject("value"),
        with().message_id("value"),
        with().reply_to("value"),
        with().reply_to_session_id("value"),
        with().session_id("value"),
        with().to("value"),
    ];
    let topic = bench.topic(TopicSettings::default()).await?;
    let mut subscriptions = Vec::new();
    for (index, filter) in filters.into_iter().enumerate() {
        subscriptions.push(filtered(bench, &topic, &format!("s{index}"), filter.build()?).await?);
    }
    let message = |value: &'static str, body: &'static str| {
        Message::builder()
            .content_type(value)
            .correlation_id(value)
            .subject(value)
            .message_id(value)
            .reply_to(value)
            .reply_to_session_id(value)
            .session_id(value)
            .to(value)
            .build(body)
    };
    bench.send(&topic, message("value", "in")?).await?;
    bench.send(&topic, message("other", "out")?).await?;
    bench.send(&topic, Message::new("out")).await?;
    for subscription in &subscriptions {
        ensure_eq!(bench.drain(subscription).await?, ["in"], "{subscription}");
    }
    Ok(())
}

/// Returns which messages a subscription with the filter gets, of those with these subjects and correlation ids.
async fn let_in(
    bench: &Bench<'_>,
    filter: CorrelationFilterBuilder,
    messages: &[(&'static str, &'static str)],
) -> Result<Vec<String>, Failure> {
    let topic = bench.topic(TopicSettings::default()).await?;
    let subscription = filtered(bench, &topic, "one", filter.build()?).await?;
    for &(subject, id) in messages {
        let message = Message::builder().subject(subject).correlation_id(id).property("key", subject);
        bench.send(&topic, message.build(format!("{subject} {id}"))?).await?;
    }
    bench.drain(&subscription).await
}

async fn all_fields_must_be_equal(bench: &Bench<'_>) -> Verdict {
    let both = CorrelationFilter::builder().subject("a").correlation_id("1");
    ensure_eq!(let_in(bench, both, &[("a", "2"), ("b", "1"), ("a", "1")]).await?, ["a 1"]);
    Ok(())
}

async fn text_is_compared_with_its_case(bench: &Bench<'_>) -> Verdict {
    let upper = CorrelationFilter::builder().subject("A");
    ensure_eq!(let_in(bench, upper, &[("a", "1"), ("A", "2"), ("A ", "3")]).await?, ["A 2"]);
    Ok(())
}

async fn user_properties_can_be_compared(bench: &Bench<'_>) -> Verdict {
    let key = CorrelationFilter::builder().property("key", "b");
    ensure_eq!(let_in(bench, key, &[("a", "1"), ("b", "2")]).await?, ["b 2"]);
    let missing = CorrelationFilter::builder().property("key", "b").property("none", "b");
    ensure_eq!(let_in(bench, missing, &[("b", "1")]).await?.len(), 0);
    Ok(())
}

async fn one_of_several_filters_is_enough(bench: &Bench<'_>) -> Verdict {
    let topic = bench.topic(TopicSettings::default()).await?;
    let a = CorrelationFilter::builder().subject("a").build()?;
    let one = filtered(bench, &topic, "one", a).await?;
    let id = CorrelationFilter::builder().correlation_id("1").build()?;
    bench.create_rule(&one, &Rule::new("other", id)?).await?;
    for (subject, id) in [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2")] {
        let message = Message::builder().subject(subject).correlation_id(id).build(format!("{subject}{id}"))?;
        bench.send(&topic, message).await?;
    }
    bench.expect(&one, ["a1", "a2", "b1"]).await?;
    Ok(())
}

async fn a_false_filter_lets_nothing_in(bench: &Bench<'_>) -> Verdict {
    let topic = bench.topic(TopicSettings::default()).await?;
    let none = filtered(bench, &topic, "none", Filter::False).await?;
    let all = filtered(bench, &topic, "all", Filter::True).await?;
    bench.send_bodies(&topic, ["a"]).await?;
    bench.expect(&all, ["a"]).await?;
    bench.gone(&none).await
}

/// Checks expressions against a message with properties and one without any.
async fn check(bench: &Bench<'_>, expectations: &[Expectation]) -> Verdict {
    let topic = bench.topic(TopicSettings::default()).await?;
    let mut subscriptions = Vec::new();
    for (index, (expression, ..)) in expectations.iter().enumerate() {
        subscriptions.push(filtered(bench, &topic, &format!("s{index}"), sql(expression)?).await?);
    }
    let full = Message::builder()
        .subject("order")
        .correlation_id("c-1")
        .message_id("m-1")
        .property("n", 7_i64)
        .property("half", 0.5_f64)
        .property("name", "O'Neil")
        .property("flag", true)
        .property("nothing", PropertyValue::Null);
    bench.send(&topic, full.build("full")?).await?;
    bench.send(&topic, Message::new("empty")).await?;
    for (subscription, &(expression, full, empty)) in subscriptions.iter().zip(expectations) {
        let expected = [(full, "full"), (empty, "empty")].into_iter().filter(|(matches, _)| *matches);
        let expected: Vec<_> = expected.map(|(_, body)| body).collect();
        ensure_eq!(bench.drain_count(expected.len().max(1), subscription).await?, expected, "{expression}");
        bench.nothing(&subscription.dead_letter()).await?;
    }
    Ok(())
}

async fn comparisons_and_logic(bench: &Bench<'_>) -> Verdict {
    let expectations = [
        ("1 = 1", true, true),
        ("n = 7", true, false),
        ("n <> 7", false, false),
        ("n != 8", true, false),
        ("n > 6 AND n < 8", true, false),
        ("n >= 8 OR n <= 7", true, false),
        ("NOT (n = 8)", true, false),
        ("name = 'O''Neil'", true, false),
        ("flag = TRUE", true, false),
        ("N = 7 and NAME = 'O''Neil'", true, false),
        ("user.n = 7", true, false),
        ("n = 7.0", true, false),
        ("half < 1", true, false),
    ];
    check(bench, &expectations).await
}

async fn like_in_and_arithmetic(bench: &Bench<'_>) -> Verdict {
    let expectations = [
        ("name LIKE 'O%'", true, false),
        ("name LIKE '_''Nei_'", true, false),
        ("name NOT LIKE 'o%'", true, false),
        ("name LIKE 'O\\%' ESCAPE '\\'", false, false),
        ("n IN (1, 7, 9)", true, false),
        ("n NOT IN (1, 9)", true, false),
        ("n + 1 = 8 AND n * 2 = 14 AND n % 4 = 3 AND -n < 0", true, false),
        ("n / 2 = 3", true, false),
    ];
    check(bench, &expectations).await
}

async fn a_missing_property_is_unknown(bench: &Bench<'_>) -> Verdict {
    let expectations = [
        ("missing = 1", false, false),
        ("NOT (missing = 1)", false, false),
        ("missing = 1 OR n = 7", true, false),
        ("missing IS NULL", true, true),
        ("n IS NOT NULL", true, false),
        ("nothing IS NULL", true, true),
        ("EXISTS(n)", true, false),
        ("NOT EXISTS(n)", false, true),
        ("missing LIKE '%'", false, false),
        ("missing IN (1)", false, false),
        ("n = '7'", false, false),
    ];
    check(bench, &expectations).await
}

async fn a_missing_system_property_is_an_error(bench: &Bench<'_>) -> Verdict {
    let topic = bench.topic(TopicSettings::default()).await?;
    // It may be refused with the rule, or fail on each message.
    let filter = match sql("sys.NoSuchProperty = 'a'") {
        Ok(filter) => filter,
        refusal => return refused(refusal, &[ErrorKind::InvalidArgument]),
    };
    let subscription = match filtered(bench, &topic, "one", filter).await {
        Ok(subscription) => subscription,
        refusal => return refused(refusal, &[ErrorKind::InvalidArgument]),
    };
    bench.send_bodies(&topic, ["a"]).await?;
    bench.nothing(&subscription).await?;
    bench.expect(&subscription.dead_letter(), ["a"]).await?;
    Ok(())
}

async fn system_properties_can_be_compared(bench: &Bench<'_>) -> Verdict {
    let expectations = [
        ("sys.Label = 'order'", true, false),
        ("sys.Subject = 'order'", true, false),
        ("sys.CorrelationId LIKE 'c-%'", true, false),
        ("sys.MessageId = 'm-1'", true, false),
        ("sys.label = 'order'", true, false),
    ];
    check(bench, &expectations).await
}

async fn an_action_changes_its_copy_only(bench: &Bench<'_>) -> Verdict {
    let topic = bench.topic(TopicSettings::default()).await?;
    let one = bench.subscription(&topic, "one", SubscriptionSettings::default()).await?;
    let two = bench.subscription(&topic, "two", SubscriptionSettings::default()).await?;
    bench.delete_rule(&one, Rule::DEFAULT_NAME).await?;
    let change = action("SET n = n + 1; SET added = 'yes'; SET sys.Label = 'new'")?;
    let rule = Rule::new("change", sql("n = 7")?)?.with_action(change);
    bench.create_rule(&one, &rule).await?;
    bench.send(&topic, Message::builder().subject("old").property("n", 7_i64).build("a")?).await?;
    let changed = bench.take(&one).await?;
    ensure_eq!(changed.application_properties().get("n"), Some(&PropertyValue::I64(8)));
    ensure_eq!(changed.application_properties().get("added").and_then(PropertyValue::as_str), Some("yes"));
    ensure_eq!(changed.application_properties().get("RuleName").and_then(PropertyValue::as_str), Some("change"));
    ensure_eq!(changed.subject(), Some("new"));
    let kept = bench.take(&two).await?;
    ensure_eq!(kept.application_properties().get("n"), Some(&PropertyValue::I64(7)));
    ensure_eq!((kept.application_properties().len(), kept.subject()), (1, Some("old")));
    Ok(())
}

async fn an_action_can_remove(bench: &Bench<'_>) -> Verdict {
    let topic = bench.topic(TopicSettings::default()).await?;
    let one = bench.subscription(&topic, "one", SubscriptionSettings::default()).await?;
    bench.delete_rule(&one, Rule::DEFAULT_NAME).await?;
    let rule = Rule::new("remove", Filter::True)?.with_action(action("REMOVE secret")?);
    bench.create_rule(&one, &rule).await?;
    let message = Message::builder().property("secret", "x").property("kept", 1_i64).build("a")?;
    bench.send(&topic, message).await?;
    let copy = bench.take(&one).await?;
    ensure_eq!(copy.application_properties().get("secret"), None);
    ensure_eq!(copy.application_properties().get("kept"), Some(&PropertyValue::I64(1)));
    Ok(())
}

/// Five rules match: three without an action make one copy, and two with one make a copy each.
async fn each_rule_with_an_action_makes_a_copy(bench: &Bench<'_>) -> Verdict {
    let topic = bench.topic(TopicSettings::default()).await?;
    let one = bench.subscription(&topic, "one", SubscriptionSettings::default()).await?;
    for rule in [
        Rule::new("plain-1", sql("n = 7")?)?,
        Rule::new("plain-2", sql("n > 1")?)?,
        Rule::new("action-1", sql("n < 9")?)?.with_action(action("SET by = 1")?),
        Rule::new("action-2", sql("EXISTS(n)")?)?.with_action(action("SET by = 2")?),
        Rule::new("no-match", sql("n = 8")?)?.with_action(action("SET by = 3")?),
    ] {
        bench.create_rule(&one, &rule).await?;
    }
    bench.send(&topic, Message::builder().message_id("m-1").property("n", 7_i64).build("a")?).await?;
    let copies = bench.drain_messages(3, &one).await?;
    let mut by: Vec<_> = copies
        .iter()
        .map(|copy| copy.application_properties().get("RuleName").and_then(PropertyValue::as_str))
        .collect();
    by.sort();
    ensure_eq!(by, [None, Some("action-1"), Some("action-2")]);
    ensure!(copies.iter().all(|copy| copy.message_id() == Some("m-1")), "a copy has another MessageId");
    Ok(())
}

async fn a_filter_does_not_see_the_body(bench: &Bench<'_>) -> Verdict {
    let topic = bench.topic(TopicSettings::default()).await?;
    let one = filtered(bench, &topic, "one", sql("EXISTS(body) OR EXISTS(n)")?).await?;
    bench.send(&topic, Message::builder().content_type("application/json").build(r#"{"n":7,"body":1}"#)?).await?;
    bench.send(&topic, Message::builder().property("n", 7_i64).build("in")?).await?;
    bench.expect(&one, ["in"]).await?;
    Ok(())
}

async fn a_filter_that_fails_dead_letters_the_copy(bench: &Bench<'_>) -> Verdict {
    let topic = bench.topic(TopicSettings::default()).await?;
    let one = filtered(bench, &topic, "one", sql("n / zero = 1")?).await?;
    let two = bench.subscription(&topic, "two", SubscriptionSettings::default()).await?;
    let message = Message::builder().property("n", 7_i64).property("zero", 0_i64).build("a")?;
    bench.send(&topic, message).await?;
    bench.nothing(&one).await?;
    let dead = bench.take(&one.dead_letter()).await?;
    ensure_eq!((text(&dead).as_str(), why(&dead).0), ("a", "FilterException"));
    bench.expect(&two, ["a"]).await?;
    Ok(())
}
