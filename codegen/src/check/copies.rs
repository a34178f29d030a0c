//! Copies: boxes of tensor maps, expected bytes, coordinates, staged tiles and vector accesses.

use dsl::DType;

use crate::role::{Coord, GlobalAt, Layout, Load, MapId, Place, RegTileId, RingId, SmemTile, Stmt};
use crate::target::Target;

use super::violation::{At, Rule, Sink};

/// Elements of the contiguous dimension that a 128-byte swizzle spans.
const INNER: u32 = 64;

pub(super) fn check(sink: &mut Sink<'_, '_>, target: &Target) {
    let flat = sink.flat;
    for m in &flat.program.maps {
        for extent in &m.boxes {
            if !(1..=target.box_extent).contains(extent) {
                sink.fail(
                    Rule::BoxExtent,
                    At::Item(&m.name),
                    format!("extents in 1..={}", target.box_extent),
                    format!("{:?}", m.boxes),
                );
            }
        }
        let rank = flat.program.tensors[m.tensor as usize].dims.len();
        if m.boxes.len() != rank || !(1..=5).contains(&rank) {
            sink.fail(
                Rule::CoordRank,
                At::Item(&m.name),
                "one extent for each of 1 to 5 dimensions",
                format!("{} extents, rank {rank}", m.boxes.len()),
            );
        }
    }
    for (site, stmt) in flat.all() {
        match stmt {
            Stmt::Fill { ring, load } | Stmt::Acquire { ring, load, .. } => loaded(sink, site, *ring, load),
            Stmt::StoreStaged {
                map,
                place,
                tile,
                coords,
                ..
            } => {
                stored(
                    sink,
                    site,
                    *place,
                    &Boxes {
                        map: *map,
                        coords,
                        tile: *tile,
                    },
                );
            }
            Stmt::Stage { src, place, tile } => staged(sink, site, *src, *place, *tile),
            Stmt::ReadGlobal { dst, at } => read(sink, site, *dst, at),
            Stmt::WriteGlobal { src, at } => write(sink, site, *src, at),
            _ => {}
        }
        if let Stmt::Acquire { ring, handle, .. } | Stmt::Release { ring, handle } = stmt {
            let own = flat.program.handles[handle.0 as usize].1;
            if own != *ring {
                let name = |r: RingId| flat.program.rings[r.0 as usize].name.clone();
                sink.fail(
                    Rule::HandleRing,
                    At::Site(site),
                    format!("ring `{}` of the handle", name(own)),
                    format!("ring `{}`", name(*ring)),
                );
            }
        }
        if let Stmt::ReadShared { dst, handle, tile } = stmt {
            read_shared(sink, site, *dst, Place::Slot(*handle), *tile);
        }
    }
}

fn loaded(sink: &mut Sink<'_, '_>, site: u32, ring: RingId, load: &Load) {
    let p = sink.flat.program;
    let slot = &p.rings[ring.0 as usize];
    if load.tile.bytes() > slot.slot_bytes {
        sink.fail(
            Rule::SlotSize,
            At::Site(site),
            format!(
                "a tile of at most {} B, the slot of ring `{}`",
                slot.slot_bytes, slot.name
            ),
            format!("{} B", load.tile.bytes()),
        );
    }
    if p.tensors[p.maps[load.map.0 as usize].tensor as usize].written {
        sink.fail(
            Rule::TensorAccess,
            At::Site(site),
            "a tensor that the kernel only reads",
            "an output",
        );
    }
    tile_shape(sink, site, load.tile);
    let copy = Boxes {
        map: load.map,
        coords: &load.coords,
        tile: load.tile,
    };
    boxes(sink, site, &copy, load.tile.rows);
}

fn tile_shape(sink: &mut Sink<'_, '_>, site: u32, tile: SmemTile) {
    if !tile.cols.is_multiple_of(INNER) || !tile.rows.is_multiple_of(8) {
        sink.fail(
            Rule::TileShape,
            At::Site(site),
            "rows in steps of 8, columns in steps of 64",
            format!("[{}, {}]", tile.rows, tile.cols),
        );
    }
}

