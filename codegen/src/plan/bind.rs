//! Replaces tile symbols by the sizes of the schedule.

use dsl::Kernel;
use dsl::index::Ix;
use dsl::ir::{At, Extent, Op, Shape, TileType};
use dsl::schedule::Schedule;

use crate::error::{CompileError, Refusal};

/// The kernel with every tile size literal.
pub fn tiles(kernel: &Kernel, schedule: &Schedule) -> Result<Kernel, CompileError> {
    for (name, size) in &schedule.tiles {
        if *size == 0 || *size > 4096 || !size.is_multiple_of(8) {
            let fact = "a tile is loaded in groups of 8 rows";
            return Err(Refusal::new(
                format!("tiles.{name}"),
                size.to_string(),
                fact,
                "a multiple of 8 in 8..=4096",
            )
            .into());
        }
    }
    let sizes: Vec<u32> = kernel
        .tiles
        .iter()
        .filter_map(|t| schedule.tiles.get(&t.name))
        .copied()
        .collect();
    if sizes.len() < kernel.tiles.len() {
        return Err(CompileError::Refused(missing(kernel, schedule)));
    }
    Ok(Binder { sizes }.kernel(kernel))
}

/// One refusal for each size that is left out, beside what is given.
fn missing(kernel: &Kernel, schedule: &Schedule) -> Vec<Refusal> {
    let given: Vec<_> = schedule.tiles.iter().map(|(n, size)| format!("{n} = {size}")).collect();
    let given = if given.is_empty() {
        "the roles".to_owned()
    } else {
        given.join(", ")
    };
    let fact = format!("no default of it fits the registers beside {given}");
    let left_out = kernel.tiles.iter().filter(|t| !schedule.tiles.contains_key(&t.name));
    let refuse = |name: &str| {
        let allowed = "a size for it, or other sizes and roles beside it";
        Refusal::new(format!("tiles.{name}"), "a default", fact.clone(), allowed)
    };
    left_out.map(|t| refuse(&t.name)).collect()
}

struct Binder {
    sizes: Vec<u32>,
}

impl Binder {
    fn size(&self, t: dsl::index::TileId) -> u32 {
        self.sizes.get(t.0 as usize).copied().unwrap_or(0)
    }

    fn ix(&self, ix: &Ix) -> Ix {
        ix.substitute(&mut |leaf| match leaf {
            Ix::Tile(t) => Some(Ix::from(self.size(*t))),
            _ => None,
        })
    }

    fn extent(&self, e: Extent) -> Extent {
        match e {
            Extent::Tile(t) => Extent::Lit(self.size(t)),
            Extent::Lit(_) => e,
        }
    }

    fn ty(&self, ty: TileType) -> TileType {
        let shape = match ty.shape {
            Shape::Scalar => Shape::Scalar,
            Shape::Row(r) => Shape::Row(self.extent(r)),
            Shape::Col(c) => Shape::Col(self.extent(c)),
            Shape::Mat(r, c) => Shape::Mat(self.extent(r), self.extent(c)),
        };
        TileType { shape, dtype: ty.dtype }
    }

    fn at(&self, at: &mut [At]) {
        for a in at {
            match a {
                At::Point(ix) => *ix = self.ix(ix),
                At::Span { start, len } => {
                    *start = self.ix(start);
                    *len = self.extent(*len);
                }
            }
        }
    }

    fn kernel(&self, kernel: &Kernel) -> Kernel {
        let mut out = kernel.clone();
        for axis in &mut out.grid {
            axis.count = self.ix(&axis.count);
        }
        for value in &mut out.values {
            value.ty = self.ty(value.ty);
            match &mut value.op {
                Op::Load { at, .. } | Op::Store { at, .. } => self.at(at),
                Op::Mask { mask, .. } => mask.terms.iter_mut().for_each(|t| t.base = self.ix(&t.base)),
                Op::Fold(f) => {
                    f.trips = self.ix(&f.trips);
                    f.carries.iter_mut().for_each(|c| c.ty = self.ty(c.ty));
                }
                _ => {}
            }
        }
        out
    }
}
