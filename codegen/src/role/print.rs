//! The readable text form of a role program: one statement per line, names instead of numbers, deterministic.
//!
//! ```text
//! consumer:
//!   trips = ceil(n / 128)
//!   loop kv (trips) {
//!     acquire k: k[128, 64] from k_map at [batch, rows now * 128, cols 0]
//!     fence
//!     issue s: s#3 = q.slot[128, 64] x k.slot[128, 64] as [64, 128, 64] bf16
//!     wait 0
//!   }
//! ```
//! Register tiles carry their number (`s#3`), since several tiles of a program may have one name.

use dsl::IxBin;
use dsl::schedule::{Cache, Persistence};

use super::{
    Calc, Coord, Dot, Expr, GlobalAt, GridPlan, Layout, Load, OperandA, Place, RegTileId, RoleProgram, SmemOperand,
    SmemTile, Src, Stmt, Term,
};

/// Prints a whole program.
#[must_use]
pub fn print(p: &RoleProgram) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(text.trim_end());
        out.push('\n');
    };
    line(format!("program {}", p.name));
    for text in facts(p).into_iter().chain(memory(p)).chain(registers(p)) {
        line(format!("  {text}"));
    }
    for (role, body) in [("producer", &p.producer), ("consumer", &p.consumer)] {
        line(format!("{role}:"));
        let mut lines = vec![];
        block(p, body, 1, &mut lines);
        lines.into_iter().for_each(&mut line);
    }
    out
}

fn facts(p: &RoleProgram) -> Vec<String> {
    let mut out = vec![
        format!(
            "consumers {} x {} rows, ping-pong {}",
            p.consumers, p.rows_per_consumer, p.ping_pong
        ),
        format!(
            "registers producer {}, consumer {}",
            p.producer_registers, p.consumer_registers
        ),
        format!("runtime {}", p.runtime.join(", ")),
    ];
    out.extend(
        p.scalars
            .iter()
            .map(|(name, positive)| format!("scalar {name}{}", if *positive { " > 0" } else { "" })),
    );
    out.extend(p.tensors.iter().map(|t| {
        let dims: Vec<_> = t.dims.iter().map(|d| expr(p, d)).collect();
        format!(
            "tensor {} {} [{}]{}",
            t.name,
            t.dtype,
            dims.join(", "),
            if t.written { " written" } else { "" }
        )
    }));
    out.extend(p.maps.iter().map(|m| {
        format!(
            "map {} of {}, box {:?}, promotion {} B",
            m.name,
            tensor(p, m.tensor),
            m.boxes,
            m.l2_promotion
        )
    }));
    out.extend(p.pointers.iter().map(|x| format!("pointer {}", tensor(p, x.tensor))));
    out.push(grid(p, &p.grid));
    out
}

fn grid(p: &RoleProgram, g: &GridPlan) -> String {
    let persistence = match g.persistence {
        Persistence::None => "none",
        Persistence::Static => "static",
        Persistence::Dynamic => "dynamic",
    };
    let axes: Vec<_> = g
        .axes
        .iter()
        .enumerate()
        .map(|(i, a)| {
            let marks = [(i == g.inner, " inner"), (a.descending, " descending")];
            let marks: String = marks.iter().filter(|m| m.0).map(|m| m.1).collect();
            format!("{} < {}{marks}", var(p, a.var.0), expr(p, &a.count))
        })
        .collect();
    let section = g.section.map_or(String::new(), |s| format!(", sections of {s}"));
    format!("grid {persistence}: {}{section}", axes.join("; "))
}

fn memory(p: &RoleProgram) -> Vec<String> {
    let mut out = vec![format!("shared {} B", p.shared_bytes)];
    out.extend(p.rings.iter().map(|r| {
        format!(
            "ring {} at {}: {} x {} B, full at {}, empty at {}",
            r.name, r.offset, r.stages, r.slot_bytes, r.full, r.empty
        )
    }));
    out.extend(
        p.buffers
            .iter()
            .map(|(name, at, bytes)| format!("buffer {name} at {at}: {bytes} B")),
    );
    out.extend(
        p.mailbox
            .map(|m| format!("mailbox word at {}, full at {}, empty at {}", m.word, m.full, m.empty)),
    );
    out
}

