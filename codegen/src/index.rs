//! What an index expression is known to be: enough to prove that a copy is aligned and starts inside its tensor.

use dsl::Kernel;
use dsl::index::{Ix, IxBin};
use dsl::ir::{Dim, TensorId};

/// Whether a point of dimension `d` is known to lie inside: a block coordinate of a grid axis that walks the dimension, or
/// a number below a size that is one.
pub fn inside(kernel: &Kernel, tensor: TensorId, d: usize, point: &Ix) -> bool {
    let size = match kernel.tensor(tensor).dims.get(d) {
        Some(Dim::Lit(n)) => Some(Ix::Const((*n).into())),
        Some(Dim::Runtime(size)) => Some(Ix::Runtime(*size)),
        None => None,
    };
    match (point, size) {
        (Ix::Axis(axis), Some(size)) => kernel.grid.get(axis.0 as usize).is_some_and(|a| a.count == size),
        (Ix::Const(at), Some(Ix::Const(size))) => (0..size).contains(at),
        _ => false,
    }
}

/// Whether the expression is at least zero: sizes, block coordinates and loop counters are.
pub fn never_negative(ix: &Ix) -> bool {
    match ix {
        Ix::Const(v) => *v >= 0,
        Ix::Runtime(_) | Ix::Tile(_) | Ix::Axis(_) | Ix::Iter(_) => true,
        Ix::Bin(op, ab) => {
            let (a, b) = (never_negative(&ab.0), never_negative(&ab.1));
            match op {
                IxBin::Sub => false,
                IxBin::Max => a || b,
                // Divisors are positive.
                IxBin::FloorDiv | IxBin::CeilDiv => a,
                IxBin::Rem => true,
                IxBin::Add | IxBin::Mul | IxBin::Min => a && b,
            }
        }
    }
}

/// Whether `of` divides the expression for every value of its symbols.
pub fn is_multiple(ix: &Ix, of: i64) -> bool {
    let d = divisor(ix);
    d == 0 || d % of == 0
}

/// A number that divides the expression; 0 for zero itself.
fn divisor(ix: &Ix) -> i64 {
    match ix {
        Ix::Const(v) => v.checked_abs().unwrap_or(1),
        Ix::Bin(op, ab) => {
            let (a, b) = (divisor(&ab.0), divisor(&ab.1));
            match op {
                IxBin::Add | IxBin::Sub | IxBin::Min | IxBin::Max => gcd(a, b),
                IxBin::Mul => a.checked_mul(b).unwrap_or(1),
                IxBin::FloorDiv | IxBin::CeilDiv | IxBin::Rem => 1,
            }
        }
        _ => 1,
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::{is_multiple, never_negative};
    use dsl::index::{AxisId, IterId, Ix, RuntimeId};

    #[test]
    fn block_starts_are_aligned() {
        let start = Ix::Axis(AxisId(0)) * 128 + Ix::Iter(IterId(0)) * 64;
        assert!(is_multiple(&start, 8) && is_multiple(&start, 64) && !is_multiple(&start, 128));
        assert!(!is_multiple(&(start + Ix::Runtime(RuntimeId(0))), 2));
        assert!(is_multiple(&Ix::from(0), 8));
    }

    #[test]
    fn a_difference_may_be_negative() {
        let size = Ix::Runtime(RuntimeId(0));
        assert!(never_negative(&(size.clone() * 2 + 1)));
        assert!(!never_negative(&(size.clone() - 1)));
        assert!(never_negative(&(size - 1).max(0)));
    }
}
