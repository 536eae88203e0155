//! Do the figures of a report agree with what the definitions say of each value, one by one?

use crate::common::replacing::write_tensor;
use onnx_cast::{Cast, CastOptions, DataType, Tensor};
use onnx_cast_file::{
    CandidateFormat, FileError, Format, Grade, Report, ReportRequest, TensorReport, Watch, WriteOptions, report,
    report_of,
};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;

struct Folder(tempfile::TempDir);

impl Folder {
    fn write(&self, name: &str, tensor: &Tensor) -> PathBuf {
        let path = self.0.path().join(name);
        let format = Format::from_path(&path).expect("a format");
        write_tensor(&path, format, "w", tensor.view(), &WriteOptions::default()).expect("a file");
        path
    }
}

fn folder() -> Folder {
    Folder(tempfile::tempdir().expect("a folder"))
}

fn request(to: &[DataType]) -> ReportRequest {
    ReportRequest::default().to(to.iter().copied().map(CandidateFormat::Bare).collect())
}

fn cast(tensor: &Tensor, to: DataType) -> Tensor {
    let plan = Cast::new(to, &CastOptions::default()).and_then(|cast| cast.plan(tensor.data_type())).expect("a cast");
    plan.run(&tensor.view()).expect("cast")
}

fn doubles(tensor: &Tensor) -> Vec<f64> {
    cast(tensor, DataType::Double).to_vec::<f64>().expect("doubles")
}

/// Values of every magnitude and some that are none, more than a chunk of them.
fn values() -> Vec<f32> {
    let mut state = 7u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f32 / 2f32.powi(31) - 0.5
    };
    let mut values: Vec<f32> = (0..600_001).map(|index| random() * 2f32.powi(index % 40 - 30)).collect();
    values.extend([0.0, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e-40, -3e38, f32::MIN_POSITIVE]);
    values
}

fn near(got: Option<f64>, want: f64, what: &str) {
    let got = got.unwrap_or_else(|| panic!("{what}: nothing, want {want}"));
    assert!((got - want).abs() <= want.abs() * 1e-6, "{what}: {got}, want {want}");
}

fn check(found: &TensorReport, source: &[f64], to: impl Into<CandidateFormat>, result: &[f64]) {
    let to = to.into();
    let candidate = found.candidates.iter().find(|candidate| candidate.to == to).expect("a candidate");
    let what = format!("{} to {to}", found.data_type);
    let finite: Vec<(f64, f64)> =
        source.iter().copied().zip(result.iter().copied()).filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
    let nonzero: Vec<(f64, f64)> = finite.iter().copied().filter(|(x, _)| *x != 0.0).collect();
    let sum = |list: &[(f64, f64)], of: &dyn Fn(f64, f64) -> f64| list.iter().map(|&(x, y)| of(x, y)).sum::<f64>();
    let error = sum(&finite, &|x, y| (x - y).abs()) / finite.len() as f64;
    near(candidate.mean_error(), error, &what);
    near(candidate.mean_relative_error(), sum(&nonzero, &|x, y| ((x - y) / x).abs()) / nonzero.len() as f64, &what);
    let (signal, noise) = (sum(&finite, &|x, _| x * x), sum(&finite, &|x, y| (x - y) * (x - y)));
    near(candidate.snr(), 10.0 * (signal / noise).log10(), &what);
    let mut powers = BTreeMap::<i32, (u64, f64)>::new();
    for (&x, &y) in source.iter().zip(result).filter(|(x, _)| x.is_finite() && **x != 0.0) {
        let power = (x.abs().to_bits() >> 52) as i32 - 1023;
        let (count, error) = powers.entry(power).or_default();
        *count += 1;
        *error += if y.is_finite() { ((x - y) / x).abs() } else { 1.0 };
    }
    let first = found.magnitudes.first;
    assert_eq!(powers.keys().next(), Some(&first), "{what}");
    for (index, (&count, &mean)) in found.magnitudes.counts.iter().zip(&candidate.error_by_power).enumerate() {
        let (want, error) = powers.remove(&(first + index as i32)).unwrap_or_default();
        assert_eq!(count, want, "{what}: 2^{}", first + index as i32);
        near(Some(mean), if want == 0 { 0.0 } else { error / want as f64 }, &what);
    }
    assert!(powers.is_empty(), "{what}: {powers:?}");
}

#[test]
fn figures_are_those_of_the_definitions() {
    use DataType::{BFloat16, Double, Float, Float4E2M1, Float8E4M3FN, Float8E5M2, Float16, Int8, Int32};
    let folder = folder();
    let to = [Float16, BFloat16, Float8E4M3FN, Float8E5M2, Float4E2M1, Int8, Int32];
    let floats = Tensor::from_slice(vec![values().len()], &values()).expect("a tensor");
    for from in [Float, Double, Float16] {
        let tensor = cast(&floats, from);
        let path = folder.write(&format!("{from}.npy"), &tensor);
        let found = report(&path, &request(&to)).expect("a report");
        let [tensor_report] = &found.tensors[..] else { panic!("{found:?}") };
        let source = doubles(&tensor);
        assert_eq!(tensor_report.values, source.len() as u64);
        assert_eq!(tensor_report.nan, source.iter().filter(|x| x.is_nan()).count() as u64);
        assert_eq!(tensor_report.infinities, source.iter().filter(|x| x.is_infinite()).count() as u64);
        assert_eq!(tensor_report.zeros, source.iter().filter(|x| **x == 0.0).count() as u64);
        let finite = || source.iter().map(|x| x.abs()).filter(|x| *x > 0.0 && x.is_finite());
        assert_eq!(tensor_report.smallest, finite().reduce(f64::min));
        assert_eq!(tensor_report.largest, finite().reduce(f64::max));
        for to in to.into_iter().filter(|&to| to != from && !(from == Float16 && to == Int32)) {
            check(tensor_report, &source, to, &doubles(&cast(&tensor, to)));
        }
        // Whichever thread was faster.
        assert_eq!(report(&path, &request(&to)).expect("a report"), found);
    }
}