fn registers(p: &RoleProgram) -> Vec<String> {
    let mut out: Vec<_> = p
        .handles
        .iter()
        .map(|(name, r)| format!("handle {name} of ring {}", ring(p, r.0)))
        .collect();
    out.extend(
        (0u32..)
            .zip(&p.tiles)
            .map(|(i, t)| format!("tile {}: {}", tile(p, RegTileId(i)), layout(t.layout))),
    );
    out
}

fn block(p: &RoleProgram, stmts: &[Stmt], depth: usize, out: &mut Vec<String>) {
    let pad = "  ".repeat(depth);
    for stmt in stmts {
        out.push(format!("{pad}{}", statement(p, stmt)));
        if let Stmt::Loop { body, .. } | Stmt::Repair { body, .. } = stmt {
            block(p, body, depth + 1, out);
            out.push(format!("{pad}}}"));
        }
    }
}

/// Prints one statement; of a loop, its head.
#[must_use]
pub fn statement(p: &RoleProgram, stmt: &Stmt) -> String {
    match stmt {
        Stmt::Note(text) => format!("; {text}"),
        Stmt::Set { var: v, value } => format!("{} = {}", var(p, v.0), expr(p, value)),
        Stmt::Loop {
            name, count, unroll, ..
        } => {
            let unroll = if *unroll > 1 {
                format!(" unroll {unroll}")
            } else {
                String::new()
            };
            format!("loop {name} ({}){unroll} {{", expr(p, count))
        }
        Stmt::Fill { ring: r, load: l } => format!("fill {}: {}", ring(p, r.0), load(p, l)),
        Stmt::Acquire { handle: h, load: l, .. } => format!("acquire {}: {}", handle(p, h.0), load(p, l)),
        Stmt::Release { handle: h, .. } => format!("release {}", handle(p, h.0)),
        Stmt::Fence => "fence".to_owned(),
        Stmt::Issue(d) => dot(p, d),
        Stmt::Wait { pending } => format!("wait {pending}"),
        Stmt::Calc { dst, calc: c } => format!("{} = {}", tile(p, *dst), calc(p, c)),
        Stmt::ReadShared {
            dst,
            handle: h,
            tile: t,
        } => format!("{} = shared {}.slot{}", tile(p, *dst), handle(p, h.0), smem(*t)),
        Stmt::ReadGlobal { dst, at } => format!("{} = {}", tile(p, *dst), global(p, at)),
        Stmt::Repair { check, limit, .. } => format!("repair unless {} <= {limit:e} {{", tile(p, *check)),
        Stmt::WarpDot {
            acc,
            a,
            b,
            rows,
            cols,
            depth,
            dtype,
        } => {
            format!(
                "{} = warp dot {} x {} as [{rows}, {cols}, {depth}] {dtype}",
                tile(p, *acc),
                operand(p, a),
                operand(p, b)
            )
        }
        Stmt::StagedVisible => "staged visible".to_owned(),
        Stmt::ConsumersMeet => "consumers meet".to_owned(),
        Stmt::StagingFree => "staging free".to_owned(),
        Stmt::Stage {
            src,
            place: at,
            tile: t,
        } => format!("stage {}{} = {}", place(p, *at), smem(*t), tile(p, *src)),
        Stmt::StoreStaged {
            map,
            place: at,
            tile: t,
            coords: c,
            name,
        } => {
            format!(
                "store {name}: {} at {} = {}{}",
                map_name(p, map.0),
                coords(p, c),
                place(p, *at),
                smem(*t)
            )
        }
        Stmt::WriteGlobal { src, at } => format!("{} = {}", global(p, at), tile(p, *src)),
        Stmt::TurnWait => "turn wait".to_owned(),
        Stmt::TurnPass => "turn pass".to_owned(),
    }
}

fn load(p: &RoleProgram, l: &Load) -> String {
    let cache = match l.cache {
        Cache::Normal => "",
        Cache::EvictFirst => " evict-first",
        Cache::EvictLast => " evict-last",
    };
    format!(
        "{}{} from {} at {}{cache}",
        l.name,
        smem(l.tile),
        map_name(p, l.map.0),
        coords(p, &l.coords)
    )
}

