//! Text to tokens (PTX ISA 4.2-4.5).
//!
//! A dotted suffix such as `.shared::cta` is one [`Tok::Dot`] token, so that opcode modifiers and
//! directives need no further assembly.

use super::error::{Pos, PtxError, PtxResult};

/// One token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tok {
    /// Identifier, register or special register: `%r1`, `LOOP`, `_`.
    Ident(String),
    /// `.name`, with any `::` parts, without the leading dot.
    Dot(String),
    /// Integer literal.
    Int(u64),
    /// `0f...` literal: the bits of an f32.
    F32(u32),
    /// `0d...` or decimal float literal: the bits of an f64.
    F64(u64),
    /// String literal.
    Str(String),
    /// A punctuation character.
    Punct(char),
    /// End of text.
    End,
}

/// A token and where it starts.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub tok: Tok,
    pub pos: Pos,
}

struct Lexer<'a> {
    text: std::iter::Peekable<std::str::Chars<'a>>,
    ahead: std::str::Chars<'a>,
    pos: Pos,
}

/// Splits `text` into tokens; the last is [`Tok::End`].
pub(crate) fn lex(text: &str) -> PtxResult<Vec<Token>> {
    let mut lexer = Lexer {
        text: text.chars().peekable(),
        ahead: text.chars(),
        pos: Pos { line: 1, col: 1 },
    };
    let mut out = Vec::new();
    loop {
        lexer.skip_blank()?;
        let pos = lexer.pos;
        let Some(c) = lexer.peek() else {
            out.push(Token { tok: Tok::End, pos });
            return Ok(out);
        };
        let tok = lexer.token(c)?;
        out.push(Token { tok, pos });
    }
}

fn is_start(c: char) -> bool {
    c.is_ascii_alphabetic() || matches!(c, '_' | '$' | '%')
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$')
}

impl Lexer<'_> {
    fn peek(&mut self) -> Option<char> {
        self.text.peek().copied()
    }

    /// The character after the next one.
    fn peek2(&self) -> Option<char> {
        self.ahead.clone().nth(1)
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.text.next()?;
        self.ahead.next();
        if c == '\n' {
            self.pos.line += 1;
            self.pos.col = 1;
        } else {
            self.pos.col += 1;
        }
        Some(c)
    }

    fn skip_blank(&mut self) -> PtxResult<()> {
        while let Some(c) = self.peek() {
            match (c, self.peek2()) {
                (c, _) if c.is_whitespace() => {
                    self.bump();
                }
                ('/', Some('/')) => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.bump();
                    }
                }
                ('/', Some('*')) => self.block_comment()?,
                _ => break,
            }
        }
        Ok(())
    }

    fn block_comment(&mut self) -> PtxResult<()> {
        let start = self.pos;
        self.bump();
        self.bump();
        loop {
            match (self.peek(), self.peek2()) {
                (Some('*'), Some('/')) => {
                    self.bump();
                    self.bump();
                    return Ok(());
                }
                (None, _) => return Err(PtxError::new(start, "comment is not closed by `*/`")),
                _ => {
                    self.bump();
                }
            }
        }
    }

    fn token(&mut self, c: char) -> PtxResult<Tok> {
        let pos = self.pos;
        if is_start(c) {
            return Ok(Tok::Ident(self.word()));
        }
        if c.is_ascii_digit() {
            return self.number();
        }
        match c {
            '.' => {
                self.bump();
                self.dotted(pos)
            }
            '"' => self.string(),
            '{' | '}' | '(' | ')' | '[' | ']' | '<' | '>' | ',' | ';' | ':' | '@' | '!' | '|' | '+' | '-' | '=' => {
                self.bump();
                Ok(Tok::Punct(c))
            }
            other => Err(PtxError::new(pos, format!("character {other:?} has no meaning in PTX"))),
        }
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        if let Some(c) = self.bump() {
            word.push(c);
        }
        while let Some(c) = self.peek().filter(|&c| is_word(c)) {
            word.push(c);
            self.bump();
        }
        word
    }

    fn dotted(&mut self, pos: Pos) -> PtxResult<Tok> {
        let mut name = String::new();
        while let Some(c) = self.peek() {
            if is_word(c) {
                name.push(c);
                self.bump();
            } else if c == ':' && self.peek2() == Some(':') {
                name.push_str("::");
                self.bump();
                self.bump();
            } else {
                break;
            }
        }
        if name.is_empty() {
            return Err(PtxError::new(pos, "`.` is not followed by a name"));
        }
        Ok(Tok::Dot(name))
    }

    fn string(&mut self) -> PtxResult<Tok> {
        let pos = self.pos;
        self.bump();
        let mut text = String::new();
        loop {
            match self.bump() {
                Some('"') => return Ok(Tok::Str(text)),
                Some('\n') | None => return Err(PtxError::new(pos, "string is not closed on its line")),
                Some(c) => text.push(c),
            }
        }
    }

    fn number(&mut self) -> PtxResult<Tok> {
        let pos = self.pos;
        let mut text = self.word();
        let float = !is_prefixed(&text) && self.peek() == Some('.') && self.peek2().is_some_and(|c| c.is_ascii_digit());
        if float {
            self.bump();
            text.push('.');
            text.push_str(&self.word());
            let exponent_open = text.ends_with(['e', 'E']);
            if let Some(sign) = self.peek().filter(|c| exponent_open && matches!(c, '+' | '-')) {
                self.bump();
                text.push(sign);
                text.push_str(&self.word());
            }
            let value: f64 = text
                .parse()
                .map_err(|_| PtxError::new(pos, format!("`{text}` is not a floating-point literal")))?;
            return Ok(Tok::F64(value.to_bits()));
        }
        literal(&text).ok_or_else(|| PtxError::new(pos, format!("`{text}` is not a PTX literal")))
    }
}

