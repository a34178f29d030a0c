//! Faults planted into good programs, each with the rule that must find it.

use dsl::DType;
use warpwright_codegen::check::Rule;
use warpwright_codegen::role::{
    Calc, Coord, Dot, Expr, HandleId, Layout, Load, OperandA, Place, RegTileId, RingId, RoleProgram, SmemOperand,
    SmemTile, Stmt, VarId,
};

/// A fault: `plant` says whether it found its place.
pub struct Fault {
    pub name: &'static str,
    pub base: &'static str,
    pub rule: Rule,
    pub plant: fn(&mut RoleProgram) -> bool,
}

type Pred<'a> = &'a dyn Fn(&Stmt) -> bool;

/// Runs `act` on the body and position of the n-th statement that matches, in order of appearance.
fn at(stmts: &mut Vec<Stmt>, nth: &mut usize, pred: Pred<'_>, act: &mut dyn FnMut(&mut Vec<Stmt>, usize)) -> bool {
    for i in 0..stmts.len() {
        if pred(&stmts[i]) {
            if *nth == 0 {
                act(stmts, i);
                return true;
            }
            *nth -= 1;
        }
        if let Stmt::Loop { body, .. } | Stmt::Repair { body, .. } = &mut stmts[i]
            && at(body, nth, pred, act)
        {
            return true;
        }
    }
    false
}

fn consumer(p: &mut RoleProgram, mut nth: usize, pred: Pred<'_>, act: &mut dyn FnMut(&mut Vec<Stmt>, usize)) -> bool {
    at(&mut p.consumer, &mut nth, pred, act)
}

fn producer(p: &mut RoleProgram, mut nth: usize, pred: Pred<'_>, act: &mut dyn FnMut(&mut Vec<Stmt>, usize)) -> bool {
    at(&mut p.producer, &mut nth, pred, act)
}

/// The first dot of the consumer.
fn issued(p: &RoleProgram) -> Option<&Dot> {
    p.consumer
        .iter()
        .find_map(|s| if let Stmt::Issue(d) = s { Some(&**d) } else { None })
}

/// Changes the first dot, which has a narrow form.
fn narrow(p: &mut RoleProgram, change: &mut dyn FnMut(&mut Dot)) -> bool {
    consumer(
        p,
        0,
        &|s| matches!(s, Stmt::Issue(d) if d.narrow.is_some()),
        &mut |body, i| {
            if let Stmt::Issue(d) = &mut body[i] {
                change(d);
            }
        },
    )
}

fn drop_nth(p: &mut RoleProgram, nth: usize, pred: Pred<'_>) -> bool {
    consumer(p, nth, pred, &mut |body, i| drop(body.remove(i)))
}

fn repeat_nth(p: &mut RoleProgram, nth: usize, pred: Pred<'_>) -> bool {
    consumer(p, nth, pred, &mut |body, i| body.insert(i, body[i].clone()))
}

/// Moves the n-th match up, to just before the closest earlier statement of its body that matches `before`.
fn hoist(p: &mut RoleProgram, nth: usize, pred: Pred<'_>, before: Pred<'_>) -> bool {
    let mut moved = false;
    consumer(p, nth, pred, &mut |body, i| {
        if let Some(to) = (0..i).rev().find(|k| before(&body[*k])) {
            let stmt = body.remove(i);
            body.insert(to, stmt);
            moved = true;
        }
    });
    moved
}

fn handle(p: &RoleProgram, name: &str) -> HandleId {
    let at = p
        .handles
        .iter()
        .position(|h| h.0 == name)
        .unwrap_or_else(|| panic!("no handle `{name}`"));
    HandleId(u32::try_from(at).unwrap())
}

fn ring(p: &RoleProgram, name: &str) -> usize {
    p.rings
        .iter()
        .position(|r| r.name == name)
        .unwrap_or_else(|| panic!("no ring `{name}`"))
}

