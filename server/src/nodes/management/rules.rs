use consign_amqp::{
    mapping,
    value::{Described, List, Map, Timestamp as WireTimestamp, Value},
};
use consign_broker::{Broker, Subscription};
use consign_core::{time::Timestamp, transport::ErrorKind};
use consign_rules::{CorrelationFilter, Filter, Rule, SqlAction, SqlFilter};

use crate::{
    entities::Entity,
    errors::Failure,
    nodes::{
        Request, Response,
        request::{Fields, wrong},
    },
};

/// The descriptors of rules.
mod code {
    pub(super) const RULE: u64 = 0x0000_0137_0000_0004;
    pub(super) const EMPTY_ACTION: u64 = 0x0000_0137_0000_0005;
    pub(super) const SQL_ACTION: u64 = 0x0000_0137_0000_0006;
    pub(super) const SQL_FILTER: u64 = 0x0000_0013_7000_0006;
    pub(super) const TRUE_FILTER: u64 = 0x0000_0013_7000_0007;
    pub(super) const FALSE_FILTER: u64 = 0x0000_0013_7000_0008;
    pub(super) const CORRELATION_FILTER: u64 = 0x0000_0013_7000_0009;
}

/// The most rules of a page.
const MAX_PAGE: usize = 1_000;

fn subscription(broker: &Broker, entity: &Entity) -> Result<Subscription, Failure> {
    let path = entity.path();
    let found = path.subscription().filter(|_| !path.is_sub_queue());
    let (topic, name) =
        found.ok_or_else(|| Failure::new(ErrorKind::InvalidOperation, "Only a subscription has rules."))?;
    Ok(broker.topic(topic)?.subscription(name)?)
}

/// `add-rule`.
pub(super) fn add(broker: &Broker, entity: &Entity, request: &Request) -> Result<Response, Failure> {
    let fields = request.fields()?;
    let name = fields.text("rule-name")?.ok_or_else(|| Failure::argument("the request has no 'rule-name'"))?;
    let description = fields.map("rule-description")?;
    let description = Fields(description.ok_or_else(|| Failure::argument("the request has no 'rule-description'"))?);
    let expression = |of: &'static str| -> Result<Option<&str>, Failure> {
        let Some(map) = description.map(of)? else { return Ok(None) };
        let text = Fields(map).text("expression")?;
        text.map(Some).ok_or_else(|| Failure::argument(format!("'{of}' has no 'expression'")))
    };
    let filter: Filter = match (expression("sql-filter")?, description.map("correlation-filter")?) {
        (Some(text), None) => SqlFilter::parse(text).map_err(|error| Failure::argument(error.to_string()))?.into(),
        (None, Some(map)) => correlation(Fields(map))?.into(),
        // Without a known filter the rule would match every message. The SDKs send `1=1` for a filter that is always true.
        (None, None) => return Err(Failure::argument("the rule has neither 'sql-filter' nor 'correlation-filter'")),
        (Some(_), Some(_)) => return Err(Failure::argument("the rule has both 'sql-filter' and 'correlation-filter'")),
    };
    let mut rule = Rule::new(name, filter).map_err(|error| Failure::argument(error.to_string()))?;
    // azservicebus sends an empty map for a rule without an action.
    let has_action = description.map("sql-rule-action")?.is_some_and(|map| !map.0.is_empty());
    if has_action && let Some(text) = expression("sql-rule-action")? {
        let action = SqlAction::parse(text).map_err(|error| Failure::argument(error.to_string()))?;
        rule = rule.with_action(action);
    }
    subscription(broker, entity)?.create_rule(rule)?;
    Ok(Response::ok(Map::default()))
}

