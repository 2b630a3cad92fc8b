//! The rules of a subscription: filters that select its messages, and actions that change its copies.
//!
//! A [`Rule`] has a name, a [`Filter`] and optionally an [action](SqlAction). A filter uses the properties of a message,
//! never its body. A [`RuleSet`] has the rules of one subscription. [`RuleSet::evaluate`] returns the [`Copies`] of a
//! message: one unchanged copy if any rule without an action matches, and one changed copy for each matching rule with an
//! action. A changed copy has the rule's name in the application property `RuleName`.
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
//! let dear = &copies.changed[0].application_properties();
//! assert_eq!(dear.get("priority").and_then(|value| value.as_str()), Some("high"));
//! assert_eq!(dear.get("RuleName").and_then(|value| value.as_str()), Some("dear"));
//! assert_eq!(dear.get("colour"), None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The language
//!
//! Keywords and names of properties are case-insensitive; text is case-sensitive.
//!
//! ```text
//! predicate  := NOT predicate | predicate AND predicate | predicate OR predicate | ( predicate )
//!             | expression (= | <> | != | < | <= | > | >=) expression
//!             | property IS [NOT] NULL | EXISTS ( property )
//!             | expression [NOT] IN ( expression, ... )
//!             | expression [NOT] LIKE expression [ESCAPE expression]
//! expression := constant | parameter | property | newid() | property ( expression ) | p ( expression ) | ( expression )
//!             | expression (+ | - | * | / | %) expression | (+ | -) expression
//! property   := [sys. | user.] name          user is meant where nothing is said
//! name       := letter (letter | digit | _)* | [any text, ] doubled] | "any text, " doubled"
//! parameter  := @name                        its value is given beside the text
//! constant   := 42 | 4.2 | 4.2E1 | TRUE | FALSE | NULL | 'text, '' doubled'
//! action     := SET property = expression | REMOVE property, one after the other, with or without ;
//! ```
//!
//! Signs bind closest, then `* / %`, `+ -`, comparisons with `IS`, `IN` and `LIKE`, `NOT`, `AND`, `OR`.
//!
//! A property that a message lacks, or that is null, is *unknown*, and so is a value that is computed from it. `AND` is
//! false if one side is, `OR` is true if one side is, and otherwise an unknown side makes them unknown; `NOT` unknown is
//! unknown. A filter matches when it is true. Sides are evaluated from left to right, as far as necessary.
//!
//! Integers have 64 bits, and are converted in operations with floating-point numbers. Comparing text with a number is
//! unknown, and so is comparing the order of values without one. `+` joins text to text. A number out of range, an integer
//! division by zero and a system property that does not exist are [errors](EvaluationError).
#![forbid(unsafe_code)]

mod copies;
mod correlation;
mod entry;
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
    sql::{Parameters, ParseError, ParseErrorKind, SqlAction, SqlFilter},
    written::WrittenRule,
};
