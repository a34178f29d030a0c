//! The blocks of a launch in the order of their numbers, each with the trips of its loops.

use codegen::role::{Expr, RoleProgram, Stmt};
use dsl::IxBin;

use super::PredictError;
use crate::expr::Sizes;

/// Most blocks that are listed.
const MOST_BLOCKS: i64 = 1 << 22;

/// Values of the sizes and variables of a program.
struct Values {
    runtime: Vec<i64>,
    vars: Vec<i64>,
}

impl Values {
    fn eval(&self, e: &Expr) -> i64 {
        match e {
            Expr::Const(v) => *v,
            Expr::Runtime(i) => self.runtime.get(*i as usize).copied().unwrap_or(0),
            Expr::Var(v) => self.vars.get(v.0 as usize).copied().unwrap_or(0),
            Expr::Bin(op, sides) => apply(*op, self.eval(&sides.0), self.eval(&sides.1)),
        }
    }
}

/// Sizes of real problems are far from overflow; division by zero has no trips.
fn apply(op: IxBin, a: i64, b: i64) -> i64 {
    match op {
        IxBin::Add => a.saturating_add(b),
        IxBin::Sub => a.saturating_sub(b),
        IxBin::Mul => a.saturating_mul(b),
        IxBin::FloorDiv => a.checked_div_euclid(b).unwrap_or(0),
        IxBin::CeilDiv => a.saturating_add(b - 1).checked_div_euclid(b).unwrap_or(0),
        IxBin::Rem => a.checked_rem_euclid(b).unwrap_or(0),
        IxBin::Min => a.min(b),
        IxBin::Max => a.max(b),
    }
}

/// Trips of all loops of a consumer, for every block in the order of block numbers.
///
/// # Errors
/// Sizes that are missing, or more blocks than can be listed.
pub fn trips(p: &RoleProgram, sizes: &Sizes) -> Result<Vec<f64>, PredictError> {
    let size = |name: &String| {
        sizes
            .get(name)
            .copied()
            .ok_or_else(|| PredictError::Size { name: name.clone() })
    };
    let mut values = Values {
        runtime: p.runtime.iter().map(size).collect::<Result<_, _>>()?,
        vars: vec![0; p.vars.len()],
    };
    let counts: Vec<i64> = p.grid.axes.iter().map(|a| values.eval(&a.count)).collect();
    let total = counts.iter().fold(1_i64, |t, c| t.saturating_mul(*c));
    if !(1..=MOST_BLOCKS).contains(&total) {
        return Err(PredictError::Blocks { blocks: total });
    }
    let one = |number: i64| {
        coordinates(p, &counts, number, &mut values.vars);
        block(&p.consumer, &mut values)
    };
    Ok((0..total).map(one).collect())
}

/// Sets the grid variables of a block, as the kernel decodes its number.
fn coordinates(p: &RoleProgram, counts: &[i64], number: i64, vars: &mut [i64]) {
    let inner = p.grid.inner;
    let (at_inner, mut rest) = match p.grid.section {
        None => (number % counts[inner], number / counts[inner]),
        Some(section) => {
            let outer: i64 = counts.iter().product::<i64>() / counts[inner];
            let width = outer.min(i64::from(section));
            let per = width * counts[inner];
            let (index, within) = (number / per, number % per);
            let here = width.min(outer - index * width).max(1);
            (within / here, index * width + within % here)
        }
    };
    for (i, axis) in p.grid.axes.iter().enumerate() {
        let mut at = at_inner;
        if i != inner {
            at = rest % counts[i];
            rest /= counts[i];
        }
        let value = if axis.descending { counts[i] - 1 - at } else { at };
        if let Some(var) = vars.get_mut(axis.var.0 as usize) {
            *var = value;
        }
    }
}

fn block(body: &[Stmt], values: &mut Values) -> f64 {
    let mut trips = 0.0;
    for stmt in body {
        match stmt {
            Stmt::Set { var, value } => {
                let value = values.eval(value);
                if let Some(slot) = values.vars.get_mut(var.0 as usize) {
                    *slot = value;
                }
            }
            Stmt::Loop { count, .. } => trips += values.eval(count).max(0) as f64,
            _ => {}
        }
    }
    trips
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisions_round_like_the_kernel() {
        assert_eq!(apply(IxBin::CeilDiv, 7, 3), 3);
        assert_eq!(apply(IxBin::CeilDiv, 0, 3), 0);
        assert_eq!(apply(IxBin::FloorDiv, -1, 3), -1);
        assert_eq!(apply(IxBin::FloorDiv, 1, 0), 0);
    }
}