fn is_release(h: HandleId) -> impl Fn(&Stmt) -> bool {
    move |s| matches!(s, Stmt::Release { handle, .. } if *handle == h)
}

fn is_acquire(h: HandleId) -> impl Fn(&Stmt) -> bool {
    move |s| matches!(s, Stmt::Acquire { handle, .. } if *handle == h)
}

fn is_fill(name: &'static str) -> impl Fn(&Stmt) -> bool {
    move |s| matches!(s, Stmt::Fill { load, .. } if load.name == name)
}

fn is_wait(s: &Stmt) -> bool {
    matches!(s, Stmt::Wait { .. })
}

fn is_issue(s: &Stmt) -> bool {
    matches!(s, Stmt::Issue(_))
}

fn is_set(v: VarId) -> impl Fn(&Stmt) -> bool {
    move |s| matches!(s, Stmt::Set { var, .. } if *var == v)
}

fn var(p: &RoleProgram, name: &str) -> VarId {
    VarId(u32::try_from(p.vars.iter().position(|v| v == name).unwrap()).unwrap())
}

fn is_pack(s: &Stmt) -> bool {
    matches!(
        s,
        Stmt::Calc {
            calc: Calc::Pack(_),
            ..
        }
    )
}

fn is_stage(s: &Stmt) -> bool {
    matches!(s, Stmt::Stage { .. })
}

fn is_store(s: &Stmt) -> bool {
    matches!(s, Stmt::StoreStaged { .. })
}

fn is_free(s: &Stmt) -> bool {
    matches!(s, Stmt::StagingFree)
}

fn is_pass(s: &Stmt) -> bool {
    matches!(s, Stmt::TurnPass)
}

fn dot(p: &mut RoleProgram, nth: usize, change: &dyn Fn(&mut Dot)) -> bool {
    consumer(p, nth, &is_issue, &mut |body, i| {
        if let Stmt::Issue(d) = &mut body[i] {
            change(d);
        }
    })
}

fn fill(p: &mut RoleProgram, nth: usize, change: &dyn Fn(&mut Load)) -> bool {
    producer(p, nth, &|s| matches!(s, Stmt::Fill { .. }), &mut |body, i| {
        if let Stmt::Fill { load, .. } = &mut body[i] {
            change(load);
        }
    })
}

/// Drops the first fence.
pub fn drop_fence(p: &mut RoleProgram) -> bool {
    drop_nth(p, 0, &|s| matches!(s, Stmt::Fence))
}

/// Holds the last `v` to the end of the block and stages the output over it.
pub fn stage_over_v(p: &mut RoleProgram) -> bool {
    let v = handle(p, "v");
    let count = count(&p.consumer, &is_release(v));
    let mut release = None;
    let found = consumer(p, count - 1, &is_release(v), &mut |body, i| {
        release = Some(body.remove(i))
    });
    p.consumer.extend(release);
    let stage = consumer(p, 0, &is_stage, &mut |body, i| {
        if let Stmt::Stage { place, .. } = &mut body[i] {
            *place = Place::Slot(v);
        }
    });
    let store = consumer(p, 0, &is_store, &mut |body, i| {
        if let Stmt::StoreStaged { place, .. } = &mut body[i] {
            *place = Place::Slot(v);
        }
    });
    found && stage && store
}

fn count(stmts: &[Stmt], pred: Pred<'_>) -> usize {
    stmts
        .iter()
        .map(|s| {
            let inner = if let Stmt::Loop { body, .. } | Stmt::Repair { body, .. } = s {
                count(body, pred)
            } else {
                0
            };
            usize::from(pred(s)) + inner
        })
        .sum()
}

fn layout(p: &mut RoleProgram, name: &str, change: &dyn Fn(&mut Layout)) -> bool {
    p.tiles.iter_mut().find(|t| t.name == name).is_some_and(|t| {
        change(&mut t.layout);
        true
    })
}

