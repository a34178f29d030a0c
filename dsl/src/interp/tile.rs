//! Tile values of the interpreter, and element-wise work with broadcasting.

/// `rows * cols` numbers, row by row; vectors and scalars have one row, one column or both.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TileData {
    pub rows: usize,
    pub cols: usize,
    pub data: Vec<f64>,
}

impl TileData {
    pub fn filled((rows, cols): (usize, usize), value: f64) -> Self {
        Self {
            rows,
            cols,
            data: vec![value; rows * cols],
        }
    }

    /// Step from one row, and from one column, to the next: zero along a broadcast dimension.
    fn steps(&self) -> (usize, usize) {
        (if self.rows == 1 { 0 } else { self.cols }, usize::from(self.cols != 1))
    }

    /// `f` of the elements of `args` at every place of a `[rows, cols]` tile.
    pub fn map<const N: usize>(
        (rows, cols): (usize, usize),
        args: [&TileData; N],
        f: impl Fn([f64; N]) -> f64,
    ) -> Self {
        let steps = args.map(TileData::steps);
        let mut data = Vec::with_capacity(rows * cols);
        for r in 0..rows {
            for c in 0..cols {
                let at = |n: usize| args[n].data[r * steps[n].0 + c * steps[n].1];
                data.push(f(std::array::from_fn(at)));
            }
        }
        Self { rows, cols, data }
    }

    /// One row.
    pub fn row(&self, r: usize) -> &[f64] {
        &self.data[r * self.cols..][..self.cols]
    }

    /// `[rows, cols] -> [cols, rows]`.
    pub fn transposed(&self) -> Self {
        let mut data = Vec::with_capacity(self.data.len());
        for c in 0..self.cols {
            data.extend((0..self.rows).map(|r| self.data[r * self.cols + c]));
        }
        Self {
            rows: self.cols,
            cols: self.rows,
            data,
        }
    }
}
