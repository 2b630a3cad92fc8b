use consign_core::wire::binary;
use consign_rules::{CorrelationFilter, Filter, Parameters, Rule, RuleSet, SqlAction, SqlFilter};

use super::{malformed::Malformed, properties, reader::Reader, write};

mod tag {
    pub(super) const TRUE: u8 = 0;
    pub(super) const FALSE: u8 = 1;
    pub(super) const CORRELATION: u8 = 2;
    pub(super) const SQL: u8 = 3;
}

/// The texts that a correlation filter can match.
const TEXTS: u32 = 8;

pub(super) fn write(out: &mut Vec<u8>, rules: &RuleSet) {
    write::list(out, rules.iter(), write_rule);
}

fn write_rule(out: &mut Vec<u8>, rule: &Rule) {
    write::text(out, rule.name());
    match rule.filter() {
        Filter::True => out.push(tag::TRUE),
        Filter::False => out.push(tag::FALSE),
        Filter::Correlation(filter) => {
            out.push(tag::CORRELATION);
            write_correlation(out, filter);
        }
        Filter::Sql(filter) => {
            out.push(tag::SQL);
            write::text(out, filter.as_str());
        }
    }
    write::optional(out, rule.action().map(SqlAction::as_str), write::text);
    write::optional(out, rule.created(), write::timestamp);
    if let Filter::Sql(filter) = rule.filter() {
        write_parameters(out, filter.parameters());
    }
    if let Some(action) = rule.action() {
        write_parameters(out, action.parameters());
    }
}

fn write_parameters(out: &mut Vec<u8>, parameters: &Parameters) {
    write::list(out, parameters.iter(), |out, (name, value)| {
        write::text(out, name);
        binary::simple(out, value);
    });
}

fn read_parameters(reader: &mut Reader<'_>) -> Result<Parameters, Malformed> {
    let parameters = reader.list(|reader| Ok((reader.text()?.to_owned(), reader.simple()?)))?;
    Parameters::new(parameters).map_err(|_| reader.invalid("parameters of a rule"))
}

pub(super) fn read(reader: &mut Reader<'_>) -> Result<RuleSet, Malformed> {
    let mut rules = RuleSet::empty();
    let count: u64 = reader.unsigned()?;
    for _ in 0..count {
        let rule = read_rule(reader)?;
        rules.restore(rule).map_err(|_| reader.invalid("rule"))?;
    }
    Ok(rules)
}

fn read_rule(reader: &mut Reader<'_>) -> Result<Rule, Malformed> {
    // Before version 3 there are no parameters, which are behind everything else.
    let has_parameters = reader.version() >= 3;
    let name = reader.text()?;
    let mut expression = None;
    let filter = match reader.byte()? {
        tag::TRUE => Filter::True,
        tag::FALSE => Filter::False,
        tag::CORRELATION => read_correlation(reader)?.into(),
        tag::SQL if has_parameters => {
            expression = Some(reader.text()?);
            Filter::True
        }
        tag::SQL => parse_filter(reader.text()?, Parameters::default(), reader)?,
        _ => return Err(reader.invalid("kind of a filter")),
    };
    let mut rule = Rule::new(name, filter).map_err(|_| reader.invalid("name of a rule"))?;
    let action = reader.optional(Reader::text)?;
    if let Some(action) = action.filter(|_| !has_parameters) {
        rule = rule.with_action(SqlAction::parse(action).map_err(|_| reader.invalid("action"))?);
    }
    let created = if reader.version() >= 2 { reader.optional(Reader::timestamp)? } else { None };
    if let Some(expression) = expression {
        let parameters = read_parameters(reader)?;
        let filter = parse_filter(expression, parameters, reader)?;
        rule = Rule::new(name, filter).map_err(|_| reader.invalid("name of a rule"))?;
    }
    if let Some(action) = action.filter(|_| has_parameters) {
        let parameters = read_parameters(reader)?;
        rule = rule.with_action(SqlAction::parse_with(action, parameters).map_err(|_| reader.invalid("action"))?);
    }
    Ok(rule.with_created(created))
}

fn parse_filter(text: &str, parameters: Parameters, reader: &Reader<'_>) -> Result<Filter, Malformed> {
    Ok(SqlFilter::parse_with(text, parameters).map_err(|_| reader.invalid("filter"))?.into())
}

/// Writes which texts are present, these, and the application properties.
fn write_correlation(out: &mut Vec<u8>, filter: &CorrelationFilter) {
    let texts = [
        filter.content_type(),
        filter.correlation_id(),
        filter.message_id(),
        filter.subject(),
        filter.reply_to(),
        filter.session_id(),
        filter.reply_to_session_id(),
        filter.to(),
    ];
    write::unsigned(out, write::bits(texts.iter().map(Option::is_some)));
    for text in texts.into_iter().flatten() {
        write::text(out, text);
    }
    properties::write_application(out, filter.properties());
}

fn read_correlation(reader: &mut Reader<'_>) -> Result<CorrelationFilter, Malformed> {
    let there: u32 = reader.unsigned()?;
    if there >> TEXTS != 0 {
        return Err(reader.invalid("bits of a correlation filter"));
    }
    let mut filter = CorrelationFilter::builder();
    for place in 0..TEXTS {
        if there & 1 << place != 0 {
            let text = reader.text()?;
            filter = match place {
                0 => filter.content_type(text),
                1 => filter.correlation_id(text),
                2 => filter.message_id(text),
                3 => filter.subject(text),
                4 => filter.reply_to(text),
                5 => filter.session_id(text),
                6 => filter.reply_to_session_id(text),
                _ => filter.to(text),
            };
        }
    }
    for (key, value) in properties::read_application(reader)?.iter() {
        filter = filter.property(key, value.clone());
    }
    filter.build().map_err(|_| reader.invalid("correlation filter"))
}
