//! What the other rules rely on: ids name something, extents are sane, statements stand in their role.

use crate::role::{Calc, Expr, Layout, Place, SmemTile, Stmt};

use super::access;
use super::violation::{At, Rule, Sink};

/// Largest extent of a tile: far above what the hardware takes, far below an overflow.
const EXTENT: u32 = 4096;
/// Deepest nesting of loops that the trip counts are enumerated for.
const DEPTH: usize = 4;

pub(super) fn check(sink: &mut Sink<'_, '_>) {
    declarations(sink);
    let flat = sink.flat;
    if flat.depth > DEPTH {
        sink.fail(
            Rule::LoopNesting,
            At::Item("loops"),
            format!("at most {DEPTH} deep"),
            format!("{} deep", flat.depth),
        );
    }
    for (site, stmt) in flat.all() {
        role(sink, site, stmt, flat.sites[site as usize].producer);
        statement(sink, site, stmt);
        repair(sink, stmt, site);
        access::exprs(stmt, &mut |e| expr(sink, At::Site(site), e));
    }
}

fn declarations(sink: &mut Sink<'_, '_>) {
    let p = sink.flat.program;
    let tensors = p.tensors.len();
    for m in &p.maps {
        id(sink, At::Item(&m.name), "tensor", m.tensor, tensors);
    }
    for x in &p.pointers {
        id(sink, At::Item("pointers"), "tensor", x.tensor, tensors);
    }
    for (name, ring) in &p.handles {
        id(sink, At::Item(name), "ring", ring.0, p.rings.len());
    }
    for axis in &p.grid.axes {
        id(sink, At::Item(&axis.name), "variable", axis.var.0, p.vars.len());
        expr(sink, At::Item(&axis.name), &axis.count);
    }
    if p.grid.inner >= p.grid.axes.len() {
        sink.fail(
            Rule::UnknownId,
            At::Item("grid"),
            format!("an inner axis below {}", p.grid.axes.len()),
            p.grid.inner.to_string(),
        );
    }
    for t in &p.tensors {
        t.dims.iter().for_each(|d| expr(sink, At::Item(&t.name), d));
    }
    for t in &p.tiles {
        let (slabs, cols) = match t.layout {
            Layout::Acc { slabs, cols } | Layout::Packed { slabs, cols, .. } => (slabs, cols),
            Layout::Row { slabs } | Layout::RowPartial { slabs } => (slabs, 8),
            Layout::Col { cols } => (1, cols),
            Layout::Scalar => (1, 8),
        };
        if !(1..=4).contains(&slabs) || cols == 0 || cols > EXTENT || !cols.is_multiple_of(8) {
            sink.fail(
                Rule::Extent,
                At::Item(&t.name),
                "1 to 4 slabs of 64 rows, columns in steps of 8",
                format!("{:?}", t.layout),
            );
        }
    }
    for r in &p.rings {
        if r.stages == 0 || r.stages > EXTENT {
            sink.fail(
                Rule::Extent,
                At::Item(&r.name),
                "at least one slot",
                format!("{} slots", r.stages),
            );
        }
    }
    if !(1..=3).contains(&p.consumers)
        || !(1..=256).contains(&p.rows_per_consumer)
        || !(1..=4).contains(&p.producer_warps)
    {
        let found = format!(
            "{} consumers of {} rows, {} producer warps",
            p.consumers, p.rows_per_consumer, p.producer_warps
        );
        sink.fail(
            Rule::Warpgroups,
            At::Item("consumers"),
            "1 to 3 consumer warpgroups of 64, 128, 192 or 256 rows, 1 to 4 producer warps",
            found,
        );
    }
}

fn id(sink: &mut Sink<'_, '_>, at: At<'_>, what: &str, id: u32, len: usize) {
    if id as usize >= len {
        sink.fail(
            Rule::UnknownId,
            at,
            format!("a {what} below {len}"),
            format!("{what} {id}"),
        );
    }
}

fn expr(sink: &mut Sink<'_, '_>, at: At<'_>, e: &Expr) {
    let (vars, sizes) = (sink.flat.program.vars.len(), sink.flat.program.runtime.len());
    access::leaves(e, &mut |leaf| match leaf {
        Expr::Var(v) => id(sink, at, "variable", v.0, vars),
        Expr::Runtime(i) => id(sink, at, "runtime size", *i, sizes),
        _ => {}
    });
}

