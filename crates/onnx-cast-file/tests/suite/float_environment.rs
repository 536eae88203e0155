//! Do jobs give the same bytes and figures whatever the host has set in the floating-point control register?

use onnx_cast::{Cast, CastOptions, DataType, Tensor};
use onnx_cast_file::{
    CandidateFormat, CastRequest, Counts, DequantizeRequest, Format, HeldTensor, InspectRequest, Layout, MadeTensors,
    NamedTensor, QuantizeRequest, ReportRequest, TensorsInMemory, TranscodeRequest, WeightFormat, WriteOptions,
    cast_file, dequantize_file, inspect, quantize_file, quantize_tensors, report, report_of, transcode_file,
    write_tensor,
};
use std::fmt::Debug;
use std::fs;
use std::path::Path;
use testkit::library::control_register;

const NAME: &str = "model.layers.0.mlp.down_proj.weight";

/// Matrices of inexact quotients, and of weights so small that scales are subnormal.
fn matrices() -> [Tensor; 2] {
    let tiny = |i: usize| f32::from_bits((0x0080_0000 + (i * 7919 % 0x0100_0000) as u32) | (((i % 3) as u32) << 31));
    [(&|i: usize| (i % 997) as f32 * 0.037 - 17.3) as &dyn Fn(usize) -> f32, &tiny]
        .map(|value| Tensor::from_slice(vec![64, 256], &(0..64 * 256).map(value).collect::<Vec<f32>>()))
        .map(|tensor| tensor.expect("as many floats"))
}

/// Calls `get` in the default environment and under every setting, and compares what `show` makes of the results in the
/// default environment.
#[track_caller]
fn same_everywhere<T>(what: &str, show: impl Fn(T) -> Vec<u8>, get: impl Fn() -> T) {
    let want = show(get());
    for setting in control_register::settings() {
        let mut got = None;
        let after = control_register::with(setting, || got = Some(get()));
        assert_eq!(after, setting, "{what}");
        let got = show(got.expect("a result"));
        assert!(got == want, "{what} under {setting}: another result than in the default environment");
    }
}

/// All fields of a result. Floats are printed with every digit.
fn shown<T: Debug>(result: T) -> Vec<u8> {
    format!("{result:?}").into_bytes()
}

fn written(folder: &Path, job: impl Fn(&Path)) -> Vec<u8> {
    let path = folder.join("out.safetensors");
    let _ = fs::remove_file(&path);
    job(&path);
    fs::read(path).expect("the result")
}

fn tensors(tensor: &Tensor) -> TensorsInMemory {
    let held: HeldTensor = NamedTensor { name: NAME.to_owned(), tensor: tensor.clone() }.into();
    TensorsInMemory::new(vec![held], None).expect("a tensor")
}

fn bytes(made: MadeTensors) -> Vec<u8> {
    made.tensors.iter().flatten().flat_map(|tensor| tensor.bytes().expect("numbers").to_vec()).collect()
}

fn format(name: &str) -> WeightFormat {
    name.parse().expect("a format")
}

#[test]
fn quantized_files_are_the_same() {
    for (index, weight) in matrices().iter().enumerate() {
        let folder = tempfile::tempdir().expect("a folder");
        let input = folder.path().join("w.safetensors");
        write_tensor(&input, Format::Safetensors, NAME, weight.view(), &WriteOptions::default()).expect("written");
        for name in ["nvfp4", "mxfp4", "int8", "int4", "float8e4m3fn"] {
            let request = QuantizeRequest::new(format(name));
            let what = format!("{name} of matrix {index}");
            same_everywhere(&what, Vec::from, || {
                written(folder.path(), |out| {
                    quantize_file(&input, out, &request).expect("quantized");
                })
            });
            same_everywhere(&format!("{what}, in memory"), bytes, || {
                quantize_tensors(tensors(weight), &request).expect("quantized")
            });
            let quantized = folder.path().join("quantized.safetensors");
            let _ = fs::remove_file(&quantized);
            quantize_file(&input, &quantized, &request).expect("quantized");
            same_everywhere(&format!("{what}, dequantized"), Vec::from, || {
                written(folder.path(), |out| {
                    dequantize_file(&quantized, out, &DequantizeRequest::new(DataType::Float16)).expect("dequantized");
                })
            });
            same_everywhere(&format!("{what}, inspected"), shown, || {
                inspect(&quantized, &InspectRequest::default()).expect("a file")
            });
        }
    }
}

#[test]
fn transcoded_files_are_the_same() {
    let [weight, _] = matrices();
    let folder = tempfile::tempdir().expect("a folder");
    let [input, quantized] = ["w.safetensors", "q.safetensors"].map(|name| folder.path().join(name));
    write_tensor(&input, Format::Safetensors, NAME, weight.view(), &WriteOptions::default()).expect("written");
    let request = QuantizeRequest::new(format("nvfp4")).layout(Some(Layout::ModelOpt));
    quantize_file(&input, &quantized, &request).expect("quantized");
    same_everywhere("transcoded", Vec::from, || {
        written(folder.path(), |out| {
            transcode_file(&quantized, out, &TranscodeRequest::new(Layout::CompressedTensors)).expect("transcoded");
        })
    });
}

#[test]
fn figures_are_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    for weight in matrices() {
        let input = folder.path().join("w.npy");
        let _ = fs::remove_file(&input);
        write_tensor(&input, Format::Npy, NAME, weight.view(), &WriteOptions::default()).expect("written");
        let to: [CandidateFormat; 4] =
            ["float16", "float8e4m3fn", "nvfp4", "int4"].map(|name| name.parse().expect("a candidate"));
        let request = ReportRequest::default().to(to.to_vec());
        same_everywhere("a report", shown, || {
            let found = report(&input, &request).expect("a report");
            let totals = to.map(|to| found.totals(to));
            let snr = found.tensors[0].candidates.iter().map(|candidate| candidate.snr().map(f64::to_bits));
            (snr.collect::<Vec<_>>(), totals, found)
        });
        same_everywhere("a report in memory", shown, || {
            report_of(&[(NAME, weight.view())], &request).expect("a report")
        });
        let cast = Cast::new(DataType::Float16, &CastOptions::new());
        let plan = cast.and_then(|cast| cast.plan(DataType::Float)).expect("types of numbers");
        same_everywhere("counts", shown, || {
            let (counts, means) = Counts::of(&plan, &weight.view()).expect("floats");
            (counts, [means.error(), means.relative_error()].map(f64::to_bits))
        });
        same_everywhere("a cast", Vec::from, || {
            written(folder.path(), |out| {
                cast_file(&input, out, &CastRequest::new(DataType::BFloat16)).expect("cast");
            })
        });
    }
}
