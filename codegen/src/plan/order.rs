//! The events of a fold's `order`: each stands once, and a wait follows its issue.

use crate::error::Refusal;

/// One event as a schedule writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'s> {
    pub is_wait: bool,
    pub name: &'s str,
}

/// Reads an event: `issue X` and `X` are the same one.
#[must_use]
pub fn event(text: &str) -> Event<'_> {
    let text = text.trim();
    let word = |verb: &str| {
        text.strip_prefix(verb)
            .filter(|rest| rest.starts_with(char::is_whitespace))
    };
    let wait = word("wait");
    Event {
        is_wait: wait.is_some(),
        name: wait.or(word("issue")).unwrap_or(text).trim(),
    }
}

/// Refuses an event that stands twice, and a wait for what is issued only later.
///
/// # Errors
/// The first event that contradicts one before it.
pub fn check(fold: &str, order: &[String]) -> Result<(), Refusal> {
    for (i, text) in order.iter().enumerate() {
        let now = event(text);
        let before = order[..i].iter().enumerate();
        for (first, other) in before.map(|(k, other)| (k, event(other))) {
            if other == now {
                let fact = format!("it is event {} already, and a trip has each event once", first + 1);
                return Err(refusal(fold, (i, text), fact, "each event once"));
            }
            if other.name == now.name && other.is_wait {
                let fact = format!(
                    "event {} waits for it, and no trip starts with work in flight",
                    first + 1
                );
                let allowed = format!("`{text}` before `wait {}`", now.name);
                return Err(refusal(fold, (i, text), fact, allowed));
            }
        }
    }
    Ok(())
}

/// A refusal of the event at a position (counted from zero) of a fold's order.
pub fn refusal(fold: &str, at: (usize, &str), fact: String, allowed: impl Into<String>) -> Refusal {
    let asked = format!("`{}` as event {}", at.1, at.0 + 1);
    Refusal::new(format!("folds.{fold}.order"), asked, fact, allowed)
}
