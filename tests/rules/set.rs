use consign::{
    Message,
    message::{Field, Problem},
    rules::{
        Copies, CorrelationFilter, EvaluationError, Filter, Rule, RuleError, RuleSet, RuleSetError, SqlAction,
        SqlFilter,
    },
    transport::{ErrorKind, ManageError},
};

use crate::support::message;

fn sql(name: &str, filter: &str) -> Rule {
    Rule::new(name, SqlFilter::parse(filter).unwrap()).unwrap()
}

fn set(rules: impl IntoIterator<Item = Rule>) -> RuleSet {
    let mut set = RuleSet::empty();
    for rule in rules {
        set.create(rule).unwrap();
    }
    set
}

fn action(text: &str) -> SqlAction {
    SqlAction::parse(text).unwrap()
}

fn subject(name: &str, subject: &str) -> Rule {
    Rule::new(name, CorrelationFilter::builder().subject(subject).build().unwrap()).unwrap()
}

/// Rules: T-52.
#[test]
fn a_new_subscription_takes_everything_and_one_without_rules_nothing() {
    let mut rules = RuleSet::default();
    assert_eq!(rules.iter().map(Rule::name).collect::<Vec<_>>(), [Rule::DEFAULT_NAME]);
    let copies = rules.evaluate(&message()).unwrap();
    assert!(copies.plain && copies.changed.is_empty());
    assert_eq!(rules.remove("$default").unwrap(), Rule::default());
    assert!(rules.is_empty() && rules.evaluate(&message()).unwrap().is_empty());
}

/// Rules: T-53.
#[test]
fn five_rules_make_three_copies() {
    let rules = set([
        sql("e", "colour = 'red'").with_action(action("SET from = 'e'")),
        sql("a", "count > 5"),
        subject("d", "order.created"),
        Rule::new("b", Filter::True).unwrap().with_action(action("SET sys.Label = 'b'")),
        sql("c", "colour IN ('red')"),
        // These do not match.
        sql("f", "colour = 'blue'").with_action(action("SET from = 'f'")),
        sql("g", "missing = 1"),
        Rule::new("h", Filter::False).unwrap(),
        subject("i", "order.deleted"),
    ]);
    let original = message();
    let copies = rules.evaluate(&original).unwrap();
    assert_eq!(copies.len(), 3);
    assert!(copies.plain);
    let [b, e] = &copies.changed[..] else { panic!("two") };
    let name = |copy: &Message| {
        copy.application_properties().get(Copies::RULE_NAME).and_then(|name| name.as_str()).map(str::to_owned)
    };
    assert_eq!((name(b).as_deref(), b.subject()), (Some("b"), Some("b")));
    assert_eq!((name(e).as_deref(), e.subject()), (Some("e"), Some("order.created")));
    assert_eq!(e.application_properties().get("from"), Some(&"e".into()));
    assert_eq!(b.application_properties().get("from"), None);
    assert_eq!((b.message_id(), b.payload()), (original.message_id(), original.payload()));
    assert_eq!(original.properties(), message().properties());
}

/// Rules: T-53.
#[test]
fn rules_without_action_make_one_copy() {
    let rules = set((0..10).map(|index| Rule::new(index.to_string(), Filter::True).unwrap()));
    assert_eq!(rules.evaluate(&message()).unwrap().len(), 1);
}

/// Rules: T-53.
#[test]
fn the_name_of_the_rule_is_written_last() {
    let rule = sql("Mine", "1=1").with_action(action("SET RuleName = 'other'"));
    let copies = RuleSet::of(rule).evaluate(&message()).unwrap();
    assert_eq!(copies.changed[0].application_properties().get("RuleName"), Some(&"Mine".into()));
}

/// Rules: S-95.
#[test]
fn a_rule_that_fails_is_named_with_a_reason() {
    let rules = set([
        sql("b", "sys.Foo = 1"),
        sql("c", "1 = 1"),
        sql("a", "1 = 1").with_action(action("SET sys.To = 1")),
        sql("d", "1 = 1").with_action(action("SET a = 1")),
    ]);
    let failure = rules.evaluate(&message()).unwrap_err();
    assert_eq!((failure.rule(), failure.reason()), ("a", "RuleActionException"));
    assert_eq!(
        failure.to_string(),
        "rule \"a\": statement 1 of the action failed: To cannot have a value of that type"
    );
    let copies = failure.into_copies();
    assert!(copies.plain);
    assert_eq!(copies.changed.len(), 1);

    let failure = set([sql("B", "sys.Foo = 1"), sql("a", "1 = 1")]).evaluate(&message()).unwrap_err();
    assert_eq!((failure.rule(), failure.reason()), ("B", "FilterException"));
    let RuleError::Filter(error) = failure.error() else { panic!("a filter") };
    assert_eq!(error.kind(), &EvaluationError::UnknownSystemProperty("Foo".into()));
    assert_eq!(failure.to_string(), "rule \"B\": the filter failed: there is no system property \"Foo\"");
}

