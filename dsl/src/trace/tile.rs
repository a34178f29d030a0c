//! Tile handles: the operators a kernel is written with.

use std::ops::{Add, BitAnd, Div, Mul, Neg, Sub};
use std::rc::Rc;

use super::{Shared, here};
use crate::dtype::DType;
use crate::index::Ix;
use crate::ir::{
    BinaryOp, CmpOp, Extent, Mask, Op, Operand, Position, ReduceOp, Shape, Site, TileType, UnaryOp, ValueId,
};

/// A tile value of the kernel being traced.
#[derive(Clone)]
pub struct Tile {
    pub(crate) graph: Shared,
    pub(crate) id: ValueId,
}

/// A matrix as a dot operand, possibly transposed.
#[derive(Clone)]
pub struct View {
    tile: Tile,
    transposed: bool,
}

impl From<&Tile> for View {
    fn from(tile: &Tile) -> Self {
        View {
            tile: tile.clone(),
            transposed: false,
        }
    }
}
impl From<Tile> for View {
    fn from(tile: Tile) -> Self {
        View {
            tile,
            transposed: false,
        }
    }
}

/// A comparison waiting for its two branches.
#[derive(Clone)]
pub struct Condition {
    cmp: CmpOp,
    lhs: Tile,
    rhs: Tile,
}

impl Condition {
    /// `then` where the comparison holds, `otherwise` elsewhere.
    #[must_use]
    #[track_caller]
    pub fn select(&self, then: &Tile, otherwise: &Tile) -> Tile {
        let (site, tiles) = (here(), [&self.lhs, &self.rhs, then, otherwise]);
        let shape = tiles.iter().try_fold(Shape::Scalar, |s, t| join(s, t.shape())).unwrap_or_else(|| {
            let shapes = tiles.map(|t| format!("{:?}", t.shape())).join(", ");
            then.error(site.clone(), format!("select over {shapes}; allowed: equal shapes, or a row, column or scalar broadcast over a matrix"));
            then.shape()
        });
        tiles.iter().for_each(|t| then.same_kernel(t, &site));
        self.lhs.float_only("comparison", site.clone());
        self.rhs.float_only("comparison", site.clone());
        if then.dtype() != otherwise.dtype() {
            then.error(
                site.clone(),
                format!(
                    "select between {} and {}; the branches must have one element type",
                    then.dtype(),
                    otherwise.dtype()
                ),
            );
        }
        let op = Op::Select {
            cmp: self.cmp,
            lhs: self.lhs.id,
            rhs: self.rhs.id,
            then: then.id,
            otherwise: otherwise.id,
        };
        then.emit(
            op,
            TileType {
                shape,
                dtype: then.dtype(),
            },
            site,
        )
    }
}

/// The shape two values broadcast to, if they do.
pub(crate) fn join(a: Shape, b: Shape) -> Option<Shape> {
    match (a, b) {
        (x, y) if x == y => Some(x),
        (Shape::Scalar, x) | (x, Shape::Scalar) => Some(x),
        (Shape::Mat(r, c), Shape::Row(r2)) | (Shape::Row(r2), Shape::Mat(r, c)) if r == r2 => Some(Shape::Mat(r, c)),
        (Shape::Mat(r, c), Shape::Col(c2)) | (Shape::Col(c2), Shape::Mat(r, c)) if c == c2 => Some(Shape::Mat(r, c)),
        _ => None,
    }
}

impl Tile {
    fn emit(&self, op: Op, ty: TileType, site: Site) -> Tile {
        let id = self.graph.borrow_mut().emit(op, ty, site);
        Tile {
            graph: self.graph.clone(),
            id,
        }
    }

    fn error(&self, site: Site, message: String) {
        self.graph.borrow_mut().error(site, message);
    }

    /// Values of two kernels cannot meet: ids mean something else there.
    pub(crate) fn same_kernel(&self, other: &Tile, site: &Site) {
        if !Rc::ptr_eq(&self.graph, &other.graph) {
            self.error(
                site.clone(),
                "a value of another kernel is used here; trace each kernel with its own values".to_owned(),
            );
        }
    }

