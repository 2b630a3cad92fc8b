use std::{fmt, time::Duration};

use consign_core::{
    message::{Field, InvalidArgument, Message, Problem, Properties, PropertyValue},
    time::Timestamp,
};

use super::{
    Parameters, ParseError, ParseErrorKind,
    display::separated,
    evaluate::{Evaluator, is_same_name},
    operand::{EPOCH_TICKS, Operand, TICKS_PER_MS, View},
    parser::Parser,
    system::System,
    tree::{Expression, Property, Statement, Target},
};
use crate::{ActionError, ActionErrorKind, Copies};

/// Most statements of an action.
const MAX_STATEMENTS: usize = 32;

/// Changes the properties of a copy. The [module](crate) describes the language.
///
/// `SET` of a user property keeps the spelling of a property whose name differs in case only. A number takes the type of
/// the number that it replaces, if that is a 64-bit integer or floating-point number that can hold it; any other value
/// brings its own type, and an unknown one is null. `REMOVE` of a user property removes it in every spelling, and does
/// nothing if there is none.
///
/// The system properties that a sender sets can be set: those that are text to text or to a UUID, `TimeToLive` to a span
/// of time, `ScheduledEnqueueTimeUtc` to an instant. An unknown value removes them, as `REMOVE` does; a message cannot be
/// without its `MessageId`.
///
/// Two actions are equal if they do the same, however they were written.
#[derive(Clone, Debug)]
pub struct SqlAction {
    text: Box<str>,
    parameters: Parameters,
    statements: Vec<Statement>,
}

impl SqlAction {
    /// Reads statements: one at least and 32 at most, in at most 1,024 UTF-16 code units, with parentheses, signs and
    /// functions inside each other at most 64 times.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Self::parse_with(text, Parameters::default())
    }

    /// Reads statements with parameters, such as `@name`. Each of them needs a value; a value may be without a use.
    pub fn parse_with(text: &str, parameters: Parameters) -> Result<Self, ParseError> {
        let statements = statements(text, &parameters)?;
        Ok(Self { text: text.into(), parameters, statements })
    }

    /// Returns the parameters.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Returns the text as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Applies the statements in their order; each sees what those before it did. If one fails, or if the properties of
    /// the message break a rule afterwards, the message stays as it was.
    pub fn apply(&self, message: &mut Message) -> Result<(), ActionError> {
        let mut changed = message.clone();
        for (index, statement) in self.statements.iter().enumerate() {
            apply(statement, &mut changed).map_err(|kind| ActionError::in_statement(index + 1, kind))?;
        }
        changed.properties().check().map_err(ActionError::after_all)?;
        *message = changed;
        Ok(())
    }

    /// The changed copy that the rule of that name makes.
    pub(crate) fn copy_of(&self, message: &Message, rule: &str) -> Result<Message, ActionError> {
        let mut copy = message.clone();
        self.apply(&mut copy)?;
        copy.properties_mut().application_properties_mut().insert(Copies::RULE_NAME, rule);
        copy.properties().check().map_err(ActionError::after_all)?;
        Ok(copy)
    }
}

impl PartialEq for SqlAction {
    fn eq(&self, other: &Self) -> bool {
        self.statements == other.statements && self.parameters == other.parameters
    }
}

/// The canonical form, which reads as an equal action unless it is longer than an action may be.
impl fmt::Display for SqlAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        separated(f, &self.statements, "; ", |f, statement| statement.fmt(f))
    }
}

fn statements(text: &str, parameters: &Parameters) -> Result<Vec<Statement>, ParseError> {
    let mut parser = Parser::new(text, parameters, true)?;
    let mut statements = Vec::new();
    while statements.is_empty() || !parser.at_end() {
        if statements.len() == MAX_STATEMENTS {
            let kind = ParseErrorKind::TooManyExpressions { limit: MAX_STATEMENTS };
            return Err(parser.error(kind, parser.position(), parser.position()));
        }
        statements.push(statement(&mut parser)?);
        parser.take_sign(";")?;
    }
    Ok(statements)
}

fn statement(parser: &mut Parser<'_>) -> Result<Statement, ParseError> {
    if parser.take_word("SET")? {
        let target = target(parser, System::is_settable)?;
        parser.sign("=")?;
        return Ok(Statement::Set(target, parser.expression()?));
    }
    if parser.take_word("REMOVE")? {
        return Ok(Statement::Remove(target(parser, System::is_removable)?));
    }
    Err(parser.unexpected("SET or REMOVE"))
}

fn target(parser: &mut Parser<'_>, can_change: impl Fn(System) -> bool) -> Result<Target, ParseError> {
    let start = parser.position();
    let property = parser.property()?;
    let end = parser.previous_end();
    match property {
        Property::User(name) => Ok(Target::User(name)),
        Property::System(system) if can_change(system) => Ok(Target::System(system)),
        Property::System(_) => Err(parser.error(ParseErrorKind::ReadOnlyProperty, start, end)),
        Property::Unknown(_) => Err(parser.error(ParseErrorKind::UnknownSystemProperty, start, end)),
    }
}