fn is_prefixed(text: &str) -> bool {
    text.len() > 1 && text.starts_with('0') && !text.as_bytes()[1].is_ascii_digit()
}

/// Integer and hexadecimal float literals (PTX ISA 4.5).
fn literal(text: &str) -> Option<Tok> {
    let body = text.strip_suffix(['U', 'u']).unwrap_or(text);
    if !body.is_ascii() {
        return None;
    }
    let (prefix, rest) = body.split_at(body.len().min(2));
    match prefix {
        "0x" | "0X" => u64::from_str_radix(rest, 16).ok().map(Tok::Int),
        "0b" | "0B" => u64::from_str_radix(rest, 2).ok().map(Tok::Int),
        "0f" | "0F" if text.len() == 10 => u32::from_str_radix(rest, 16).ok().map(Tok::F32),
        "0d" | "0D" if text.len() == 18 => u64::from_str_radix(rest, 16).ok().map(Tok::F64),
        _ if body.len() > 1 && body.starts_with('0') => u64::from_str_radix(&body[1..], 8).ok().map(Tok::Int),
        _ => body.parse().ok().map(Tok::Int),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toks(text: &str) -> Vec<Tok> {
        lex(text).unwrap().into_iter().map(|t| t.tok).collect()
    }

    #[test]
    fn modifiers_keep_their_double_colons() {
        assert_eq!(
            toks("a.shared::cta.b64 %r1 // x\n W1: 0fFF800000 0x1F -3 1.5"),
            vec![
                Tok::Ident("a".into()),
                Tok::Dot("shared::cta".into()),
                Tok::Dot("b64".into()),
                Tok::Ident("%r1".into()),
                Tok::Ident("W1".into()),
                Tok::Punct(':'),
                Tok::F32(0xFF80_0000),
                Tok::Int(0x1F),
                Tok::Punct('-'),
                Tok::Int(3),
                Tok::F64(1.5f64.to_bits()),
                Tok::End,
            ]
        );
    }

    #[test]
    fn bad_text_is_placed() {
        let err = lex("mov\n  `").unwrap_err();
        assert_eq!((err.pos.line, err.pos.col), (2, 3));
        assert!(lex("/* open").is_err());
        assert!(lex("\"open").is_err());
        assert!(lex("0x").is_err());
    }
}
