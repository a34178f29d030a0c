//! Dots: legal extents, layouts of register operands, extents and majorness of operands in shared memory.

use crate::role::{Dot, Layout, OperandA, Place, SmemOperand, SmemTile, Stmt};
use crate::target::Target;

use super::violation::{At, Rule, Sink};

/// Bytes that the 14-bit address field of a descriptor reaches, in units of 16 (PTX ISA 9.7.15.5.1).
const DESCRIPTOR_REACH: u64 = 1 << 18;

pub(super) fn check(sink: &mut Sink<'_, '_>, target: &Target) {
    let flat = sink.flat;
    for (site, stmt) in flat.all() {
        if let Stmt::Issue(d) = stmt {
            shape(sink, site, d, target);
            registers(sink, site, d);
            let rows = flat.program.rows_per_consumer * flat.program.consumers;
            if let OperandA::Shared(o) = &d.a {
                operand(sink, site, d, o, ("left", rows));
            }
            operand(sink, site, d, &d.b, ("right", d.cols));
            narrow(sink, site, d);
        }
        if let Stmt::WarpDot {
            acc,
            a,
            b,
            rows,
            cols,
            depth,
            dtype,
        } = stmt
        {
            let like = Dot {
                name: String::new(),
                acc: *acc,
                a: OperandA::Shared(*a),
                b: *b,
                rows: *rows,
                cols: *cols,
                depth: *depth,
                dtype: *dtype,
                accumulate: false,
                narrow: None,
            };
            warp_dot(sink, site, &like, a, target);
        }
        if let Stmt::ReadShared { handle, tile, .. } = stmt {
            loaded_as(sink, site, Place::Slot(*handle), *tile);
        }
    }
}

/// A narrow form replaces the accumulator, has a legal N of its own, and leaves out columns on the right only.
fn narrow(sink: &mut Sink<'_, '_>, site: u32, d: &Dot) {
    let Some(n) = &d.narrow else { return };
    let legal =
        n.cols > 0 && n.cols < d.cols && n.cols.is_multiple_of(if d.b.mn_major { 64 } else { 8 }) && !d.accumulate;
    if !legal || n.terms.is_empty() || n.terms.iter().any(|t| t.col_coef >= 0) {
        let found = format!(
            "{} of {} columns under {} terms{}",
            n.cols,
            d.cols,
            n.terms.len(),
            if d.accumulate { ", accumulating" } else { "" }
        );
        sink.fail(
            Rule::NarrowForm,
            At::Site(site),
            "fewer columns in steps of 8 (64 when N-major), terms that fall along the columns, an accumulator that is replaced",
            found,
        );
    }
}

/// `mma.sync` takes 16 rows, 16 columns (two at a time by `ldmatrix`) and a depth of 16; both operands K-major.
fn warp_dot(sink: &mut Sink<'_, '_>, site: u32, d: &Dot, a: &SmemOperand, target: &Target) {
    shape(sink, site, d, target);
    if !d.cols.is_multiple_of(16) {
        sink.fail(
            Rule::MmaShape,
            At::Site(site),
            "columns in steps of 16",
            d.cols.to_string(),
        );
    }
    if a.mn_major || d.b.mn_major {
        sink.fail(
            Rule::OperandExtent,
            At::Site(site),
            "K-major operands",
            "an MN-major one",
        );
    }
    registers(sink, site, d);
    let rows = sink.flat.program.rows_per_consumer * sink.flat.program.consumers;
    operand(sink, site, d, a, ("left", rows));
    operand(sink, site, d, &d.b, ("right", d.cols));
}

fn shape(sink: &mut Sink<'_, '_>, site: u32, d: &Dot, target: &Target) {
    let p = sink.flat.program;
    let at = At::Site(site);
    if d.cols == 0 || !d.cols.is_multiple_of(8) || d.cols > target.mma_n {
        sink.fail(
            Rule::MmaShape,
            at,
            format!("N in steps of 8 up to {}", target.mma_n),
            format!("N = {}", d.cols),
        );
    }
    // A second report of the same rule for one statement would be dropped, so the rest is one report.
    else if d.depth == 0 || !d.depth.is_multiple_of(16) {
        sink.fail(Rule::MmaShape, at, "K in steps of 16", format!("K = {}", d.depth));
    } else if d.rows == 0 || !d.rows.is_multiple_of(64) || d.rows != p.rows_per_consumer {
        sink.fail(
            Rule::MmaShape,
            at,
            format!("the {} rows of a warpgroup, in steps of 64", p.rows_per_consumer),
            format!("{} rows", d.rows),
        );
    } else if !d.dtype.is_16_bit() {
        sink.fail(Rule::MmaShape, at, "16-bit operands", d.dtype.to_string());
    }
}