    pub(crate) fn ty(&self) -> TileType {
        self.graph.borrow().value(self.id).ty
    }

    /// The shape of the tile.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.ty().shape
    }

    /// The element type of the tile.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.ty().dtype
    }

    /// Names the value: schedules, messages and PTX speak of it by this name.
    #[must_use]
    #[track_caller]
    pub fn named(self, name: &str) -> Tile {
        let mut g = self.graph.borrow_mut();
        let taken = g.kernel.values.iter().any(|v| v.name.as_deref() == Some(name));
        if taken {
            g.error(
                here(),
                format!("two values are called `{name}`; names are unique within a kernel"),
            );
        }
        g.kernel.values[self.id.0 as usize].name = Some(name.to_owned());
        drop(g);
        self
    }

    /// The transposed view, for [`Tile::dot`].
    #[must_use]
    pub fn t(&self) -> View {
        View {
            tile: self.clone(),
            transposed: true,
        }
    }

    /// `self · rhs` with f32 accumulation: `[m, k] · [k, n] -> [m, n]`.
    #[must_use]
    #[track_caller]
    pub fn dot(&self, rhs: impl Into<View>) -> Tile {
        View::from(self).dot(rhs)
    }

    #[track_caller]
    fn unary(&self, op: UnaryOp) -> Tile {
        self.float_only(&format!("{op:?}"), here());
        self.emit(Op::Unary(op, self.id), self.ty(), here())
    }

    fn float_only(&self, what: &str, site: Site) {
        let dtype = self.dtype();
        if dtype != DType::F32 {
            self.graph.borrow_mut().error(
                site,
                format!("{what} of a {dtype} tile; arithmetic is f32: cast it first"),
            );
        }
    }

    /// The larger of the two, element by element.
    #[must_use]
    #[track_caller]
    pub fn max(&self, rhs: &Tile) -> Tile {
        self.binary(BinaryOp::Max, rhs, here())
    }
    /// The smaller of the two, element by element.
    #[must_use]
    #[track_caller]
    pub fn min(&self, rhs: &Tile) -> Tile {
        self.binary(BinaryOp::Min, rhs, here())
    }

    fn binary(&self, op: BinaryOp, rhs: &Tile, site: Site) -> Tile {
        let (a, b) = (self.ty(), rhs.ty());
        let shape = join(a.shape, b.shape).unwrap_or_else(|| {
            let message = format!(
                "{op:?} of {:?} and {:?}; allowed: equal shapes, or a row, column or scalar broadcast over a matrix",
                a.shape, b.shape
            );
            self.graph.borrow_mut().error(site.clone(), message);
            a.shape
        });
        self.same_kernel(rhs, &site);
        self.float_only(&format!("{op:?}"), site.clone());
        rhs.float_only(&format!("{op:?}"), site.clone());
        self.emit(
            Op::Binary(op, self.id, rhs.id),
            TileType {
                shape,
                dtype: DType::F32,
            },
            site,
        )
    }

    /// Rounds (to nearest, ties to even) or widens to `dtype`.
    #[must_use]
    #[track_caller]
    pub fn cast(&self, dtype: DType) -> Tile {
        self.emit(
            Op::Cast(self.id),
            TileType {
                shape: self.shape(),
                dtype,
            },
            here(),
        )
    }

    /// Sum over the columns, `[rows, cols] -> [rows]`.
    #[must_use]
    #[track_caller]
    pub fn row_sum(&self) -> Tile {
        self.reduce(ReduceOp::Sum, here())
    }

    /// Maximum over the columns, `[rows, cols] -> [rows]`.
    #[must_use]
    #[track_caller]
    pub fn row_max(&self) -> Tile {
        self.reduce(ReduceOp::Max, here())
    }

    fn reduce(&self, op: ReduceOp, site: Site) -> Tile {
        let ty = self.ty();
        let shape = if let Shape::Mat(r, _) = ty.shape {
            Shape::Row(r)
        } else {
            self.graph.borrow_mut().error(
                site.clone(),
                format!("row reduction of {:?}; only a matrix has columns to reduce", ty.shape),
            );
            ty.shape
        };
        self.float_only(&format!("row {op:?}"), site.clone());
        self.emit(
            Op::Reduce(op, self.id),
            TileType {
                shape,
                dtype: DType::F32,
            },
            site,
        )
    }

    /// Keeps the elements where `mask` holds and puts `fill` elsewhere.
    #[must_use]
    #[track_caller]
    pub fn mask(&self, mask: &Mask, fill: f32) -> Tile {
        let shape = self.shape();
        if !matches!(shape, Shape::Mat(..)) {
            self.error(
                here(),
                format!("mask of {shape:?}; a mask speaks of rows and columns of a matrix"),
            );
        }
        self.emit(
            Op::Mask {
                src: self.id,
                mask: mask.clone(),
                fill,
            },
            self.ty(),
            here(),
        )
    }

    /// `self < rhs`, to be turned into a value by [`Condition::select`].
    #[must_use]
    pub fn lt(&self, rhs: &Tile) -> Condition {
        Condition {
            cmp: CmpOp::Lt,
            lhs: self.clone(),
            rhs: rhs.clone(),
        }
    }
    /// `self > rhs`.
    #[must_use]
    pub fn gt(&self, rhs: &Tile) -> Condition {
        Condition {
            cmp: CmpOp::Gt,
            lhs: self.clone(),
            rhs: rhs.clone(),
        }
    }
    /// `self == rhs`.
    #[must_use]
    pub fn equals(&self, rhs: &Tile) -> Condition {
        Condition {
            cmp: CmpOp::Eq,
            lhs: self.clone(),
            rhs: rhs.clone(),
        }
    }
}

