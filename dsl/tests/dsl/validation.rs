//! What validation refuses, and the facts it finds.

use warpwright_dsl::index::{AxisId, IterId, Ix, RuntimeId};
use warpwright_dsl::ir::{CarryKind, Extent, Fold, Op, TensorId, ValueId, span};
use warpwright_dsl::trace::cols;
use warpwright_dsl::validate::{Invalid, Role, Side};
use warpwright_dsl::{DType, Kernel, Trace, validate};

/// c `[m, n]` = softcapped a·b, with a fold, a mask, a carry and a row maximum: one of everything.
pub fn kernel() -> Kernel {
    let k = Trace::new("sample");
    let [m, n] = ["m", "n"].map(|s| k.runtime(s));
    let [m_tile, n_tile] = ["m_tile", "n_tile"].map(|s| k.tile(s));
    let a = k.input("a", DType::F16, [m.clone(), 64.into()]);
    let b = k.input("b", DType::F16, [n.clone(), 64.into()]);
    let (c, top) = (
        k.output("c", DType::F32, [m.clone(), 64.into()]),
        k.output("top", DType::F32, [m.clone()]),
    );
    let row = k.grid("block", m.ceil_div(m_tile)) * m_tile;
    let left = k.load(&a, [span(&row, m_tile), span(0, 64)]).named("left");
    let sums = k.rescaled_fold("f", n.clone().ceil_div(n_tile).max(1), |fold, j| {
        let col = j * n_tile;
        let right = fold.load(&b, [span(&col, n_tile), span(0, 64)]).named("right");
        let scores = left.dot(right.t()).named("scores").mask(&cols(&col).lt(&n), -1.0);
        let weights = fold.rebase(&scores).named("weights");
        fold.accumulate("acc", &weights.cast(DType::F16).named("w16").dot(&right).named("out"));
        let _ = fold.carry("top", &scores.row_max(), 0.0, |old| old.max(&scores.row_max()));
    });
    let acc = sums.total("acc");
    let peak = acc.row_max();
    k.store(&c, [span(&row, m_tile), span(0, 64)], &(acc / peak));
    k.store(&top, [span(row, m_tile)], &sums.total("top"));
    k.finish().unwrap()
}

fn find(kernel: &Kernel, name: &str) -> ValueId {
    let at = kernel
        .values
        .iter()
        .position(|v| v.name.as_deref() == Some(name))
        .unwrap();
    ValueId(u32::try_from(at).unwrap())
}

fn op_mut<'k>(kernel: &'k mut Kernel, name: &str) -> &'k mut Op {
    let id = find(kernel, name);
    &mut kernel.values[id.0 as usize].op
}

fn fold_mut(kernel: &mut Kernel) -> &mut Fold {
    match op_mut(kernel, "f") {
        Op::Fold(f) => f,
        _ => unreachable!(),
    }
}

/// Breaks the sample kernel and looks for a message.
#[track_caller]
fn refused(message: &str, break_it: impl FnOnce(&mut Kernel)) {
    let mut kernel = kernel();
    break_it(&mut kernel);
    let errors = validate(kernel).expect_err("the kernel must be refused").to_string();
    assert!(errors.contains(message), "wanted `{message}` in:\n{errors}");
}

#[test]
fn the_sample_is_valid_and_its_facts_are_right() {
    let valid = validate(kernel()).unwrap();
    let (kernel, facts) = (valid.kernel(), valid.facts());
    let names = |ids: &[ValueId]| ids.iter().map(|id| kernel.label(*id)).collect::<Vec<_>>();
    assert_eq!(names(&facts.loads), ["left", "right"]);
    assert_eq!(names(&facts.dots), ["scores", "out"]);
    assert_eq!(names(&facts.folds), ["f"]);
    assert_eq!(facts.stores.len(), 2);
    assert_eq!(facts.literals.iter().copied().collect::<Vec<_>>(), [64]);
    let (left, right, weights) = (find(kernel, "left"), find(kernel, "right"), find(kernel, "weights"));
    let (scores, out, w16) = (find(kernel, "scores"), find(kernel, "out"), find(kernel, "w16"));
    assert_eq!(facts.load_uses[&left].dots, [(scores, Side::A, false)]);
    assert_eq!(
        facts.load_uses[&right].dots,
        [(scores, Side::B, true), (out, Side::B, false)]
    );
    assert!(facts.feeds_only_dots(right) && !facts.feeds_only_dots(weights));
    let m_tile = kernel.tiles.iter().position(|t| t.name == "m_tile").unwrap();
    assert!(matches!(facts.rows, Extent::Tile(t) if t.0 as usize == m_tile));
    let fold = facts.folds[0];
    assert_eq!(facts.home[weights.0 as usize], Some(fold));
    assert_eq!(facts.home[left.0 as usize], None);
    let roles = |id: ValueId| {
        facts.users[id.0 as usize]
            .iter()
            .map(|u| (u.by, u.role))
            .collect::<Vec<_>>()
    };
    assert_eq!(roles(out), [(fold, Role::Contribution(1))]);
    assert_eq!(roles(w16), [(out, Role::Dot(Side::A))]);
}

