//! Address operands: `[base + offset]` and tensor coordinates.

use super::cx::Cx;
use super::op::{Addr, AddrBase, Space, Src};
use super::scope::Symbol;
use super::ty::Ty;
use crate::parse::ast::{AddressBase, OperandKind};
use crate::parse::error::{Pos, PtxError, PtxResult};

impl Cx<'_> {
    /// `[base + offset]` in `space`.
    pub fn addr(&self, index: usize, space: Space) -> PtxResult<Addr> {
        let operand = self.operand(index)?;
        let OperandKind::Address { base, offset, coords } = &operand.kind else {
            return Err(PtxError::new(operand.pos, "an address `[...]` is wanted"));
        };
        if !coords.is_empty() {
            return Err(PtxError::new(operand.pos, "tensor coordinates are not allowed here"));
        }
        self.addr_parts(base, *offset, operand.pos, space)
    }

    fn addr_parts(&self, base: &AddressBase, offset: i64, pos: Pos, space: Space) -> PtxResult<Addr> {
        let name = match base {
            AddressBase::Int(value) => {
                return Ok(Addr {
                    base: AddrBase::None,
                    offset: offset.wrapping_add(*value as i64),
                });
            }
            AddressBase::Name(name) => name,
        };
        match (self.symbol(name, pos)?, space) {
            (Symbol::Shared(at), Space::SharedCta | Space::SharedCluster) => Ok(Addr {
                base: AddrBase::Shared,
                offset: offset.wrapping_add(i64::from(at)),
            }),
            (Symbol::Param { offset: at }, Space::Param) => Ok(Addr {
                base: AddrBase::None,
                offset: offset.wrapping_add(i64::from(at)),
            }),
            (Symbol::Reg { ty, slot }, _) if ty.bits() == 64 => Ok(Addr {
                base: AddrBase::Reg64(slot),
                offset,
            }),
            (Symbol::Reg { ty, slot }, Space::SharedCta | Space::SharedCluster | Space::Param) if ty.bits() == 32 => {
                Ok(Addr {
                    base: AddrBase::Reg32(slot),
                    offset,
                })
            }
            (Symbol::Reg { ty, .. }, _) => Err(PtxError::new(
                pos,
                format!("`{name}` is .{}; this address needs a 64-bit register", ty.name()),
            )),
            _ => Err(PtxError::new(
                pos,
                format!("`{name}` is not an address in this state space"),
            )),
        }
    }

    /// `[map, {c0, c1, ...}]`.
    pub fn tensor(&self, index: usize, rank: usize) -> PtxResult<(Addr, Vec<Src>)> {
        let operand = self.operand(index)?;
        let OperandKind::Address { base, offset, coords } = &operand.kind else {
            return Err(PtxError::new(operand.pos, "a tensor `[map, {coordinates}]` is wanted"));
        };
        if coords.len() != rank {
            return Err(PtxError::new(
                operand.pos,
                format!("{} coordinates are given to a {rank}-dimensional copy", coords.len()),
            ));
        }
        let map = self.addr_parts(base, *offset, operand.pos, Space::Generic)?;
        let coords = coords
            .iter()
            .map(|c| self.src_of(c, Ty::S32))
            .collect::<PtxResult<_>>()?;
        Ok((map, coords))
    }
}