impl View {
    fn extents(&self) -> Option<(Extent, Extent)> {
        match (self.tile.shape(), self.transposed) {
            (Shape::Mat(r, c), false) => Some((r, c)),
            (Shape::Mat(r, c), true) => Some((c, r)),
            _ => None,
        }
    }

    /// See [`Tile::dot`].
    #[must_use]
    #[track_caller]
    pub fn dot(&self, rhs: impl Into<View>) -> Tile {
        let (rhs, site) = (rhs.into(), here());
        let tile = &self.tile;
        tile.same_kernel(&rhs.tile, &site);
        let error = |m: String| tile.graph.borrow_mut().error(site.clone(), m);
        let shape = match (self.extents(), rhs.extents()) {
            (Some((m, ka)), Some((kb, n))) => {
                if ka != kb {
                    error(format!(
                        "dot of [{m:?}, {ka:?}] and [{kb:?}, {n:?}]; the inner extents must be equal"
                    ));
                }
                Shape::Mat(m, n)
            }
            _ => {
                error("dot of something that is not a matrix".into());
                Shape::Scalar
            }
        };
        let (da, db) = (tile.dtype(), rhs.tile.dtype());
        if da != db || !da.is_16_bit() {
            error(format!("dot of {da} and {db}; allowed: bf16 with bf16, f16 with f16"));
        }
        let op = Op::Dot {
            a: Operand {
                value: tile.id,
                transposed: self.transposed,
            },
            b: Operand {
                value: rhs.tile.id,
                transposed: rhs.transposed,
            },
        };
        tile.emit(
            op,
            TileType {
                shape,
                dtype: DType::F32,
            },
            site,
        )
    }
}

/// Element-wise functions of one argument: documentation, method, operation.
macro_rules! unary_methods {
    ($($doc:literal $f:ident $op:ident),* $(,)?) => {
        impl Tile { $(
            #[doc = $doc]
            #[must_use]
            #[track_caller]
            pub fn $f(&self) -> Tile {
                self.unary(UnaryOp::$op)
            }
        )* }
    };
}
unary_methods! {
    "`2^self`." exp2 Exp2,
    "Base-two logarithm." log2 Log2,
    "`1 / self`." recip Recip,
    "Hyperbolic tangent." tanh Tanh,
    "Magnitude." abs Abs,
    "Square root." sqrt Sqrt,
}