#[test]
fn broken_ids() {
    refused("value 999 does not exist", |k| k.body.push(ValueId(999)));
    refused("tensor 9 does not exist; the kernel has 4", |k| {
        if let Op::Load { tensor, .. } = op_mut(k, "left") {
            *tensor = TensorId(9);
        }
    });
    refused("runtime size 7 does not exist", |k| {
        fold_mut(k).trips = Ix::Runtime(RuntimeId(7))
    });
    refused("grid axis 7 does not exist", |k| {
        fold_mut(k).trips = Ix::Axis(AxisId(7))
    });
    refused("value 999 does not exist", |k| {
        fold_mut(k).carries[0].arg = ValueId(999)
    });
    refused("stands in two places", |k| k.body.push(k.body[0]));
    refused("stands in two places", |k| {
        let f = find(k, "f");
        fold_mut(k).body.push(f);
    });
}

#[test]
fn nested_folds() {
    refused("fold `g` lies inside fold `f`; nested folds are not supported", |k| {
        let site = k.values[0].site.clone();
        let inner = Fold {
            name: "g".into(),
            iter: IterId(5),
            trips: Ix::Const(1),
            carries: vec![],
            body: vec![],
        };
        let ty = k.value(find(k, "f")).ty;
        let id = k.push(Op::Fold(Box::new(inner)), ty, site);
        fold_mut(k).body.push(id);
    });
}

#[test]
fn scopes() {
    refused("computed in fold `f` and used by", |k| {
        let out = find(k, "out");
        for id in k.body.clone() {
            if let Op::Store { src, .. } = &mut k.values[id.0 as usize].op {
                *src = out;
                break;
            }
        }
    });
    refused("used by `w16` before it is computed", |k| fold_mut(k).body.reverse());
    refused("which is not its carry argument", |k| {
        let weights = find(k, "weights");
        fold_mut(k).carries[1].arg = weights;
    });
    refused("is total number 9 of fold `f`, which carries 3", |k| {
        let total = k
            .values
            .iter_mut()
            .find(|v| matches!(v.op, Op::FoldOut { .. }))
            .unwrap();
        if let Op::FoldOut { carry, .. } = &mut total.op {
            *carry = 9;
        }
    });
    refused("which is a fold and not a tile", |k| {
        let f = find(k, "f");
        for v in &mut k.values {
            if let Op::Store { src, .. } = &mut v.op {
                *src = f;
            }
        }
    });
}

#[test]
fn types() {
    refused("the inner extents must be equal", |k| {
        if let Op::Dot { b, .. } = op_mut(k, "scores") {
            b.transposed = false;
        }
    });
    refused("allowed: bf16 with bf16, f16 with f16", |k| {
        let weights = find(k, "weights");
        if let Op::Dot { a, .. } = op_mut(k, "out") {
            a.value = weights;
        }
    });
    refused("its operands make it f32[m_tile, n_tile]", |k| {
        let id = find(k, "scores");
        k.values[id.0 as usize].ty.dtype = DType::F16;
    });
    refused("has an extent of zero", |k| {
        let id = find(k, "left");
        k.values[id.0 as usize].ty.shape = warpwright_dsl::ir::Shape::Row(Extent::Lit(0));
    });
    refused("its next value `out` is f32[m_tile, 64]", |k| {
        let out = find(k, "out");
        fold_mut(k).carries[2].kind = CarryKind::Next(out);
    });
    refused("has 0 running reference(s) and 1 rebase(s)", |k| {
        let out = find(k, "out");
        fold_mut(k).carries[0].kind = CarryKind::Next(out);
    });
    refused("it must be f32[m_tile, 1] from -inf", |k| {
        fold_mut(k).carries[0].init = 0.0
    });
}

