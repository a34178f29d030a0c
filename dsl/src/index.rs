//! Integer index expressions: block coordinates, loop bounds, mask limits.
//!
//! An expression is uniform: every element of a tile sees the same value. It mixes the three binding times (literals,
//! tile symbols bound by the schedule, runtime sizes) with the program's position (grid axes, loop counters).

use std::fmt;
use std::ops::{Add, Mul, Sub};

use serde::{Deserialize, Serialize};

/// A runtime size of the kernel (an `i32` parameter), by position in [`crate::Kernel::runtime`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RuntimeId(pub u32);
/// A tile size bound by the schedule, by position in [`crate::Kernel::tiles`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TileId(pub u32);
/// A grid axis, by position in [`crate::Kernel::grid`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AxisId(pub u32);
/// The counter of a fold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct IterId(pub u32);

/// A binary integer operation. Division rounds towards negative infinity, or up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum IxBin {
    Add,
    Sub,
    Mul,
    FloorDiv,
    CeilDiv,
    Rem,
    Min,
    Max,
}

/// A uniform integer expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Ix {
    Const(i64),
    Runtime(RuntimeId),
    Tile(TileId),
    Axis(AxisId),
    Iter(IterId),
    Bin(IxBin, Box<(Ix, Ix)>),
}

impl Ix {
    /// Builds `self op rhs`, folding constants and the neutral elements.
    #[must_use]
    pub fn bin(op: IxBin, lhs: Ix, rhs: Ix) -> Ix {
        if let (Ix::Const(a), Ix::Const(b)) = (&lhs, &rhs)
            && let Some(value) = fold(op, *a, *b)
        {
            return Ix::Const(value);
        }
        match (op, &lhs, &rhs) {
            (IxBin::Add | IxBin::Sub, _, Ix::Const(0))
            | (IxBin::Mul | IxBin::FloorDiv | IxBin::CeilDiv, _, Ix::Const(1)) => lhs,
            (IxBin::Add, Ix::Const(0), _) | (IxBin::Mul, Ix::Const(1), _) => rhs,
            (IxBin::Mul, Ix::Const(0), _) | (IxBin::Mul, _, Ix::Const(0)) => Ix::Const(0),
            _ => Ix::Bin(op, Box::new((lhs, rhs))),
        }
    }

    /// `ceil(self / rhs)`.
    #[must_use]
    pub fn ceil_div(self, rhs: impl Into<Ix>) -> Ix {
        Ix::bin(IxBin::CeilDiv, self, rhs.into())
    }

    /// `floor(self / rhs)`.
    #[must_use]
    pub fn floor_div(self, rhs: impl Into<Ix>) -> Ix {
        Ix::bin(IxBin::FloorDiv, self, rhs.into())
    }

    /// The smaller of the two.
    #[must_use]
    pub fn min(self, rhs: impl Into<Ix>) -> Ix {
        Ix::bin(IxBin::Min, self, rhs.into())
    }

    /// The larger of the two.
    #[must_use]
    pub fn max(self, rhs: impl Into<Ix>) -> Ix {
        Ix::bin(IxBin::Max, self, rhs.into())
    }

    /// Evaluates with `leaf` giving the value of every symbol; `None` when a symbol has none or a step overflows.
    pub fn eval(&self, leaf: &mut dyn FnMut(&Ix) -> Option<i64>) -> Option<i64> {
        match self {
            Ix::Const(v) => Some(*v),
            Ix::Bin(op, ab) => fold(*op, ab.0.eval(leaf)?, ab.1.eval(leaf)?),
            other => leaf(other),
        }
    }

    /// Replaces leaves: `leaf` returns the replacement, or `None` to keep the leaf.
    #[must_use]
    pub fn substitute(&self, leaf: &mut dyn FnMut(&Ix) -> Option<Ix>) -> Ix {
        match self {
            Ix::Const(_) => self.clone(),
            Ix::Bin(op, ab) => Ix::bin(*op, ab.0.substitute(leaf), ab.1.substitute(leaf)),
            other => leaf(other).unwrap_or_else(|| other.clone()),
        }
    }