fn operand(d: &mut Dot) -> &mut SmemOperand {
    &mut d.b
}

macro_rules! faults {
    ($($rule:ident, $base:literal, $name:literal, |$p:ident| $plant:expr;)*) => {
        vec![$(Fault { name: $name, base: $base, rule: Rule::$rule, plant: |$p: &mut RoleProgram| $plant },)*]
    };
}

/// Every fault.
pub fn all() -> Vec<Fault> {
    let mut out = rings();
    out.extend(groups());
    out.extend(staging());
    out.extend(turns());
    out.extend(budgets());
    out.extend(copies());
    out.extend(shapes());
    out
}

fn rings() -> Vec<Fault> {
    faults! {
        SlotNotReleased, "attention 128 full", "drop the release of k in the loop", |p| { let k = handle(p, "k"); drop_nth(p, 1, &is_release(k)) };
        SlotNotReleased, "attention 128 full", "drop the release of q", |p| { let q = handle(p, "q"); drop_nth(p, 0, &is_release(q)) };
        ReleaseUnheld, "attention 128 full", "release v twice", |p| { let v = handle(p, "v"); repeat_nth(p, 0, &is_release(v)) };
        ReleaseWhileRead, "attention 128 full", "release k before its wait", |p| { let k = handle(p, "k"); hoist(p, 1, &is_release(k), &is_wait) };
        SlotOverwritten, "attention 128 one ring", "release v before its wait", |p| { let v = handle(p, "v"); hoist(p, 0, &is_release(v), &is_wait) };
        SlotOverwritten, "gemm nn", "release a before the dot", |p| { let a = handle(p, "a"); hoist(p, 0, &is_release(a), &is_issue) };
        SlotOverwritten, "row softmax", "release before the read", |p| hoist(p, 0, &|s| matches!(s, Stmt::Release { .. }), &|s| matches!(s, Stmt::ReadShared { .. }));
        SlotUnheld, "attention 128 full", "drop the acquire of v", |p| { let v = handle(p, "v"); drop_nth(p, 0, &is_acquire(v)) };
        SlotUnheld, "attention 128 full", "release k before the dot", |p| { let k = handle(p, "k"); hoist(p, 0, &is_release(k), &is_issue) };
        HandleRing, "attention 128 full", "release to another ring", |p| { let k = handle(p, "k"); consumer(p, 0, &is_release(k), &mut |body, i| {
            if let Stmt::Release { ring, .. } = &mut body[i] { ring.0 = (ring.0 + 1) % 3; }
        }) };
        FillOrder, "attention 128 one ring", "swap two fills of one ring", |p| producer(p, 1, &is_fill("k"), &mut |body, i| body.swap(i, i + 1));
        FillOrder, "attention 128 full", "fill k at the rows of another trip", |p| fill(p, 2, &|l| l.coords[1] = Coord::Rows(Expr::Const(0)));
        FillOrder, "attention 128 full", "the producer does not step", |p| { let now = var(p, "kv_now"); producer(p, 2, &is_set(now), &mut |body, i| drop(body.remove(i))) };
        FillOrder, "attention 128 full", "fill another tile", |p| fill(p, 1, &|l| l.name = "v".into());
        FillCount, "attention 128 full", "drop a fill in the loop", |p| producer(p, 1, &is_fill("k"), &mut |body, i| drop(body.remove(i)));
        FillCount, "attention 128 full", "fill q twice", |p| producer(p, 0, &is_fill("q"), &mut |body, i| body.insert(i, body[i].clone()));
        Deadlock, "attention 128 full", "drop the fill of q", |p| producer(p, 0, &is_fill("q"), &mut |body, i| drop(body.remove(i)));
        Deadlock, "attention 128 one ring", "a ring of one slot for two tiles held at once", |p| { let r = ring(p, "kv"); p.rings[r].stages = 1; true };
        LoopCount, "attention 128 causal", "the producer runs one trip more", |p| producer(p, 0, &|s| matches!(s, Stmt::Loop { .. }), &mut |body, i| {
            if let Stmt::Loop { count, .. } = &mut body[i] { *count = Expr::bin(dsl::IxBin::Add, count.clone(), Expr::Const(1)); }
        });
        LoopCount, "attention 128 causal", "the producer names its loop otherwise", |p| producer(p, 0, &|s| matches!(s, Stmt::Loop { .. }), &mut |body, i| {
            if let Stmt::Loop { name, .. } = &mut body[i] { name.push('x'); }
        });
    }
}