#[test]
fn index_expressions() {
    refused("the count of grid axis `block`", |k| {
        k.grid[0].count = Ix::Axis(AxisId(0))
    });
    refused("the number of trips of fold `f` is `iter.f`", |k| {
        let fold = fold_mut(k);
        fold.trips = Ix::Iter(fold.iter);
    });
    refused("depends on `iter.f`; allowed there", |k| {
        let iter = Ix::Iter(fold_mut(k).iter);
        if let Op::Load { at, .. } = op_mut(k, "left") {
            at[0] = span(iter, Extent::Lit(64));
        }
    });
    refused("is not affine in `iter.f`", |k| {
        let iter = Ix::Iter(fold_mut(k).iter);
        for v in &mut k.values {
            if let Op::Mask { mask, .. } = &mut v.op {
                mask.terms[0].base = Ix::bin(warpwright_dsl::IxBin::Mul, iter.clone(), iter.clone());
            }
        }
    });
}

#[test]
fn tensors_and_stores() {
    let store = |k: &mut Kernel, n: usize| {
        let stores: Vec<_> = k
            .body
            .iter()
            .copied()
            .filter(|id| matches!(k.op(*id), Op::Store { .. }))
            .collect();
        stores[n]
    };
    refused("the output `top` is never stored", |k| {
        let id = store(k, 1);
        k.body.retain(|v| *v != id);
    });
    refused(
        "two stores write `c` at [grid.block * m_tile ..+ m_tile, 0 ..+ 64]",
        |k| {
            let id = store(k, 0);
            let copy = k.value(id).clone();
            let again = k.push(copy.op, copy.ty, copy.site);
            k.body.push(again);
        },
    );
    refused(
        "does not depend on `grid.block`, so its blocks write the same elements",
        |k| {
            let id = store(k, 0);
            if let Op::Store { at, .. } = &mut k.values[id.0 as usize].op
                && let warpwright_dsl::ir::At::Span { start, .. } = &mut at[0]
            {
                *start = Ix::Const(0);
            }
        },
    );
    refused("the input `spare` is never loaded", |k| {
        let mut spare = k.tensors[0].clone();
        spare.name = "spare".into();
        k.tensors.push(spare);
    });
    refused("the tile size `spare` is never the extent of a tile", |k| {
        k.tiles.push(warpwright_dsl::ir::TileParam { name: "spare".into() });
    });
    refused("load of `c`, which is an output", |k| {
        if let Op::Load { tensor, .. } = op_mut(k, "left") {
            *tensor = TensorId(2);
        }
    });
    refused("literal dimension 1 of `a` is 0", |k| {
        k.tensors[0].dims[1] = warpwright_dsl::ir::Dim::Lit(0)
    });
}

#[test]
fn kernels_need_a_grid_and_an_output() {
    let errors = validate(Trace::new("nothing").finish().unwrap()).unwrap_err();
    let kinds: Vec<_> = errors.errors.into_iter().map(|e| e.kind).collect();
    assert_eq!(kinds, [Invalid::NoStore, Invalid::NoGrid]);
}

#[test]
fn names_are_checked() {
    refused("the value name `Left` is not allowed", |k| {
        let id = find(k, "left");
        k.values[id.0 as usize].name = Some("Left".into());
    });
    refused("the kernel name `` is not allowed", |k| k.name.clear());
    refused("two size names are `m`", |k| k.tiles[0].name = "m".into());
    refused("two carry names are `top`", |k| {
        fold_mut(k).carries[1].name = "top".into()
    });
    refused("two tensor names are `a`", |k| k.tensors[1].name = "a".into());
}

#[test]
fn rows_must_agree() {
    let k = Trace::new("mixed");
    let (x, y, z) = (
        k.input("x", DType::F32, [64.into(), 64.into()]),
        k.output("y", DType::F32, [64.into(), 64.into()]),
        k.output("z", DType::F32, [64.into(), 64.into()]),
    );
    let row = k.grid("row", 1.into());
    for (out, rows) in [(&y, 32), (&z, 16)] {
        let at = [span(&row, rows), span(0, 64)];
        k.store(out, at.clone(), &k.load(&x, at));
    }
    let errors = validate(k.finish().unwrap()).unwrap_err().to_string();
    assert!(
        errors.contains("has 16 rows and `store y[grid.row ..+ 32, 0 ..+ 64] = %0` has 32"),
        "{errors}"
    );
}

#[test]
fn errors_carry_sites_and_come_together() {
    let mut kernel = kernel();
    kernel.grid[0].name = "BLOCK".into();
    fold_mut(&mut kernel).carries[0].init = 0.0;
    let errors = validate(kernel).unwrap_err();
    assert_eq!(errors.errors.len(), 2, "{errors}");
    let site = errors.errors[1].site.as_ref().unwrap();
    assert!(site.file.ends_with("validation.rs") && site.line > 0, "{site}");
}
