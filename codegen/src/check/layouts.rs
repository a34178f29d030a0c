//! Layouts of calculations: which register of an operand meets which element of the result.
//!
//! A row value meets every column of its row, a column value every row, a scalar everything; everything else needs
//! the layout of the result. Values kept per lane ([`Layout::RowPartial`]) may be scaled by whole rows, never added to them.

use dsl::ir::{BinaryOp, ReduceOp};

use crate::role::{Calc, Layout, Src, Stmt};

use super::violation::{At, Rule, Sink};

pub(super) fn check(sink: &mut Sink<'_, '_>) {
    let flat = sink.flat;
    for (site, stmt) in flat.all() {
        if let Stmt::Repair { check, .. } = stmt {
            let have = flat.program.tiles[check.0 as usize].layout;
            if !matches!(have, Layout::Row { .. } | Layout::RowPartial { .. }) {
                sink.fail(
                    Rule::CalcLayout,
                    At::Site(site),
                    "one value per row to compare",
                    format!("{have:?}"),
                );
            }
        }
        let Stmt::Calc { dst, calc } = stmt else { continue };
        let to = flat.program.tiles[dst.0 as usize].layout;
        if let Err((required, found)) = agrees(sink, to, calc) {
            sink.fail(Rule::CalcLayout, At::Site(site), required, found);
        }
    }
}

type Agreement = Result<(), (String, String)>;

fn agrees(sink: &Sink<'_, '_>, to: Layout, calc: &Calc) -> Agreement {
    let of = |t: crate::role::RegTileId| sink.flat.program.tiles[t.0 as usize].layout;
    let src = |s: &Src, scales: bool| match s {
        Src::Tile(t) => meets(of(*t), to, scales),
        Src::Const(_) | Src::Param(_) => Ok(()),
    };
    if matches!(to, Layout::Packed { .. }) && !matches!(calc, Calc::Pack(_) | Calc::Copy(Src::Tile(_))) {
        return Err(("an f32 result".into(), format!("{to:?}")));
    }
    match calc {
        Calc::Copy(Src::Const(_) | Src::Param(_)) => Ok(()),
        Calc::Copy(a) | Calc::Unary(_, a) | Calc::Exp2Mixed { src: a, .. } => src(a, false),
        Calc::Binary(op, a, b) => {
            let scales = *op == BinaryOp::Mul || *op == BinaryOp::Div;
            src(a, scales && *op == BinaryOp::Mul).and(src(b, scales))
        }
        Calc::Fma(a, b, c) => src(a, true).and(src(b, true)).and(src(c, false)),
        Calc::Select {
            lhs,
            rhs,
            then,
            otherwise,
            ..
        } => [lhs, rhs, then, otherwise].into_iter().try_for_each(|s| src(s, false)),
        Calc::Pack(a) => match (to, of(*a)) {
            (Layout::Packed { slabs, cols, .. }, Layout::Acc { slabs: s, cols: c }) if (slabs, cols) == (s, c) => {
                Ok(())
            }
            (to, have) => Err((format!("an accumulator packed into {to:?}"), format!("{have:?}"))),
        },
        Calc::Unpack(a) => match (to, of(*a)) {
            (Layout::Acc { slabs, cols }, Layout::Packed { slabs: s, cols: c, .. }) if (slabs, cols) == (s, c) => {
                Ok(())
            }
            (to, have) => Err((format!("packed values widened into {to:?}"), format!("{have:?}"))),
        },
        Calc::Mask { src, .. } => same(of(*src), to, matches!(to, Layout::Acc { .. })),
        Calc::Reduce { op, src, quad } => reduce(of(*src), to, *op, *quad),
        Calc::QuadSum(src) => match (of(*src), to) {
            (Layout::RowPartial { slabs: s }, Layout::Row { slabs }) if s == slabs => Ok(()),
            (have, to) => Err((
                "values per lane summed into a row value".into(),
                format!("{have:?} into {to:?}"),
            )),
        },
        Calc::ScaleUnlessOne { factor } => match of(*factor) {
            Layout::Row { .. } => meets(of(*factor), to, true),
            have => Err(("one factor per row".into(), format!("{have:?}"))),
        },
    }
}

fn same(have: Layout, to: Layout, legal: bool) -> Agreement {
    if have == to && legal {
        Ok(())
    } else {
        Err(("one accumulator layout".into(), format!("{have:?} into {to:?}")))
    }
}

fn reduce(have: Layout, to: Layout, op: ReduceOp, quad: bool) -> Agreement {
    let Layout::Acc { slabs, .. } = have else {
        return Err(("an accumulator to reduce".into(), format!("{have:?}")));
    };
    let want = if quad {
        Layout::Row { slabs }
    } else {
        Layout::RowPartial { slabs }
    };
    if to == want && (quad || op == ReduceOp::Sum) {
        Ok(())
    } else {
        Err((
            format!("{want:?}; only sums stay per lane"),
            format!("{op:?} into {to:?}"),
        ))
    }
}

/// Whether an operand broadcasts to the result; `scales` when it is a factor.
fn meets(have: Layout, to: Layout, scales: bool) -> Agreement {
    let legal = match (have, to) {
        (Layout::Packed { .. }, Layout::Packed { .. }) => have == to,
        (Layout::Packed { .. }, _) | (_, Layout::Packed { .. }) => false,
        // A scalar added to every lane would be counted four times.
        (Layout::Scalar | Layout::Row { .. }, Layout::RowPartial { slabs }) => {
            scales && matches!(have, Layout::Scalar | Layout::Row { .. }) && rows(have).is_none_or(|s| s == slabs)
        }
        (Layout::Scalar, _) => true,
        (Layout::Row { slabs: s }, Layout::Acc { slabs, .. }) => s == slabs,
        (Layout::Col { cols: c }, Layout::Acc { cols, .. }) => c == cols,
        _ => have == to,
    };
    if legal {
        Ok(())
    } else {
        Err((format!("an operand that broadcasts to {to:?}"), format!("{have:?}")))
    }
}

fn rows(l: Layout) -> Option<u32> {
    if let Layout::Row { slabs } = l {
        Some(slabs)
    } else {
        None
    }
}