fn groups() -> Vec<Fault> {
    faults! {
        FenceMissing, "gemm nn", "drop the fence", |p| drop_fence(p);
        FenceMissing, "attention 128 full", "drop the fence before s in the loop", |p| drop_nth(p, 1, &|s| matches!(s, Stmt::Fence));
        FenceMissing, "attention 64 q in registers", "drop the fence after q was read into registers", |p| drop_fence(p);
        AccumulatorInFlight, "attention 128 full", "drop the wait for s", |p| drop_nth(p, 0, &is_wait);
        AccumulatorInFlight, "attention 128 full", "wait for one group less", |p| consumer(p, 1, &is_wait, &mut |body, i| body[i] = Stmt::Wait { pending: 2 });
        AccumulatorInFlight, "attention 128 full", "read s before its wait", |p| hoist(p, 1, &|s| matches!(s, Stmt::Calc { calc: Calc::Mask { .. }, .. }), &is_wait);
        AccumulatorInFlight, "attention 128 full", "rescale before the wait", |p| hoist(p, 1, &|s| matches!(s, Stmt::Calc { calc: Calc::ScaleUnlessOne { .. }, .. }), &is_wait);
        OperandInFlight, "attention 128 full", "write p before the wait for o", |p| hoist(p, 1, &is_pack, &is_wait);
        OperandInFlight, "attention 128 full", "a partial wait before p is written", |p| consumer(p, 2, &is_wait, &mut |body, i| body[i] = Stmt::Wait { pending: 1 });
        PartialWaitAcrossBackEdge, "attention 128 not pipelined", "o in flight over the back edge, retired by a partial wait", |p| {
            let done = drop_nth(p, 1, &is_wait);
            done && consumer(p, 0, &is_wait, &mut |body, i| body[i] = Stmt::Wait { pending: 1 })
        };
        InFlightAtExit, "gemm nn", "drop the wait of the loop", |p| drop_nth(p, 0, &is_wait);
        RepairInFlight, "attention 128 fixed", "repair under the dot", |p| hoist(p, 0, &|s| matches!(s, Stmt::Repair { .. }), &is_wait);
        NarrowForm, "attention 128 narrow", "wider than the dot", |p| narrow(p, &mut |d| d.narrow.iter_mut().for_each(|n| n.cols = 136));
        NarrowForm, "attention 128 narrow", "no term", |p| narrow(p, &mut |d| d.narrow.iter_mut().for_each(|n| n.terms.clear()));
        NarrowForm, "attention 128 narrow", "a term that rises along the columns", |p| narrow(p, &mut |d| d.narrow.iter_mut().for_each(|n| n.terms[0].col_coef = 1));
        NarrowForm, "attention 128 narrow", "adds to what it leaves out", |p| narrow(p, &mut |d| d.accumulate = true);
        NarrowForm, "attention 128 narrow", "another dot beside it", |p| {
            let form = issued(p).and_then(|d| d.narrow.clone());
            let mut nth = 1;
            at(&mut p.consumer, &mut nth, &|s| matches!(s, Stmt::Issue(_)), &mut |body, i| {
                if let Stmt::Issue(d) = &mut body[i] { d.narrow = form.clone(); }
            })
        };
        RoleStatement, "attention 128 fixed", "a fence in a repair", |p| consumer(p, 0, &|s| matches!(s, Stmt::Repair { .. }), &mut |body, i| {
            if let Stmt::Repair { body, .. } = &mut body[i] { body.push(Stmt::Fence); }
        });
        RoleStatement, "attention 128 full", "a consumer fills", |p| { let s = p.producer[0].clone(); p.consumer.insert(0, s); true };
    }
}