/// A copy between a tensor and a tile.
#[derive(Clone, Copy)]
struct Boxes<'c> {
    map: MapId,
    coords: &'c [Coord],
    tile: SmemTile,
}

/// The boxes of one copy bring exactly `rows` rows of the tile, 64 columns at a time.
fn boxes(sink: &mut Sink<'_, '_>, site: u32, copy: &Boxes<'_>, rows: u32) {
    let (p, Boxes { map, coords, tile }) = (sink.flat.program, *copy);
    let m = &p.maps[map.0 as usize];
    let tensor = &p.tensors[m.tensor as usize];
    if !tensor.dtype.is_16_bit() {
        sink.fail(
            Rule::TensorAccess,
            At::Site(site),
            "16-bit elements",
            format!("{} of `{}`", tensor.dtype, tensor.name),
        );
    }
    if coords.len() != tensor.dims.len() || m.boxes.len() != coords.len() {
        let found = format!("{} coordinates, {} box extents", coords.len(), m.boxes.len());
        sink.fail(
            Rule::CoordRank,
            At::Site(site),
            format!("{} of each, the rank of `{}`", tensor.dims.len(), tensor.name),
            found,
        );
        return;
    }
    let spans = |f: &dyn Fn(&Coord) -> bool| coords.iter().filter(|c| f(c)).count();
    let (row_spans, col_spans) = (
        spans(&|c| matches!(c, Coord::Rows(_))),
        spans(&|c| matches!(c, Coord::Cols(_))),
    );
    if row_spans != 1 || col_spans != 1 || !matches!(coords.last(), Some(Coord::Cols(_))) {
        sink.fail(
            Rule::BoxShape,
            At::Site(site),
            "one row span, and the column span last",
            format!("{row_spans} row and {col_spans} column spans"),
        );
    }
    let want: Vec<u32> = coords
        .iter()
        .map(|c| match c {
            Coord::Point(_) => 1,
            Coord::Rows(_) => rows,
            Coord::Cols(_) => INNER,
        })
        .collect();
    if want != m.boxes {
        sink.fail(
            Rule::BoxShape,
            At::Site(site),
            format!("a box of {want:?}"),
            format!("{:?}", m.boxes),
        );
    }
    let of_box = m
        .boxes
        .iter()
        .map(|e| u64::from(*e))
        .fold(u64::from(tensor.dtype.bytes()), u64::saturating_mul);
    let brought = of_box.saturating_mul(u64::from(tile.boxes()));
    let expected = u64::from(rows) * 128 * u64::from(tile.boxes());
    if brought != expected {
        let required = format!("{expected} B, what is expected of {} boxes", tile.boxes());
        sink.fail(
            Rule::ExpectBytes,
            At::Site(site),
            required,
            format!("{brought} B from boxes of {:?} {}", m.boxes, tensor.dtype),
        );
    }
}

fn stored(sink: &mut Sink<'_, '_>, site: u32, place: Place, copy: &Boxes<'_>) {
    let (p, Boxes { map, tile, .. }) = (sink.flat.program, *copy);
    if !p.tensors[p.maps[map.0 as usize].tensor as usize].written {
        sink.fail(
            Rule::TensorAccess,
            At::Site(site),
            "an output",
            "a tensor that the kernel only reads",
        );
    }
    tile_shape(sink, site, tile);
    boxes(sink, site, copy, p.rows_per_consumer);
    fits(sink, site, place, tile);
}

fn staged(sink: &mut Sink<'_, '_>, site: u32, src: RegTileId, place: Place, tile: SmemTile) {
    let p = sink.flat.program;
    match p.tiles[src.0 as usize].layout {
        Layout::Packed { slabs, cols, .. }
            if slabs * 64 == p.rows_per_consumer
                && cols == tile.cols
                && tile.rows == p.rows_per_consumer * p.consumers => {}
        have => {
            let required = format!(
                "packed [{}, {}] into a tile of {} rows",
                p.rows_per_consumer,
                tile.cols,
                p.rows_per_consumer * p.consumers
            );
            sink.fail(
                Rule::CalcLayout,
                At::Site(site),
                required,
                format!("{have:?} into {} rows", tile.rows),
            );
        }
    }
    fits(sink, site, place, tile);
}

