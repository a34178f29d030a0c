//! Faults of a schedule text.

use std::fmt;

/// One fault: where, and what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    /// The keys that lead there, outermost first; a list element goes by its number.
    pub path: Vec<String>,
    /// Counted from one.
    pub line: Option<usize>,
    pub kind: Fault,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("not TOML: {message}")]
    Syntax { message: String },
    #[error("unknown key `{key}`{}; known: {}", closest(.key, .known), .known.join(", "))]
    UnknownKey { key: String, known: Vec<String> },
    #[error("unknown choice `{found}`{}; allowed: {}", closest(.found, .allowed), .allowed.join(", "))]
    UnknownChoice { found: String, allowed: Vec<String> },
    #[error("the kernel has no {what} `{name}`{}; it has: {}", closest(.name, .known), list(.known))]
    UnknownName {
        what: &'static str,
        name: String,
        known: Vec<String>,
    },
    #[error("the schedule is for kernel `{asked}`; this kernel is `{found}`")]
    OtherKernel { asked: String, found: String },
    #[error("`{event}` is not an event; allowed: `issue X`, `wait X` or a value, where X is a dot")]
    UnknownEvent { event: String },
    #[error("found {found}; expected {expected}")]
    WrongType { found: String, expected: String },
    #[error("{message}")]
    Other { message: String },
}

/// Every fault of one text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct TextErrors {
    pub errors: Vec<TextError>,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path.join("."))?;
        }
        write!(f, "{}", self.kind)
    }
}

impl fmt::Display for TextErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the schedule has {} error(s)", self.errors.len())?;
        self.errors.iter().try_for_each(|e| write!(f, "\n  {e}"))
    }
}

/// The known word that looks most like `word`, unless none does.
#[must_use]
pub(super) fn suggestion<'a>(word: &str, known: &'a [String]) -> Option<&'a str> {
    let near = known.iter().map(|k| (strsim::damerau_levenshtein(word, k), k.as_str()));
    let best = near.min_by_key(|(distance, _)| *distance)?;
    // Beyond a third of the letters (but at least two slips) the word is something else.
    let slips = (word.chars().count().max(best.1.chars().count()) / 3).max(2);
    (best.0 <= slips).then_some(best.1)
}

fn closest(word: &str, known: &[String]) -> String {
    suggestion(word, known).map_or_else(String::new, |s| format!(" (did you mean `{s}`?)"))
}

fn list(known: &[String]) -> String {
    if known.is_empty() {
        "none".to_owned()
    } else {
        known.join(", ")
    }
}
