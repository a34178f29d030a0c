//! The one parser of the problem grammar. Every refusal carries the byte span of the token to blame.

use std::str::FromStr;

use super::error::{Field, ParseError, ProblemFault, Span};
use super::{AttentionForward, Gemm, Mask, MatLayout, Problem, RowSoftmax};
use crate::dtype::Dtype;

const KERNELS: &[&str] = &["fwd", "gemm", "softmax"];
const DTYPES: &[&str] = &["bf16", "f16"];
const MASKS: &[&str] = &["full", "causal"];
const LAYOUTS: &[&str] = &["nn", "nt", "tn", "tt"];

/// Longest part of a token that a message repeats.
const ECHO_CHARS: usize = 40;

/// A numeric place of the grammar: a prefix letter, one number, and maybe a second one after a separator.
struct Slot {
    form: &'static str,
    example: &'static str,
    prefix: char,
    first: Field,
    second: Option<(char, Field)>,
}

const BATCH: Slot = Slot {
    form: "bN",
    example: "b2",
    prefix: 'b',
    first: Field::Batch,
    second: None,
};
const LENS: Slot = Slot {
    form: "sQ[xKV]",
    example: "s4096x1024",
    prefix: 's',
    first: Field::QLen,
    second: Some(('x', Field::KvLen)),
};
const HEADS: Slot = Slot {
    form: "hQ[/KV]",
    example: "h32/8",
    prefix: 'h',
    first: Field::Heads,
    second: Some(('/', Field::KvHeads)),
};
const HEAD_DIM: Slot = Slot {
    form: "dD",
    example: "d128",
    prefix: 'd',
    first: Field::HeadDim,
    second: None,
};
const ROWS: Slot = Slot {
    form: "mM",
    example: "m4096",
    prefix: 'm',
    first: Field::M,
    second: None,
};
const COLS: Slot = Slot {
    form: "nN",
    example: "n4096",
    prefix: 'n',
    first: Field::N,
    second: None,
};
const INNER: Slot = Slot {
    form: "kK",
    example: "k512",
    prefix: 'k',
    first: Field::K,
    second: None,
};

#[derive(Clone, Copy)]
struct Token<'a> {
    text: &'a str,
    start: usize,
}

impl Token<'_> {
    const fn span(&self) -> Span {
        Span {
            start: self.start,
            end: self.start + self.text.len(),
        }
    }
}

/// Walks the tokens and remembers where each field came from, so that a later check can point at it.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
    seen: Vec<(Field, Span)>,
}

impl<'a> Cursor<'a> {
    fn next(&mut self) -> Option<Token<'a>> {
        let rest = &self.text[self.at..];
        let start = self.at + (rest.len() - rest.trim_start().len());
        let body = &self.text[start..];
        let text = body.split(char::is_whitespace).next().filter(|t| !t.is_empty())?;
        self.at = start + text.len();
        Some(Token { text, start })
    }

    fn fail<T>(&self, span: Span, fault: ProblemFault) -> Result<T, ParseError> {
        Err(ParseError {
            text: self.text.to_owned(),
            span,
            fault,
        })
    }

    fn end_span(&self) -> Span {
        Span {
            start: self.text.len(),
            end: self.text.len(),
        }
    }

    /// One word of a closed list; returns its position in the list.
    fn word(&mut self, field: Field, allowed: &'static [&'static str]) -> Result<usize, ParseError> {
        let Some(token) = self.next() else {
            let (form, example) = (field.name(), allowed.first().copied().unwrap_or_default());
            return self.fail(self.end_span(), ProblemFault::Missing { form, example });
        };
        self.seen.push((field, token.span()));
        if let Some(index) = allowed.iter().position(|&word| word == token.text) {
            return Ok(index);
        }
        let (asked, suggestion) = (echo(token.text), nearest_word(token.text, allowed));
        self.fail(
            token.span(),
            ProblemFault::UnknownWord {
                field,
                asked,
                allowed,
                suggestion,
            },
        )
    }

    /// A prefixed number, or two; a missing second number repeats the first.
    fn numbers(&mut self, slot: &Slot) -> Result<(u32, u32), ParseError> {
        let Some(token) = self.next() else {
            let fault = ProblemFault::Missing {
                form: slot.form,
                example: slot.example,
            };
            return self.fail(self.end_span(), fault);
        };
        let Some(body) = token.text.strip_prefix(slot.prefix) else {
            return self.fail(token.span(), bad_form(token.text, slot));
        };
        let body = Token {
            text: body,
            start: token.start + slot.prefix.len_utf8(),
        };
        let split = slot
            .second
            .and_then(|(separator, field)| Some((body.text.split_once(separator)?, separator, field)));
        let Some(((left, right), separator, second)) = split else {
            let value = self.number(slot, slot.first, token, body)?;
            return Ok((value, value));
        };
        let right = Token {
            text: right,
            start: body.start + left.len() + separator.len_utf8(),
        };
        let first = self.number(
            slot,
            slot.first,
            token,
            Token {
                text: left,
                start: body.start,
            },
        )?;
        Ok((first, self.number(slot, second, token, right)?))
    }

    fn number(&mut self, slot: &Slot, field: Field, whole: Token<'_>, part: Token<'_>) -> Result<u32, ParseError> {
        if part.text.is_empty() || !part.text.bytes().all(|b| b.is_ascii_digit()) {
            return self.fail(whole.span(), bad_form(whole.text, slot));
        }
        self.seen.push((field, part.span()));
        // Only digits are left, so the one way to fail is to be too large.
        let asked = || echo(part.text);
        part.text.parse::<u32>().or_else(|_| {
            let fault = match field {
                Field::HeadDim => ProblemFault::HeadDim { asked: asked() },
                _ => ProblemFault::TooLarge { field, asked: asked() },
            };
            self.fail(part.span(), fault)
        })
    }

    fn finish(&mut self) -> Result<(), ParseError> {
        match self.next() {
            None => Ok(()),
            Some(token) => self.fail(
                token.span(),
                ProblemFault::Trailing {
                    asked: echo(token.text),
                },
            ),
        }
    }

    /// Gives a fault found by a shape check its place in the text.
    fn locate(&self, fault: ProblemFault) -> ParseError {
        let place = fault
            .field()
            .and_then(|field| self.seen.iter().rev().find(|(seen, _)| *seen == field));
        // `h6` alone cannot fail to divide, and a missing `xKV` repeats `sQ`: the fields absent here never fault alone.
        let span = place.map_or(
            Span {
                start: 0,
                end: self.text.len(),
            },
            |&(_, span)| span,
        );
        ParseError {
            text: self.text.to_owned(),
            span,
            fault,
        }
    }
}