macro_rules! tile_ops {
    ($($trait:ident $f:ident $op:ident),*) => { $(
        impl $trait<&Tile> for &Tile { type Output = Tile; #[track_caller] fn $f(self, rhs: &Tile) -> Tile { self.binary(BinaryOp::$op, rhs, here()) } }
        impl $trait<Tile> for Tile { type Output = Tile; #[track_caller] fn $f(self, rhs: Tile) -> Tile { self.binary(BinaryOp::$op, &rhs, here()) } }
        impl $trait<&Tile> for Tile { type Output = Tile; #[track_caller] fn $f(self, rhs: &Tile) -> Tile { self.binary(BinaryOp::$op, rhs, here()) } }
        impl $trait<Tile> for &Tile { type Output = Tile; #[track_caller] fn $f(self, rhs: Tile) -> Tile { self.binary(BinaryOp::$op, &rhs, here()) } }
        impl $trait<f32> for Tile { type Output = Tile; #[track_caller] fn $f(self, rhs: f32) -> Tile { let c = self.number(rhs, here()); self.binary(BinaryOp::$op, &c, here()) } }
        impl $trait<f32> for &Tile { type Output = Tile; #[track_caller] fn $f(self, rhs: f32) -> Tile { let c = self.number(rhs, here()); self.binary(BinaryOp::$op, &c, here()) } }
    )* };
}
tile_ops!(Add add Add, Sub sub Sub, Mul mul Mul, Div div Div);

impl Tile {
    fn number(&self, value: f32, site: Site) -> Tile {
        self.emit(
            Op::Const(value),
            TileType {
                shape: Shape::Scalar,
                dtype: DType::F32,
            },
            site,
        )
    }
}

impl Neg for &Tile {
    type Output = Tile;
    #[track_caller]
    fn neg(self) -> Tile {
        self.unary(UnaryOp::Neg)
    }
}

/// The column of an element, counted from `base` at the tile's first column.
#[must_use]
pub fn cols(base: impl Into<Ix>) -> Position {
    Position {
        row_coef: 0,
        col_coef: 1,
        base: base.into(),
    }
}

/// The row of an element, counted from `base` at the tile's first row.
#[must_use]
pub fn rows(base: impl Into<Ix>) -> Position {
    Position {
        row_coef: 1,
        col_coef: 0,
        base: base.into(),
    }
}

impl From<Ix> for Position {
    fn from(base: Ix) -> Self {
        Position {
            row_coef: 0,
            col_coef: 0,
            base,
        }
    }
}
impl From<&Ix> for Position {
    fn from(base: &Ix) -> Self {
        base.clone().into()
    }
}

impl<R: Into<Position>> Add<R> for Position {
    type Output = Position;
    fn add(self, rhs: R) -> Position {
        let rhs = rhs.into();
        Position {
            row_coef: self.row_coef + rhs.row_coef,
            col_coef: self.col_coef + rhs.col_coef,
            base: self.base + rhs.base,
        }
    }
}

impl<R: Into<Position>> Sub<R> for Position {
    type Output = Position;
    fn sub(self, rhs: R) -> Position {
        let rhs = rhs.into();
        Position {
            row_coef: self.row_coef - rhs.row_coef,
            col_coef: self.col_coef - rhs.col_coef,
            base: self.base - rhs.base,
        }
    }
}

impl Position {
    /// `self < rhs`.
    #[must_use]
    pub fn lt(self, rhs: impl Into<Position>) -> Mask {
        Mask {
            terms: vec![rhs.into() - self - Ix::from(1)],
        }
    }
    /// `self <= rhs`.
    #[must_use]
    pub fn le(self, rhs: impl Into<Position>) -> Mask {
        Mask {
            terms: vec![rhs.into() - self],
        }
    }
    /// `self >= rhs`.
    #[must_use]
    pub fn ge(self, rhs: impl Into<Position>) -> Mask {
        Mask {
            terms: vec![self - rhs.into()],
        }
    }
}

impl BitAnd for Mask {
    type Output = Mask;
    fn bitand(mut self, rhs: Mask) -> Mask {
        self.terms.extend(rhs.terms);
        self
    }
}
