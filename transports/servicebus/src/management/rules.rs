//! Rules of a subscription.

use std::collections::HashSet;

use consign_amqp::{
    mapping,
    value::{Described, List, Map, Value},
};
use consign_core::{time::Timestamp, transport::ErrorKind};
use consign_rules::{CorrelationFilter, Filter, Parameters, Rule, RuleSet, SqlAction, SqlFilter};

use super::{Management, missing};
use crate::error::Failure;

/// The rules of a page.
const PAGE: i32 = 100;

/// The most rules that are read.
const MOST: usize = RuleSet::MAX_CORRELATION_RULES + RuleSet::MAX_SQL_RULES;

/// What the service has for a filter that is always true, and for one that never is.
const TRUE: &str = "1=1";
const FALSE: &str = "1=0";

impl Management {
    pub(crate) async fn add_rule(&self, rule: &Rule) -> Result<(), Failure> {
        check(rule)?;
        let mut body = Map::default();
        body.push("rule-name", rule.name());
        body.push("rule-description", description(rule));
        self.call("com.microsoft:add-rule", body).await?;
        Ok(())
    }

    pub(crate) async fn remove_rule(&self, name: &str) -> Result<(), Failure> {
        let mut body = Map::default();
        body.push("rule-name", name);
        let removed = self.call("com.microsoft:remove-rule", body).await;
        removed.map(drop).map_err(|failure| match failure.kind() {
            ErrorKind::MessageNotFound => failure.with_kind(ErrorKind::EntityNotFound),
            _ => failure,
        })
    }

    /// Returns all rules, by pages.
    pub(crate) async fn rules(&self) -> Result<Vec<Rule>, Failure> {
        let mut rules = Read::default();
        loop {
            let mut body = Map::default();
            body.push("skip", i32::try_from(rules.entries).unwrap_or(i32::MAX));
            body.push("top", PAGE);
            let reply = self.call("com.microsoft:enumerate-rules", body).await?;
            if reply.status == 204 {
                return Ok(rules.rules);
            }
            let page = match reply.body.get("rules") {
                Some(Value::List(List(page))) => &page[..],
                Some(Value::Array(page)) => &**page,
                _ => return Err(missing("rules")),
            };
            if page.is_empty() {
                return Ok(rules.rules);
            }
            rules.add(page)?;
        }
    }
}

/// The rules of the pages so far.
#[derive(Default)]
struct Read {
    rules: Vec<Rule>,
    names: HashSet<Box<str>>,
    /// Those that were there before are among them.
    entries: usize,
}

impl Read {
    /// Adds a page. A rule that was created meanwhile moves others to the next page, so some of a page may be known. If
    /// all are, the server sends the same page for ever.
    fn add(&mut self, page: &[Value]) -> Result<(), Failure> {
        let before = self.rules.len();
        self.entries += page.len();
        for entry in page {
            let rule = read(entry).ok_or_else(unreadable)??;
            if self.names.insert(rule.name().into()) {
                self.rules.push(rule);
            }
        }
        if self.rules.len() == before {
            return Err(Failure::new(ErrorKind::General, "the server sends the same page of rules again"));
        }
        if self.rules.len() > MOST {
            return Err(Failure::new(ErrorKind::General, format!("the server has more than {MOST} rules")).for_good());
        }
        Ok(())
    }
}

/// A request over AMQP has no parameters, and without them an expression means something else.
fn check(rule: &Rule) -> Result<(), Failure> {
    let of_filter = match rule.filter() {
        Filter::Sql(filter) => Some(filter.parameters()),
        _ => None,
    };
    let of_action = rule.action().map(SqlAction::parameters);
    if of_filter.into_iter().chain(of_action).all(Parameters::is_empty) {
        return Ok(());
    }
    let detail = "a rule with parameters cannot be added over AMQP: write the values into the expression";
    Err(Failure::new(ErrorKind::NotSupported, detail).for_good())
}

fn unreadable() -> Failure {
    Failure::new(ErrorKind::General, "the answer has a rule that cannot be read").for_good()
}

fn expression(text: &str) -> Map {
    let mut map = Map::default();
    map.push("expression", text);
    map
}

/// The description of a rule in a request.
fn description(rule: &Rule) -> Map {
    let mut map = Map::default();
    match rule.filter() {
        Filter::True => map.push("sql-filter", expression(TRUE)),
        Filter::False => map.push("sql-filter", expression(FALSE)),
        Filter::Sql(filter) => map.push("sql-filter", expression(filter.as_str())),
        Filter::Correlation(filter) => map.push("correlation-filter", correlation(filter)),
    }
    map.push("sql-rule-action", rule.action().map(|action| Value::from(expression(action.as_str()))));
    map
}

fn correlation(filter: &CorrelationFilter) -> Map {
    let mut map = Map::default();
    for (name, value) in [
        ("correlation-id", filter.correlation_id()),
        ("message-id", filter.message_id()),
        ("to", filter.to()),
        ("reply-to", filter.reply_to()),
        ("label", filter.subject()),
        ("session-id", filter.session_id()),
        ("reply-to-session-id", filter.reply_to_session_id()),
        ("content-type", filter.content_type()),
    ] {
        map.push(name, value);
    }
    let properties = filter.properties().iter();
    let properties: Map =
        properties.map(|(name, value)| (Value::from(name), mapping::property_to_amqp(value))).collect();
    map.push("properties", properties);
    map
}

