//! Tokens to a tree, by precedence. Predicates and expressions go through the same functions, because an opening
//! parenthesis does not say which of them follows.

mod cursor;

use consign_core::message::PropertyValue;

use super::{
    ParseError, ParseErrorKind,
    lexer::{Lexer, Spanned, Token},
    like,
    parameters::Parameters,
    system::System,
    tree::{Comparison, Expression, Operator, Pattern, Predicate, Property},
};

/// Words that are no names.
pub(super) const RESERVED: [&str; 11] =
    ["AND", "OR", "NOT", "IS", "NULL", "IN", "LIKE", "ESCAPE", "EXISTS", "TRUE", "FALSE"];
/// Words that are no names in an action, where a statement may follow without a semicolon.
pub(super) const STATEMENTS: [&str; 2] = ["SET", "REMOVE"];

/// How closely operators bind.
mod level {
    pub(super) const OR: u8 = 0;
    pub(super) const AND: u8 = 1;
    pub(super) const NOT: u8 = 2;
    pub(super) const COMPARISON: u8 = 3;
    pub(super) const SUM: u8 = 4;
    pub(super) const PRODUCT: u8 = 5;
    pub(super) const OPERAND: u8 = 6;
}

const AN_EXPRESSION: &str = "a property, a constant or a function";
const A_PROPERTY: &str = "a property";

type Parsed<T> = Result<T, ParseError>;

enum Node {
    Predicate(Predicate),
    Expression(Expression),
}

/// An operator between two things.
enum Infix {
    Or,
    And,
    Compare(Comparison),
    Is,
    In,
    Like,
    /// `NOT` before `IN` or `LIKE`.
    Not,
    Arithmetic(Operator),
}

pub(super) struct Parser<'a> {
    text: &'a str,
    lexer: Lexer<'a>,
    current: Spanned<'a>,
    /// Where the token before the current one ended.
    previous_end: usize,
    depth: usize,
    in_action: bool,
    parameters: &'a Parameters,
}

