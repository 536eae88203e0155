//! Do ONNX's own cases pass? Every case of the casts and the scaled casts of the onnx packages that `scripts/setup.py`
//! exports to `.cache/onnx-cases/`: a model, its inputs and its outputs as files, read by this crate, run, and compared
//! byte for byte. There are no exceptions, and NaN needs none either: its bits are ONNX's in every case.

use onnx_cast::DataType;
use onnx_cast::ops::Operator;
use onnx_cast_file::{NamedTensor, read_tensor};
use onnx_cast_model::Model;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The release whose cases are files, and the newest, whose cases are generated.
const RELEASES: [&str; 2] = ["1.22.0", "1.23.2"];
/// How many cases each of them has.
const COUNTS: [(Operator, &str, usize); 6] = [
    (Operator::Cast, "test_cast_", 60),
    (Operator::CastLike, "test_castlike_", 112),
    (Operator::BitCast, "test_bitcast_", 10),
    (Operator::QuantizeLinear, "test_quantizelinear", 13),
    (Operator::DequantizeLinear, "test_dequantizelinear", 14),
    (Operator::DynamicQuantizeLinear, "test_dynamicquantizelinear", 3),
];

/// The folders of a release's cases, by name.
fn cases(release: &str) -> BTreeMap<String, PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/onnx-cases").join(release);
    let list = |error| panic!("{}: {error}: run `python3 scripts/setup.py` to make it", folder.display());
    let entries = std::fs::read_dir(&folder).unwrap_or_else(list);
    entries
        .map(|entry| entry.unwrap_or_else(|error| panic!("{}: {error}", folder.display())))
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
        .collect()
}

/// Runs a case and says what is wrong with it.
fn run(folder: &Path) -> Result<(), String> {
    let model = Model::read(folder.join("model.onnx")).map_err(|error| error.to_string())?;
    let data_set = folder.join("test_data_set_0");
    let read = |kind: &str, index: usize| {
        read_tensor(data_set.join(format!("{kind}_{index}.pb"))).map_err(|error| error.to_string())
    };
    let mut inputs = Vec::new();
    for (index, input) in model.inputs().iter().enumerate() {
        inputs.push(NamedTensor { name: input.name.clone(), tensor: read("input", index)?.tensor });
    }
    let outputs = model.run(inputs).map_err(|error| error.to_string())?;
    if outputs.len() != model.outputs().len() {
        return Err(format!("{} outputs, want {}", outputs.len(), model.outputs().len()));
    }
    for (index, (got, declared)) in outputs.iter().zip(model.outputs()).enumerate() {
        let want = read("output", index)?.tensor;
        let name = &declared.name;
        if got.name != *name || declared.data_type != Some(want.data_type()) {
            return Err(format!("output {index} is {} of type {}", got.name, got.tensor.data_type()));
        }
        if (got.tensor.data_type(), got.tensor.shape()) != (want.data_type(), want.shape()) {
            let shape = |tensor: &onnx_cast::Tensor| format!("{} {:?}", tensor.data_type(), tensor.shape());
            return Err(format!("`{name}` is {}, want {}", shape(&got.tensor), shape(&want)));
        }
        if got.tensor != want {
            return Err(format!("`{name}` is\n  {:02x?}, want\n  {:02x?}", got.tensor.bytes(), want.bytes()));
        }
    }
    Ok(())
}

#[test]
fn every_case_of_every_release_passes() {
    for release in RELEASES {
        let cases = cases(release);
        let mut failures = Vec::new();
        for (name, folder) in &cases {
            if let Err(problem) = run(folder) {
                failures.push(format!("{name}: {problem}"));
            }
        }
        let passed = cases.len() - failures.len();
        assert!(failures.is_empty(), "onnx {release}: {passed} cases pass, these do not:\n{}", failures.join("\n"));
    }
}

#[test]
fn no_case_is_missing() {
    for release in RELEASES {
        let cases = cases(release);
        for (operator, prefix, want) in COUNTS {
            let got = cases.keys().filter(|name| name.starts_with(prefix)).count();
            assert_eq!(got, want, "cases of {operator} in onnx {release}");
        }
        let known: usize = COUNTS.iter().map(|(_, _, count)| count).sum();
        assert_eq!(cases.len(), known, "cases in onnx {release}");
        for (name, folder) in &cases {
            let sets = std::fs::read_dir(folder)
                .unwrap_or_else(|error| panic!("{name}: {error}"))
                .filter_map(Result::ok)
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            assert_eq!(sets.count(), 1, "{name} of onnx {release}: data sets");
        }
    }
    let [older, newest] = RELEASES.map(|release| cases(release).into_keys().collect::<BTreeSet<_>>());
    assert_eq!(older, newest, "the releases have the same cases");
}

#[test]
fn the_models_import_the_opsets_of_their_release() {
    for (release, opset_of_cast) in RELEASES.into_iter().zip([25, 28]) {
        for (name, folder) in cases(release) {
            let model = Model::read(folder.join("model.onnx"))
                .unwrap_or_else(|error| panic!("{name}, onnx {release}: {error}"));
            let want = match name.as_str() {
                name if name.starts_with("test_cast_") => opset_of_cast,
                // The expanded form of a CastLike is a Cast at the same opset.
                name if name.starts_with("test_castlike_") => 25,
                name if name.starts_with("test_dynamicquantizelinear") => 11,
                name if name.contains("quantizelinear") => opset_of_cast,
                _ => 26,
            };
            assert_eq!(model.opset(), want, "{name} of onnx {release}");
            assert!(model.inputs().iter().all(|input| input.data_type != Some(DataType::String)), "{name}: no strings");
        }
    }
}
