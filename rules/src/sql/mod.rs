mod action;
mod arithmetic;
mod compare;
mod display;
mod evaluate;
mod filter;
mod lexer;
mod like;
mod operand;
mod parameters;
mod parse_error;
mod parser;
mod system;
mod tree;

pub(super) use self::like::MAX_STEPS_OF_SET;
pub use self::{
    action::SqlAction,
    filter::SqlFilter,
    parameters::Parameters,
    parse_error::{ParseError, ParseErrorKind},
};