impl Parser<'_> {
    /// A predicate that is the whole text.
    pub(super) fn whole_predicate(mut self) -> Parsed<Predicate> {
        let predicate = self.predicate(level::OR)?;
        if self.current.token == Token::End { Ok(predicate) } else { Err(self.unexpected("AND, OR or the end")) }
    }

    /// An expression; what follows it is the caller's.
    pub(super) fn expression(&mut self) -> Parsed<Expression> {
        self.operand(level::SUM)
    }

    pub(super) fn property(&mut self) -> Parsed<Property> {
        let name = self.name(A_PROPERTY)?;
        self.property_from(name)
    }

    /// Something that binds at least as closely as `least`.
    fn node(&mut self, least: u8) -> Parsed<Node> {
        let mut left = self.prefix(least)?;
        while let Some(infix) = self.infix() {
            let level = match infix {
                Infix::Or => level::OR,
                Infix::And => level::AND,
                Infix::Arithmetic(operator) if operator.is_sum() => level::SUM,
                Infix::Arithmetic(_) => level::PRODUCT,
                _ => level::COMPARISON,
            };
            if level < least {
                break;
            }
            left = match (left, infix) {
                (Node::Predicate(left), Infix::Or) => Node::Predicate(Predicate::Or(self.sides(left, "OR", level)?)),
                (Node::Predicate(left), Infix::And) => Node::Predicate(Predicate::And(self.sides(left, "AND", level)?)),
                (Node::Expression(left), Infix::Arithmetic(_)) => Node::Expression(self.chain(left, level)?),
                (Node::Expression(_), Infix::Or | Infix::And) => return Err(self.unexpected("a comparison")),
                (Node::Expression(left), infix) => Node::Predicate(self.comparison(left, &infix)?),
                // A predicate cannot be compared: the caller says what could follow.
                (left @ Node::Predicate(_), _) => return Ok(left),
            };
        }
        Ok(left)
    }

    fn infix(&self) -> Option<Infix> {
        Some(match self.current.token {
            Token::Sign("=") => Infix::Compare(Comparison::Equal),
            Token::Sign("<>" | "!=") => Infix::Compare(Comparison::NotEqual),
            Token::Sign("<") => Infix::Compare(Comparison::Less),
            Token::Sign("<=") => Infix::Compare(Comparison::LessOrEqual),
            Token::Sign(">") => Infix::Compare(Comparison::Greater),
            Token::Sign(">=") => Infix::Compare(Comparison::GreaterOrEqual),
            Token::Sign("+") => Infix::Arithmetic(Operator::Add),
            Token::Sign("-") => Infix::Arithmetic(Operator::Subtract),
            Token::Sign("*") => Infix::Arithmetic(Operator::Multiply),
            Token::Sign("/") => Infix::Arithmetic(Operator::Divide),
            Token::Sign("%") => Infix::Arithmetic(Operator::Remainder),
            _ if self.is_word("OR") => Infix::Or,
            _ if self.is_word("AND") => Infix::And,
            _ if self.is_word("IS") => Infix::Is,
            _ if self.is_word("IN") => Infix::In,
            _ if self.is_word("LIKE") => Infix::Like,
            _ if self.is_word("NOT") => Infix::Not,
            _ => return None,
        })
    }

    fn predicate(&mut self, least: u8) -> Parsed<Predicate> {
        match self.node(least)? {
            Node::Predicate(predicate) => Ok(predicate),
            Node::Expression(_) => Err(self.unexpected("a comparison")),
        }
    }

    fn operand(&mut self, least: u8) -> Parsed<Expression> {
        let (start, end) = (self.current.start, self.current.end);
        match self.node(least)? {
            Node::Expression(expression) => Ok(expression),
            Node::Predicate(_) => {
                Err(self.error(ParseErrorKind::UnexpectedToken { expected: AN_EXPRESSION }, start, end))
            }
        }
    }

    fn sides(&mut self, first: Predicate, word: &'static str, level: u8) -> Parsed<Vec<Predicate>> {
        let mut sides = vec![first];
        while self.take_word(word)? {
            sides.push(self.predicate(level + 1)?);
        }
        Ok(sides)
    }

    fn chain(&mut self, first: Expression, level: u8) -> Parsed<Expression> {
        let mut rest = Vec::new();
        while let Some(Infix::Arithmetic(operator)) = self.infix()
            && operator.is_sum() == (level == level::SUM)
        {
            self.advance()?;
            rest.push((operator, self.operand(level + 1)?));
        }
        Ok(Expression::Chain(Box::new(first), rest))
    }

    fn comparison(&mut self, left: Expression, infix: &Infix) -> Parsed<Predicate> {
        if let Infix::Is = infix {
            let Expression::Property(property) = left else { return Err(self.unexpected("an operator")) };
            self.advance()?;
            let negated = self.take_word("NOT")?;
            self.word("NULL")?;
            return Ok(Predicate::IsNull { property, negated });
        }
        self.advance()?;
        if let Infix::Compare(comparison) = infix {
            let right = self.operand(level::SUM)?;
            return Ok(Predicate::Compare(Box::new((left, right)), *comparison));
        }
        let value = Box::new(left);
        let negated = matches!(infix, Infix::Not);
        if matches!(infix, Infix::In) || negated && self.take_word("IN")? {
            return Ok(Predicate::In { value, negated, list: self.list()? });
        }
        if negated && !self.take_word("LIKE")? {
            return Err(self.unexpected("IN or LIKE"));
        }
        Ok(Predicate::Like { value, negated, pattern: Box::new(self.pattern()?) })
    }

    fn list(&mut self) -> Parsed<Vec<Expression>> {
        self.sign("(")?;
        let mut list = vec![self.expression()?];
        while self.take_sign(",")? {
            list.push(self.expression()?);
        }
        if self.take_sign(")")? { Ok(list) } else { Err(self.unexpected(", or )")) }
    }

    fn pattern(&mut self) -> Parsed<Pattern> {
        let pattern = self.expression()?;
        if !self.take_word("ESCAPE")? {
            return Ok(Pattern { pattern, escape: None });
        }
        let (start, end) = (self.current.start, self.current.end);
        let escape = self.expression()?;
        if let Expression::Constant(PropertyValue::String(char)) = &escape {
            let mut chars = char.chars();
            let valid = match (chars.next(), chars.next(), &pattern) {
                (Some(char), None, Expression::Constant(PropertyValue::String(text))) => like::is_valid(text, char),
                (Some(_), None, _) => true,
                _ => false,
            };
            if !valid {
                return Err(self.error(ParseErrorKind::InvalidPattern, start, end));
            }
        }
        Ok(Pattern { pattern, escape: Some(escape) })
    }

    /// What does not begin with another node.
    fn prefix(&mut self, least: u8) -> Parsed<Node> {
        if least <= level::NOT && self.is_word("NOT") {
            let inner = self.nested(|parser| parser.predicate(level::NOT))?;
            return Ok(Node::Predicate(Predicate::Not(Box::new(inner))));
        }
        match &self.current.token {
            Token::Sign("(") => self.nested(Self::parenthesis),
            Token::Sign(sign @ ("+" | "-")) => {
                let minus = *sign == "-";
                self.nested(|parser| parser.signed(minus)).map(Node::Expression)
            }
            Token::Word(word) if is_any(word, &RESERVED) => self.reserved(),
            Token::Word(_) | Token::Name(_) => self.function_or_property().map(Node::Expression),
            Token::Parameter(_) => self.parameter().map(Node::Expression),
            _ => self.constant().map(|value| Node::Expression(Expression::Constant(value))),
        }
    }

    fn parenthesis(&mut self) -> Parsed<Node> {
        let node = self.node(level::OR)?;
        if self.take_sign(")")? {
            return Ok(node);
        }
        Err(self.unexpected(match node {
            Node::Predicate(_) => "AND, OR or )",
            Node::Expression(_) => "an operator or )",
        }))
    }

    fn signed(&mut self, minus: bool) -> Parsed<Expression> {
        let constant = match self.current.token {
            Token::Integer(value) if minus => Some(PropertyValue::I64(0_i64.wrapping_sub_unsigned(value))),
            Token::Float(value) if minus => Some(PropertyValue::F64(-value)),
            _ => None,
        };
        match constant {
            Some(value) => {
                self.advance()?;
                Ok(Expression::Constant(value))
            }
            None => Ok(Expression::Signed { minus, of: Box::new(self.operand(level::OPERAND)?) }),
        }
    }

    fn reserved(&mut self) -> Parsed<Node> {
        for (word, value) in
            [("TRUE", PropertyValue::Bool(true)), ("FALSE", PropertyValue::Bool(false)), ("NULL", PropertyValue::Null)]
        {
            if self.take_word(word)? {
                return Ok(Node::Expression(Expression::Constant(value)));
            }
        }
        if !self.take_word("EXISTS")? {
            return Err(self.unexpected(AN_EXPRESSION));
        }
        self.sign("(")?;
        let property = self.property()?;
        self.sign(")")?;
        Ok(Node::Predicate(Predicate::Exists(property)))
    }

    fn constant(&mut self) -> Parsed<PropertyValue> {
        let value = match &mut self.current.token {
            Token::Text(text) => Some(PropertyValue::String(std::mem::take(text))),
            Token::Integer(value) => i64::try_from(*value).ok().map(PropertyValue::I64),
            Token::Float(value) => Some(PropertyValue::F64(*value)),
            _ => None,
        };
        let value = value.ok_or_else(|| self.unexpected(AN_EXPRESSION))?;
        self.advance()?;
        Ok(value)
    }

    fn parameter(&mut self) -> Parsed<Expression> {
        let Spanned { ref token, start, end } = self.current;
        let Token::Parameter(name) = *token else { return Err(self.unexpected(AN_EXPRESSION)) };
        let value = self.parameters.get(name).cloned();
        let value = value.ok_or_else(|| self.error(ParseErrorKind::UnknownParameter, start, end))?;
        let name = name.into();
        self.advance()?;
        Ok(Expression::Parameter(name, value))
    }

    fn function_or_property(&mut self) -> Parsed<Expression> {
        let name = self.name(AN_EXPRESSION)?;
        if self.current.token == Token::Sign("(") && !name.delimited {
            if is_any(&name.text, &["property", "p"]) {
                let inner = self.nested(|parser| {
                    let inner = parser.expression()?;
                    parser.sign(")")?;
                    Ok(inner)
                })?;
                return Ok(Expression::Named(Box::new(inner)));
            }
            if is_any(&name.text, &["newid"]) {
                self.advance()?;
                self.sign(")")?;
                return Ok(Expression::NewId);
            }
            let expected = "newid, property or p";
            return Err(self.error(ParseErrorKind::UnexpectedToken { expected }, name.start, name.end));
        }
        self.property_from(name).map(Expression::Property)
    }

    fn property_from(&mut self, name: Name) -> Parsed<Property> {
        if self.current.token != Token::Sign(".") {
            return Ok(Property::User(name.text));
        }
        let system = is_any(&name.text, &["sys"]);
        if name.delimited || !system && !is_any(&name.text, &["user"]) {
            return Err(self.error(ParseErrorKind::UnexpectedToken { expected: "sys or user" }, name.start, name.end));
        }
        self.advance()?;
        let name = self.name("a name")?.text;
        Ok(match System::parse(&name) {
            _ if !system => Property::User(name),
            Some(known) => Property::System(known),
            None => Property::Unknown(name),
        })
    }

    fn name(&mut self, expected: &'static str) -> Parsed<Name> {
        let (text, delimited) = match &mut self.current.token {
            Token::Name(name) => (std::mem::take(name), true),
            Token::Word(word) if !(is_any(word, &RESERVED) || self.in_action && is_any(word, &STATEMENTS)) => {
                ((*word).into(), false)
            }
            _ => return Err(self.unexpected(expected)),
        };
        let Spanned { start, end, .. } = self.current;
        self.advance()?;
        Ok(Name { text, delimited, start, end })
    }
}

struct Name {
    text: Box<str>,
    delimited: bool,
    start: usize,
    end: usize,
}

pub(super) fn is_any(word: &str, words: &[&str]) -> bool {
    words.iter().any(|other| other.eq_ignore_ascii_case(word))
}
