//! Names: nested scopes of registers, variables and labels (PTX ISA 5.3, 7).

use std::collections::HashMap;

use super::ty::Ty;

/// A resolved name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Symbol {
    /// First slot of a register (a predicate slot for `Ty::Pred`).
    Reg { ty: Ty, slot: u32 },
    /// `%r<count>`.
    Family { ty: Ty, first: u32, count: u32 },
    /// Address in the shared window.
    Shared(u32),
    /// Offset in parameter space.
    Param { offset: u32 },
}

#[derive(Debug, Default)]
struct Scope {
    parent: Option<usize>,
    names: HashMap<String, Symbol>,
    labels: HashMap<String, u32>,
}

/// All scopes of one entry. Scopes are numbered in the order in which they open, so that a first
/// pass can place labels and a second pass can find them again.
#[derive(Debug)]
pub(crate) struct Scopes {
    scopes: Vec<Scope>,
    current: usize,
    opened: usize,
    /// Names of 32-bit slots, for messages.
    pub reg_names: Vec<String>,
    /// Names of predicate slots.
    pub pred_names: Vec<String>,
}

impl Scopes {
    pub fn new() -> Self {
        Self {
            scopes: vec![Scope::default()],
            current: 0,
            opened: 0,
            reg_names: Vec::new(),
            pred_names: Vec::new(),
        }
    }

    /// Enters the next scope, in text order.
    pub fn open(&mut self) {
        self.opened += 1;
        if self.opened == self.scopes.len() {
            self.scopes.push(Scope {
                parent: Some(self.current),
                ..Scope::default()
            });
        }
        self.current = self.opened;
    }

    pub fn close(&mut self) {
        self.current = self.scopes[self.current].parent.unwrap_or(0);
    }

    /// Starts the second pass.
    pub fn rewind(&mut self) {
        self.current = 0;
        self.opened = 0;
    }

    /// Adds a label of the current scope; false when it is there already.
    pub fn add_label(&mut self, name: &str, at: u32) -> bool {
        self.scopes[self.current].labels.insert(name.to_owned(), at).is_none()
    }

    /// Adds a name to the current scope; false when it is there already.
    pub fn add(&mut self, name: &str, symbol: Symbol) -> bool {
        self.scopes[self.current]
            .names
            .insert(name.to_owned(), symbol)
            .is_none()
    }

    /// Reserves slots for one register of `ty`.
    pub fn alloc(&mut self, ty: Ty, name: &str) -> u32 {
        let names = if ty == Ty::Pred {
            &mut self.pred_names
        } else {
            &mut self.reg_names
        };
        let slot = names.len() as u32;
        for _ in 0..ty.slots() {
            names.push(name.to_owned());
        }
        slot
    }

    pub fn label(&self, name: &str) -> Option<u32> {
        self.walk(|scope| scope.labels.get(name).copied())
    }

    /// Finds a register or variable, from the innermost scope outwards.
    pub fn find(&self, name: &str) -> Option<Symbol> {
        self.walk(|scope| match scope.names.get(name) {
            Some(Symbol::Family { .. }) | None => family_member(scope, name),
            Some(found) => Some(*found),
        })
    }

    fn walk<T>(&self, look: impl Fn(&Scope) -> Option<T>) -> Option<T> {
        let mut at = Some(self.current);
        while let Some(index) = at {
            let scope = &self.scopes[index];
            if let Some(found) = look(scope) {
                return Some(found);
            }
            at = scope.parent;
        }
        None
    }
}

/// `%r12` of `%r<64>`.
fn family_member(scope: &Scope, name: &str) -> Option<Symbol> {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &name[stem.len()..];
    if digits.is_empty() || (digits.len() > 1 && digits.starts_with('0')) {
        return None;
    }
    let index: u32 = digits.parse().ok()?;
    match scope.names.get(stem) {
        Some(Symbol::Family { ty, first, count }) if index < *count => Some(Symbol::Reg {
            ty: *ty,
            slot: first + index * ty.slots(),
        }),
        _ => None,
    }
}