fn dot(p: &RoleProgram, d: &Dot) -> String {
    let a = match d.a {
        OperandA::Shared(o) => operand(p, &o),
        OperandA::Regs(t) => tile(p, t),
    };
    let op = if d.accumulate { "+=" } else { "=" };
    let narrow = d.narrow.as_ref().map_or(String::new(), |n| {
        let terms: Vec<_> = n.terms.iter().map(|t| term(p, t)).collect();
        format!(", {} columns unless {}", n.cols, terms.join(" and "))
    });
    format!(
        "issue {}: {} {op} {a} x {} as [{}, {}, {}] {}{narrow}",
        d.name,
        tile(p, d.acc),
        operand(p, &d.b),
        d.rows,
        d.cols,
        d.depth,
        d.dtype
    )
}

fn operand(p: &RoleProgram, o: &SmemOperand) -> String {
    format!(
        "{}{}{}",
        place(p, o.place),
        smem(o.tile),
        if o.mn_major { " mn-major" } else { "" }
    )
}

fn place(p: &RoleProgram, at: Place) -> String {
    match at {
        Place::Slot(h) => format!("{}.slot", handle(p, h.0)),
        Place::Fixed(offset) => match p.buffers.iter().find(|b| b.1 == offset) {
            Some((name, ..)) => format!("{name}.buffer"),
            None => format!("shared+{offset}"),
        },
    }
}

fn global(p: &RoleProgram, at: &GlobalAt) -> String {
    let name = p
        .pointers
        .get(at.pointer as usize)
        .map_or_else(|| format!("pointer{}", at.pointer), |x| tensor(p, x.tensor));
    let points: String = at
        .points
        .iter()
        .map(|(index, size)| format!(", if 0 <= {} < {}", expr(p, index), expr(p, size)))
        .collect();
    format!(
        "global {name} at {} below {}{points}",
        coords(p, &at.coords),
        expr(p, &at.bound)
    )
}

fn coords(p: &RoleProgram, coords: &[Coord]) -> String {
    let parts: Vec<_> = coords
        .iter()
        .map(|c| match c {
            Coord::Point(e) => expr(p, e),
            Coord::Rows(e) => format!("rows {}", expr(p, e)),
            Coord::Cols(e) => format!("cols {}", expr(p, e)),
        })
        .collect();
    format!("[{}]", parts.join(", "))
}

fn calc(p: &RoleProgram, c: &Calc) -> String {
    match c {
        Calc::Copy(a) => src(p, *a),
        Calc::Unary(op, a) => format!("{}({})", lower(op), src(p, *a)),
        Calc::Exp2Mixed { src: a, every } => format!("exp2({}) polynomial every {every}", src(p, *a)),
        Calc::Binary(op, a, b) => format!("{}({}, {})", lower(op), src(p, *a), src(p, *b)),
        Calc::Fma(a, b, c) => format!("fma({}, {}, {})", src(p, *a), src(p, *b), src(p, *c)),
        Calc::Pack(a) => format!("pack({})", tile(p, *a)),
        Calc::Unpack(a) => format!("unpack({})", tile(p, *a)),
        Calc::Mask { src: a, terms, fill } => {
            let terms: Vec<_> = terms.iter().map(|t| term(p, t)).collect();
            format!("mask({}, {}, {fill:?})", tile(p, *a), terms.join(" and "))
        }
        Calc::Select {
            cmp,
            lhs,
            rhs,
            then,
            otherwise,
        } => {
            format!(
                "select({} {} {}, {}, {})",
                src(p, *lhs),
                lower(cmp),
                src(p, *rhs),
                src(p, *then),
                src(p, *otherwise)
            )
        }
        Calc::Reduce { op, src: a, quad } => format!(
            "row_{}({}){}",
            lower(op),
            tile(p, *a),
            if *quad { "" } else { " per lane" }
        ),
        Calc::QuadSum(a) => format!("quad_sum({})", tile(p, *a)),
        Calc::ScaleUnlessOne { factor } => format!("itself * {} unless one", tile(p, *factor)),
    }
}

