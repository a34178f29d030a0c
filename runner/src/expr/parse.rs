//! Text to expression tree, by recursive descent with a bound on nesting.

use std::fmt;

/// Deeper nesting than any compiler output needs; keeps the recursion off the end of the stack.
const MAX_DEPTH: u32 = 64;
/// Longer chains such as `a + a + …` than any compiler output has; the tree leans left and is walked recursively.
const MAX_NODES: u32 = 512;

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expr {
    Number(i64),
    Name(String),
    Binary(Op, Box<(Self, Self)>),
}

/// A function of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Add,
    Sub,
    Mul,
    /// Rounds down.
    Div,
    /// The rest of [`Op::Div`].
    Rem,
    /// Rounds up.
    CeilDiv,
    Min,
    Max,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add => "+",
            Self::Sub => "-",
            Self::Mul => "*",
            Self::Div => "/",
            Self::Rem => "%",
            Self::CeilDiv => "ceil_div",
            Self::Min => "min",
            Self::Max => "max",
        })
    }
}

/// Why a text is no expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    #[error("the expression `{text}` ends where {wanted} is due")]
    End { text: String, wanted: &'static str },
    #[error("the expression `{text}` has {found:?} in column {column}; allowed there: {wanted}")]
    Unexpected {
        text: String,
        found: char,
        column: usize,
        wanted: &'static str,
    },
    #[error("the expression `{text}` calls `{name}`; allowed: ceil_div, min, max")]
    UnknownFunction { text: String, name: String },
    #[error("the expression `{text}` has the number {digits}, which does not fit; allowed: 64-bit numbers")]
    Number { text: String, digits: String },
    #[error("the expression `{text}` is nested deeper than {MAX_DEPTH} or has more than {MAX_NODES} operations")]
    TooLarge { text: String },
}

/// Reads an expression.
///
/// # Errors
/// The first fault of the text.
pub fn parse(text: &str) -> Result<Expr, ParseError> {
    let mut parser = Parser {
        text,
        at: 0,
        depth: 0,
        nodes: 0,
    };
    let expr = parser.sum()?;
    match parser.peek() {
        None => Ok(expr),
        Some(_) => Err(parser.unexpected("an operator or the end")),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
    nodes: u32,
}

impl Parser<'_> {
    /// The next character that is not white space, without taking it.
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text[self.at..].chars().next()
    }

    /// Takes the next character if it is `wanted`.
    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += if found { wanted.len_utf8() } else { 0 };
        found
    }

    fn expect(&mut self, wanted: char, name: &'static str) -> Result<(), ParseError> {
        if self.take(wanted) {
            Ok(())
        } else {
            Err(self.unexpected(name))
        }
    }

    fn sum(&mut self) -> Result<Expr, ParseError> {
        self.chain(&[('+', Op::Add), ('-', Op::Sub)], Self::product)
    }

    fn product(&mut self) -> Result<Expr, ParseError> {
        self.chain(&[('*', Op::Mul), ('/', Op::Div), ('%', Op::Rem)], Self::primary)
    }

    /// `next (op next)*`, leaning left.
    fn chain(
        &mut self,
        ops: &[(char, Op)],
        next: fn(&mut Self) -> Result<Expr, ParseError>,
    ) -> Result<Expr, ParseError> {
        let mut lhs = next(self)?;
        while let Some(&(sign, op)) = ops.iter().find(|(sign, _)| self.peek() == Some(*sign)) {
            self.at += sign.len_utf8();
            lhs = self.binary(op, lhs, next)?;
        }
        Ok(lhs)
    }

    fn binary(
        &mut self,
        op: Op,
        lhs: Expr,
        next: fn(&mut Self) -> Result<Expr, ParseError>,
    ) -> Result<Expr, ParseError> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(self.too_large());
        }
        Ok(Expr::Binary(op, Box::new((lhs, next(self)?))))
    }

    fn primary(&mut self) -> Result<Expr, ParseError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.too_large());
        }
        let expr = match self.peek() {
            Some('(') => {
                self.at += 1;
                let inner = self.sum()?;
                self.expect(')', "`)`").map(|()| inner)
            }
            Some('-') => {
                self.at += 1;
                self.binary(Op::Sub, Expr::Number(0), Self::primary)
            }
            Some(c) if c.is_ascii_digit() => self.number(),
            Some(c) if is_name(c) => self.name_or_call(),
            _ => Err(self.unexpected("a number, a name or `(`")),
        };
        self.depth -= 1;
        expr
    }

    fn number(&mut self) -> Result<Expr, ParseError> {
        let digits = self.word(|c| c.is_ascii_digit());
        digits.parse().map(Expr::Number).map_err(|_| ParseError::Number {
            text: self.shown(),
            digits: shortened(&digits),
        })
    }

    fn name_or_call(&mut self) -> Result<Expr, ParseError> {
        let name = self.word(|c| is_name(c) || c.is_ascii_digit());
        if !self.take('(') {
            return Ok(Expr::Name(name));
        }
        let op = match name.as_str() {
            "ceil_div" => Op::CeilDiv,
            "min" => Op::Min,
            "max" => Op::Max,
            _ => {
                return Err(ParseError::UnknownFunction {
                    text: self.shown(),
                    name: shortened(&name),
                });
            }
        };
        let lhs = self.sum()?;
        self.expect(',', "`,`")?;
        let call = self.binary(op, lhs, Self::sum)?;
        self.expect(')', "`)`").map(|()| call)
    }

    /// Takes the longest run of characters that `keep` accepts.
    fn word(&mut self, keep: impl Fn(char) -> bool) -> String {
        let rest = &self.text[self.at..];
        let len = rest.find(|c| !keep(c)).unwrap_or(rest.len());
        self.at += len;
        rest[..len].to_owned()
    }

    fn unexpected(&mut self, wanted: &'static str) -> ParseError {
        let text = self.shown();
        match self.peek() {
            None => ParseError::End { text, wanted },
            Some(found) => ParseError::Unexpected {
                text,
                found,
                column: self.text[..self.at].chars().count() + 1,
                wanted,
            },
        }
    }

    fn too_large(&self) -> ParseError {
        ParseError::TooLarge { text: self.shown() }
    }

    fn shown(&self) -> String {
        shortened(self.text)
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

/// Enough of a text for a message.
fn shortened(text: &str) -> String {
    const MOST: usize = 80;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
