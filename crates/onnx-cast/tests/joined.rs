//! Is a cast lossless exactly where [`DataType::is_lossless_to`] is true, and do two casts equal one where
//! [`DataType::is_same_via`] is? Tests every value of the types of 16 bits or fewer; of wider types, the values at and
//! next to the points where a result changes, and random values.

use onnx_cast::backend;
use onnx_cast::{Cast, DataType, TensorView};
use testkit::generators::{every, near_ties, random_scaled, special};
use testkit::library::{data_type, options};
use testkit::packing::{pack, unpack};
use testkit::{Rules, Ty};

/// Values of a type that can reveal a difference in casts to the other types.
fn values(ty: Ty, others: &[Ty]) -> Vec<u64> {
    if ty.bits() <= 16 {
        return every(ty);
    }
    let ties = others.iter().flat_map(|&other| near_ties(ty, other, 500, 1));
    special(ty).into_iter().chain(ties).chain(random_scaled(ty, 2000, 2)).collect()
}

/// The packed elements after a cast, possibly to the same type.
fn cast(from: Ty, to: Ty, rules: &Rules, count: usize, bytes: &[u8]) -> Option<Vec<u8>> {
    let backend = backend::available().next()?;
    let plan = Cast::new(data_type(to), &options(rules, backend)).ok()?.plan(data_type(from)).ok()?;
    let mut out = vec![0; plan.target_type().byte_len(count)?];
    let shape = [count];
    plan.run_into(&TensorView::new(plan.source_type(), &shape, bytes).ok()?, &mut out).ok()?;
    Some(out)
}

/// Makes a signalling NaN quiet, as a cast does.
fn quiet(ty: Ty, bits: u64) -> u64 {
    match data_type(ty).float_format() {
        Some(format) if format.is_nan(bits) => bits | format.nan_code().unwrap_or(0),
        _ => bits,
    }
}

/// Replaces every NaN by the NaN of all ones, and every true by 1.
fn plain(ty: Ty, bits: u64) -> u64 {
    if ty == Ty::Bool {
        return u64::from(bits != 0);
    }
    match data_type(ty).float_format() {
        Some(format) if format.infinity && format.is_nan(bits) => bits | ((1 << format.significand_bits) - 1),
        _ => bits,
    }
}

#[test]
fn what_is_called_exact_is() {
    // On the way back, infinity must be preserved.
    let rules = Rules { saturate: false, ..Rules::default() };
    for &from in &Ty::NUMERIC {
        for &to in &Ty::NUMERIC {
            let values = values(from, &[to]);
            let there = cast(from, to, &rules, values.len(), &pack(from, &values)).expect("a cast");
            let back = cast(to, from, &rules, values.len(), &there).expect("a cast");
            let back = unpack(from, &back, values.len()).expect("elements");
            // -1 also survives the way through uint64 and back, so the values are compared as doubles too.
            let [left, right] = [(from, pack(from, &values)), (to, there)].map(|(ty, bytes)| {
                let doubles = cast(ty, Ty::Double, &rules, values.len(), &bytes).expect("a cast");
                unpack(Ty::Double, &doubles, values.len()).expect("elements")
            });
            let lost = (0..values.len()).find(|&i| {
                plain(from, values[i]) != plain(from, back[i])
                    || plain(Ty::Double, left[i]) != plain(Ty::Double, right[i])
            });
            let told = data_type(from).is_lossless_to(data_type(to));
            assert_eq!(told, lost.is_none(), "{from:?} in {to:?}, value {:#x?}", lost.map(|i| values[i]));
        }
    }
}

#[test]
fn casts_that_are_called_one_are() {
    let (mut joined, mut apart) = (0, 0);
    for &from in &Ty::NUMERIC {
        for &through in &Ty::NUMERIC {
            if through == from || !data_type(from).is_lossless_to(data_type(through)) {
                continue;
            }
            for &to in &Ty::NUMERIC {
                let values = values(from, &[to, through]);
                let source = pack(from, &values);
                let told = data_type(from).is_same_via(data_type(through), data_type(to));
                let mut differ = false;
                for rules in Rules::distinct(through, to) {
                    let Some(wide) = cast(from, through, &rules, values.len(), &source) else { continue };
                    let twice = cast(through, to, &rules, values.len(), &wide).expect("a cast");
                    let once = cast(from, to, &rules, values.len(), &source).expect("a cast");
                    let (twice, once) = (unpack(to, &twice, values.len()), unpack(to, &once, values.len()));
                    for (i, (twice, once)) in twice.iter().flatten().zip(once.iter().flatten()).enumerate() {
                        let same = twice == once || (from == to && *twice == quiet(to, *once));
                        differ |= !same;
                        assert!(same || !told, "{:#x} {from:?} -> {through:?} -> {to:?}, {rules:?}", values[i]);
                    }
                }
                let low_bits = to.bits() <= 4 && !data_type(to).is_float();
                assert!(told || differ || low_bits, "{from:?} -> {through:?} -> {to:?} could be joined");
                joined += usize::from(told);
                apart += usize::from(!told);
            }
        }
    }
    assert!(joined > 1000 && apart > 50, "{joined} joined, {apart} not");
}

#[test]
fn strings_and_complex_numbers_are_apart() {
    for &other in DataType::ALL {
        for odd in [DataType::String, DataType::Complex64, DataType::Complex128] {
            assert_eq!(odd.is_lossless_to(other), odd == other);
            assert_eq!(other.is_lossless_to(odd), odd == other);
            assert!(!odd.is_same_via(other, DataType::Float) && !DataType::Float16.is_same_via(DataType::Float, odd));
        }
    }
}
