mod action;
mod filter;
mod parse_error;

pub use self::{
    action::SqlAction,
    filter::SqlFilter,
    parse_error::{ParseError, ParseErrorKind},
};

/// Longest text of a filter or an action: UTF-16 code units.
const MAX_LENGTH: usize = 1_024;