fn apply(statement: &Statement, message: &mut Message) -> Result<(), ActionErrorKind> {
    match statement {
        Statement::Set(target, expression) => set(target, expression, message),
        Statement::Remove(Target::System(system)) => {
            remove(*system, message.properties_mut());
            Ok(())
        }
        Statement::Remove(Target::User(name)) => {
            let same = |key: &&str| is_same_name(key, name);
            let keys: Vec<Box<str>> =
                message.application_properties().iter().map(|(key, _)| key).filter(same).map(Box::from).collect();
            for key in keys {
                message.properties_mut().application_properties_mut().remove(&key);
            }
            Ok(())
        }
    }
}

fn set(target: &Target, expression: &Expression, message: &mut Message) -> Result<(), ActionErrorKind> {
    let value = Evaluator::new(message).expression(expression).map_err(ActionErrorKind::Evaluation)?.into_value();
    match target {
        Target::User(name) => {
            let application = message.properties_mut().application_properties_mut();
            let key = match application.get(name) {
                Some(_) => name.clone(),
                None => application
                    .iter()
                    .find(|(key, _)| is_same_name(key, name))
                    .map_or(name.clone(), |(key, _)| key.into()),
            };
            let value = match application.get(&key) {
                Some(replaced) => widened(value, replaced),
                None => value,
            };
            application.insert(key, value);
            Ok(())
        }
        Target::System(system) => set_system(*system, &Operand::Owned(value), message.properties_mut()),
    }
}

/// The value in the type of the number that it replaces, where C# converts implicitly.
fn widened(value: PropertyValue, replaced: &PropertyValue) -> PropertyValue {
    let owned = Operand::Owned(value);
    let number = match (owned.view(), replaced) {
        (view @ (View::Integer(_) | View::Float(_)), PropertyValue::F64(_)) => view.float().map(PropertyValue::F64),
        (View::Integer(number), PropertyValue::I64(_)) => i64::try_from(number).ok().map(PropertyValue::I64),
        _ => None,
    };
    number.unwrap_or_else(|| owned.into_value())
}

fn set_system(system: System, value: &Operand<'_>, properties: &mut Properties) -> Result<(), ActionErrorKind> {
    let wrong_type = ActionErrorKind::WrongType { property: system.name() };
    match value.view() {
        View::Unknown if system.is_removable() => {
            remove(system, properties);
            Ok(())
        }
        View::Span(ticks) if system == System::TimeToLive => {
            let span = u64::try_from(ticks).map(|ticks| Duration::from_nanos(ticks.saturating_mul(100)));
            let span = span.map_err(|_| InvalidArgument::new(Field::TimeToLive, Problem::NotPositive));
            span.and_then(|span| properties.set_time_to_live(span).map(drop)).map_err(ActionErrorKind::InvalidArgument)
        }
        View::Instant(ticks) if system == System::ScheduledEnqueueTimeUtc => {
            let millis = (ticks - i128::from(EPOCH_TICKS)).div_euclid(i128::from(TICKS_PER_MS));
            let millis = i64::try_from(millis).map_err(|_| wrong_type)?;
            properties.set_scheduled_enqueue_time(Timestamp::from_millis(millis));
            Ok(())
        }
        view => {
            let text = match view {
                View::Uuid(bytes) => uuid::Uuid::from_bytes_ref(bytes).to_string(),
                _ => view.text(&mut [0; 4]).ok_or_else(|| wrong_type.clone())?.to_owned(),
            };
            set_text(system, text, properties).unwrap_or(Err(wrong_type))
        }
    }
}

/// `None` if the property is not text.
fn set_text(system: System, text: String, properties: &mut Properties) -> Option<Result<(), ActionErrorKind>> {
    let set = match system {
        System::ContentType => Ok(properties.set_content_type(text)),
        System::CorrelationId => Ok(properties.set_correlation_id(text)),
        System::MessageId => properties.set_message_id(text),
        System::PartitionKey => properties.set_partition_key(text),
        System::ReplyTo => Ok(properties.set_reply_to(text)),
        System::ReplyToSessionId => properties.set_reply_to_session_id(text),
        System::SessionId => properties.set_session_id(text),
        System::Subject => Ok(properties.set_subject(text)),
        System::To => Ok(properties.set_to(text)),
        System::ViaPartitionKey => properties.set_transaction_partition_key(text),
        _ => return None,
    };
    Some(set.map(drop).map_err(ActionErrorKind::InvalidArgument))
}

/// The parser lets through only what can be removed.
fn remove(system: System, properties: &mut Properties) {
    match system {
        System::ContentType => properties.clear_content_type(),
        System::CorrelationId => properties.clear_correlation_id(),
        System::PartitionKey => properties.clear_partition_key(),
        System::ReplyTo => properties.clear_reply_to(),
        System::ReplyToSessionId => properties.clear_reply_to_session_id(),
        System::ScheduledEnqueueTimeUtc => properties.clear_scheduled_enqueue_time(),
        System::SessionId => properties.clear_session_id(),
        System::Subject => properties.clear_subject(),
        System::TimeToLive => properties.clear_time_to_live(),
        System::To => properties.clear_to(),
        System::ViaPartitionKey => properties.clear_transaction_partition_key(),
        _ => properties,
    };
}