/// Rules: T-59c.
#[test]
fn a_failure_does_not_depend_on_the_order_of_the_rules() {
    for names in [["a", "b"], ["b", "a"]] {
        let rules = set([sql(names[0], "1 = 1"), sql(names[1], "1 / 0 = 1")]);
        assert_eq!(rules.evaluate(&message()).unwrap_err().rule(), names[1]);
    }
}

/// Rules: V-13.
#[test]
fn names_of_rules_are_bounded() {
    let new = |name: &str| Rule::new(name, Filter::True).map(|rule| rule.name().to_owned());
    for name in ["$Default", "a b", "é", &"x".repeat(50), &"🦀".repeat(25)] {
        assert_eq!(new(name).as_deref(), Ok(name));
    }
    let problem = |name: &str| {
        let error = new(name).unwrap_err();
        assert_eq!(error.field(), &Field::RuleName);
        error.problem().clone()
    };
    assert_eq!(problem(""), Problem::Empty);
    assert_eq!(problem(&"x".repeat(51)), Problem::TooLong { limit: 50 });
    assert_eq!(problem(&"🦀".repeat(26)), Problem::TooLong { limit: 50 });
    for char in ['@', '?', '#', '*', '/', '\\', '\n', '\u{202e}', '\u{200b}'] {
        assert_eq!(problem(&format!("a{char}")), Problem::ForbiddenCharacter(char));
    }
}

/// Rules: T-57.
#[test]
fn rules_are_bounded_by_kind() {
    let mut rules = RuleSet::empty();
    for index in 0..2_000 {
        rules.create(sql(&index.to_string(), "1 = 1")).unwrap();
    }
    assert_eq!(rules.create(sql("more", "1 = 1")), Err(RuleSetError::TooManyRules { limit: 2_000 }));
    assert_eq!(rules.create(Rule::default()), Err(RuleSetError::TooManyRules { limit: 2_000 }));
    rules.create(subject("c", "x")).unwrap();
    rules.remove("7").unwrap();
    rules.create(sql("more", "1 = 1")).unwrap();

    let mut rules = RuleSet::default();
    for index in 0..100_000 {
        rules.create(subject(&index.to_string(), &index.to_string())).unwrap();
    }
    assert_eq!(rules.create(subject("more", "x")), Err(RuleSetError::TooManyRules { limit: 100_000 }));
    rules.create(sql("sql", "1 = 0")).unwrap();
    assert_eq!(rules.len(), 100_002);
    rules.remove("5").unwrap();
    rules.create(subject("more", "x")).unwrap();
}

/// Rules: T-57.
/// Attacks: 102.
#[test]
fn rules_are_bounded_by_their_bytes() {
    let value = "x".repeat(65_000);
    let large = |name: String| {
        let filter = CorrelationFilter::builder().property("k", value.as_str()).build().unwrap();
        Rule::new(name, filter).unwrap()
    };
    let of = |count: usize| (0..count).map(|index| large(format!("{index:05}"))).collect::<Vec<_>>();
    let each = 65_000 + 1 + 5;
    let most = RuleSet::MAX_BYTES / each;
    let mut rules = RuleSet::empty();
    for rule in of(most) {
        rules.create(rule).unwrap();
    }
    let (limit, size) = (64 << 20, (most + 1) * each);
    assert_eq!(rules.create(large("other".to_owned())), Err(RuleSetError::TooManyBytes { limit, size }));
    assert_eq!(ManageError::from(RuleSetError::TooManyBytes { limit, size }).kind(), ErrorKind::QuotaExceeded);
    assert_eq!(rules.create(large("00000".to_owned())), Err(RuleSetError::AlreadyExists));
    rules.create(subject("small", "x")).unwrap();
    rules.remove("00000").unwrap();
    rules.create(large("other".to_owned())).unwrap();
}

/// Rules: T-53.
#[test]
fn a_rule_has_its_name_in_any_case() {
    let rule = sql("\u{c4}rger", "1 = 1");
    assert!(rule.is_named("\u{e4}RGER") && !rule.is_named("other"));
    assert_eq!(set([rule]).get("\u{e4}RGER").map(Rule::name), Some("\u{c4}rger"));
}

