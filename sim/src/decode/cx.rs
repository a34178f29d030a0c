//! Reading one instruction: its modifiers and operands, with errors that name them.

use super::op::{Dst, P, PSrc, R, Special, Src};
use super::scope::{Scopes, Symbol};
use super::special;
use super::ty::{Class, Ty};
use crate::parse::ast::{InstAst, Operand, OperandKind};
use crate::parse::error::{Pos, PtxError, PtxResult};

/// The instruction being decoded and the names it may use.
pub(crate) struct Cx<'a> {
    pub inst: &'a InstAst,
    pub scopes: &'a Scopes,
    used: Vec<bool>,
}

impl<'a> Cx<'a> {
    pub fn new(inst: &'a InstAst, scopes: &'a Scopes) -> Self {
        Self {
            inst,
            scopes,
            used: vec![false; inst.mods.len()],
        }
    }

    // ---- modifiers -------------------------------------------------------------------------

    /// Takes a modifier when it is there.
    pub fn flag(&mut self, name: &str) -> bool {
        let found = self
            .inst
            .mods
            .iter()
            .zip(&self.used)
            .position(|(m, used)| !used && m.name == name);
        if let Some(index) = found {
            self.used[index] = true;
        }
        found.is_some()
    }

    /// Takes every one of these modifiers that is there.
    pub fn ignore(&mut self, names: &[&str]) {
        for name in names {
            self.flag(name);
        }
    }

    /// Takes one modifier of a table.
    pub fn choice<T: Copy>(&mut self, table: &[(&str, T)]) -> Option<T> {
        for (index, modifier) in self.inst.mods.iter().enumerate() {
            if self.used[index] {
                continue;
            }
            if let Some((_, value)) = table.iter().find(|(name, _)| *name == modifier.name) {
                self.used[index] = true;
                return Some(*value);
            }
        }
        None
    }

    /// Like [`Cx::choice`], but the modifier must be there.
    pub fn need<T: Copy>(&mut self, what: &str, table: &[(&str, T)]) -> PtxResult<T> {
        self.choice(table).ok_or_else(|| {
            let names: Vec<String> = table.iter().map(|(name, _)| format!(".{name}")).collect();
            self.error(format!("`{}` needs {what}: {}", self.inst.opcode, names.join(", ")))
        })
    }

    /// Takes the next modifier that is a type.
    pub fn ty_opt(&mut self) -> Option<Ty> {
        for (index, modifier) in self.inst.mods.iter().enumerate() {
            if !self.used[index]
                && let Some(ty) = Ty::parse(&modifier.name)
            {
                self.used[index] = true;
                return Some(ty);
            }
        }
        None
    }

    /// Takes the instruction type and refuses one that is not allowed.
    pub fn ty(&mut self, allowed: &[Ty]) -> PtxResult<Ty> {
        let ty = self
            .ty_opt()
            .ok_or_else(|| self.error(format!("`{}` needs a type modifier", self.inst.opcode)))?;
        if allowed.contains(&ty) {
            return Ok(ty);
        }
        let names: Vec<String> = allowed.iter().map(|t| format!(".{}", t.name())).collect();
        Err(self.error(format!(
            "`{}` is not simulated for .{}; allowed: {}",
            self.inst.opcode,
            ty.name(),
            names.join(", ")
        )))
    }

    /// Takes the first unused modifier for which `read` gives a value.
    pub fn parse_mod<T>(&mut self, read: impl Fn(&str) -> Option<T>) -> Option<T> {
        for (index, modifier) in self.inst.mods.iter().enumerate() {
            if !self.used[index]
                && let Some(value) = read(&modifier.name)
            {
                self.used[index] = true;
                return Some(value);
            }
        }
        None
    }

    /// Refuses modifiers that nobody took, and a wrong number of operands.
    pub fn finish(&self, operands: std::ops::RangeInclusive<usize>) -> PtxResult<()> {
        if let Some((modifier, _)) = self.inst.mods.iter().zip(&self.used).find(|(_, used)| !**used) {
            return Err(PtxError::new(
                modifier.pos,
                format!("unknown modifier `.{}` of `{}`", modifier.name, self.inst.opcode),
            ));
        }
        let count = self.inst.operands.len();
        if operands.contains(&count) {
            return Ok(());
        }
        Err(self.error(format!(
            "`{}` has {count} operands; {} to {} are allowed here",
            self.inst.opcode,
            operands.start(),
            operands.end()
        )))
    }

    pub fn error(&self, message: impl Into<String>) -> PtxError {
        PtxError::new(self.inst.pos, message)
    }

