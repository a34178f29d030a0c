//! What a statement reads and writes: register tiles, expressions, ids.

use crate::role::{Calc, Coord, Expr, OperandA, Src, Stmt, VarId};

/// Calls `f` on every register tile that a statement reads.
pub(super) fn reads(stmt: &Stmt, f: &mut dyn FnMut(u32)) {
    match stmt {
        Stmt::Calc { dst, calc } => {
            if matches!(calc, Calc::ScaleUnlessOne { .. }) {
                f(dst.0);
            }
            calc_reads(calc, f);
        }
        Stmt::Issue(d) => {
            if d.accumulate {
                f(d.acc.0);
            }
            if let OperandA::Regs(a) = d.a {
                f(a.0);
            }
        }
        Stmt::Stage { src, .. } | Stmt::WriteGlobal { src, .. } => f(src.0),
        Stmt::Repair { check, .. } => f(check.0),
        _ => {}
    }
}

fn calc_reads(calc: &Calc, f: &mut dyn FnMut(u32)) {
    let mut src = |s: &Src| {
        if let Src::Tile(t) = s {
            f(t.0);
        }
    };
    match calc {
        Calc::Copy(a) | Calc::Unary(_, a) | Calc::Exp2Mixed { src: a, .. } => src(a),
        Calc::Binary(_, a, b) => [a, b].into_iter().for_each(src),
        Calc::Fma(a, b, c) => [a, b, c].into_iter().for_each(src),
        Calc::Select {
            lhs,
            rhs,
            then,
            otherwise,
            ..
        } => [lhs, rhs, then, otherwise].into_iter().for_each(src),
        Calc::Pack(t) | Calc::Unpack(t) | Calc::QuadSum(t) => f(t.0),
        Calc::Mask { src, .. } | Calc::Reduce { src, .. } => f(src.0),
        Calc::ScaleUnlessOne { factor } => f(factor.0),
    }
}

/// The register tile that a statement writes.
pub(super) fn written(stmt: &Stmt) -> Option<u32> {
    match stmt {
        Stmt::Calc { dst, .. } | Stmt::ReadShared { dst, .. } | Stmt::ReadGlobal { dst, .. } => Some(dst.0),
        Stmt::Issue(d) => Some(d.acc.0),
        Stmt::WarpDot { acc, .. } => Some(acc.0),
        _ => None,
    }
}

/// Scalar parameters that a statement reads.
pub(super) fn params(stmt: &Stmt, f: &mut dyn FnMut(u32)) {
    let Stmt::Calc { calc, .. } = stmt else { return };
    let all: Vec<&Src> = match calc {
        Calc::Copy(a) | Calc::Unary(_, a) | Calc::Exp2Mixed { src: a, .. } => vec![a],
        Calc::Binary(_, a, b) => vec![a, b],
        Calc::Fma(a, b, c) => vec![a, b, c],
        Calc::Select {
            lhs,
            rhs,
            then,
            otherwise,
            ..
        } => vec![lhs, rhs, then, otherwise],
        _ => vec![],
    };
    for s in all {
        if let Src::Param(i) = s {
            f(*i);
        }
    }
}

/// Calls `f` on every expression of a statement itself (not of a loop's body).
pub(super) fn exprs<'s>(stmt: &'s Stmt, f: &mut dyn FnMut(&'s Expr)) {
    match stmt {
        Stmt::Set { value, .. } => f(value),
        Stmt::Loop { count, .. } => f(count),
        Stmt::Fill { load, .. } | Stmt::Acquire { load, .. } => coords(&load.coords, f),
        Stmt::Calc {
            calc: Calc::Mask { terms, .. },
            ..
        } => terms.iter().for_each(|t| f(&t.base)),
        Stmt::Issue(d) => d.narrow.iter().flat_map(|n| &n.terms).for_each(|t| f(&t.base)),
        Stmt::ReadGlobal { at, .. } | Stmt::WriteGlobal { at, .. } => {
            coords(&at.coords, f);
            f(&at.bound);
        }
        Stmt::StoreStaged { coords: c, .. } => coords(c, f),
        _ => {}
    }
}

fn coords<'s>(all: &'s [Coord], f: &mut dyn FnMut(&'s Expr)) {
    for c in all {
        let (Coord::Point(e) | Coord::Rows(e) | Coord::Cols(e)) = c;
        f(e);
    }
}

/// Calls `f` on every leaf of an expression.
pub(super) fn leaves<'e>(e: &'e Expr, f: &mut dyn FnMut(&'e Expr)) {
    match e {
        Expr::Bin(_, ab) => {
            leaves(&ab.0, f);
            leaves(&ab.1, f);
        }
        leaf => f(leaf),
    }
}

/// Calls `f` on every variable of an expression.
pub(super) fn vars(e: &Expr, f: &mut dyn FnMut(VarId)) {
    leaves(e, &mut |leaf| {
        if let Expr::Var(v) = leaf {
            f(*v);
        }
    });
}
