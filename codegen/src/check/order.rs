//! The producer fills what the consumers acquire: the same loops, rings, tiles, order and coordinates.

use crate::role::{Load, Stmt};

use super::trace::{Case, Trace};
use super::violation::{At, Rule, Sink};

pub(super) fn check(sink: &mut Sink<'_, '_>, cases: &[Case]) {
    for case in cases {
        loops(sink, &case.producer, &case.consumer);
        for ring in 0..sink.flat.program.rings.len() {
            order(sink, ring, case);
        }
    }
}

/// A loop of the producer has the count of the consumer's loop of that name.
fn loops(sink: &mut Sink<'_, '_>, producer: &Trace, consumer: &Trace) {
    for (i, (key, site, digest)) in producer.loops.iter().enumerate() {
        let before = producer.loops[..i].iter().filter(|l| l.0 == *key).count();
        match consumer.loops.iter().filter(|l| l.0 == *key).nth(before) {
            None => sink.fail(
                Rule::LoopCount,
                At::Site(*site),
                "a loop that consumers have too",
                "no such loop there",
            ),
            Some((_, other, have)) if have != digest => {
                let required = format!("the count of `{}` of the consumers", sink.text(*other));
                sink.fail(Rule::LoopCount, At::Site(*site), required, "a count of another value");
            }
            Some(_) => {}
        }
    }
}

fn copy<'p>(sink: &Sink<'_, 'p>, site: u32) -> Option<(usize, &'p Load)> {
    match sink.flat.sites[site as usize].stmt {
        Stmt::Fill { ring, load } | Stmt::Acquire { ring, load, .. } => Some((ring.0 as usize, load)),
        _ => None,
    }
}

fn order(sink: &mut Sink<'_, '_>, ring: usize, case: &Case) {
    let flat = sink.flat;
    let of = |t: &Trace, sink: &Sink<'_, '_>| -> Vec<(u32, u64)> {
        t.copies
            .iter()
            .copied()
            .filter(|c| copy(sink, c.0).is_some_and(|x| x.0 == ring))
            .collect()
    };
    let (fills, acquires) = (of(&case.producer, sink), of(&case.consumer, sink));
    for (fill, acquire) in fills.iter().zip(&acquires) {
        let (Some((_, f)), Some((_, a))) = (copy(sink, fill.0), copy(sink, acquire.0)) else {
            continue;
        };
        if f.name != a.name || f.map != a.map || f.tile != a.tile {
            let required = format!(
                "`{}` [{}, {}], which `{}` awaits",
                a.name,
                a.tile.rows,
                a.tile.cols,
                sink.text(acquire.0)
            );
            sink.fail(
                Rule::FillOrder,
                At::Site(fill.0),
                required,
                format!("`{}` [{}, {}]", f.name, f.tile.rows, f.tile.cols),
            );
            return;
        }
        if fill.1 != acquire.1 {
            let required = format!("the coordinates of `{}`", sink.text(acquire.0));
            sink.fail(
                Rule::FillOrder,
                At::Site(fill.0),
                required,
                "coordinates of other values",
            );
            return;
        }
    }
    if fills.len() != acquires.len() {
        let name = format!("ring {}", flat.program.rings[ring].name);
        let last = if fills.len() > acquires.len() {
            fills.get(acquires.len())
        } else {
            acquires.get(fills.len())
        };
        let at = last.map_or(At::Item(&name), |l| At::Site(l.0));
        let found = format!(
            "{} fills and {} acquires of {name} in one block",
            fills.len(),
            acquires.len()
        );
        sink.fail(Rule::FillCount, at, "as many fills as acquires", found);
    }
}
