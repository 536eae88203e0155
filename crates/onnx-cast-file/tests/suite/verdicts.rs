//! Are verdicts relative to what a format can do? Normally distributed values are fine in every format of quantized
//! weights, and outliers are not.

use onnx_cast::TensorView;
use onnx_cast_file::{Candidate, CandidateFormat, Concern, Grade, Layout, ReportRequest, report_of};
use std::f64::consts::TAU;

const ROWS: usize = 128;
const COLUMNS: usize = 1024;

const BLOCKS: [&str; 7] = ["mxfp4", "mxfp6e2m3", "mxfp6e3m2", "mxfp8", "mxfp8e5m2", "mxint8", "nvfp4"];
const ELEMENTS: [&str; 10] = [
    "float8e4m3fn/row",
    "float8e4m3fn/128x128",
    "float8e5m2/32",
    "int8/row",
    "int8/tensor",
    "int8/32",
    "int4/32",
    "int4/128",
    "int4/row",
    "int4/tensor",
];

/// Values of the normal distribution (Box and Muller).
fn normal() -> Vec<f32> {
    let mut state = 5u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 11) as f64 + 0.5) / 2f64.powi(53)
    };
    (0..ROWS * COLUMNS).map(|_| ((-2.0 * uniform().ln()).sqrt() * (TAU * uniform()).cos()) as f32).collect()
}

fn reported(values: &[f32], names: &[&str]) -> Vec<Candidate> {
    let view = TensorView::from_slice(&[ROWS, COLUMNS], values).expect("a tensor");
    let to: Vec<CandidateFormat> = names.iter().map(|name| name.parse().expect("a candidate")).collect();
    let request = ReportRequest::default().to(to).layout(Some(Layout::Plain));
    let found = report_of(&[("w", view)], &request).expect("a report");
    found.tensors[0].candidates.clone()
}

#[test]
fn usual_weights_are_fine_in_every_format() {
    let all = [&BLOCKS[..], &ELEMENTS, &["float16", "bfloat16", "float8e4m3fn", "float8e5m2"]].concat();
    for candidate in reported(&normal(), &all) {
        let (limits, snr) = (candidate.limits(), candidate.snr());
        assert_eq!(candidate.grade(), Grade::Fine, "{}: {snr:?} dB, {limits:?}", candidate.to);
        assert_eq!(candidate.concerns(), [], "{}", candidate.to);
    }
}

/// The constants of the limits, and the formulas.
#[test]
fn limits_are_those_of_normal_values() {
    for candidate in reported(&normal(), &[&BLOCKS[..], &ELEMENTS].concat()) {
        let (limits, snr) = (candidate.limits(), candidate.snr().expect("noise"));
        let zero = candidate.share(candidate.counts.zero);
        for (limit, most, below) in [(limits.fine_snr, 30.0, 3.0), (limits.care_snr, 20.0, 6.0)] {
            assert!((limit - f64::min(most, snr - below)).abs() < 1.0, "{}: {snr} dB, {limits:?}", candidate.to);
        }
        for (limit, least, times) in [(limits.fine_zero, 0.05, 2.0), (limits.care_zero, 0.1, 3.0)] {
            let want = f64::max(least, times * zero);
            assert!((limit - want).abs() < 0.1 * want, "{}: {zero} become zero, {limits:?}", candidate.to);
        }
    }
}

/// An outlier in each block of 32 and each row takes the scale from the other values.
#[test]
fn outliers_are_poor() {
    let mut values = normal();
    values.iter_mut().step_by(32).for_each(|value| *value = value.signum() * 25.0);
    for candidate in reported(&values, &["mxfp4", "int4/32", "int4/128", "int4/row", "int4/tensor"]) {
        let (limits, share) = (candidate.limits(), candidate.share(candidate.counts.zero));
        assert_eq!(candidate.grade(), Grade::Poor, "{}: {:?} dB, {share}, {limits:?}", candidate.to, candidate.snr());
        assert!(candidate.concerns().contains(&Concern::Zero), "{}", candidate.to);
    }
    // Seven bits have some room, and float8 has the range.
    let others = reported(&values, &["int8/tensor", "float8e4m3fn/row"]);
    assert_eq!(others.iter().map(Candidate::grade).collect::<Vec<_>>(), [Grade::Care, Grade::Fine]);
}