fn registers(sink: &mut Sink<'_, '_>, site: u32, d: &Dot) {
    let p = sink.flat.program;
    let (at, slabs) = (At::Site(site), d.rows / 64);
    let acc = p.tiles[d.acc.0 as usize].layout;
    let want = Layout::Acc { slabs, cols: d.cols };
    if acc != want {
        sink.fail(Rule::AccumulatorLayout, at, format!("{want:?}"), format!("{acc:?}"));
    }
    if let OperandA::Regs(a) = d.a {
        let (have, want) = (
            p.tiles[a.0 as usize].layout,
            Layout::Packed {
                slabs,
                cols: d.depth,
                dtype: d.dtype,
            },
        );
        if have != want {
            sink.fail(Rule::OperandLayout, at, format!("{want:?}"), format!("{have:?}"));
        }
    }
}

fn operand(sink: &mut Sink<'_, '_>, site: u32, d: &Dot, o: &SmemOperand, (side, outer): (&str, u32)) {
    let at = At::Site(site);
    let want = if o.mn_major {
        SmemTile {
            rows: d.depth,
            cols: outer,
        }
    } else {
        SmemTile {
            rows: outer,
            cols: d.depth,
        }
    };
    if o.tile != want {
        let major = if o.mn_major { "MN-major" } else { "K-major" };
        sink.fail(
            Rule::OperandExtent,
            at,
            format!("a {major} {side} operand of [{}, {}]", want.rows, want.cols),
            format!("[{}, {}]", o.tile.rows, o.tile.cols),
        );
    }
    if o.mn_major && !d.dtype.is_16_bit() {
        sink.fail(
            Rule::OperandExtent,
            at,
            "16-bit types when MN-major",
            d.dtype.to_string(),
        );
    }
    reach(sink, site, o);
    loaded_as(sink, site, o.place, o.tile);
    element_type(sink, site, d, o.place);
}

fn reach(sink: &mut Sink<'_, '_>, site: u32, o: &SmemOperand) {
    let p = sink.flat.program;
    let end = match o.place {
        Place::Fixed(offset) => u64::from(offset) + u64::from(o.tile.bytes()),
        Place::Slot(h) => {
            let r = &p.rings[p.handles[h.0 as usize].1.0 as usize];
            u64::from(r.offset) + u64::from(r.stages) * u64::from(r.slot_bytes)
        }
    };
    if end > DESCRIPTOR_REACH {
        sink.fail(
            Rule::DescriptorRange,
            At::Site(site),
            format!("addresses below {DESCRIPTOR_REACH}"),
            format!("an operand that ends at {end}"),
        );
    }
}

/// The tile is the one that every load behind the handle brings.
fn loaded_as(sink: &mut Sink<'_, '_>, site: u32, place: Place, tile: SmemTile) {
    let flat = sink.flat;
    let Place::Slot(h) = place else {
        let staged = |s: &Stmt| matches!(s, Stmt::Stage { place: p, tile: t, .. } if *p == place && *t == tile);
        if !flat.all().any(|(_, s)| staged(s)) {
            sink.fail(
                Rule::OperandPlace,
                At::Site(site),
                format!("a buffer staged with [{}, {}]", tile.rows, tile.cols),
                format!("{place:?}"),
            );
        }
        return;
    };
    for (_, stmt) in flat.all() {
        if let Stmt::Acquire { handle, load, .. } = stmt
            && *handle == h
            && load.tile != tile
        {
            let required = format!("[{}, {}], as `{}` is loaded", load.tile.rows, load.tile.cols, load.name);
            return sink.fail(
                Rule::OperandPlace,
                At::Site(site),
                required,
                format!("[{}, {}]", tile.rows, tile.cols),
            );
        }
    }
}

fn element_type(sink: &mut Sink<'_, '_>, site: u32, d: &Dot, place: Place) {
    let flat = sink.flat;
    let p = flat.program;
    for (_, stmt) in flat.all() {
        if let Stmt::Acquire { handle, load, .. } = stmt
            && place == Place::Slot(*handle)
        {
            let have = p.tensors[p.maps[load.map.0 as usize].tensor as usize].dtype;
            if have != d.dtype {
                sink.fail(
                    Rule::TensorAccess,
                    At::Site(site),
                    format!("operands of {}", d.dtype),
                    format!("`{}` of {have}", load.name),
                );
            }
        }
    }
}