    /// Calls `visit` on every leaf that is not a constant.
    pub fn leaves(&self, visit: &mut dyn FnMut(&Ix)) {
        match self {
            Ix::Const(_) => {}
            Ix::Bin(_, ab) => {
                ab.0.leaves(visit);
                ab.1.leaves(visit);
            }
            other => visit(other),
        }
    }

    /// Splits `self` into `coefficient * of + rest`, when it is affine in `of` with a constant coefficient.
    #[must_use]
    pub fn affine_in(&self, of: &Ix) -> Option<(i64, Ix)> {
        if self == of {
            return Some((1, Ix::Const(0)));
        }
        let Ix::Bin(op, ab) = self else {
            return Some((0, self.clone()));
        };
        let (ca, ra) = ab.0.affine_in(of)?;
        let (cb, rb) = ab.1.affine_in(of)?;
        match op {
            IxBin::Add => Some((ca.checked_add(cb)?, ra + rb)),
            IxBin::Sub => Some((ca.checked_sub(cb)?, ra - rb)),
            IxBin::Mul => match (&ab.0, &ab.1) {
                (Ix::Const(k), _) => Some((cb.checked_mul(*k)?, Ix::Const(*k) * rb)),
                (_, Ix::Const(k)) => Some((ca.checked_mul(*k)?, ra * Ix::Const(*k))),
                _ if ca == 0 && cb == 0 => Some((0, self.clone())),
                _ => None,
            },
            _ if ca == 0 && cb == 0 => Some((0, self.clone())),
            _ => None,
        }
    }
}

/// Folds one operation on constants; `None` on overflow or division by zero.
fn fold(op: IxBin, a: i64, b: i64) -> Option<i64> {
    match op {
        IxBin::Add => a.checked_add(b),
        IxBin::Sub => a.checked_sub(b),
        IxBin::Mul => a.checked_mul(b),
        IxBin::FloorDiv => floor_div(a, b),
        IxBin::CeilDiv => floor_div(a.checked_add(b)?.checked_sub(1)?, b),
        IxBin::Rem => a.checked_sub(floor_div(a, b)?.checked_mul(b)?),
        IxBin::Min => Some(a.min(b)),
        IxBin::Max => Some(a.max(b)),
    }
}

fn floor_div(a: i64, b: i64) -> Option<i64> {
    if b <= 0 {
        return None;
    }
    Some(a.div_euclid(b))
}

macro_rules! leaf_from {
    ($($t:ty => $v:ident),*) => { $(impl From<$t> for Ix { fn from(x: $t) -> Ix { Ix::$v(x) } })* };
}
leaf_from!(RuntimeId => Runtime, TileId => Tile, AxisId => Axis, IterId => Iter);

macro_rules! const_from {
    ($($t:ty),*) => { $(impl From<$t> for Ix { fn from(x: $t) -> Ix { Ix::Const(i64::from(x)) } })* };
}
const_from!(i32, u32, i64);

impl From<&Ix> for Ix {
    fn from(x: &Ix) -> Ix {
        x.clone()
    }
}

macro_rules! ops {
    ($($trait:ident $f:ident $op:ident),*) => { $(
        impl<R: Into<Ix>> $trait<R> for Ix { type Output = Ix; fn $f(self, rhs: R) -> Ix { Ix::bin(IxBin::$op, self, rhs.into()) } }
        impl<R: Into<Ix>> $trait<R> for &Ix { type Output = Ix; fn $f(self, rhs: R) -> Ix { Ix::bin(IxBin::$op, self.clone(), rhs.into()) } }
    )* };
}
ops!(Add add Add, Sub sub Sub, Mul mul Mul);

impl fmt::Display for IxBin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add => "+",
            Self::Sub => "-",
            Self::Mul => "*",
            Self::FloorDiv => "/",
            Self::CeilDiv => "ceil_div",
            Self::Rem => "%",
            Self::Min => "min",
            Self::Max => "max",
        })
    }
}
