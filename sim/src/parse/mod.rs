//! PTX text to statements.
//!
//! This reader shares no code with any writer of PTX, so that an error of the writer is not
//! repeated here. Names are resolved later, by [`crate::decode`].

pub(crate) mod ast;
mod directive;
pub(crate) mod error;
mod lexer;
pub(crate) mod lines;
mod statement;

use std::sync::Arc;

use ast::ModuleAst;
use error::{Pos, PtxError, PtxResult};
use lexer::{Tok, Token};
use lines::Lines;

/// Reads one PTX module.
pub(crate) fn parse(text: &str) -> PtxResult<ModuleAst> {
    let tokens = lexer::lex(text)?;
    let mut parser = Parser {
        tokens,
        at: 0,
        lines: Lines::default(),
    };
    let mut module = parser.module()?;
    module.lines = Arc::new(parser.lines);
    Ok(module)
}

/// A cursor over tokens; the grammar lives in the child modules.
pub(crate) struct Parser {
    tokens: Vec<Token>,
    at: usize,
    lines: Lines,
}

impl Parser {
    fn peek(&self) -> &Tok {
        self.tokens.get(self.at).map_or(&Tok::End, |t| &t.tok)
    }

    fn peek_at(&self, ahead: usize) -> &Tok {
        self.tokens.get(self.at + ahead).map_or(&Tok::End, |t| &t.tok)
    }

    fn pos(&self) -> Pos {
        self.tokens
            .get(self.at)
            .or(self.tokens.last())
            .map_or(Pos::default(), |t| t.pos)
    }

    fn bump(&mut self) -> Tok {
        let tok = self.peek().clone();
        if self.at < self.tokens.len() {
            self.at += 1;
        }
        tok
    }

    fn eat(&mut self, c: char) -> bool {
        let hit = *self.peek() == Tok::Punct(c);
        if hit {
            self.at += 1;
        }
        hit
    }

    fn eat_dot(&mut self, name: &str) -> bool {
        let hit = matches!(self.peek(), Tok::Dot(d) if d == name);
        if hit {
            self.at += 1;
        }
        hit
    }

    fn expect(&mut self, c: char) -> PtxResult<()> {
        if self.eat(c) {
            Ok(())
        } else {
            Err(self.unexpected(&format!("`{c}`")))
        }
    }

    fn ident(&mut self, what: &str) -> PtxResult<String> {
        match self.peek() {
            Tok::Ident(name) => {
                let name = name.clone();
                self.at += 1;
                Ok(name)
            }
            _ => Err(self.unexpected(what)),
        }
    }

    fn dot(&mut self, what: &str) -> PtxResult<String> {
        match self.peek() {
            Tok::Dot(name) => {
                let name = name.clone();
                self.at += 1;
                Ok(name)
            }
            _ => Err(self.unexpected(what)),
        }
    }

    fn int(&mut self, what: &str) -> PtxResult<u64> {
        match self.peek() {
            Tok::Int(value) => {
                let value = *value;
                self.at += 1;
                Ok(value)
            }
            _ => Err(self.unexpected(what)),
        }
    }

    fn int32(&mut self, what: &str) -> PtxResult<u32> {
        let pos = self.pos();
        let value = self.int(what)?;
        u32::try_from(value).map_err(|_| PtxError::new(pos, format!("{value} is too large for {what}")))
    }

    fn unexpected(&self, wanted: &str) -> PtxError {
        let found = match self.peek() {
            Tok::Ident(name) => format!("`{name}`"),
            Tok::Dot(name) => format!("`.{name}`"),
            Tok::Int(value) => format!("`{value}`"),
            Tok::F32(_) | Tok::F64(_) => "a floating-point literal".to_owned(),
            Tok::Str(_) => "a string".to_owned(),
            Tok::Punct(c) => format!("`{c}`"),
            Tok::End => "the end of the text".to_owned(),
        };
        PtxError::new(self.pos(), format!("found {found} where {wanted} is wanted"))
    }
}
