//! The rules of a subscription: which messages it gets, and what is changed on its copies.
//!
//! A [`Rule`] has a name, a [`Filter`] and perhaps an [action](SqlAction). A filter sees the properties of a message,
//! never its body. A [`RuleSet`] is the rules of one subscription; [`RuleSet::evaluate`] returns the [`Copies`] of a
//! message: one unchanged copy if a rule without action matches, however many do, and one changed copy for each rule
//! with an action that matches. A changed copy carries the rule's name in the application property `RuleName`.
//!
//! ```
//! use consign::{
//!     Message,
//!     rules::{CorrelationFilter, Rule, RuleSet, SqlAction, SqlFilter},
//! };
//!
//! let mut rules = RuleSet::empty();
//! rules.create(Rule::new("red", CorrelationFilter::builder().property("colour", "red").build()?)?)?;
//! rules.create(
//!     Rule::new("dear", SqlFilter::parse("price * quantity > 1000 AND sys.Label LIKE 'order.%'")?)?
//!         .with_action(SqlAction::parse("SET priority = 'high'; REMOVE colour")?),
//! )?;
//!
//! let order = Message::builder()
//!     .subject("order.created")
//!     .property("colour", "red")
//!     .property("price", 50.5)
//!     .property("quantity", 20)
//!     .build("")?;
//! let copies = rules.evaluate(&order)?;
//! assert!(copies.plain);
//! let dear = &copies.changed[0].application();
//! assert_eq!(dear.get("priority").and_then(|value| value.as_str()), Some("high"));
//! assert_eq!(dear.get("RuleName").and_then(|value| value.as_str()), Some("dear"));
//! assert_eq!(dear.get("colour"), None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The language
//!
//! Words and names of properties are read without regard to case; text is compared with it.
//!
//! ```text
//! predicate  := NOT predicate | predicate AND predicate | predicate OR predicate | ( predicate )
//!             | expression (= | <> | != | < | <= | > | >=) expression
//!             | property IS [NOT] NULL | EXISTS ( property )
//!             | expression [NOT] IN ( expression, ... )
//!             | expression [NOT] LIKE expression [ESCAPE expression]
//! expression := constant | property | newid() | property ( expression ) | p ( expression ) | ( expression )
//!             | expression (+ | - | * | / | %) expression | (+ | -) expression
//! property   := [sys. | user.] name          user is meant where nothing is said
//! name       := letter (letter | digit | _)* | [any text, ] doubled] | "any text, " doubled"
//! constant   := 42 | 4.2 | 4.2E1 | TRUE | FALSE | NULL | 'text, '' doubled'
//! action     := SET property = expression | REMOVE property, one after the other, with or without ;
//! ```
//!
//! Signs bind closest, then `* / %`, `+ -`, comparisons with `IS`, `IN` and `LIKE`, `NOT`, `AND`, `OR`.
//!
//! A property that a message lacks is *unknown*, and so is one that is null, and what is computed from either. `AND` is
//! false if one side is, `OR` true if one side is, and otherwise an unknown side makes them unknown; `NOT` unknown is
//! unknown. A filter matches when it is true. Sides are evaluated from left to right, and no further than the result needs.
//!
//! Integers have 64 bits; with a floating-point number they become one. Text and numbers do not compare: the result is
//! unknown, as it is for the order of things that have none. `+` joins text to text. A number out of range, a division of
//! integers by zero and a system property that does not exist are [errors](EvaluationError).
#![forbid(unsafe_code)]

mod copies;
mod correlation;
mod error;
mod filter;
mod index;
mod manage;
mod rule;
mod set;
mod sql;
mod written;

pub use self::{
    copies::{Copies, RuleFailure},
    correlation::{CorrelationFilter, CorrelationFilterBuilder},
    error::{ActionError, ActionErrorKind, EvaluationError, FilterError, RuleError},
    filter::Filter,
    manage::{DynRules, ManageRules},
    rule::Rule,
    set::{RuleSet, RuleSetError},
    sql::{ParseError, ParseErrorKind, SqlAction, SqlFilter},
    written::WrittenRule,
};