fn term(p: &RoleProgram, t: &Term) -> String {
    format!(
        "{} * row + {} * col + {} >= 0",
        t.row_coef,
        t.col_coef,
        expr(p, &t.base)
    )
}

fn src(p: &RoleProgram, s: Src) -> String {
    match s {
        Src::Tile(t) => tile(p, t),
        Src::Const(v) => format!("{v:?}"),
        Src::Param(i) => p
            .scalars
            .get(i as usize)
            .map_or_else(|| format!("scalar{i}"), |s| s.0.clone()),
    }
}

/// Prints an expression; sums and products in parentheses where they nest.
#[must_use]
pub fn expr(p: &RoleProgram, e: &Expr) -> String {
    let inner = |e: &Expr| match e {
        Expr::Bin(IxBin::Add | IxBin::Sub | IxBin::Mul | IxBin::FloorDiv | IxBin::Rem, _) => {
            format!("({})", expr(p, e))
        }
        _ => expr(p, e),
    };
    match e {
        Expr::Const(v) => v.to_string(),
        Expr::Runtime(i) => p
            .runtime
            .get(*i as usize)
            .map_or_else(|| format!("runtime{i}"), Clone::clone),
        Expr::Var(v) => var(p, v.0),
        Expr::Bin(op, ab) => {
            let (a, b) = (inner(&ab.0), inner(&ab.1));
            match op {
                IxBin::Add => format!("{a} + {b}"),
                IxBin::Sub => format!("{a} - {b}"),
                IxBin::Mul => format!("{a} * {b}"),
                IxBin::FloorDiv => format!("{a} / {b}"),
                IxBin::Rem => format!("{a} % {b}"),
                IxBin::CeilDiv => format!("ceil({a} / {b})"),
                IxBin::Min => format!("min({}, {})", expr(p, &ab.0), expr(p, &ab.1)),
                IxBin::Max => format!("max({}, {})", expr(p, &ab.0), expr(p, &ab.1)),
            }
        }
    }
}

fn lower(op: &impl std::fmt::Debug) -> String {
    format!("{op:?}").to_lowercase()
}

fn layout(l: Layout) -> String {
    match l {
        Layout::Acc { slabs, cols } => format!("f32 [{}, {cols}]", 64 * u64::from(slabs)),
        Layout::Packed { slabs, cols, dtype } => format!("{dtype} [{}, {cols}]", 64 * u64::from(slabs)),
        Layout::Row { slabs } => format!("f32 row [{}]", 64 * u64::from(slabs)),
        Layout::RowPartial { slabs } => format!("f32 row [{}] per lane", 64 * u64::from(slabs)),
        Layout::Col { cols } => format!("f32 col [{cols}]"),
        Layout::Scalar => "f32".to_owned(),
    }
}

fn smem(t: SmemTile) -> String {
    format!("[{}, {}]", t.rows, t.cols)
}

fn tile(p: &RoleProgram, id: RegTileId) -> String {
    p.tiles
        .get(id.0 as usize)
        .map_or_else(|| format!("tile#{}", id.0), |t| format!("{}#{}", t.name, id.0))
}

fn var(p: &RoleProgram, id: u32) -> String {
    p.vars.get(id as usize).map_or_else(|| format!("var{id}"), Clone::clone)
}

fn ring(p: &RoleProgram, id: u32) -> String {
    p.rings
        .get(id as usize)
        .map_or_else(|| format!("ring{id}"), |r| r.name.clone())
}

fn handle(p: &RoleProgram, id: u32) -> String {
    p.handles
        .get(id as usize)
        .map_or_else(|| format!("handle{id}"), |h| h.0.clone())
}

fn map_name(p: &RoleProgram, id: u32) -> String {
    p.maps
        .get(id as usize)
        .map_or_else(|| format!("map{id}"), |m| m.name.clone())
}

fn tensor(p: &RoleProgram, id: u32) -> String {
    p.tensors
        .get(id as usize)
        .map_or_else(|| format!("tensor{id}"), |t| t.name.clone())
}
