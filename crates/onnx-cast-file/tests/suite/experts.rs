//! Is a tensor with all experts of a layer quantized as if the checkpoint contained single experts?

use onnx_cast::{Tensor, TensorView};
use onnx_cast_file::{
    Format, InputFile, Layout, QuantizeRequest, ReportRequest, RunOptions, WeightFormat, quantize_file,
    read_tensors_from, report, safetensors,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const EXPERTS: usize = 3;
const HIDDEN: usize = 96;
const INNER: usize = 64;

/// A family of models: its configuration, the path of its experts, the suffixes of the two joined tensors, the suffixes
/// of a single expert (gate, up and down), and whether the last axis is the input axis.
type Family = (&'static str, &'static str, [&'static str; 2], [&'static str; 3], bool);

const NAMES: [&str; 2] = ["experts.gate_up_proj", "experts.down_proj"];
const PROJECTIONS: [&str; 3] = ["gate_proj", "up_proj", "down_proj"];
const FAMILIES: [Family; 3] = [
    (
        r#"{"model_type": "qwen3_5_moe", "text_config": {"model_type": "qwen3_5_moe_text"}}"#,
        "model.language_model.layers.0.mlp.",
        NAMES,
        PROJECTIONS,
        true,
    ),
    (
        r#"{"model_type": "granitemoe"}"#,
        "model.layers.0.block_sparse_moe.",
        ["input_linear.weight", "output_linear.weight"],
        PROJECTIONS,
        true,
    ),
    (
        r#"{"model_type": "llama4", "text_config": {"model_type": "llama4_text"}}"#,
        "language_model.model.layers.0.feed_forward.",
        NAMES,
        PROJECTIONS,
        false,
    ),
];

/// Value at a row and column of an expert's weight.
fn value(expert: usize, weight: usize, row: usize, column: usize) -> f32 {
    ((expert * 31 + weight * 17 + row * 7 + column * 13) % 127) as f32 / 64.0 - 1.0
}

fn tensor(shape: Vec<usize>, at: impl Fn(usize, usize, usize) -> f32) -> Tensor {
    let &[count, rows, columns] = &[vec![1; 3 - shape.len()], shape.clone()].concat()[..] else { panic!("three axes") };
    let place = |index: usize| (index / (rows * columns), index / columns % rows, index % columns);
    let values = (0..count * rows * columns).map(place).map(|(matrix, row, column)| at(matrix, row, column));
    Tensor::from_slice(shape, &values.collect::<Vec<f32>>()).expect("a tensor")
}

fn write(folder: &Path, config: &str, tensors: &[(String, Tensor)]) {
    fs::create_dir(folder).expect("a folder");
    fs::write(folder.join("config.json"), config).expect("written");
    let views: Vec<(&str, TensorView<'_>)> = tensors.iter().map(|(name, one)| (&**name, one.view())).collect();
    fs::write(folder.join("model.safetensors"), safetensors::write(None, &views).expect("a file")).expect("written");
}

/// Writes a checkpoint with joined experts, and one with the same experts as single weights.
fn checkpoints(folder: &Path, (config, start, joined, single, has_inputs_last): Family) {
    let query = || {
        (
            "model.layers.0.self_attn.q_proj.weight".to_owned(),
            tensor(vec![64, HIDDEN], |_, row, column| value(9, 9, row, column)),
        )
    };
    // The rows of gate are followed by those of up.
    let both = |expert, row: usize, column| value(expert, row / INNER, row % INNER, column);
    let all = match has_inputs_last {
        true => [
            tensor(vec![EXPERTS, 2 * INNER, HIDDEN], both),
            tensor(vec![EXPERTS, HIDDEN, INNER], |expert, row, column| value(expert, 2, row, column)),
        ],
        false => [
            tensor(vec![EXPERTS, HIDDEN, 2 * INNER], |expert, row, column| both(expert, column, row)),
            tensor(vec![EXPERTS, INNER, HIDDEN], |expert, row, column| value(expert, 2, column, row)),
        ],
    };
    let named = joined.map(|name| format!("{start}{name}")).into_iter().zip(all);
    write(&folder.join("joined"), config, &named.chain([query()]).collect::<Vec<_>>());
    let mut tensors = vec![query()];
    for expert in 0..EXPERTS {
        for (weight, name) in single.iter().enumerate() {
            let shape = if weight == 2 { vec![HIDDEN, INNER] } else { vec![INNER, HIDDEN] };
            let name = format!("{start}experts.{expert}.{name}.weight");
            tensors.push((name, tensor(shape, |_, row, column| value(expert, weight, row, column))));
        }
    }
    write(&folder.join("single"), config, &tensors);
}

fn read(folder: &Path) -> BTreeMap<String, (Vec<usize>, Vec<u8>)> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("one").path()) {
        if entry.extension().is_some_and(|extension| extension == "safetensors") {
            let file = InputFile::open(&entry).expect("a file");
            for one in read_tensors_from(file, Format::Safetensors, None).expect("tensors") {
                let bytes = one.tensor.bytes().expect("numbers").to_vec();
                all.insert(one.name, (one.tensor.shape().to_vec(), bytes));
            }
        }
    }
    all
}