fn role(sink: &mut Sink<'_, '_>, site: u32, stmt: &Stmt, producer: bool) {
    let legal = match stmt {
        Stmt::Note(_) | Stmt::Set { .. } | Stmt::Loop { .. } => true,
        Stmt::Fill { .. } => producer,
        _ => !producer,
    };
    if !legal {
        let required = if producer {
            "the producer only fills"
        } else {
            "consumers do not fill"
        };
        sink.fail(Rule::RoleStatement, At::Site(site), required, "this statement");
    }
}

/// Warps part ways at a repair, so that nothing in it may need a warpgroup (`.aligned` instructions, barriers, arrivals).
fn repair(sink: &mut Sink<'_, '_>, stmt: &Stmt, site: u32) {
    let Stmt::Repair { body, .. } = stmt else { return };
    if !body
        .iter()
        .all(|s| matches!(s, Stmt::Note(_) | Stmt::Calc { .. } | Stmt::WarpDot { .. }))
    {
        sink.fail(
            Rule::RoleStatement,
            At::Site(site),
            "only calculations and dots of one warp",
            "a statement that needs the warpgroup",
        );
    }
}

fn statement(sink: &mut Sink<'_, '_>, site: u32, stmt: &Stmt) {
    let p = sink.flat.program;
    let at = At::Site(site);
    access::reads(stmt, &mut |t| id(sink, at, "register tile", t, p.tiles.len()));
    access::params(stmt, &mut |i| id(sink, at, "scalar", i, p.scalars.len()));
    if let Some(t) = access::written(stmt) {
        id(sink, at, "register tile", t, p.tiles.len());
    }
    match stmt {
        Stmt::Set { var, .. } => id(sink, at, "variable", var.0, p.vars.len()),
        Stmt::Fill { ring, load } => {
            id(sink, at, "ring", ring.0, p.rings.len());
            id(sink, at, "tensor map", load.map.0, p.maps.len());
            extent(sink, site, load.tile);
        }
        Stmt::Acquire { ring, handle, load } => {
            id(sink, at, "ring", ring.0, p.rings.len());
            id(sink, at, "handle", handle.0, p.handles.len());
            id(sink, at, "tensor map", load.map.0, p.maps.len());
            extent(sink, site, load.tile);
        }
        Stmt::Release { ring, handle } => {
            id(sink, at, "ring", ring.0, p.rings.len());
            id(sink, at, "handle", handle.0, p.handles.len());
        }
        Stmt::Issue(d) => {
            let a = if let crate::role::OperandA::Shared(o) = d.a {
                Some(o)
            } else {
                None
            };
            for o in a.into_iter().chain([d.b]) {
                place(sink, site, o.place);
                extent(sink, site, o.tile);
            }
        }
        Stmt::WarpDot { a, b, .. } => {
            for o in [a, b] {
                place(sink, site, o.place);
                extent(sink, site, o.tile);
            }
        }
        Stmt::ReadShared { handle, tile, .. } => {
            id(sink, at, "handle", handle.0, p.handles.len());
            extent(sink, site, *tile);
        }
        Stmt::Stage { place: to, tile, .. } => {
            place(sink, site, *to);
            extent(sink, site, *tile);
        }
        Stmt::StoreStaged {
            map, place: from, tile, ..
        } => {
            id(sink, at, "tensor map", map.0, p.maps.len());
            place(sink, site, *from);
            extent(sink, site, *tile);
        }
        Stmt::ReadGlobal { at: g, .. } | Stmt::WriteGlobal { at: g, .. } => {
            id(sink, at, "pointer", g.pointer, p.pointers.len())
        }
        Stmt::Calc {
            calc: Calc::Exp2Mixed { every: 0, .. },
            ..
        } => {
            sink.fail(Rule::Extent, at, "every n-th element, n at least 1", "every 0");
        }
        _ => {}
    }
}

fn place(sink: &mut Sink<'_, '_>, site: u32, place: Place) {
    if let Place::Slot(h) = place {
        id(sink, At::Site(site), "handle", h.0, sink.flat.program.handles.len());
    }
}

fn extent(sink: &mut Sink<'_, '_>, site: u32, tile: SmemTile) {
    if tile.rows == 0 || tile.cols == 0 || tile.rows > EXTENT || tile.cols > EXTENT {
        sink.fail(
            Rule::Extent,
            At::Site(site),
            format!("extents in 1..={EXTENT}"),
            format!("[{}, {}]", tile.rows, tile.cols),
        );
    }
}