fn bad_form(asked: &str, slot: &Slot) -> ProblemFault {
    ProblemFault::BadForm {
        asked: echo(asked),
        form: slot.form,
        example: slot.example,
    }
}

fn echo(text: &str) -> String {
    let mut short = text.chars().take(ECHO_CHARS).collect::<String>();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// The closest allowed word, if it is close: at most two edits and fewer edits than letters kept.
fn nearest_word(asked: &str, allowed: &'static [&'static str]) -> Option<&'static str> {
    if asked.chars().count() > ECHO_CHARS {
        return None;
    }
    let asked = asked.to_lowercase();
    let scored = allowed
        .iter()
        .map(|&word| (strsim::damerau_levenshtein(&asked, word), word));
    let (edits, word) = scored.min_by_key(|&(edits, _)| edits)?;
    (edits <= 2 && edits < word.len()).then_some(word)
}

fn forward(c: &mut Cursor<'_>) -> Result<Problem, ParseError> {
    let dtype = dtype(c)?;
    let (batch, _) = c.numbers(&BATCH)?;
    let (q_len, kv_len) = c.numbers(&LENS)?;
    let (heads, kv_heads) = c.numbers(&HEADS)?;
    let (head_dim, _) = c.numbers(&HEAD_DIM)?;
    let mask = [Mask::Full, Mask::Causal][c.word(Field::Mask, MASKS)?];
    Ok(Problem::Forward(AttentionForward {
        dtype,
        batch,
        q_len,
        kv_len,
        heads,
        kv_heads,
        head_dim,
        mask,
    }))
}

fn gemm(c: &mut Cursor<'_>) -> Result<Problem, ParseError> {
    let dtype = dtype(c)?;
    let (m, _) = c.numbers(&ROWS)?;
    let (n, _) = c.numbers(&COLS)?;
    let (k, _) = c.numbers(&INNER)?;
    let layout = MatLayout::ALL[c.word(Field::Layout, LAYOUTS)?];
    Ok(Problem::Gemm(Gemm { dtype, m, n, k, layout }))
}

fn softmax(c: &mut Cursor<'_>) -> Result<Problem, ParseError> {
    let dtype = dtype(c)?;
    let (m, _) = c.numbers(&ROWS)?;
    let (n, _) = c.numbers(&COLS)?;
    Ok(Problem::Softmax(RowSoftmax { dtype, m, n }))
}

fn dtype(c: &mut Cursor<'_>) -> Result<Dtype, ParseError> {
    Ok(Dtype::ALL[c.word(Field::Dtype, DTYPES)?])
}

impl FromStr for Problem {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text, Self::check)
    }
}

impl Problem {
    /// Parses a problem that a kernel is built for ([`Problem::check_built`]); `from_str` takes those of the references too.
    ///
    /// # Errors
    /// The first fault, with its place in the text.
    pub fn parse_built(text: &str) -> Result<Self, ParseError> {
        Self::parse(text, Self::check_built)
    }

    fn parse(text: &str, check: fn(Self) -> Result<Self, ProblemFault>) -> Result<Self, ParseError> {
        let mut cursor = Cursor {
            text,
            at: 0,
            seen: Vec::new(),
        };
        let kernel = [forward, gemm, softmax][cursor.word(Field::Kernel, KERNELS)?];
        let problem = kernel(&mut cursor)?;
        cursor.finish()?;
        check(problem).map_err(|fault| cursor.locate(fault))
    }
}