fn staging() -> Vec<Fault> {
    faults! {
        StagingBusy, "attention 128 own", "drop staging free", |p| drop_nth(p, 0, &is_free);
        StagingBusy, "row softmax", "drop staging free in the loop", |p| drop_nth(p, 0, &is_free);
        ReleaseWhileRead, "attention 128 full", "drop staging free before the release of q", |p| drop_nth(p, 1, &is_free);
        SlotOverwritten, "attention 128 full", "release q before staging free", |p| { let q = handle(p, "q"); hoist(p, 0, &is_release(q), &is_free) };
        SlotUnheld, "attention 128 full", "release q before it is staged over", |p| { let q = handle(p, "q"); hoist(p, 0, &is_release(q), &is_stage) };
        StageWithoutUse, "attention 128 full", "drop the store", |p| drop_nth(p, 0, &is_store);
        StoreWithoutStage, "attention 128 own", "drop the stage", |p| drop_nth(p, 0, &is_stage);
        StoreWithoutStage, "attention 128 own", "store twice", |p| repeat_nth(p, 0, &is_store);
        StageWhileRead, "attention 128 full", "stage over v, which all consumers read", |p| stage_over_v(p);
        StageWhileRead, "attention 64 p in shared", "stage p while o reads it", |p| hoist(p, 1, &is_stage, &is_wait);
        StageWhileRead, "attention 64 over v", "consumers do not meet", |p| drop_nth(p, 0, &|s| matches!(s, Stmt::ConsumersMeet));
        StageWhileRead, "attention 128 full", "stage over q in another shape, unordered", |p| {
            // `q` is loaded with twice the columns, so that its rows lie elsewhere.
            let q = handle(p, "q");
            let free = drop_nth(p, 0, &is_free);
            free && consumer(p, 0, &is_acquire(q), &mut |body, i| if let Stmt::Acquire { load, .. } = &mut body[i] { load.tile.cols *= 2; })
        };
        ReadAfterStage, "attention 128 full", "read q after staging over it", |p| {
            let mut copy = vec![];
            consumer(p, 0, &is_issue, &mut |body, i| copy = vec![Stmt::Fence, body[i].clone(), Stmt::Wait { pending: 0 }]);
            consumer(p, 0, &is_store, &mut |body, i| drop(body.splice(i + 1..=i, copy.clone())))
        };
        StagedNotVisible, "attention 64 p in shared", "drop staged visible", |p| drop_nth(p, 1, &|s| matches!(s, Stmt::StagedVisible));
    }
}

fn turns() -> Vec<Fault> {
    faults! {
        TurnBalance, "attention 128 ping-pong", "drop a turn pass", |p| drop_nth(p, 0, &is_pass);
        Deadlock, "attention 128 ping-pong", "drop every turn pass", |p| { while drop_nth(p, 0, &is_pass) {} true };
        TurnBalance, "attention 128 ping-pong", "pass the turn twice", |p| repeat_nth(p, 0, &is_pass);
        TurnBalance, "attention 128 ping-pong 3", "drop a turn wait", |p| drop_nth(p, 0, &|s| matches!(s, Stmt::TurnWait));
        TurnPlan, "attention 128 ping-pong", "turns without a first one", |p| { p.ping_pong = false; true };
        TurnPlan, "attention 64 one consumer", "turns of one consumer", |p| { p.ping_pong = true; true };
        Deadlock, "attention 128 full", "one consumer too many waits for a turn", |p| { p.ping_pong = true; p.consumer.extend([Stmt::TurnWait, Stmt::TurnWait]); true };
    }
}

