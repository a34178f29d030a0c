//! Facts of a checked kernel: lists in program order, uses, and the row extent that its register tiles share.

use std::collections::{BTreeMap, BTreeSet};

use super::error::{Invalid, Report};
use super::structure::{Placed, extents};
use super::types::rows_of;
use crate::ir::{CarryKind, Extent, Fold, Kernel, Op, ValueId};

/// What validation found out about a kernel. Lists are in program order.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// The row extent shared by every tile that lives in registers: the rows that consumers divide among themselves.
    pub rows: Extent,
    pub loads: Vec<ValueId>,
    pub dots: Vec<ValueId>,
    pub folds: Vec<ValueId>,
    pub stores: Vec<ValueId>,
    /// Every live value in program order, a fold before its body; carry arguments are not listed.
    pub program: Vec<ValueId>,
    /// By value: the fold whose body computes it (for a carry argument: its fold), if any.
    pub home: Vec<Option<ValueId>>,
    /// By value: who uses it.
    pub users: Vec<Vec<User>>,
    /// By load.
    pub load_uses: BTreeMap<ValueId, LoadUses>,
    /// Literal extents that occur in types of live values.
    pub literals: BTreeSet<u32>,
}

/// One use of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// The operation or fold that uses it.
    pub by: ValueId,
    pub role: Role,
}

/// What a value is used as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Operand number of an element-wise operation, reduction, mask, cast or rebase.
    Operand(u32),
    /// Operand of a dot.
    Dot(Side),
    /// Source of a store.
    Stored,
    /// Added to a sum of the fold, by carry number.
    Contribution(u32),
    /// Next value of a carry of the fold, by carry number.
    Next(u32),
    /// The fold of a total, by carry number.
    Total(u32),
}

/// The side of a dot that an operand is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    A,
    B,
}

/// What a load feeds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadUses {
    /// Dots that take it directly, with the side and whether it is transposed.
    pub dots: Vec<(ValueId, Side, bool)>,
    /// Everything else that uses it.
    pub arithmetic: Vec<ValueId>,
}

impl Facts {
    /// Whether a value never needs registers of its own: a load that only dots read.
    #[must_use]
    pub fn feeds_only_dots(&self, id: ValueId) -> bool {
        self.load_uses
            .get(&id)
            .is_some_and(|uses| uses.arithmetic.is_empty() && !uses.dots.is_empty())
    }
}

pub(super) fn collect(report: &mut Report<'_>, program: &[Placed]) -> Option<Facts> {
    let kernel = report.kernel;
    let listed = |wanted: fn(&Op) -> bool| -> Vec<ValueId> {
        program
            .iter()
            .map(|p| p.id)
            .filter(|id| wanted(kernel.op(*id)))
            .collect()
    };
    let loads = listed(|op| matches!(op, Op::Load { .. }));
    let users = users(kernel, program);
    let mut facts = Facts {
        rows: Extent::Lit(0),
        dots: listed(|op| matches!(op, Op::Dot { .. })),
        folds: listed(|op| matches!(op, Op::Fold(_))),
        stores: listed(|op| matches!(op, Op::Store { .. })),
        program: program.iter().map(|p| p.id).collect(),
        home: homes(kernel, program),
        load_uses: loads
            .iter()
            .map(|id| (*id, load_uses(kernel, &users[id.0 as usize])))
            .collect(),
        loads,
        users,
        literals: literals(kernel, program),
    };
    facts.rows = row_extent(report, &facts)?;
    Some(facts)
}

fn homes(kernel: &Kernel, program: &[Placed]) -> Vec<Option<ValueId>> {
    let mut homes = vec![None; kernel.values.len()];
    for placed in program {
        homes[placed.id.0 as usize] = placed.fold;
        if let Some(fold) = kernel.fold(placed.id) {
            fold.carries
                .iter()
                .for_each(|c| homes[c.arg.0 as usize] = Some(placed.id));
        }
    }
    homes
}

fn users(kernel: &Kernel, program: &[Placed]) -> Vec<Vec<User>> {
    let mut users = vec![vec![]; kernel.values.len()];
    for Placed { id: by, .. } in program.iter().copied() {
        for (n, operand) in (0..).zip(kernel.op(by).operands()) {
            let role = match kernel.op(by) {
                Op::Dot { .. } => Role::Dot(if n == 0 { Side::A } else { Side::B }),
                Op::Store { .. } => Role::Stored,
                Op::FoldOut { carry, .. } => Role::Total(*carry),
                _ => Role::Operand(n),
            };
            users[operand.0 as usize].push(User { by, role });
        }
        if let Some(fold) = kernel.fold(by) {
            carry_users(&mut users, by, fold);
        }
    }
    users
}

fn carry_users(users: &mut [Vec<User>], by: ValueId, fold: &Fold) {
    for (n, carry) in (0..).zip(&fold.carries) {
        let (next, role) = match carry.kind {
            CarryKind::Sum { contribution, .. } => (contribution, Role::Contribution(n)),
            CarryKind::Next(next) => (next, Role::Next(n)),
            CarryKind::Reference => continue,
        };
        users[next.0 as usize].push(User { by, role });
    }
}

fn load_uses(kernel: &Kernel, users: &[User]) -> LoadUses {
    let mut uses = LoadUses::default();
    for user in users {
        match (kernel.op(user.by), user.role) {
            (Op::Dot { a, .. }, Role::Dot(Side::A)) => uses.dots.push((user.by, Side::A, a.transposed)),
            (Op::Dot { b, .. }, Role::Dot(Side::B)) => uses.dots.push((user.by, Side::B, b.transposed)),
            _ => uses.arithmetic.push(user.by),
        }
    }
    uses
}

fn literals(kernel: &Kernel, program: &[Placed]) -> BTreeSet<u32> {
    let all = program.iter().flat_map(|p| extents(kernel.value(p.id).ty.shape));
    all.filter_map(|e| if let Extent::Lit(v) = e { Some(v) } else { None })
        .collect()
}

/// Loads that only dots read stay in shared memory; every other tile with rows is spread over the same consumer rows.
fn row_extent(report: &mut Report<'_>, facts: &Facts) -> Option<Extent> {
    let kernel = report.kernel;
    let in_registers = facts.program.iter().copied().filter(|id| !facts.feeds_only_dots(*id));
    let rows: Vec<_> = in_registers
        .filter_map(|id| Some((id, rows_of(kernel.value(id).ty.shape)?)))
        .collect();
    // A store's rows are the output's, so they are the ones to measure the others against.
    let measure = facts
        .stores
        .first()
        .copied()
        .or_else(|| rows.first().map(|(id, _)| *id))?;
    let wanted = rows_of(kernel.value(measure).ty.shape)?;
    for (id, found) in rows {
        if found != wanted {
            let kind = Invalid::MixedRows {
                value: report.label(id),
                rows: report.names.extent(found),
                first: report.names.op(kernel.op(measure)),
                first_rows: report.names.extent(wanted),
            };
            report.at(id, kind);
        }
    }
    Some(wanted)
}