fn one(values: &[f32], to: DataType) -> Report {
    let folder = folder();
    let path = folder.write("w.safetensors", &Tensor::from_slice(vec![values.len()], values).expect("a tensor"));
    report(&path, &request(&[to])).expect("a report")
}

#[test]
fn grades_by_the_rules() {
    use DataType::{Float, Float4E2M1, Float8E4M3FN, Float16};
    let third: Vec<f32> = (1..2000u16).map(|index| f32::from(index) / 3.0).collect();
    let with = |value: f32, times: usize| [&third[..], &vec![value; times]].concat();
    for (values, to, want) in [
        (vec![1.0, 2.0, f32::NAN, f32::INFINITY, 0.0], Float16, Grade::Exact),
        (vec![], Float16, Grade::Exact),
        (third.clone(), Float, Grade::Exact),
        (third.clone(), Float16, Grade::Fine),
        (with(1e-9, 1), Float16, Grade::Fine),
        (with(1e-9, 60), Float16, Grade::Fine),
        (with(1e-9, 63), Float16, Grade::Care),
        (with(1e-9, 850), Float16, Grade::Care),
        (with(1e-9, 860), Float16, Grade::Poor),
        (with(1e9, 1), Float16, Grade::Care),
        (with(1e9, 3), Float16, Grade::Poor),
        (third.iter().map(|value| value / 2.0).collect(), Float8E4M3FN, Grade::Fine),
        (third.iter().map(|value| value / 333.0).collect(), Float4E2M1, Grade::Care),
        (third.iter().map(|value| value / 999.0).collect(), Float4E2M1, Grade::Poor),
        (vec![1.0, f32::NAN], Float4E2M1, Grade::Poor),
    ] {
        let found = one(&values, to);
        let candidate = &found.tensors[0].candidates[0];
        assert_eq!(candidate.grade(), want, "{} values to {to}: {candidate:?}", values.len());
        assert_eq!(candidate.concerns().is_empty(), want != Grade::Poor);
        let totals = found.totals(to);
        assert_eq!((totals.tensors, totals.grades.iter().sum::<usize>()), (1, 1));
        assert_eq!((totals.snr, totals.counts), (candidate.snr(), candidate.counts));
    }
}

#[test]
fn narrow_types_and_nothing_at_all() {
    use DataType::{Float, Float4E2M1, Float16, Int4, String};
    let values: Vec<f32> = (0..4099u16).map(|index| f32::from(index % 13) - 6.0).collect();
    let floats = Tensor::from_slice(vec![values.len()], &values).expect("a tensor");
    let folder = folder();
    let path = folder.write("w.pb", &cast(&floats, Float4E2M1));
    let found = report(&path, &request(&[Float16, Int4])).expect("a report");
    assert_eq!((found.tensors[0].values, found.tensors[0].bytes), (4099, 2050));
    assert!(found.tensors[0].candidates.iter().all(|candidate| candidate.grade() == Grade::Exact), "{found:?}");
    let path = folder.write("none.npy", &Tensor::from_slice::<f32>(vec![0], &[]).expect("a tensor"));
    let found = report(&path, &request(&[Float16])).expect("a report");
    assert_eq!((found.tensors[0].values, found.tensors[0].smallest), (0, None));
    assert_eq!(found.totals(Float16).snr, None);
    let refused = report(&path, &request(&[String])).expect_err("no numbers");
    assert!(matches!(refused, FileError::Candidate(_)), "{refused}");
    let refused = report(&path, &request(&[])).expect_err("no type").to_string();
    assert!(refused.ends_with("none.npy: `to` names no type (want one or more)"), "{refused}");
    let skip = request(&[Float]).exclude(vec!["*".parse().expect("a pattern")]);
    let refused = report(&path, &skip).expect_err("nothing to report on").to_string();
    assert!(refused.ends_with("none.npy: `exclude` `*` leaves no tensor to report on"), "{refused}");
    let refused = report_of(&[("w", floats.view())], &skip).expect_err("nothing to report on").to_string();
    assert!(refused.ends_with("`exclude` `*` leaves no tensor to report on"), "{refused}");
    let watch = Some(Watch::stopping(|_, _| ControlFlow::Break(())));
    let path = folder.write("w.npy", &floats);
    let stopped = report(&path, &request(&[Float16]).watch(watch));
    assert!(matches!(stopped, Err(FileError::Stopped { .. })), "{stopped:?}");
}
