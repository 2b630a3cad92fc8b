use consign_core::message::Message;

use super::{CorrelationFilter, FilterError, SqlFilter};

/// The filter of a rule. A filter sees properties, never a body.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// Every message; the same as the expression `1=1`.
    True,
    /// No message; the same as the expression `1=0`.
    False,
    /// Messages whose properties equal the given ones.
    Correlation(CorrelationFilter),
    /// Messages for which an expression is true.
    Sql(SqlFilter),
}

impl Filter {
    /// Returns whether the filter matches the message. Only [`Filter::Sql`] can fail, and only it may
    /// allocate.
    pub fn matches(&self, message: &Message) -> Result<bool, FilterError> {
        match self {
            Self::True => Ok(true),
            Self::False => Ok(false),
            Self::Correlation(filter) => Ok(filter.matches(message)),
            Self::Sql(filter) => filter.matches(message),
        }
    }

    /// As [`Filter::matches`], with the steps of `LIKE` that a set has left for one message.
    pub(super) fn matches_within(&self, message: &Message, left: &mut usize) -> Result<bool, FilterError> {
        match self {
            Self::Sql(filter) => filter.matches_within(message, left),
            other => other.matches(message),
        }
    }

    pub(super) fn size(&self) -> usize {
        match self {
            Self::True | Self::False => 0,
            Self::Correlation(filter) => filter.size(),
            Self::Sql(filter) => filter.as_str().len() + filter.parameters().size(),
        }
    }

    pub(super) fn can_fail(&self) -> bool {
        matches!(self, Self::Sql(_))
    }
}

impl From<CorrelationFilter> for Filter {
    fn from(filter: CorrelationFilter) -> Self {
        Self::Correlation(filter)
    }
}

impl From<SqlFilter> for Filter {
    fn from(filter: SqlFilter) -> Self {
        Self::Sql(filter)
    }
}