/// The kinds of described lists. A descriptor is a number, or a name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Rule,
    SqlAction,
    SqlFilter,
    TrueFilter,
    FalseFilter,
    CorrelationFilter,
    Other,
}

fn kind(descriptor: &Value) -> Kind {
    if let Some(code) = descriptor.as_integer() {
        return match code {
            0x0000_0137_0000_0004 => Kind::Rule,
            0x0000_0137_0000_0006 => Kind::SqlAction,
            0x0000_0013_7000_0006 => Kind::SqlFilter,
            0x0000_0013_7000_0007 => Kind::TrueFilter,
            0x0000_0013_7000_0008 => Kind::FalseFilter,
            0x0000_0013_7000_0009 => Kind::CorrelationFilter,
            _ => Kind::Other,
        };
    }
    match descriptor.as_str() {
        Some("com.microsoft:rule-description:list") => Kind::Rule,
        Some("com.microsoft:sql-rule-action:list") => Kind::SqlAction,
        Some("com.microsoft:sql-filter:list") => Kind::SqlFilter,
        Some("com.microsoft:true-filter:list") => Kind::TrueFilter,
        Some("com.microsoft:false-filter:list") => Kind::FalseFilter,
        Some("com.microsoft:correlation-filter:list") => Kind::CorrelationFilter,
        _ => Kind::Other,
    }
}

/// The kind and the fields of a described list.
fn parts(value: &Value) -> Option<(Kind, &[Value])> {
    let Value::Described(described) = value else { return None };
    let Described { descriptor, value: Value::List(List(fields)) } = &**described else { return None };
    Some((kind(descriptor), fields))
}

/// Reads an entry of a page. None if it is not the described list of a rule.
fn read(entry: &Value) -> Option<Result<Rule, Failure>> {
    let Value::Map(entry) = entry else { return None };
    let (Kind::Rule, [filter, rest @ ..]) = parts(entry.get("rule-description")?)? else { return None };
    let filter = match parts(filter)? {
        (Kind::TrueFilter, _) => Filter::True,
        (Kind::FalseFilter, _) => Filter::False,
        (Kind::SqlFilter, [text, ..]) => match text.as_str()? {
            TRUE => Filter::True,
            FALSE => Filter::False,
            text => match SqlFilter::parse(text) {
                Ok(filter) => filter.into(),
                Err(error) => return Some(Err(not_ours(&error))),
            },
        },
        (Kind::CorrelationFilter, fields) => match read_correlation(fields) {
            Ok(filter) => filter.into(),
            Err(failure) => return Some(Err(failure)),
        },
        _ => return None,
    };
    let mut rest = rest.iter();
    let action = rest.next().and_then(parts);
    let name = rest.next()?.as_str()?;
    let created = match rest.next() {
        Some(Value::Timestamp(created)) => Some(Timestamp::from_millis(created.0)),
        _ => None,
    };
    let mut rule = match Rule::new(name, filter) {
        Ok(rule) => rule.with_created(created),
        Err(error) => return Some(Err(not_ours(&error))),
    };
    if let Some((Kind::SqlAction, [text, ..])) = action {
        match SqlAction::parse(text.as_str()?) {
            Ok(action) => rule = rule.with_action(action),
            Err(error) => return Some(Err(not_ours(&error))),
        }
    }
    Some(Ok(rule))
}

/// A rule that the server has and that consign does not.
fn not_ours(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(ErrorKind::NotSupported, format!("the subscription has a rule that cannot be read: {error}"))
}

fn read_correlation(fields: &[Value]) -> Result<CorrelationFilter, Failure> {
    let mut filter = CorrelationFilter::builder();
    let text = |at: usize| fields.get(at).and_then(Value::as_str);
    macro_rules! texts {
        ($($at:literal $set:ident),*) => {$(
            if let Some(text) = text($at) {
                filter = filter.$set(text);
            }
        )*};
    }
    texts!(
        0 correlation_id, 1 message_id, 2 to, 3 reply_to, 4 subject, 5 session_id, 6 reply_to_session_id, 7 content_type
    );
    if let Some(Value::Map(properties)) = fields.get(8) {
        for (name, value) in &properties.0 {
            let name = name.as_str().ok_or_else(unreadable)?;
            filter = filter.property(name, mapping::property_from_amqp(name, value.clone())?);
        }
    }
    filter.build().map_err(|error| not_ours(&error))
}

#[cfg(test)]
mod tests {
    use consign_amqp::value::Symbol;

    use super::*;

    fn described(descriptor: Value, fields: Vec<Value>) -> Value {
        Value::Described(Box::new(Described { descriptor, value: List(fields).into() }))
    }

    fn entry(rule: Value) -> Value {
        let mut entry = Map::default();
        entry.push("rule-description", rule);
        entry.into()
    }

