//! Source lines: each statement's instructions carry the Rust line of the kernel that made them.
//!
//! Statements that only synchronise (waits, releases, turns) stay with the line before them.

use crate::ptx::Kind;
use crate::role::{RoleProgram, Stmt};

use super::Emitter;

impl Emitter<'_> {
    /// Moves on to the line of a statement.
    pub(super) fn locate(&mut self, s: &Stmt) {
        let p = self.p;
        if let Some(name) = named(p, s) {
            self.locate_name(name);
        } else if let Stmt::WriteGlobal { at, .. } = s {
            let tensor = p.pointers.get(at.pointer as usize).map_or(0, |x| x.tensor);
            self.locate_store(&p.tensors[tensor as usize].name);
        } else if let Stmt::StoreStaged { name, .. } = s {
            self.locate_store(name);
        }
    }

    /// Moves on to the line of a named value; a part of it (`NAME.part`) has its line.
    pub(crate) fn locate_name(&mut self, name: &str) {
        let Some(site) = self.p.source(name) else { return };
        let file = self.files.iter().position(|f| *f == site.file).unwrap_or_else(|| {
            self.files.push(site.file.clone());
            self.files.len() - 1
        });
        // PTX ISA 11.5.2: files are numbered from 1.
        let at = (crate::lower::to_u32(file) + 1, site.line, site.column);
        if self.line != Some(at) {
            self.line = Some(at);
            let (file, line, column) = at;
            self.push(Kind::Loc { file, line, column });
        }
    }

    /// Moves on to the line that stores a tensor.
    pub(crate) fn locate_store(&mut self, tensor: &str) {
        self.locate_name(&crate::lower::sites::store(tensor));
    }
}

/// The value that a statement computes, loads or walks.
fn named<'p>(p: &'p RoleProgram, s: &'p Stmt) -> Option<&'p str> {
    let tile = |t: &crate::role::RegTileId| p.tiles[t.0 as usize].name.as_str();
    match s {
        Stmt::Loop { name, .. } => Some(name),
        Stmt::Fill { load, .. } | Stmt::Acquire { load, .. } => Some(&load.name),
        Stmt::Issue(dot) => Some(&dot.name),
        Stmt::Calc { dst, .. } | Stmt::ReadShared { dst, .. } | Stmt::ReadGlobal { dst, .. } => Some(tile(dst)),
        Stmt::Repair { check, .. } => Some(tile(check)),
        Stmt::WarpDot { acc, .. } => Some(tile(acc)),
        Stmt::Stage { src, .. } => Some(tile(src)),
        _ => None,
    }
}