fn read_shared(sink: &mut Sink<'_, '_>, site: u32, dst: RegTileId, place: Place, tile: SmemTile) {
    let p = sink.flat.program;
    let rows = p.rows_per_consumer * p.consumers;
    match p.tiles[dst.0 as usize].layout {
        Layout::Packed { slabs, cols, .. }
            if slabs * 64 == p.rows_per_consumer && cols == tile.cols && tile.rows == rows => {}
        have => sink.fail(
            Rule::CalcLayout,
            At::Site(site),
            format!("packed [{}, {}] of {rows} rows", p.rows_per_consumer, tile.cols),
            format!("{have:?} of {} rows", tile.rows),
        ),
    }
    fits(sink, site, place, tile);
}

/// The place has room, and is one that the program declares.
fn fits(sink: &mut Sink<'_, '_>, site: u32, place: Place, tile: SmemTile) {
    let p = sink.flat.program;
    let room = match place {
        Place::Slot(h) => Some(p.rings[p.handles[h.0 as usize].1.0 as usize].slot_bytes),
        Place::Fixed(at) => p.buffers.iter().find(|b| b.1 == at).map(|b| b.2),
    };
    match room {
        None => sink.fail(
            Rule::OperandPlace,
            At::Site(site),
            "the start of a declared buffer",
            format!("{place:?}"),
        ),
        Some(room) if room < tile.bytes() => sink.fail(
            Rule::SlotSize,
            At::Site(site),
            format!("at most {room} B"),
            format!("{} B", tile.bytes()),
        ),
        Some(_) => {}
    }
}

fn vector(sink: &mut Sink<'_, '_>, site: u32, at: &GlobalAt, written: bool) {
    let p = sink.flat.program;
    let tensor = &p.tensors[p.pointers[at.pointer as usize].tensor as usize];
    if tensor.dtype != DType::F32 || tensor.written != written {
        let found = format!(
            "{} `{}`{}",
            tensor.dtype,
            tensor.name,
            if tensor.written { ", an output" } else { "" }
        );
        sink.fail(
            Rule::TensorAccess,
            At::Site(site),
            format!("an f32 {}", if written { "output" } else { "input" }),
            found,
        );
    }
    let spans = at.coords.iter().filter(|c| !matches!(c, Coord::Point(_))).count();
    if at.coords.len() != tensor.dims.len() || spans != 1 {
        let found = format!("{} coordinates, {spans} spans", at.coords.len());
        sink.fail(
            Rule::CoordRank,
            At::Site(site),
            format!("{} coordinates, one span", tensor.dims.len()),
            found,
        );
    }
}

fn read(sink: &mut Sink<'_, '_>, site: u32, dst: RegTileId, at: &GlobalAt) {
    vector(sink, site, at, false);
    let have = sink.flat.program.tiles[dst.0 as usize].layout;
    if !matches!(have, Layout::Row { .. } | Layout::Col { .. }) {
        sink.fail(
            Rule::CalcLayout,
            At::Site(site),
            "one f32 per row or column",
            format!("{have:?}"),
        );
    }
}

fn write(sink: &mut Sink<'_, '_>, site: u32, src: RegTileId, at: &GlobalAt) {
    vector(sink, site, at, true);
    let have = sink.flat.program.tiles[src.0 as usize].layout;
    if !matches!(have, Layout::Row { slabs } if slabs * 64 == sink.flat.program.rows_per_consumer) {
        sink.fail(
            Rule::CalcLayout,
            At::Site(site),
            "one f32 for each row of the warpgroup",
            format!("{have:?}"),
        );
    }
}
