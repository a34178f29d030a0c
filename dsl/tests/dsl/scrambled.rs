//! Whatever the kernel, nothing panics; and what the validator lets through, the interpreter can run.

use proptest::collection::vec;
use proptest::prelude::*;
use warpwright_dsl::index::Ix;
use warpwright_dsl::interp::{Bindings, InterpError, Interpreter, Precision, TensorData, Tensors};
use warpwright_dsl::ir::{BinaryOp, CarryKind, Fold, Op, ValueId};
use warpwright_dsl::{DType, Kernel, print, validate};

use crate::validation::kernel;

/// One edit: where, what, and two numbers to do it with.
type Edit = (usize, u8, u32, u32);

/// Replaces parts of the sample by others that need not fit.
fn scramble(k: &mut Kernel, (at, what, x, y): Edit) {
    let count = k.values.len();
    // One id past the end is a wild one.
    let [a, b] = [x, y].map(|n| ValueId(n % (u32::try_from(count).unwrap() + 1)));
    let donor = k.values[x as usize % count].clone();
    let value = &mut k.values[at % count];
    match what {
        0 => value.op = donor.op,
        1 => value.ty = donor.ty,
        2 => value.op = Op::Binary(BinaryOp::Add, a, b),
        3 => value.op = Op::FoldOut { fold: a, carry: y % 4 },
        4 => k.body.insert(at % (k.body.len() + 1), a),
        5 => {
            let n = k.body.len();
            k.body.swap(at % n, x as usize % n);
        }
        _ => {
            if let Some(fold) = k.values.iter_mut().find_map(as_fold) {
                scramble_fold(fold, (at, what, x, y), a);
            }
        }
    }
}

fn as_fold(value: &mut warpwright_dsl::ir::Value) -> Option<&mut Fold> {
    match &mut value.op {
        Op::Fold(fold) if !fold.body.is_empty() => Some(&mut **fold),
        _ => None,
    }
}

fn scramble_fold(fold: &mut Fold, (at, what, x, _): Edit, a: ValueId) {
    let (body, carries) = (fold.body.len(), fold.carries.len());
    match what {
        6 => fold.body.insert(at % (body + 1), a),
        7 => fold.body.retain(|id| *id != a),
        8 => fold.trips = Ix::from(x) * Ix::from(i64::MAX),
        9 => fold.carries.swap(at % carries, x as usize % carries),
        10 => fold.carries[at % carries].kind = CarryKind::Next(a),
        _ => fold.body.swap(at % body, x as usize % body),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_kernel_panics(edits in vec((any::<usize>(), 0u8..12, any::<u32>(), any::<u32>()), 1..4)) {
        let mut kernel = kernel();
        edits.into_iter().for_each(|edit| scramble(&mut kernel, edit));
        let text = print(&kernel);
        prop_assert!(text.starts_with("kernel sample"));
        let Ok(valid) = validate(kernel) else { return Ok(()) };
        let bindings = Bindings::new().runtime("m", 5).runtime("n", 3).tile("m_tile", 4).tile("n_tile", 2);
        let input = |rows: usize| TensorData::dense(DType::F16, &[rows, 64], vec![0.5; rows * 64]).unwrap();
        let inputs = Tensors::from([("a".to_owned(), input(5)), ("b".to_owned(), input(3))]);
        match Interpreter::new(Precision::F32).run_valid(&valid, &bindings, &inputs) {
            Ok(_) => {}
            Err(InterpError::Arithmetic { .. } | InterpError::NoTrips { .. } | InterpError::WrittenTwice { .. }) => {}
            Err(other) => prop_assert!(false, "{other}\n{text}"),
        }
    }
}
