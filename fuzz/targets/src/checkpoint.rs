//! A quantized checkpoint: its configurations, its index and its files, dequantized.

use crate::scratch;
use onnx_cast::{Cast, CastOptions, DataType, Tensor};
use onnx_cast_file::{
    DequantizeRequest, Format, InputFile, InspectRequest, NamedTensor, dequantize_file, inspect, read_tensors_from,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The names that files may have.
const NAMES: [&str; 5] =
    ["config.json", "hf_quant_config.json", "model.safetensors.index.json", "a.safetensors", "b.safetensors"];

const TARGETS: [DataType; 4] = [DataType::BFloat16, DataType::Float16, DataType::Float8E4M3FN, DataType::Int8];

/// A byte for the request; for each file a byte for its name, two for a length, and its bytes.
pub fn checkpoint(data: &[u8]) {
    let Some((&choice, rest)) = data.split_first() else { return };
    scratch::clear();
    fs::create_dir(scratch::path("in")).expect("a folder");
    if scratch::lay_out(rest, "in/", &NAMES).is_err() {
        return;
    }
    let to = TARGETS[usize::from(choice) % TARGETS.len()];
    let allow_nan = choice & 0x10 != 0;
    let float = DequantizeRequest::new(DataType::Float).allow_nan(allow_nan);
    let input = scratch::path("in");
    let plan = dequantize_file(&input, scratch::path("plan"), &float.clone().run(float.run.clone().dry_run(true)));
    assert!(!scratch::path("plan").exists(), "a plan writes");
    let wide = scratch::path("wide");
    let done = match dequantize_file(&input, &wide, &float) {
        Ok(done) => done,
        Err(error) => {
            assert!(plan.is_err(), "planned, and then refused: {error}");
            assert!(fs::read_dir(&wide).map_or(true, |mut files| files.next().is_none()), "refused, with files");
            return;
        }
    };
    assert_eq!(plan.expect("a checkpoint that was dequantized").tensors, done.tensors, "the plan");
    let floats = tensors(&wide);
    assert_eq!(floats.len(), done.tensors.len(), "tensors");
    for row in &done.tensors {
        let tensor = &floats[&row.name];
        assert_eq!((tensor.data_type(), tensor.shape()), (row.to, &row.shape[..]), "tensor {}", row.name);
    }
    let listed = inspect(&wide, &InspectRequest::default()).expect("a checkpoint that was written");
    assert_eq!(listed.tensors.len(), floats.len(), "the index of what was written");
    let again = dequantize_file(&input, &wide, &float.clone().run(float.run.clone().resume(true)));
    assert_eq!(again.expect("done before").already_there, listed.files, "files that were there");
    check_cast(&input, &floats, &done, &DequantizeRequest::new(to).allow_nan(allow_nan));
}

/// Another type is a cast of what stands there as float.
fn check_cast(
    input: &Path,
    floats: &BTreeMap<String, Tensor>,
    done: &onnx_cast_file::Summary,
    request: &DequantizeRequest,
) {
    let output = scratch::path("narrow");
    dequantize_file(input, &output, request).expect("dequantized to float");
    let narrow = tensors(&output);
    for row in &done.tensors {
        let mut want = floats[&row.name].clone();
        if row.cast {
            let to = request.selection.to.expect("a type");
            let cast = Cast::new(to, &CastOptions::default()).expect("a cast");
            want = cast.run(&want.view()).expect("a cast of floats");
        }
        assert_eq!(narrow[&row.name], want, "tensor {}, cast", row.name);
    }
}

/// The tensors of all files of a folder.
fn tensors(folder: &Path) -> BTreeMap<String, Tensor> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("the output") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "safetensors") {
            let file = InputFile::open(&path).expect("a file that was written");
            for NamedTensor { name, tensor } in
                read_tensors_from(file, Format::Safetensors, None).expect("a file that was written")
            {
                assert!(all.insert(name, tensor).is_none(), "a name twice");
            }
        }
    }
    all
}
