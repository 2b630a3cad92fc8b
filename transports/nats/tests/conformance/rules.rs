//! The suite's rules in the words of the library.

use consign::{
    message::EntityPath,
    rules::{self, CorrelationFilter, ParseError, Rule, SqlAction, SqlFilter},
    transport::{ErrorKind, ManageError},
};
use consign_conformance::{Correlation, Filter, RuleSpec};

/// The topic and the name of a subscription.
pub(crate) fn parts(path: &EntityPath) -> Result<(&str, &str), ManageError> {
    let no_subscription = || ManageError::new(ErrorKind::InvalidArgument).with_detail("the path of no subscription");
    path.subscription().ok_or_else(no_subscription)
}

pub(crate) fn rule(spec: &RuleSpec) -> Result<Rule, ManageError> {
    let filter = match &spec.filter {
        Filter::True => rules::Filter::True,
        Filter::False => rules::Filter::False,
        Filter::Correlation(correlation) => filter(correlation)?.into(),
        Filter::Sql(expression) => SqlFilter::parse(expression).map_err(unreadable)?.into(),
    };
    let rule = Rule::new(spec.name, filter)?;
    match spec.action {
        None => Ok(rule),
        Some(statements) => Ok(rule.with_action(SqlAction::parse(statements).map_err(unreadable)?)),
    }
}

fn unreadable(error: ParseError) -> ManageError {
    ManageError::new(ErrorKind::InvalidArgument).with_detail(error.to_string()).with_source(error)
}

fn filter(correlation: &Correlation) -> Result<CorrelationFilter, ManageError> {
    let mut filter = CorrelationFilter::builder();
    macro_rules! fields {
        ($($field:ident),*) => {$(
            if let Some(value) = correlation.$field {
                filter = filter.$field(value);
            }
        )*};
    }
    fields!(content_type, correlation_id, subject, message_id, reply_to, reply_to_session_id, session_id, to);
    for &(key, value) in &correlation.properties {
        filter = filter.property(key, value);
    }
    Ok(filter.build()?)
}