fn request(to: &str, layout: Layout) -> QuantizeRequest {
    QuantizeRequest::new(to.parse::<WeightFormat>().expect("a format")).layout(Some(layout))
}

#[test]
fn experts_in_one_tensor_are_quantized_one_by_one() {
    let (ct, modelopt) = (Layout::CompressedTensors, Layout::ModelOpt);
    for family in FAMILIES {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        checkpoints(folder.path(), family);
        for (index, (layout, to)) in
            [(ct, "nvfp4"), (ct, "int4/32"), (ct, "float8e4m3fn"), (modelopt, "nvfp4"), (modelopt, "mxfp8")]
                .into_iter()
                .enumerate()
        {
            let what = format!("{} {layout:?} {to}", family.0);
            let [joined, single] = ["joined", "single"].map(|name| {
                let output = path(&format!("{name}-{index}"));
                quantize_file(path(name), &output, &request(to, layout)).expect(&what);
                (read(&output), fs::read_to_string(output.join("config.json")).expect("read"))
            });
            // ModelOpt keeps Llama 4's experts in one tensor.
            let is_split = layout == ct || family.4;
            assert_eq!(joined == single, is_split, "{what}");
            assert_eq!(joined.0.keys().any(|name| name.contains(".experts.0.")), is_split, "{what}");
        }
        // With a shard size the same tensors are written, and a report predicts them.
        let divided = request("nvfp4", ct).run(RunOptions::new().shard_size(Some("20KB".parse().expect("a size"))));
        quantize_file(path("joined"), path("divided"), &divided).expect("quantized");
        assert!(
            read(&path("divided")) == read(&path("single-0")) && path("divided/model.safetensors.index.json").exists()
        );
        let nvfp4 = "nvfp4".parse().expect("a format");
        let found = report(path("joined"), &ReportRequest::default().to(vec![nvfp4])).expect("a report");
        let bytes: usize = read(&path("joined-0")).values().map(|(_, bytes)| bytes.len()).sum();
        assert_eq!(found.totals(nvfp4).bytes_after, bytes as u64, "{}", family.0);
        assert_eq!(found.tensors.len(), 3, "{}", family.0);
    }
}

#[test]
fn experts_that_stay_in_one_tensor() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    checkpoints(folder.path(), FAMILIES[0]);
    let kept = |input: &str, output: &str, request: &QuantizeRequest| {
        quantize_file(path(input), path(output), request).expect("quantized");
        read(&path(output)).keys().all(|name| !name.contains("experts.0."))
    };
    // A tensor is not split if a pattern or rule matches it, or if the layout's loaders read it whole.
    let mut rule = request("nvfp4", Layout::CompressedTensors);
    rule.selection.rules.push("*experts.down_proj=keep".parse().expect("a rule"));
    assert!(kept("joined", "rule", &rule));
    let mut excluded = request("nvfp4", Layout::CompressedTensors);
    excluded.selection.exclude.push("*.gate_up_proj".parse().expect("a pattern"));
    assert!(kept("joined", "excluded", &excluded));
    assert!(kept("joined", "deepseek", &request("float8e4m3fn", Layout::DeepSeek)));
    // Rules also apply to single experts.
    let mut one = request("nvfp4", Layout::CompressedTensors);
    one.selection.rules.push("*experts.1.*=keep".parse().expect("a rule"));
    quantize_file(path("joined"), path("one"), &one).expect("quantized");
    let names = read(&path("one"));
    assert!(names.contains_key("model.language_model.layers.0.mlp.experts.1.down_proj.weight"));
    assert!(names.contains_key("model.language_model.layers.0.mlp.experts.0.down_proj.weight_packed"));
    // Experts of other models, or with unexpected shapes, are not split.
    fs::create_dir(path("other")).expect("a folder");
    fs::copy(path("joined/model.safetensors"), path("other/model.safetensors")).expect("copied");
    for (index, config) in [r#"{"model_type": "mine"}"#, FAMILIES[2].0].iter().enumerate() {
        fs::write(path("other/config.json"), config).expect("written");
        assert!(kept("other", &format!("other-{index}"), &request("nvfp4", Layout::CompressedTensors)), "{config}");
    }
}