    // ---- operands --------------------------------------------------------------------------

    pub fn count(&self) -> usize {
        self.inst.operands.len()
    }

    pub fn operand(&self, index: usize) -> PtxResult<&'a Operand> {
        self.inst.operands.get(index).ok_or_else(|| {
            self.error(format!(
                "`{}` has {} operands; operand {} is missing",
                self.inst.opcode,
                self.count(),
                index + 1
            ))
        })
    }

    pub(super) fn symbol(&self, name: &str, pos: Pos) -> PtxResult<Symbol> {
        self.scopes
            .find(name)
            .ok_or_else(|| PtxError::new(pos, format!("`{name}` is not declared here")))
    }

    /// A register of exactly the width of `ty` and of a class that agrees with it.
    pub(super) fn checked_reg(&self, name: &str, pos: Pos, ty: Ty) -> PtxResult<R> {
        let (slot, has) = self.any_reg(name, pos)?;
        let classes_agree = match (has.class(), ty.class()) {
            (Class::Int, Class::Float) | (Class::Float, Class::Int) => false,
            (a, b) => (a == Class::Pred) == (b == Class::Pred),
        };
        if has.bits() == ty.bits() && classes_agree {
            return Ok(slot);
        }
        Err(PtxError::new(
            pos,
            format!(
                "`{name}` is .{}; `{}` wants a .{} register here",
                has.name(),
                self.inst.opcode,
                ty.name()
            ),
        ))
    }

    fn any_reg(&self, name: &str, pos: Pos) -> PtxResult<(R, Ty)> {
        match self.symbol(name, pos)? {
            Symbol::Reg { ty, slot } => Ok((slot, ty)),
            _ => Err(PtxError::new(pos, format!("`{name}` is not a register"))),
        }
    }

    /// A destination register of exactly `ty`'s width.
    pub fn dst(&self, index: usize, ty: Ty) -> PtxResult<R> {
        let operand = self.operand(index)?;
        match &operand.kind {
            OperandKind::Name { name, offset: 0 } => self.checked_reg(name, operand.pos, ty),
            _ => Err(PtxError::new(operand.pos, "a destination register is wanted")),
        }
    }

    /// A destination at least as wide as `ty`, or `_`.
    pub fn wide_dst(&self, operand: &Operand, ty: Ty) -> PtxResult<Option<Dst>> {
        match &operand.kind {
            OperandKind::Name { name, offset: 0 } if name == "_" => Ok(None),
            OperandKind::Name { name, offset: 0 } => {
                let (slot, has) = self.any_reg(name, operand.pos)?;
                if has == Ty::Pred || has.bits() < ty.bits() || has.bits() > 64 {
                    return Err(PtxError::new(
                        operand.pos,
                        format!(
                            "`{name}` is .{}; a register of {} to 64 bits is wanted",
                            has.name(),
                            ty.bits()
                        ),
                    ));
                }
                Ok(Some(Dst {
                    slot,
                    bits: has.bits().max(32),
                }))
            }
            _ => Err(PtxError::new(operand.pos, "a register is wanted")),
        }
    }

    /// A source of exactly `ty`'s width.
    pub fn src(&self, index: usize, ty: Ty) -> PtxResult<Src> {
        self.src_of(self.operand(index)?, ty)
    }

    /// A source that is an operand inside a vector.
    pub fn src_of(&self, operand: &Operand, ty: Ty) -> PtxResult<Src> {
        match &operand.kind {
            OperandKind::Name { name, offset } => {
                if let Some(special) = self.special(name) {
                    return Ok(Src::Special(special));
                }
                match self.symbol(name, operand.pos)? {
                    Symbol::Shared(address) => Ok(Src::Shared(i64::from(address).wrapping_add(*offset) as u32)),
                    Symbol::Param { offset: at } => Ok(Src::Imm(i64::from(at).wrapping_add(*offset) as u64)),
                    _ if *offset != 0 => Err(PtxError::new(
                        operand.pos,
                        "a register takes no offset outside an address",
                    )),
                    _ => self.checked_reg(name, operand.pos, ty).map(Src::Reg),
                }
            }
            _ => self.immediate(operand, ty).map(Src::Imm),
        }
    }

    /// A source at least as wide as `ty` (stores and conversions).
    pub fn wide_src(&self, operand: &Operand, ty: Ty) -> PtxResult<Src> {
        match &operand.kind {
            OperandKind::Name { name, .. } if self.special(name).is_none() => {
                match self.symbol(name, operand.pos)? {
                    Symbol::Reg { .. } => {}
                    _ => return self.src_of(operand, ty),
                }
                match self.wide_dst(operand, ty)? {
                    Some(dst) => Ok(Src::Reg(dst.slot)),
                    None => Err(PtxError::new(operand.pos, "`_` is not a source")),
                }
            }
            _ => self.src_of(operand, ty),
        }
    }

    /// A special register, unless a declared register shadows it.
    fn special(&self, name: &str) -> Option<Special> {
        if self.scopes.find(name).is_some() {
            None
        } else {
            special::parse(name)
        }
    }

    fn immediate(&self, operand: &Operand, ty: Ty) -> PtxResult<u64> {
        let refuse = |what: &str| {
            Err(PtxError::new(
                operand.pos,
                format!("{what} is not an operand of type .{}", ty.name()),
            ))
        };
        match (&operand.kind, ty) {
            (OperandKind::Int(value), t) if !t.is_float() => Ok(*value),
            (OperandKind::F32(bits), Ty::F32 | Ty::B32) => Ok(u64::from(*bits)),
            (OperandKind::F64(bits), Ty::F64 | Ty::B64) => Ok(*bits),
            (OperandKind::F64(bits), Ty::F32) => Ok(u64::from((f64::from_bits(*bits) as f32).to_bits())),
            (OperandKind::Int(_), _) => refuse("an integer literal"),
            (OperandKind::F32(_) | OperandKind::F64(_), _) => refuse("a float literal"),
            _ => refuse("this form"),
        }
    }

    /// A literal integer, such as a wait count.
    pub fn literal(&self, index: usize, what: &str) -> PtxResult<u64> {
        let operand = self.operand(index)?;
        match operand.kind {
            OperandKind::Int(value) => Ok(value),
            _ => Err(PtxError::new(operand.pos, format!("{what} must be an integer literal"))),
        }
    }

    /// A destination predicate, `None` for `_`.
    pub fn pred_dst(&self, name: &str, pos: Pos) -> PtxResult<Option<P>> {
        if name == "_" {
            Ok(None)
        } else {
            self.checked_reg(name, pos, Ty::Pred).map(Some)
        }
    }

    /// A destination predicate operand.
    pub fn dst_pred(&self, index: usize) -> PtxResult<P> {
        self.dst(index, Ty::Pred)
    }

    /// `p`, `!p`, or a literal truth value.
    pub fn pred(&self, index: usize) -> PtxResult<PSrc> {
        let operand = self.operand(index)?;
        match &operand.kind {
            OperandKind::Name { name, offset: 0 } => Ok(PSrc::Reg {
                slot: self.checked_reg(name, operand.pos, Ty::Pred)?,
                negated: false,
            }),
            OperandKind::Not(name) => Ok(PSrc::Reg {
                slot: self.checked_reg(name, operand.pos, Ty::Pred)?,
                negated: true,
            }),
            OperandKind::Int(value) => Ok(PSrc::Const(*value != 0)),
            _ => Err(PtxError::new(operand.pos, "a predicate is wanted")),
        }
    }

    /// The guard of the instruction.
    pub fn guard(&self) -> PtxResult<Option<(P, bool)>> {
        let Some((name, negated, pos)) = &self.inst.guard else {
            return Ok(None);
        };
        Ok(Some((self.checked_reg(name, *pos, Ty::Pred)?, *negated)))
    }

    /// The elements of `{...}`, or the single operand itself.
    pub fn elements(&self, index: usize) -> PtxResult<Vec<&'a Operand>> {
        let operand = self.operand(index)?;
        Ok(match &operand.kind {
            OperandKind::Vector(items) => items.iter().collect(),
            _ => vec![operand],
        })
    }

    /// `{...}` of exactly `count` registers of `ty`.
    pub fn regs(&self, index: usize, count: usize, ty: Ty) -> PtxResult<Vec<R>> {
        let items = self.elements(index)?;
        if items.len() != count {
            return Err(PtxError::new(
                self.operand(index)?.pos,
                format!(
                    "{} registers are given; `{}` takes {count} here",
                    items.len(),
                    self.inst.opcode
                ),
            ));
        }
        let mut out = Vec::with_capacity(count);
        for item in items {
            match &item.kind {
                OperandKind::Name { name, offset: 0 } => out.push(self.checked_reg(name, item.pos, ty)?),
                _ => return Err(PtxError::new(item.pos, "a register is wanted")),
            }
        }
        Ok(out)
    }
}