fn budgets() -> Vec<Fault> {
    faults! {
        RegisterPool, "attention 128 full", "consumers take more than there is", |p| { p.consumer_registers = 248; true };
        RegisterCount, "attention 128 full", "236 registers", |p| { p.consumer_registers = 236; true };
        RegisterCount, "attention 128 full", "16 registers", |p| { p.producer_registers = 16; true };
        RegisterDirection, "attention 128 full", "consumers give registers away", |p| { p.consumer_registers = 160; true };
        Warpgroups, "attention 128 full", "four consumers", |p| { p.consumers = 4; true };
        Warpgroups, "attention 128 full", "96 rows", |p| { p.rows_per_consumer = 96; true };
        Warpgroups, "attention 128 full", "no producer warp", |p| { p.producer_warps = 0; true };
        Mailbox, "attention 192x80 dynamic", "no mailbox", |p| { p.mailbox = None; true };
        SharedSize, "attention 128 full", "more than the target has", |p| { p.shared_bytes = 240_000; true };
        SharedSize, "attention 128 full", "barriers past the end", |p| { p.shared_bytes -= 8; true };
        SharedOverlap, "attention 128 full", "two rings on one place", |p| { p.rings[1].offset = p.rings[0].offset; true };
        SharedOverlap, "attention 128 full", "full and empty barriers on one place", |p| { p.rings[1].empty = p.rings[1].full; true };
        SharedOverlap, "attention 128 full", "one slot more than there is room for", |p| { p.rings[1].stages += 1; true };
        SharedAlignment, "attention 128 own", "a buffer off its 1024 bytes", |p| { p.buffers[0].1 += 512; true };
        SharedAlignment, "attention 128 full", "a barrier off its 8 bytes", |p| { p.rings[2].full += 4; true };
        SlotSize, "attention 128 full", "slots of half a tile", |p| { p.rings[1].slot_bytes /= 2; true };
        UnknownId, "attention 128 full", "a handle that does not exist", |p| consumer(p, 0, &|s| matches!(s, Stmt::Release { .. }), &mut |body, i| body[i] = Stmt::Release { ring: RingId(0), handle: HandleId(99) });
        UnknownId, "attention 128 full", "a register tile that does not exist", |p| dot(p, 0, &|d| d.acc = RegTileId(9999));
        Extent, "attention 128 full", "a tile of a million rows", |p| fill(p, 0, &|l| l.tile.rows = 1_000_000);
        LoopNesting, "gemm nn", "five loops around a note", |p| {
            let mut s = Stmt::Note("deep".into());
            for depth in 0..5 { s = Stmt::Loop { name: format!("l{depth}"), count: Expr::Const(1), unroll: 1, body: vec![s] }; }
            p.consumer.push(s);
            true
        };
    }
}

fn copies() -> Vec<Fault> {
    faults! {
        ExpectBytes, "attention 128 full", "boxes of half the rows", |p| { p.maps[1].boxes[1] = 64; true };
        ExpectBytes, "attention 128 full", "a fill that expects half the rows", |p| fill(p, 1, &|l| l.tile.rows = 64);
        BoxExtent, "attention 128 full", "a box of 512 rows", |p| { p.maps[1].boxes[1] = 512; true };
        BoxShape, "attention 128 full", "a box of 32 columns", |p| { p.maps[1].boxes[3] = 32; true };
        BoxShape, "attention 128 full", "columns that are not contiguous", |p| fill(p, 1, &|l| l.coords.swap(1, 3));
        TileShape, "attention 128 full", "100 columns", |p| fill(p, 1, &|l| l.tile.cols = 100);
        CoordRank, "attention 128 full", "a coordinate missing", |p| fill(p, 1, &|l| drop(l.coords.pop()));
        CoordRank, "attention 128 full", "a vector with two spans", |p| consumer(p, 0, &|s| matches!(s, Stmt::WriteGlobal { .. }), &mut |body, i| {
            if let Stmt::WriteGlobal { at, .. } = &mut body[i] { at.coords[0] = Coord::Rows(Expr::Const(0)); }
        });
        TensorAccess, "attention 128 full", "a load from an output", |p| { p.maps[1].tensor = p.maps.last().map_or(0, |m| m.tensor); true };
        TensorAccess, "gemm nn", "operands of two types", |p| dot(p, 0, &|d| d.dtype = DType::Bf16);
    }
}