/// Rules: T-53.
#[test]
fn rules_are_kept_by_name_in_any_case() {
    let mut rules = set([sql("b", "1 = 1"), sql("A", "1 = 1"), subject("C", "x")]);
    assert_eq!(rules.iter().map(Rule::name).collect::<Vec<_>>(), ["A", "b", "C"]);
    assert_eq!(rules.create(sql("B", "1 = 0")), Err(RuleSetError::AlreadyExists));
    assert_eq!(rules.get("c").map(Rule::name), Some("C"));
    assert_eq!(rules.remove("c").unwrap().name(), "C");
    assert_eq!(rules.remove("c"), Err(RuleSetError::NotFound));
    assert_eq!(rules.len(), 2);
}

/// Rules: T-54.
/// The index finds what trying each filter finds, also after rules are taken away.
#[test]
fn the_index_finds_what_each_filter_finds() {
    let seed = std::env::var("SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(54);
    println!("replay: SEED={seed} cargo test --test rules the_index_finds_what_each_filter_finds");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..200 {
        let mut rules = RuleSet::empty();
        for name in 0..40 {
            let mut filter = CorrelationFilter::builder().property("k", random.i32(0..2));
            for set in [
                CorrelationFilter::builder().subject(random.choice(["a", "b"]).unwrap()),
                CorrelationFilter::builder().to("a"),
            ] {
                if random.bool() {
                    let set = set.build().unwrap();
                    filter = match (set.subject(), set.to()) {
                        (Some(subject), _) => filter.subject(subject),
                        (_, Some(to)) => filter.to(to),
                        _ => filter,
                    };
                }
            }
            if random.bool() {
                filter = filter.message_id(random.choice(["a", "b"]).unwrap());
            }
            let rule = Rule::new(format!("{name:02}"), filter.build().unwrap()).unwrap();
            rules.create(rule.with_action(action("SET a = 1"))).unwrap();
        }
        for name in 0..40 {
            if random.bool() {
                rules.remove(&format!("{name:02}")).unwrap();
            }
        }
        let message = Message::builder()
            .message_id(random.choice(["a", "b", "c"]).unwrap())
            .subject(random.choice(["a", "b"]).unwrap())
            .to("a")
            .property("k", random.i32(0..2))
            .build("")
            .unwrap();
        let expected: Vec<_> = rules
            .iter()
            .filter(|rule| rule.filter().matches(&message).unwrap())
            .map(|rule| rule.name().to_owned())
            .collect();
        let copies = rules.evaluate(&message).unwrap();
        let found: Vec<_> = copies
            .changed
            .iter()
            .map(|copy| copy.application_properties().get("RuleName").unwrap().as_str().unwrap().to_owned())
            .collect();
        assert_eq!(found, expected);
    }
}

/// Rules: T-56.
#[test]
fn the_name_of_the_rule_counts_against_the_limits() {
    let rules = RuleSet::of(sql("name", "1 = 1").with_action(action("SET a = TRUE")));
    let added = "a".len() + 1 + Copies::RULE_NAME.len() + "name".len();
    let half = || "x".repeat(32_000);
    let of_size = |size: usize| {
        let halves = 2 * (half().len() + 1);
        Message::builder()
            .property("k", half())
            .property("l", half())
            .subject("x".repeat(size - halves))
            .build("")
            .unwrap()
    };
    let fits = of_size(65_534 - added);
    assert_eq!(rules.evaluate(&fits).unwrap().changed[0].properties().size(), 65_534);
    let failure = rules.evaluate(&of_size(65_534 - added + 1)).unwrap_err();
    assert_eq!((failure.rule(), failure.reason()), ("name", "RuleActionException"));
}

/// Rules: T-59a.
/// One rule takes as many steps as it may, and there may be thousands of such rules.
#[test]
fn the_steps_of_all_rules_are_counted_together() {
    let message = Message::builder().property("t", "a".repeat(30_000)).build("").unwrap();
    let hard = format!("t LIKE '%{}b'", "a".repeat(100));
    let name = |number| format!("r{number}");
    let rules = |count| set((0..count).map(|number| sql(&name(number), &hard)));
    assert!(rules(5).evaluate(&message).unwrap().is_empty());
    let failure = rules(7).evaluate(&message).unwrap_err();
    let RuleError::Filter(error) = failure.error() else { panic!("{failure}") };
    assert_eq!((failure.rule(), error.kind()), ("r5", &EvaluationError::TooManySteps { limit: 1 << 24 }));
}