fn correlation(fields: Fields<'_>) -> Result<CorrelationFilter, Failure> {
    let mut filter = CorrelationFilter::builder();
    macro_rules! texts {
        ($($name:literal $set:ident),*) => {$(
            if let Some(text) = fields.text($name)? {
                filter = filter.$set(text);
            }
        )*};
    }
    texts!(
        "correlation-id" correlation_id, "message-id" message_id, "to" to, "reply-to" reply_to, "label" subject,
        "session-id" session_id, "reply-to-session-id" reply_to_session_id, "content-type" content_type
    );
    for (key, value) in fields.map("properties")?.into_iter().flat_map(|map| &map.0) {
        let key = key.as_str().ok_or_else(|| wrong("properties", "a map of strings"))?;
        filter = filter.property(key, mapping::property_from_amqp(key, value.clone())?);
    }
    filter.build().map_err(|error| Failure::argument(error.to_string()))
}

/// `remove-rule`.
pub(super) fn remove(broker: &Broker, entity: &Entity, request: &Request) -> Result<Response, Failure> {
    let fields = request.fields()?;
    let name = fields.text("rule-name")?.ok_or_else(|| Failure::argument("the request has no 'rule-name'"))?;
    let removed = subscription(broker, entity)?.delete_rule(name);
    removed.map_err(|error| match error.kind() {
        // Clients recognise this text.
        ErrorKind::EntityNotFound => Failure::no_entity(&format!("{}/Rules/{name}", entity.path())),
        _ => Failure::from(error),
    })?;
    Ok(Response::ok(Map::default()))
}

/// `enumerate-rules`.
pub(super) fn enumerate(broker: &Broker, entity: &Entity, request: &Request) -> Result<Response, Failure> {
    let fields = request.fields()?;
    let skip = fields.count("skip", usize::MAX)?.unwrap_or(0);
    let top = fields.count("top", MAX_PAGE)?.unwrap_or(MAX_PAGE);
    let rules = subscription(broker, entity)?.rules_page(skip, top);
    let page: Vec<Value> = rules.iter().map(|rule| entry(rule).into()).collect();
    if page.is_empty() {
        return Ok(Response::no_content());
    }
    let mut body = Map::default();
    body.push("rules", List(page));
    Ok(Response::ok(body))
}

fn described(descriptor: u64, fields: Vec<Value>) -> Value {
    Value::Described(Box::new(Described { descriptor: descriptor.into(), value: List(fields).into() }))
}

/// The entry of a rule. One without a time of its creation was created in 1970.
fn entry(rule: &Rule) -> Map {
    let created = WireTimestamp(rule.created().unwrap_or(Timestamp::EPOCH).as_millis());
    let filter = match rule.filter() {
        Filter::True => described(code::TRUE_FILTER, Vec::new()),
        Filter::False => described(code::FALSE_FILTER, Vec::new()),
        Filter::Sql(filter) => described(code::SQL_FILTER, vec![filter.as_str().into(), 20_i32.into()]),
        Filter::Correlation(filter) => {
            let properties = filter.properties().iter();
            let properties: Map =
                properties.map(|(key, value)| (key.into(), mapping::property_to_amqp(value))).collect();
            let texts = [
                filter.correlation_id(),
                filter.message_id(),
                filter.to(),
                filter.reply_to(),
                filter.subject(),
                filter.session_id(),
                filter.reply_to_session_id(),
                filter.content_type(),
            ];
            let mut fields: Vec<Value> = texts.into_iter().map(Value::from).collect();
            fields.push(properties.into());
            described(code::CORRELATION_FILTER, fields)
        }
    };
    let action = match rule.action() {
        None => described(code::EMPTY_ACTION, Vec::new()),
        Some(action) => described(code::SQL_ACTION, vec![action.as_str().into(), 20_i32.into()]),
    };
    let mut entry = Map::default();
    entry.push("rule-description", described(code::RULE, vec![filter, action, rule.name().into(), created.into()]));
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One digit apart.
    /// Rules: G-42, G-43.
    #[test]
    fn the_codes_of_sql_filters_and_sql_actions_differ() {
        assert_eq!((code::SQL_FILTER, code::SQL_ACTION), (83_483_426_822, 1_335_734_829_062));
    }
}