fn shapes() -> Vec<Fault> {
    faults! {
        MmaShape, "attention 128 full", "N not a multiple of 8", |p| dot(p, 0, &|d| d.cols = 100);
        MmaShape, "attention 128 full", "K not a multiple of 16", |p| dot(p, 0, &|d| d.depth = 24);
        MmaShape, "attention 128 full", "rows of half a warpgroup", |p| dot(p, 0, &|d| d.rows = 32);
        AccumulatorLayout, "gemm nn", "an accumulator too narrow", |p| layout(p, "acc", &|l| *l = Layout::Acc { slabs: 1, cols: 64 });
        OperandLayout, "attention 128 full", "p of another type", |p| layout(p, "p16", &|l| if let Layout::Packed { dtype, .. } = l { *dtype = DType::F16; });
        OperandLayout, "attention 128 own", "p with too few columns", |p| layout(p, "p16", &|l| if let Layout::Packed { cols, .. } = l { *cols = 80; });
        OperandExtent, "attention 128 own", "the wrong majorness", |p| dot(p, 0, &|d| operand(d).mn_major ^= true);
        OperandExtent, "attention 128 own", "a right operand of half the rows", |p| dot(p, 0, &|d| operand(d).tile.rows /= 2);
        OperandExtent, "gemm tn", "the wrong majorness of the left operand", |p| dot(p, 0, &|d| if let OperandA::Shared(o) = &mut d.a { o.mn_major = false; });
        OperandPlace, "attention 128 full", "an operand at a fixed place that nobody stages", |p| dot(p, 0, &|d| operand(d).place = Place::Fixed(0));
        OperandPlace, "attention 128 own", "an operand in the slot of another load", |p| { let q = handle(p, "q"); dot(p, 0, &|d| operand(d).place = Place::Slot(q)) };
        DescriptorRange, "attention 128 full", "an operand past 256 KiB", |p| { p.rings[1].offset = 262_144; true };
        CalcLayout, "attention 128 full", "a sum per lane taken for whole", |p| layout(p, "l", &|l| *l = Layout::Row { slabs: 1 });
        CalcLayout, "attention 128 full", "scores of another width", |p| layout(p, "p", &|l| *l = Layout::Acc { slabs: 1, cols: 64 });
        CalcLayout, "attention 128 own", "staged into a tile of other rows", |p| consumer(p, 0, &is_stage, &mut |body, i| {
            if let Stmt::Stage { tile, .. } = &mut body[i] { *tile = SmemTile { rows: 64, cols: tile.cols }; }
        });
        TileUnset, "attention 128 full", "the accumulator is never cleared", |p| { let acc = p.tiles.iter().position(|t| t.name == "acc").unwrap(); drop_nth(p, 0, &|s| matches!(s, Stmt::Calc { dst, .. } if dst.0 as usize == acc)) };
        TileUnset, "attention 128 full", "p is set only if the loop runs", |p| drop_nth(p, 0, &is_pack);
        VarUnset, "attention 128 full", "the producer lacks the trip count", |p| { let v = var(p, "kv_trips"); producer(p, 0, &is_set(v), &mut |body, i| drop(body.remove(i))) };
        VarUnset, "attention 128 causal", "a loop count that is never set", |p| { let v = var(p, "kv_ahead"); drop_nth(p, 0, &is_set(v)) };
    }
}
