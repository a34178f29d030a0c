//! Schedules as TOML text.
//!
//! Reading refuses what it does not know (keys, choices, types) with the key path, the line and the closest known word;
//! all faults of a text come together. Writing and reading again gives the same schedule. The keys and choices are those
//! of the data types themselves: there is no second list to keep in step.

mod error;
mod names;
mod node;

use serde::Deserialize;
use toml::de::{DeTable, DeValue};

use super::Schedule;
use crate::ir::Kernel;
pub use error::{Fault, TextError, TextErrors};
pub use names::check_names;
use node::Node;

/// More faults than this say nothing new.
const MAX_FAULTS: usize = 20;

/// Reads a schedule.
///
/// # Errors
/// Every fault of the text: TOML syntax, unknown keys and choices, wrong types.
pub fn parse(text: &str) -> Result<Schedule, TextErrors> {
    let mut table = match DeTable::parse(text) {
        Ok(table) => table.into_inner(),
        Err(e) => {
            let line = e.span().map(|span| line_of(text, span.start));
            let kind = Fault::Syntax {
                message: e.message().to_owned(),
            };
            return Err(TextErrors {
                errors: vec![TextError {
                    path: vec![],
                    line,
                    kind,
                }],
            });
        }
    };
    let mut errors: Vec<TextError> = vec![];
    loop {
        let fault = match Schedule::deserialize(Node::root(&table)) {
            Ok(schedule) if errors.is_empty() => return Ok(schedule),
            Ok(_) => break,
            Err(fault) => fault,
        };
        let line = fault.at.map(|offset| line_of(text, offset));
        let path = fault.path.clone();
        errors.push(TextError {
            path: fault.path,
            line,
            kind: fault.kind,
        });
        // Taking the faulty entry out lets the rest be read, for its own faults.
        if errors.len() >= MAX_FAULTS || !remove(&mut table, &path) {
            break;
        }
    }
    errors.sort_by_key(|e| e.line);
    Err(TextErrors { errors })
}

/// Reads a schedule and checks its names against the kernel it is for.
///
/// # Errors
/// See [`parse`] and [`check_names`]; names are given with their lines too.
pub fn parse_for(text: &str, kernel: &Kernel) -> Result<Schedule, TextErrors> {
    let schedule = parse(text)?;
    let Err(mut found) = check_names(&schedule, kernel) else {
        return Ok(schedule);
    };
    if let Ok(table) = DeTable::parse(text) {
        for error in &mut found.errors {
            error.line = locate(table.get_ref(), &error.path).map(|offset| line_of(text, offset));
        }
        found.errors.sort_by_key(|e| e.line);
    }
    Err(found)
}

/// Writes a schedule; what is left to its default is left out.
///
/// # Errors
/// When a number cannot be written as TOML.
pub fn to_text(schedule: &Schedule) -> Result<String, toml::ser::Error> {
    let mut table = toml::Table::try_from(schedule)?;
    // These sections have no entries of their own accord; an empty heading would say nothing.
    for section in ["roles", "grid", "assembler"] {
        if table
            .get(section)
            .and_then(toml::Value::as_table)
            .is_some_and(toml::Table::is_empty)
        {
            table.remove(section);
        }
    }
    toml::to_string(&table)
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|b| *b == b'\n').count()
}

/// Takes one entry out; an element of a list takes the list with it. Whether there was such an entry.
fn remove(table: &mut DeTable<'_>, path: &[String]) -> bool {
    match path {
        [] => false,
        [key] => table.remove(key.as_str()).is_some(),
        [key, rest @ ..] => match table.get_mut(key.as_str()).map(|v| v.get_mut()) {
            Some(DeValue::Table(inner)) => remove(inner, rest),
            Some(_) => table.remove(key.as_str()).is_some(),
            None => false,
        },
    }
}

/// The offset of the entry at a path, or of the last part of it that exists.
fn locate(table: &DeTable<'_>, path: &[String]) -> Option<usize> {
    let (key, rest) = path.split_first()?;
    let (spanned, value) = table.get_key_value(key.as_str())?;
    let here = spanned.span().start;
    let deeper = match value.get_ref() {
        DeValue::Table(inner) => locate(inner, rest),
        DeValue::Array(items) => {
            let index = rest.first().and_then(|i| i.parse::<usize>().ok());
            index.and_then(|i| items.get(i)).map(|item| item.span().start)
        }
        _ => None,
    };
    Some(deeper.unwrap_or(here))
}
