//! The map of shared memory: sizes, alignment, no two objects on the same bytes.

use crate::target::Target;

use super::violation::{At, Rule, Sink};

struct Object {
    name: String,
    start: u64,
    bytes: u64,
    align: u64,
}

pub(super) fn check(sink: &mut Sink<'_, '_>, target: &Target) {
    let p = sink.flat.program;
    if p.shared_bytes > target.shared_bytes {
        sink.fail(
            Rule::SharedSize,
            At::Item("shared_bytes"),
            format!("at most {} B on {}", target.shared_bytes, target.name),
            format!("{} B", p.shared_bytes),
        );
    }
    let mut objects = objects(sink, target);
    for o in &objects {
        if !o.start.is_multiple_of(o.align) {
            sink.fail(
                Rule::SharedAlignment,
                At::Item(&o.name),
                format!("an offset that is a multiple of {}", o.align),
                o.start.to_string(),
            );
        }
        if o.start + o.bytes > u64::from(p.shared_bytes) {
            let found = format!("bytes {}..{}", o.start, o.start + o.bytes);
            sink.fail(
                Rule::SharedSize,
                At::Item(&o.name),
                format!("inside the {} B of the CTA", p.shared_bytes),
                found,
            );
        }
    }
    objects.retain(|o| o.bytes > 0);
    objects.sort_by_key(|o| o.start);
    let mut end = 0;
    let mut before = String::new();
    for o in objects {
        if o.start < end {
            let found = format!("it starts at {}, `{before}` ends at {end}", o.start);
            sink.fail(Rule::SharedOverlap, At::Item(&o.name), "bytes of its own", found);
        }
        if o.start + o.bytes > end {
            end = o.start + o.bytes;
            before = o.name;
        }
    }
}

fn objects(sink: &mut Sink<'_, '_>, target: &Target) -> Vec<Object> {
    let p = sink.flat.program;
    let swizzle = u64::from(target.tile_alignment_bytes);
    let mut out = vec![];
    let mut add = |name: String, start: u32, bytes: u64, align: u64| {
        out.push(Object {
            name,
            start: u64::from(start),
            bytes,
            align,
        });
    };
    for r in &p.rings {
        let stages = u64::from(r.stages);
        add(
            format!("slots of ring {}", r.name),
            r.offset,
            stages * u64::from(r.slot_bytes),
            swizzle,
        );
        add(format!("full barriers of ring {}", r.name), r.full, 8 * stages, 8);
        add(format!("empty barriers of ring {}", r.name), r.empty, 8 * stages, 8);
        if r.stages > 1 && !u64::from(r.slot_bytes).is_multiple_of(swizzle) {
            sink.fail(
                Rule::SharedAlignment,
                At::Item(&r.name),
                format!("slots in steps of {swizzle} B"),
                format!("{} B", r.slot_bytes),
            );
        }
    }
    for (name, at, bytes) in &p.buffers {
        add(format!("buffer {name}"), *at, u64::from(*bytes), swizzle);
    }
    if let Some(m) = p.mailbox {
        add("mailbox word".to_owned(), m.word, 4, 4);
        add("mailbox full barrier".to_owned(), m.full, 8, 8);
        add("mailbox empty barrier".to_owned(), m.empty, 8, 8);
    }
    out
}