    /// Rules: G-40, G-42, G-43.
    #[test]
    fn a_rule_is_read_by_the_codes_or_the_names_of_its_parts() {
        let by_code = [0x0000_0137_0000_0004_u64, 0x0000_0013_7000_0006, 0x0000_0137_0000_0006].map(Value::from);
        let by_name = [
            "com.microsoft:rule-description:list",
            "com.microsoft:sql-filter:list",
            "com.microsoft:sql-rule-action:list",
        ];
        let by_name = by_name.map(|name| Value::from(Symbol::from_static(name)));
        for [rule, filter, action] in [by_code, by_name] {
            let filter = described(filter, vec!["n > 5".into(), 20_i32.into()]);
            let action = described(action, vec!["SET n = 1".into()]);
            let rule = read(&entry(described(rule, vec![filter, action, "large".into()]))).unwrap().unwrap();
            assert_eq!((rule.name(), rule.action().map(SqlAction::as_str)), ("large", Some("SET n = 1")));
            let Filter::Sql(filter) = rule.filter() else { panic!("{rule:?}") };
            assert_eq!(filter.as_str(), "n > 5");
        }
        assert!(read(&entry(Value::Null)).is_none());
    }

    /// Rules: G-40.
    #[test]
    fn a_server_that_repeats_a_page_is_an_error() {
        let of = |name: String| {
            let filter = described(0x0000_0013_7000_0007_u64.into(), vec![]);
            entry(described(0x0000_0137_0000_0004_u64.into(), vec![filter, Value::Null, name.into()]))
        };
        let page = |names: [&str; 2]| names.map(|name| of(name.to_owned()));
        let mut read = Read::default();
        read.add(&page(["a", "b"])).unwrap();
        read.add(&page(["b", "c"])).unwrap();
        assert_eq!(read.rules.iter().map(Rule::name).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(read.entries, 4);
        assert_eq!(read.add(&page(["a", "b"])).unwrap_err().kind(), ErrorKind::General);
        let many: Vec<Value> = (0..=MOST).map(|number| of(number.to_string())).collect();
        assert_eq!(Read::default().add(&many).unwrap_err().kind(), ErrorKind::General);
        Read::default().add(&many[1..]).unwrap();
    }

    /// Rules: G-30.
    #[test]
    fn a_rule_with_parameters_is_refused() {
        let parameters = || Parameters::new([("@p".to_owned(), 1_i32.into())]).unwrap();
        let filter = SqlFilter::parse_with("n = @p", parameters()).unwrap();
        let action = SqlAction::parse_with("SET n = @p", parameters()).unwrap();
        let plain = SqlFilter::parse("n = 1").unwrap();
        let refused = |rule: &Rule| check(rule).map_err(|failure| failure.kind());
        assert_eq!(refused(&Rule::new("r", filter).unwrap()), Err(ErrorKind::NotSupported));
        assert_eq!(refused(&Rule::new("r", Filter::True).unwrap().with_action(action)), Err(ErrorKind::NotSupported));
        assert_eq!(refused(&Rule::new("r", plain).unwrap()), Ok(()));
    }

    /// Rules: G-30, G-44, G-45.
    #[test]
    fn a_filter_that_is_always_true_is_an_expression_in_a_request() {
        let sent = description(&Rule::new("all", Filter::True).unwrap());
        let Some(Value::Map(filter)) = sent.get("sql-filter") else { panic!("{sent:?}") };
        assert_eq!(filter.get("expression").and_then(Value::as_str), Some("1=1"));
        assert_eq!(sent.get("sql-rule-action"), Some(&Value::Null));
        let code = |code: u64| Value::from(code);
        for (filter, expected) in [
            (described(code(0x0000_0013_7000_0007), vec![]), Filter::True),
            (described(code(0x0000_0013_7000_0008), vec![]), Filter::False),
            (described(code(0x0000_0013_7000_0006), vec!["1=1".into()]), Filter::True),
            (described(code(0x0000_0013_7000_0006), vec!["1=0".into()]), Filter::False),
        ] {
            let empty = described(code(0x0000_0137_0000_0005), vec![]);
            let rule = described(code(0x0000_0137_0000_0004), vec![filter, empty, "r".into()]);
            assert_eq!(read(&entry(rule)).unwrap().unwrap().filter(), &expected);
        }
    }

    /// Rules: G-45.
    #[test]
    fn a_correlation_filter_has_its_fields_in_order() {
        let mut properties = Map::default();
        properties.push("tenant", 7_i32);
        let mut fields: Vec<Value> = ["c", "m", "t", "r", "l", "s", "rs", "text/plain"].map(Value::from).to_vec();
        fields.push(properties.into());
        let filter = read_correlation(&fields).unwrap();
        assert_eq!(
            (filter.correlation_id(), filter.subject(), filter.reply_to_session_id()),
            (Some("c"), Some("l"), Some("rs"))
        );
        assert_eq!(filter.properties().len(), 1);
        let sent = correlation(&filter);
        assert_eq!(sent.get("label").and_then(Value::as_str), Some("l"));
        assert_eq!(sent.get("content-type").and_then(Value::as_str), Some("text/plain"));
    }
}
