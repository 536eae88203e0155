//! Quantized checkpoints that contradict themselves: each is refused by an error that names what is wrong, and nothing
//! is written.

use crate::common::checkpoint;
use crate::common::replacing::dequantize_file;

use checkpoint::{Checkpoint, Tensor, bits, codes, file, floats, ints, is_empty, longs, to};
use onnx_cast::DataType;
use onnx_cast_file::{
    DiffRequest, Layout, Pattern, QuantizeRequest, QuantizedFormat, WriteOptions, diff, quantize_file,
};

const FP8: &str =
    r#"{"quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]},"torch_dtype":"bfloat16"}"#;
const GPT_OSS: &str = r#"{"quantization_config":{"quant_method":"mxfp4"}}"#;

/// A configuration of compressed-tensors for weights of some bits in groups.
fn groups(bits: u32, kind: &str, size: u32) -> String {
    format!(
        r#"{{"quantization_config":{{"quant_method":"compressed-tensors","config_groups":{{"group_0":{{"weights":
        {{"num_bits":{bits},"type":"{kind}","group_size":{size}}}}}}}}}}}"#
    )
}

/// A configuration of ModelOpt.
fn modelopt(algorithm: &str) -> String {
    format!(r#"{{"quantization_config":{{"quant_method":"modelopt","quant_algo":"{algorithm}"}}}}"#)
}

#[test]
fn scales_of_a_wrong_shape() {
    let weight = || codes("a.weight", "F8_E4M3", &[300, 200]);
    let scale = |shape: &[usize]| floats("a.weight_scale_inv", shape, &[1.0]);
    Checkpoint::new(FP8, &[weight(), scale(&[2, 2])]).refuses(
        "model.safetensors: tensor `a.weight_scale_inv`: scales of shape 2x2 for a weight of shape 300x200 (want one, \
         one for each row, or one for each block of 128x128)",
    );
    let no_block = FP8.replace(r#","weight_block_size":[128,128]"#, "");
    Checkpoint::new(&no_block, &[weight(), scale(&[3, 2])]).refuses(
        "model.safetensors: tensor `a.weight_scale_inv`: scales of shape 3x2 for a weight of shape 300x200 (want one, \
         one for each row, or blocks that the configuration names)",
    );
    Checkpoint::new(
        &modelopt("NVFP4"),
        &[
            codes("a.weight", "U8", &[4, 16]),
            codes("a.weight_scale", "F8_E4M3", &[4, 1]),
            floats("a.weight_scale_2", &[], &[1e-4]),
        ],
    )
    .refuses(
        "model.safetensors: tensor `a.weight_scale`: scales of shape 4x1 for a weight of shape 4x32 (want one for each \
         16 columns, 4x2)",
    );
    // Blocks that do not divide the weight have short ones at its edges, and only so many.
    let config = FP8.replace("128,128", "7,9");
    let blocks = |shape: &[usize]| [codes("a.weight", "F8_E4M3", &[20, 20]), scale(shape)];
    Checkpoint::new(&config, &blocks(&[2, 2])).refuses(
        "model.safetensors: tensor `a.weight_scale_inv`: scales of shape 2x2 for a weight of shape 20x20 (want one, \
         one \
         for each row, or one for each block of 7x9)",
    );
    let values = Checkpoint::new(&config, &blocks(&[3, 3])).gives(&to(DataType::Float));
    assert_eq!(bits(&values[0]), [1.0f32.to_bits(); 400]);
    Checkpoint::new(
        GPT_OSS,
        &[codes("e.gate_up_proj_blocks", "U8", &[2, 4, 2, 15]), codes("e.gate_up_proj_scales", "U8", &[2, 4, 2])],
    )
    .refuses(
        "model.safetensors: tensor `e.gate_up_proj_blocks`: uint8 of shape 2x4x2x15 (want 16 bytes for each block, as \
         the last axis)",
    );
    Checkpoint::new(
        GPT_OSS,
        &[codes("e.gate_up_proj_blocks", "U8", &[4, 2, 16]), codes("e.gate_up_proj_scales", "U8", &[4, 2])],
    )
    .refuses(
        "model.safetensors: tensor `e.gate_up_proj_blocks`: uint8 of shape 4x2x16 (want experts, rows, blocks and 16 \
         bytes)",
    );
}

/// Unsigned words of 32 bits.
fn codes_of_words(name: &'static str, shape: &[usize]) -> Tensor {
    Tensor(name, "U32", shape.to_vec(), vec![0x11; 4 * shape.iter().product::<usize>()])
}

#[test]
fn parts_that_are_missing() {
    let whole = || [codes("a.weight", "F8_E4M3", &[2, 2]), floats("a.weight_scale_inv", &[1, 1], &[1.0])];
    let [weight, scale] = whole();
    let [a, b] = whole();
    let single = |tensor: Tensor| [a, b].into_iter().chain([tensor]).collect::<Vec<_>>();
    Checkpoint::new(FP8, &single(codes("b.weight", "F8_E4M3", &[2, 2]))).refuses(
        "model.safetensors: tensor `b.weight`: float8e4m3fn elements without scales (want `b.weight_scale_inv`; \
         `exclude` keeps the tensor as it is)",
    );
    Checkpoint::new(FP8, &[weight, scale, floats("b.weight_scale_inv", &[1, 1], &[1.0])])
        .refuses("model.safetensors: tensor `b.weight_scale_inv`: scales without a weight (want `b.weight`)");
    // Packed elements without scales have no type of their own, yet no plain model holds such weights.
    for data_type in ["U8", "I8"] {
        let named = if data_type == "U8" { "uint8" } else { "int8" };
        let tensors = [
            codes("a.weight", "U8", &[2, 16]),
            codes("a.weight_scale", "U8", &[2, 1]),
            codes("b.weight", data_type, &[2, 16]),
        ];
        Checkpoint::new(&modelopt("MXFP4"), &tensors).refuses(&format!(
            "model.safetensors: tensor `b.weight`: {named} elements without scales (want `b.weight_scale`; `exclude` \
             keeps the tensor as it is)"
        ));
    }
    let nvfp4 = [codes("a.weight", "U8", &[2, 8]), codes("a.weight_scale", "F8_E4M3", &[2, 1])];
    Checkpoint::new(&modelopt("NVFP4"), &nvfp4).refuses(
        "model.safetensors: tensor `a.weight`: the global scale of NVFP4 is missing (want `a.weight_scale_2`)",
    );
    let nvfp4 = [codes("a.weight_packed", "U8", &[2, 8]), codes("a.weight_scale", "F8_E4M3", &[2, 1])];
    Checkpoint::new(&groups(4, "float", 16), &nvfp4).refuses(
        "model.safetensors: tensor `a.weight_packed`: the global scale of NVFP4 is missing (want \
         `a.weight_global_scale`)",
    );
    Checkpoint::new("", &[floats("a.weight", &[2, 2], &[1.0])])
        .refuses("model.safetensors: no quantized weights, by the configuration and the names of tensors");
    // These names leave the layout open, so that the configuration is what is missing.
    for (elements, scales, looks) in [
        (ints("a.qweight", &[8, 8], &[1]), floats("a.scales", &[1, 8], &[1.0]), " of GPTQ or AWQ"),
        (codes_of_words("a.weight", &[8, 8]), floats("a.scales", &[8, 1], &[1.0]), " of mlx"),
    ] {
        let name = elements.0;
        Checkpoint::new("{}", &[elements, scales]).refuses(&format!(
            "model.safetensors: tensor `{name}`: it looks like a quantized weight{looks}, with `a.scales`, but no \
             configuration names the layout (want its configuration, or a `layout`)"
        ));
    }
    Checkpoint::new(FP8, &[floats("a.weight", &[2, 2], &[1.0])]).refuses(
        "model.safetensors: no weights in the layout deepseek (is the checkpoint dequantized already? `layout` chooses \
         another layout)",
    );
}

#[test]
fn what_is_excluded_needs_no_scales() {
    let tensors = [
        codes("a.weight", "F8_E4M3", &[1, 2]),
        floats("a.weight_scale_inv", &[1, 1], &[2.0]),
        codes("b.weight", "F8_E4M3", &[1, 2]),
    ];
    let checkpoint = Checkpoint::new(FP8, &tensors);
    let mut request = to(DataType::Float);
    request.selection.exclude = vec!["b.*".parse::<Pattern>().expect("a pattern")];
    let values = checkpoint.gives(&request);
    assert_eq!((bits(&values[0]), values[1].tensor.bytes()), (vec![2.0f32.to_bits(); 2], Some(&[0x38; 2][..])));
}

#[test]
fn scales_that_are_nan() {
    let nan = |name, len: usize, at: usize| {
        let mut values = vec![1.0; len];
        values[at] = f32::NAN;
        floats(name, &[len, 1], &values)
    };
    let checkpoint =
        Checkpoint::new(FP8, &[codes("a.weight", "F8_E4M3", &[300, 2]), nan("a.weight_scale_inv", 300, 207)]);
    checkpoint.refuses(
        "model.safetensors: tensor `a.weight_scale_inv`: scale 207 is NaN (`allow_nan` gives NaN for its block)",
    );
    let values = checkpoint.gives(&to(DataType::Float).allow_nan(true));
    let is_nan: Vec<usize> =
        bits(&values[0]).iter().enumerate().filter(|(_, bits)| **bits == 0x7fc0_0000).map(|(at, _)| at).collect();
    assert_eq!(is_nan, [414, 415]);

    let mut scales = codes("e.gate_up_proj_scales", "U8", &[2, 4, 2]);
    scales.3[9] = 0xff;
    Checkpoint::new(GPT_OSS, &[codes("e.gate_up_proj_blocks", "U8", &[2, 4, 2, 16]), scales]).refuses(
        "model.safetensors: tensor `e.gate_up_proj_scales`: scale 9 is NaN (`allow_nan` gives NaN for its block)",
    );
    let nvfp4 = |block: u8, global: f32| {
        let mut scales = codes("a.weight_scale", "F8_E4M3", &[2, 2]);
        scales.3[3] = block;
        let weight = codes("a.weight", "U8", &[2, 16]);
        Checkpoint::new(&modelopt("NVFP4"), &[weight, scales, floats("a.weight_scale_2", &[], &[global])])
    };
    nvfp4(0xff, 1e-4)
        .refuses("model.safetensors: tensor `a.weight_scale`: scale 3 is NaN (`allow_nan` gives NaN for its block)");
    nvfp4(0x38, f32::NAN)
        .refuses("model.safetensors: tensor `a.weight_scale_2`: scale 0 is NaN (`allow_nan` gives NaN for its block)");
}

#[test]
fn names_that_collide() {
    let packed = [
        codes("a.weight_packed", "U8", &[2, 16]),
        codes("a.weight_scale", "U8", &[2, 1]),
        floats("a.weight", &[2, 32], &[1.0]),
    ];
    Checkpoint::new(&groups(4, "float", 32), &packed)
        .refuses("model.safetensors: two tensors would be named `a.weight`");
    // Neither of two values is the one to compare, so that a checkpoint would differ from itself.
    let checkpoint = Checkpoint::new(&groups(4, "float", 32), &packed);
    let by_value = DiffRequest::default().values(true);
    let refused = diff(checkpoint.input(), checkpoint.input(), &by_value).expect_err("two values of one name");
    assert_eq!(
        testkit::fixtures::text_without(&checkpoint.input(), refused),
        "model.safetensors: two tensors would be named `a.weight`"
    );
    assert!(diff(checkpoint.input(), checkpoint.input(), &DiffRequest::default()).expect("compared").is_empty());
    let blocks =
        || [codes("e.gate_up_proj_blocks", "U8", &[1, 4, 2, 16]), codes("e.gate_up_proj_scales", "U8", &[1, 4, 2])];
    let [elements, scales] = blocks();
    Checkpoint::sharded(
        GPT_OSS,
        r#"{"e.gate_up_proj_blocks":"1.safetensors","e.gate_up_proj_scales":"1.safetensors",
            "e.gate_up_proj":"2.safetensors"}"#,
        &[("1.safetensors", &[elements, scales]), ("2.safetensors", &[floats("e.gate_up_proj", &[2], &[1.0])])],
    )
    .refuses("2.safetensors: two tensors would be named `e.gate_up_proj`");
}

#[test]
fn an_index_that_lies_and_a_shard_that_is_missing() {
    let weight = || codes("a.weight", "F8_E4M3", &[2, 2]);
    let scale = || floats("a.weight_scale_inv", &[1, 1], &[1.0]);
    let index = r#"{"a.weight":"1.safetensors","a.weight_scale_inv":"2.safetensors"}"#;
    let good = Checkpoint::sharded(FP8, index, &[("1.safetensors", &[weight()]), ("2.safetensors", &[scale()])]);
    good.run(&to(DataType::BFloat16)).expect("a good checkpoint");
    for (shards, want) in [
        (
            [("1.safetensors", &[weight(), floats("a.bias", &[2], &[1.0])][..]), ("2.safetensors", &[scale()])],
            "model.safetensors.index.json: tensor `a.bias` of 1.safetensors is missing from weight_map",
        ),
        (
            [("1.safetensors", &[weight()]), ("2.safetensors", &[])],
            "model.safetensors.index.json: tensor `a.weight_scale_inv` is not in 2.safetensors, where weight_map has \
             it",
        ),
        (
            [("1.safetensors", &[weight()]), ("3.safetensors", &[scale()])],
            "2.safetensors: cannot open: No such file or directory (os error 2)",
        ),
    ] {
        Checkpoint::sharded(FP8, index, &shards).refuses(want);
    }
    let cut = Checkpoint::sharded(FP8, index, &[("1.safetensors", &[weight()])]);
    cut.write("2.safetensors", &file(&[scale()])[..60]);
    let error = cut.run(&to(DataType::BFloat16)).expect_err("a file that is cut short").to_string();
    assert!(error.contains("2.safetensors: a header of") && is_empty(&cut.output()), "{error}");
    Checkpoint::sharded(FP8, r#"{"a.weight":"../1.safetensors"}"#, &[]).refuses(
        "model.safetensors.index.json: weight_map names the file `../1.safetensors` (want the name of a .safetensors \
         file, without a folder)",
    );
}

#[test]
fn a_configuration_that_claims_something_else() {
    let fp8 = || [codes("a.weight", "F8_E4M3", &[2, 16]), floats("a.weight_scale", &[], &[1.0])];
    Checkpoint::new(&modelopt("NVFP4"), &fp8()).refuses(
        "model.safetensors: tensor `a.weight`: the configuration claims NVFP4, and the tensor holds FP8 (scales of \
         float, scalar)",
    );
    Checkpoint::new(GPT_OSS, &[codes("e.w_blocks", "F8_E4M3", &[2, 16]), floats("e.w_scales", &[], &[1.0])]).refuses(
        "model.safetensors: tensor `e.w_blocks`: the configuration claims mxfp4, and the tensor holds FP8 (scales of \
         float, scalar)",
    );
    // Each layer has a claim of its own.
    let checkpoint = Checkpoint::new("", &fp8());
    checkpoint.write(
        "hf_quant_config.json",
        br#"{"quantization":{"quant_algo":"MIXED_PRECISION","quantized_layers":{"a":{"quant_algo":"NVFP4"}}}}"#,
    );
    checkpoint.refuses(
        "model.safetensors: tensor `a.weight`: the configuration claims NVFP4, and the tensor holds FP8 (scales of \
         float, scalar)",
    );
    checkpoint.write(
        "hf_quant_config.json",
        br#"{"quantization":{"quant_algo":"MIXED_PRECISION","quantized_layers":{"a":{"quant_algo":"FP8"}}}}"#,
    );
    checkpoint.run(&to(DataType::BFloat16)).expect("a claim that holds");
    Checkpoint::new(
        &groups(4, "int", 32),
        &[codes("a.weight", "I8", &[2, 16]), floats("a.weight_scale", &[2, 1], &[1.0])],
    )
    .refuses(
        "model.safetensors: tensor `a.weight`: the configuration claims integers of 4 bits, and the tensor holds \
         integers of 8 bits (scales of float, 2x1)",
    );
    let unknown = [codes("a.weight", "F8_E4M3", &[2, 16]), ints("a.weight_scale", &[1], &[1])];
    Checkpoint::new(&modelopt("FP8"), &unknown).refuses(
        "model.safetensors: tensor `a.weight`: float8e4m3fn elements with int32 scales are in no known layout",
    );
}

#[test]
fn methods_that_are_not_known() {
    let names: Vec<&str> = Layout::ALL.iter().map(|(_, name)| *name).collect();
    let known = format!("(known: {}; `layout` chooses one)", names.join(", "));
    let tensors = || [codes("a.weight", "F8_E4M3", &[2, 2]), floats("a.weight_scale", &[], &[1.0])];
    for method in ["exotic", "w3q"] {
        let config = format!(r#"{{"quantization_config":{{"quant_method":"{method}","bits":4}}}}"#);
        Checkpoint::new(&config, &tensors())
            .refuses(&format!("config.json: `quant_method` is `{method}`, which is not a known layout {known}"));
    }
    Checkpoint::new(r#"{"quantization_config":{"bits":4}}"#, &tensors())
        .refuses(&format!("config.json: quantization_config has no `quant_method`, which names the layout {known}"));
    let checkpoint =
        Checkpoint::new(r#"{"text_config":{"quantization_config":{"quant_method":"exotic"}}}"#, &tensors());
    checkpoint.refuses(&format!("config.json: `quant_method` is `exotic`, which is not a known layout {known}"));
    let layout = Some(Layout::CompressedTensors);
    checkpoint.gives(&to(DataType::BFloat16).layout(layout));
}

#[test]
fn a_layout_that_is_given_overrules_the_configuration() {
    let fp8 = || [codes("a.weight", "F8_E4M3", &[2, 32]), floats("a.weight_scale", &[2, 1], &[1.0])];
    for (config, tensors, layout) in [
        // Another layout, and the same one with another format.
        (modelopt("NVFP4"), fp8(), Layout::CompressedTensors),
        (modelopt("NVFP4"), fp8(), Layout::ModelOpt),
        (groups(4, "float", 16), fp8(), Layout::CompressedTensors),
        (groups(4, "int", 32), fp8(), Layout::Fbgemm),
        (GPT_OSS.to_owned(), fp8(), Layout::Plain),
    ] {
        let checkpoint = Checkpoint::new(&config, &tensors);
        assert!(checkpoint.run(&to(DataType::Float)).is_err(), "{layout:?}, {config}");
        checkpoint.gives(&to(DataType::Float).layout(Some(layout)));
    }
}

#[test]
fn tensors_that_change_the_weights_beside_them() {
    for name in ["a.pre_quant_scale", "a.svdquant_lora_a", "a.svdquant_lora_b"] {
        let tensors =
            [codes("a.weight", "F8_E4M3", &[2, 2]), floats("a.weight_scale", &[], &[1.0]), floats(name, &[2], &[1.0])];
        Checkpoint::new(&modelopt("FP8"), &tensors).refuses(&format!(
            "model.safetensors: tensor `{name}`: it changes the weights beside it, and is unsupported: without it \
             they would be wrong"
        ));
    }
}

/// Factors of LoRA, by the names of PEFT and kohya, are kept beside the weights that are quantized, and when they become
/// plain again.
#[test]
fn adapters_are_read_beside_the_weights_that_quantize_writes() {
    let layer = |name| floats(name, &[64, 64], &[1.0, -0.5, 0.25]);
    for (to, layout) in [
        ("int8", None),
        ("int4", Some(Layout::CompressedTensors)),
        ("float8e4m3fn", Some(Layout::DeepSeek)),
        ("nvfp4", Some(Layout::ModelOpt)),
    ] {
        let tensors = [
            layer("m.0.q_proj.weight"),
            floats("m.0.q_proj.lora_A.weight", &[8, 64], &[1.0]),
            floats("m.0.q_proj.lora_B.weight", &[64, 8], &[2.0]),
            layer("m.0.k_proj.base_layer.weight"),
            floats("m.0.k_proj.lora_A.default.weight", &[8, 64], &[3.0]),
            layer("m.0.v_proj.weight"),
            floats("m.0.v_proj.lora_up.weight", &[64, 8], &[4.0]),
            floats("m.0.v_proj.lora_down.weight", &[8, 64], &[5.0]),
        ];
        let plain = Checkpoint::new("{}", &tensors);
        let quantized = Checkpoint::new("{}", &[]);
        let request = QuantizeRequest::new(to.parse::<QuantizedFormat>().expect("a format")).layout(layout);
        let request = request.clone().run(request.run.clone().write(WriteOptions::default().force(true)));
        let done = quantize_file(plain.input(), quantized.input(), &request).expect(to);
        assert_eq!(done.kept_matrices().as_deref(), Some("5 matrices: factor of LoRA (5)"), "{to}");
        let names: Vec<String> = quantized.gives(&self::to(DataType::Float)).into_iter().map(|one| one.name).collect();
        assert!(tensors.iter().all(|tensor| names.iter().any(|name| name == tensor.0)), "{to}: {names:?}");
        let mut by_value = DiffRequest::default();
        by_value.values = true;
        let found = diff(plain.input(), quantized.input(), &by_value).expect(to);
        assert!(found.iter().all(|(name, _)| !name.contains("lora")), "{to}: {found:?}");
    }
}

/// A second scale would change the weight if anything read it.
#[test]
fn scales_that_the_layout_does_not_read() {
    let weight = || [codes("a.weight", "F8_E4M3", &[2, 2]), floats("a.weight_scale", &[], &[1.0])];
    for name in [
        "a.weight_scale_2",
        "a.weight_global_scale",
        "a.weight_scale_inv",
        "a.scale_weight",
        "a.qzeros",
        "a.absmax",
        "a.smooth_scale",
        "a.bias_scale",
        "a.weight_offset",
        "b.weight_scale_2",
        "b.weight_global_scale",
    ] {
        let [codes, scale] = weight();
        let checkpoint = Checkpoint::new(&modelopt("FP8"), &[codes, scale, floats(name, &[1], &[2.0])]);
        let error = checkpoint.run(&to(DataType::Float)).expect_err(name).to_string();
        assert!(error.contains(&format!("tensor `{name}`: ")), "{error}");
        let mut request = to(DataType::Float);
        request.selection.exclude = vec![name.parse().expect("a pattern")];
        checkpoint.run(&request).expect("kept as it is");
    }
    let [codes, scale] = weight();
    Checkpoint::new(&modelopt("FP8"), &[codes, scale, floats("a.weight_offset", &[1], &[2.0])]).refuses(
        "model.safetensors: tensor `a.weight_offset`: the layout modelopt ignores it, but it may change the \
         weight of its module (want another `layout`, or `exclude` to keep the tensor)",
    );
}

/// Weights are divided by these scales, so that an infinite one makes all of them 0.
#[test]
fn a_divisor_that_is_infinite() {
    let said = |name: &str| {
        format!(
            "model.safetensors: tensor `{name}`: an infinite scale: the weights are divided by it and would all be 0 \
             (want a finite scale)"
        )
    };
    for infinity in [f32::INFINITY, f32::NEG_INFINITY] {
        let nvfp4 = [
            codes("a.weight_packed", "U8", &[2, 8]),
            codes("a.weight_scale", "F8_E4M3", &[2, 1]),
            floats("a.weight_global_scale", &[1], &[infinity]),
        ];
        let checkpoint = Checkpoint::new(&groups(4, "float", 16), &nvfp4);
        checkpoint.refuses(&said("a.weight_global_scale"));
        let request = to(DataType::Float).layout(Some(Layout::CompressedTensors)).allow_nan(true);
        checkpoint.refuses_with(&request, &said("a.weight_global_scale"));
        let bitnet = [codes("a.weight", "U8", &[1, 4]), floats("a.weight_scale", &[1], &[infinity])];
        let config = r#"{"quantization_config":{"quant_method":"bitnet"}}"#;
        Checkpoint::new(config, &bitnet).refuses(&said("a.weight_scale"));
    }
    for (data_type, infinity) in [("F16", 0x7c00u16), ("BF16", 0xff80)] {
        let mut scale = codes("a.weight_scale", data_type, &[1]);
        scale.3 = infinity.to_le_bytes().to_vec();
        let bitnet = [codes("a.weight", "U8", &[1, 4]), scale];
        let config = r#"{"quantization_config":{"quant_method":"bitnet"}}"#;
        Checkpoint::new(config, &bitnet).refuses(&said("a.weight_scale"));
    }
}

#[test]
fn an_inverted_global_scale() {
    let nvfp4 = |config: &str, packed: &'static str, global: [(&'static str, f32); 2]| {
        let [(first, a), (second, b)] = global;
        let (one, two) =
            if packed == "weight" { ("a.weight", "b.weight") } else { ("a.weight_packed", "b.weight_packed") };
        Checkpoint::new(
            config,
            &[
                codes(one, "U8", &[2, 8]),
                codes("a.weight_scale", "F8_E4M3", &[2, 1]),
                floats(first, &[1], &[a]),
                codes(two, "U8", &[2, 8]),
                codes("b.weight_scale", "F8_E4M3", &[2, 1]),
                floats(second, &[1], &[b]),
            ],
        )
    };
    let (a, b) = ("a.weight_scale_2", "b.weight_scale_2");
    nvfp4(&modelopt("NVFP4"), "weight", [(a, 1e-4), (b, 1e4)]).refuses(
        "model.safetensors: tensor `b.weight_scale_2`: a global scale of 10000 allows weights up to 2.688e7, where the \
         checkpoint's others go to 2.688e-1: it may be inverted (the layout is modelopt; `layout` settles it)",
    );
    // All of them, as a checkpoint of compressed-tensors read as one of ModelOpt.
    nvfp4(&modelopt("NVFP4"), "weight", [(a, 8192.0), (b, 16384.0)]).refuses(
        "model.safetensors: tensor `a.weight_scale_2`: a global scale of 8192 allows weights up to 2.202e7, more \
         than 1e5: it may be inverted (the layout is modelopt; `layout` settles it)",
    );
    let (a, b) = ("a.weight_global_scale", "b.weight_global_scale");
    nvfp4(&groups(4, "float", 16), "weight_packed", [(a, 8192.0), (b, 1.0 / 8192.0)]).refuses(
        "model.safetensors: tensor `b.weight_global_scale`: a global scale of 0.0001220703125 allows weights up to \
         2.202e7, where the checkpoint's others go to 3.281e-1: it may be inverted (the layout is compressed-tensors; \
         `layout` settles it)",
    );
    // A weight of zeros has the global scale 1, beside whatever small weights.
    let (a, b) = ("a.weight_scale_2", "b.weight_scale_2");
    nvfp4(&modelopt("NVFP4"), "weight", [(a, 1e-6), (b, 1.0)]).run(&to(DataType::BFloat16)).expect("a good checkpoint");
    let (a, b) = ("a.weight_global_scale", "b.weight_global_scale");
    let checkpoint = nvfp4(&groups(4, "float", 16), "weight_packed", [(a, 1e6), (b, 1.0)]);
    checkpoint.run(&to(DataType::BFloat16)).expect("a good checkpoint");
    let wrong = [
        codes("a.weight", "U8", &[2, 8]),
        codes("a.weight_scale", "F8_E4M3", &[2, 1]),
        floats("a.weight_scale_2", &[2], &[1e-4]),
    ];
    Checkpoint::new(&modelopt("NVFP4"), &wrong).refuses(
        "model.safetensors: tensor `a.weight_scale_2`: float of shape 2 (want float, 1 for the tensor, or 1 for each \
         of \
         1 matrices)",
    );
}

#[test]
fn parts_of_packed_integers() {
    let config = groups(4, "int", 32);
    let weight = || [ints("a.weight_packed", &[16, 8], &[0x7654_3210]), floats("a.weight_scale", &[16, 2], &[1.0])];
    let checkpoint =
        |others: Vec<Tensor>| Checkpoint::new(&config, &weight().into_iter().chain(others).collect::<Vec<_>>());
    let shape = || longs("a.weight_shape", &[16, 64]);
    checkpoint(vec![shape()]).run(&to(DataType::BFloat16)).expect("a good checkpoint");
    for (others, want) in [
        (
            vec![longs("a.weight_shape", &[15, 64])],
            "tensor `a.weight_packed`: int32 of shape 16x8 (want words of integers of the configuration's width for \
             15x64)",
        ),
        (
            vec![longs("a.weight_shape", &[16, 65])],
            "tensor `a.weight_packed`: int32 of shape 16x8 (want words of integers of the configuration's width for \
             16x65)",
        ),
        (
            vec![longs("a.weight_shape", &[16, -64])],
            "tensor `a.weight_shape`: int64 of shape 2 (want int64, the two sizes of the weight)",
        ),
        (
            vec![longs("a.weight_shape", &[16, 64, 1])],
            "tensor `a.weight_shape`: int64 of shape 3 (want int64, the two sizes of the weight)",
        ),
        (
            vec![floats("a.weight_shape", &[2], &[1.0])],
            "tensor `a.weight_shape`: float of shape 2 (want int64, the two sizes of the weight)",
        ),
        (
            vec![shape(), ints("a.weight_zero_point", &[16, 2], &[0])],
            "tensor `a.weight_zero_point`: int32 of shape 16x2 (want int32 of shape 2x2, one for each scale, packed \
             down \
             the rows)",
        ),
        // As many words as are needed, in the other order.
        (
            vec![shape(), ints("a.weight_zero_point", &[1, 4], &[0])],
            "tensor `a.weight_zero_point`: int32 of shape 1x4 (want int32 of shape 2x2, one for each scale, packed \
             down \
             the rows)",
        ),
        (
            vec![shape(), codes("a.weight_zero_point", "I8", &[16, 2])],
            "tensor `a.weight_zero_point`: int8 of shape 16x2 (want int32 of shape 2x2, one for each scale, packed \
             down \
             the rows)",
        ),
        (
            vec![shape(), ints("a.weight_g_idx", &[64], &[0, 1, 2])],
            "tensor `a.weight_g_idx`: int32 of shape 64 (want groups from 0 to 1)",
        ),
        (
            vec![shape(), ints("a.weight_g_idx", &[64], &[0, -1])],
            "tensor `a.weight_g_idx`: int32 of shape 64 (want groups from 0 to 1)",
        ),
        (
            vec![shape(), ints("a.weight_g_idx", &[63], &[0, 1])],
            "tensor `a.weight_g_idx`: int32 of shape 63 (want int32 of shape 64, the group of each column)",
        ),
        (
            vec![shape(), ints("a.weight_g_idx", &[64, 1], &[0, 1])],
            "tensor `a.weight_g_idx`: int32 of shape 64x1 (want int32 of shape 64, the group of each column)",
        ),
        (
            vec![shape(), longs("a.weight_g_idx", &[0; 64])],
            "tensor `a.weight_g_idx`: int64 of shape 64 (want int32 of shape 64, the group of each column)",
        ),
    ] {
        checkpoint(others).refuses(&format!("model.safetensors: {want}"));
    }
    // Zero points of integers in bytes lie as the scales do.
    let plain = |zero_points: Tensor| {
        Checkpoint::new(
            &groups(8, "int", 16),
            &[codes("a.weight", "I8", &[4, 32]), floats("a.weight_scale", &[4, 2], &[1.0]), zero_points],
        )
    };
    plain(codes("a.weight_zero_point", "I8", &[4, 2])).run(&to(DataType::BFloat16)).expect("a good checkpoint");
    plain(codes("a.weight_zero_point", "I8", &[2, 4])).refuses(
        "model.safetensors: tensor `a.weight_zero_point`: int8 of shape 2x4 (want int8 of shape 4x2, one for each \
         scale)",
    );
    plain(codes("a.weight_zero_point", "I8", &[4, 2, 1])).refuses(
        "model.safetensors: tensor `a.weight_zero_point`: int8 of shape 4x2x1 (want int8 of shape 4x2, one for each \
         scale)",
    );
    plain(codes("a.weight_zero_point", "U8", &[4, 2])).refuses(
        "model.safetensors: tensor `a.weight_zero_point`: uint8 of shape 4x2 (want int8 of shape 4x2, one for each \
         scale)",
    );
    // Zero points that the configuration denies may be zeros, in bytes.
    let symmetric = |config: String| config.replace(r#""num_bits""#, r#""symmetric":true,"num_bits""#);
    let checkpoint = |zero_point: u8| {
        let zero_points = Tensor("a.weight_zero_point", "I8", vec![4, 2], vec![zero_point; 8]);
        let tensors = [codes("a.weight", "I8", &[4, 32]), floats("a.weight_scale", &[4, 2], &[1.0]), zero_points];
        Checkpoint::new(&symmetric(groups(8, "int", 16)), &tensors)
    };
    checkpoint(0).run(&to(DataType::BFloat16)).expect("a good checkpoint");
    checkpoint(3).refuses(
        "model.safetensors: tensor `a.weight_zero_point`: zero point 0 is not 0 (want zeros, as `symmetric` is true in \
         the configuration)",
    );
    let packed = weight().into_iter().chain([shape(), ints("a.weight_zero_point", &[2, 2], &[0])]).collect::<Vec<_>>();
    Checkpoint::new(&symmetric(config), &packed).refuses(
        "model.safetensors: tensor `a.weight_zero_point`: int32 of shape 2x2 (want none: `symmetric` is true in the \
         configuration)",
    );
}

/// A configuration of GPTQ, 4 bits in groups of 32, and more keys.
fn gptq(more: &str) -> String {
    format!(r#"{{"quantization_config":{{"quant_method":"gptq","bits":4,"group_size":32{more}}}}}"#)
}

#[test]
fn parts_of_gptq() {
    let parts = |elements: &[usize], zero_points: &[usize], scales: &[usize], zeros: i32| {
        [
            ints("a.qweight", elements, &[0x7654_3210]),
            ints("a.qzeros", zero_points, &[zeros]),
            floats("a.scales", scales, &[1.0]),
        ]
    };
    let good = || parts(&[8, 32], &[2, 4], &[2, 32], 0x7777_7777);
    let sym = gptq(r#","sym":true"#);
    let values = Checkpoint::new(&sym, &good()).gives(&to(DataType::Float));
    let want: Vec<u32> = (0..32 * 64).map(|index| (index as f32 % 8.0 - 8.0).to_bits()).collect();
    assert_eq!((values[0].name.as_str(), bits(&values[0])), ("a.weight", want));
    // The newer format's zero points, which the configuration does not tell.
    let newer = parts(&[8, 32], &[2, 4], &[2, 32], 0x8888_8888u32.cast_signed());
    assert_eq!(bits(&Checkpoint::new(&sym, &newer).gives(&to(DataType::Float))[0]), bits(&values[0]));
    let three = sym.replace("\"bits\":4", "\"bits\":3");
    for (config, tensors, want) in [
        (
            &sym,
            parts(&[8, 31], &[2, 4], &[2, 32], 0x7777_7777),
            "tensor `a.qweight`: int32 of shape 8x31 (want 32 columns, as the scales have)",
        ),
        (
            &sym,
            parts(&[8, 32], &[2, 5], &[2, 32], 0x7777_7777),
            "tensor `a.qzeros`: int32 of shape 2x5 (want zero points of the configuration's width for 32 rows)",
        ),
        (
            &sym,
            parts(&[8, 32], &[3, 4], &[2, 32], 0x7777_7777),
            "tensor `a.qzeros`: int32 of shape 3x4 (want 2x4, zero points of 4 bits for 2 groups of 32 rows)",
        ),
        (
            &three,
            parts(&[8, 32], &[2, 3], &[2, 32], 0),
            "tensor `a.qweight`: int32 of shape 8x32 (want as many words down as whole integers of 3 bits fill)",
        ),
        (
            &sym,
            parts(&[8, 32], &[4, 4], &[4, 32], 0x7777_7777),
            "tensor `a.scales`: float of shape 4x32 (want groups of the configuration's size for 64 columns)",
        ),
        (
            &sym,
            parts(&[8, 32], &[2, 4], &[2, 32], 0x7777_7778),
            "tensor `a.qzeros`: zero points of 4 bits whose meaning is not certain: the configuration says `sym`, and \
             they differ from each other (readers would give different weights)",
        ),
        (
            &gptq(r#","sym":false"#),
            parts(&[8, 32], &[2, 4], &[2, 32], 0x7777_7f77),
            "tensor `a.qzeros`: zero points of 4 bits whose meaning is not certain: one is stored as the largest \
             integer, less 1 of it (readers would give different weights)",
        ),
        (
            &sym,
            [ints("a.qweight", &[8, 32], &[0]), ints("b.qzeros", &[2, 4], &[0]), floats("b.scales", &[2, 32], &[1.0])],
            "tensor `a.qweight`: int32 elements without scales (want `a.scales`; `exclude` keeps the tensor as it is)",
        ),
        // Sizes that no memory has, beside a zero.
        (
            &sym,
            parts(&[1 << 60, 0], &[2, 0], &[2, 0], 0),
            "tensor `a.qweight`: int32 of shape 1152921504606846976x0 (want as many words down as whole integers of 4 \
             bits fill)",
        ),
    ] {
        Checkpoint::new(config, &tensors).refuses(&format!("model.safetensors: {want}"));
    }
    for (groups, want) in [
        (ints("a.g_idx", &[64], &[0, 1, 2]), "int32 of shape 64 (want groups from 0 to 1)"),
        (ints("a.g_idx", &[64], &[0, -1]), "int32 of shape 64 (want groups from 0 to 1)"),
        (ints("a.g_idx", &[40], &[0]), "int32 of shape 40 (want int32 of shape 64, the group of each column)"),
        (ints("a.g_idx", &[63], &[0]), "int32 of shape 63 (want int32 of shape 64, the group of each column)"),
        (ints("a.g_idx", &[8, 8], &[0]), "int32 of shape 8x8 (want int32 of shape 64, the group of each column)"),
        (longs("a.g_idx", &[0; 64]), "int64 of shape 64 (want int32 of shape 64, the group of each column)"),
    ] {
        let tensors: Vec<Tensor> = good().into_iter().chain([groups]).collect();
        Checkpoint::new(&sym, &tensors).refuses(&format!("model.safetensors: tensor `a.g_idx`: {want}"));
    }
    // Patterns take the plain names of weights.
    for (field, pattern) in [("exclude", "*.qweight"), ("include", "a.scales"), ("exclude", "a.q*")] {
        let mut request = to(DataType::Float);
        let patterns = vec![pattern.parse().expect("a pattern")];
        match field {
            "exclude" => request.selection.exclude = patterns,
            _ => request.selection.include = patterns,
        }
        let hint = if pattern == "a.scales" { "`info` lists the names" } else { "did you mean `a.weight`?" };
        let checkpoint = Checkpoint::new(&sym, &good());
        let input = checkpoint.input().display().to_string();
        let said = format!("`{field}` `{pattern}` matches no weight by its plain name, only its parts ({hint})");
        checkpoint.refuses_with(&request, &format!("{input}: {said}"));
    }
    Checkpoint::new(&sym, &good()).refuses_with(
        &to(DataType::String),
        "model.safetensors: tensor `a.weight`: a weight as string is unsupported (want a type of numbers)",
    );
    // Zero points and an order of groups that the configuration claims.
    let configured = |more: &str, order: &[&'static str]| {
        let order = order.iter().map(|name| ints(name, &[64], &[0, 1]));
        Checkpoint::new(&gptq(more), &good().into_iter().chain(order).collect::<Vec<_>>())
    };
    let want = "model.safetensors: tensor `a.qweight`: the group of each column (`desc_act` is true in the \
                configuration) is missing (want `a.g_idx`)";
    configured(r#","sym":true,"desc_act":true"#, &[]).refuses(want);
    configured(r#","sym":true,"desc_act":true"#, &["a.g_idx"]).gives(&to(DataType::Float));
    configured(r#","sym":true,"desc_act":true,"dynamic":{"a":{"desc_act":false}}"#, &[]).gives(&to(DataType::Float));
    let [weight, _, scales] = good();
    for (more, setting) in [(r#","sym":false"#, "`sym` is false"), (r#","zero_point":true"#, "`zero_point` is true")] {
        Checkpoint::new(&gptq(more), &[weight.clone(), scales.clone()]).refuses(&format!(
            "model.safetensors: tensor `a.qweight`: the tensor of zero points ({setting} in the configuration) is \
             missing (want `a.qzeros`)"
        ));
    }
    let empty = parts(&[0, 32], &[0, 4], &[0, 32], 0);
    assert_eq!(Checkpoint::new(&sym, &empty).gives(&to(DataType::BFloat16))[0].tensor.shape(), [32, 0]);
}

#[test]
fn variants_of_gptq_and_awq() {
    let variant = |layout: &str, what: &str, want: &str| {
        format!("config.json: {layout}: the configuration says that {what} (want {want})")
    };
    let two = "gptq or gptq_v2";
    for (more, what, want) in [
        (r#","checkpoint_format":"marlin""#, "`checkpoint_format` is `marlin`", two),
        (r#","checkpoint_format":"gptq_p""#, "`checkpoint_format` is `gptq_p`", two),
        (r#","is_marlin_format":true"#, "weights are in marlin's order", two),
        (
            r#","dynamic":{"down":{"bits":6}}"#,
            "weights have 5, 6 or 7 bits, which GPTQModel stores in planes",
            "2, 3, 4 or 8 bits",
        ),
    ] {
        let tensors = [ints("a.qweight", &[8, 32], &[0]), floats("a.scales", &[2, 32], &[1.0])];
        Checkpoint::new(&gptq(more), &tensors).refuses(&variant("gptq", what, want));
    }
    for (key, value, want) in [
        ("bits", "16", "2 to 8 bits"),
        ("bits", "64", "2 to 8 bits"),
        ("bits", "0", "2 to 8 bits"),
        ("bits", "-1", "2 to 8 bits"),
        ("bits", "null", "2 to 8 bits"),
        ("group_size", "0", "a number of columns, or -1 for whole rows"),
        ("group_size", "-2", "a number of columns, or -1 for whole rows"),
    ] {
        let config = format!(r#"{{"quantization_config":{{"quant_method":"gptq","{key}":{value}}}}}"#);
        for (layout, config) in [("gptq", config.clone()), ("awq", config.replace("gptq", "awq"))] {
            let tensors = [ints("a.qweight", &[8, 32], &[0]), floats("a.scales", &[2, 32], &[1.0])];
            Checkpoint::new(&config, &tensors).refuses(&variant(layout, &format!("`{key}` is {value}"), want));
        }
    }
    let conv1d = gptq("").replacen('{', r#"{"model_type":"gpt2","#, 1);
    let tensors = [ints("a.qweight", &[8, 32], &[0]), floats("a.scales", &[2, 32], &[1.0])];
    Checkpoint::new(&conv1d, &tensors).refuses(&variant(
        "gptq",
        "the model is gpt2, whose layers are Conv1D",
        "a model of Linear layers",
    ));
    let awq = |more: &str| gptq(more).replace("gptq", "awq");
    let tensors = || {
        [
            ints("a.qweight", &[64, 4], &[0x7654_3210]),
            ints("a.qzeros", &[2, 4], &[0]),
            floats("a.scales", &[2, 32], &[1.0]),
        ]
    };
    let values = Checkpoint::new(&awq(""), &tensors()).gives(&to(DataType::Float));
    let want: Vec<u32> = (0..32 * 64).map(|index| [0, 4, 1, 5, 2, 6, 3, 7][index / 64 % 8]).collect();
    assert_eq!(bits(&values[0]), want.iter().map(|value| (*value as f32).to_bits()).collect::<Vec<_>>());
    Checkpoint::new(&awq(r#","version":"gemv_fast""#), &tensors()).refuses(&variant(
        "awq",
        "`version` is `gemv_fast`",
        "gemm or gemv",
    ));
    let [weight, zeros, scales] = tensors();
    Checkpoint::new(&awq(""), &[weight, zeros, scales, floats("act.scales", &[32], &[1.0])]).refuses(
        "model.safetensors: tensor `act.scales`: it changes the weights beside it, and is unsupported: without it \
         they would be wrong",
    );
    let [weight, _, scales] = tensors();
    Checkpoint::new(&awq(r#","zero_point":true"#), &[weight, scales]).refuses(
        "model.safetensors: tensor `a.qweight`: the tensor of zero points (`zero_point` is true in the configuration) \
         is missing (want `a.qzeros`)",
    );
    let algorithm = modelopt("W4A16_AWQ").replace(r#""quant_algo""#, r#""has_zero_point":true,"quant_algo""#);
    let tensors = [codes("a.weight", "U8", &[2, 16]), floats("a.weight_scale", &[4, 1], &[1.0])];
    Checkpoint::new(&algorithm, &tensors).refuses(&variant(
        "modelopt",
        "`has_zero_point` is true",
        "false: no tensor of zero points is known",
    ));
    let gemv = |padded: usize| {
        let parts = [
            ints("a.qweight", &[40, 8], &[0x7654_3210]),
            ints("a.qzeros", &[40, padded / 8], &[0x1111_1111]),
            floats("a.scales", &[40, padded], &[1.0]),
        ];
        Checkpoint::new(&awq(r#","version":"gemv""#), &parts)
    };
    let want: Vec<u32> = (0..40 * 64).map(|index| (index as f32 % 8.0 - 1.0).to_bits()).collect();
    assert_eq!(bits(&gemv(32).gives(&to(DataType::Float))[0]), want);
    gemv(16).refuses(
        "model.safetensors: tensor `a.scales`: float of shape 40x16 (want a scale for each group of the configuration \
         in 64 columns, in whole words)",
    );
}

#[test]
fn zero_points_of_floats() {
    let checkpoint = |code: u8| {
        let mut zero_points = codes("a.weight_zero_point", "F8_E4M3", &[2, 1]);
        zero_points.3 = vec![0, code];
        let weight = codes("a.weight", "F8_E4M3", &[2, 2]);
        Checkpoint::new(&groups(8, "float", 0), &[weight, floats("a.weight_scale", &[2, 1], &[1.0]), zero_points])
    };
    checkpoint(0x80).run(&to(DataType::BFloat16)).expect("a good checkpoint");
    checkpoint(0x38).refuses(
        "model.safetensors: tensor `a.weight_zero_point`: zero point 1 is not 0 (want zeros, as the elements are \
         float8e4m3fn)",
    );
}

#[test]
fn weights_without_elements_and_without_axes() {
    let empty = Checkpoint::new(
        FP8,
        &[
            codes("a.weight", "F8_E4M3", &[0, 128]),
            floats("a.weight_scale_inv", &[0, 1], &[]),
            codes("b.weight", "F8_E4M3", &[128, 0]),
            floats("b.weight_scale_inv", &[1], &[1.0]),
            codes("c.weight", "F8_E4M3", &[0, 3]),
            floats("c.weight_scale_inv", &[], &[1.0]),
        ],
    );
    let shapes: Vec<Vec<usize>> =
        empty.gives(&to(DataType::BFloat16)).iter().map(|tensor| tensor.tensor.shape().to_vec()).collect();
    assert_eq!(shapes, [vec![0, 128], vec![128, 0], vec![0, 3]]);
    let empty = Checkpoint::new(
        &modelopt("NVFP4"),
        &[
            codes("a.weight", "U8", &[0, 4, 16]),
            codes("a.weight_scale", "F8_E4M3", &[0, 4, 2]),
            floats("a.weight_scale_2", &[0], &[]),
        ],
    );
    assert_eq!(empty.gives(&to(DataType::BFloat16))[0].tensor.shape(), [0, 4, 32]);
    Checkpoint::new(FP8, &[codes("a.weight", "F8_E4M3", &[]), floats("a.weight_scale_inv", &[], &[1.0])]).refuses(
        "model.safetensors: tensor `a.weight`: float8e4m3fn of shape scalar (want a weight, of one axis or more)",
    );
    Checkpoint::new(&modelopt("MXFP4"), &[codes("a.weight", "U8", &[]), codes("a.weight_scale", "U8", &[])])
        .refuses("model.safetensors: tensor `a.weight`: uint8 of shape scalar (want a weight, of one axis or more)");
    // Sizes that no memory has, beside a zero.
    let long = 1 << 40;
    let huge = Tensor("a.weight", "F8_E4M3", vec![long, long, 0, 4], Vec::new());
    Checkpoint::new(FP8, &[huge, floats("a.weight_scale_inv", &[1], &[1.0])]).refuses(
        "model.safetensors: tensor `a.weight`: float8e4m3fn of shape 1099511627776x1099511627776x0x4 (want fewer \
         elements)",
    );
    let words = Tensor("a.weight_packed", "I32", vec![0, 1 << 61], Vec::new());
    Checkpoint::new(&groups(4, "int", 32), &[words, floats("a.weight_scale", &[0, 1], &[])]).refuses(
        "model.safetensors: tensor `a.weight_packed`: int32 of shape 0x2305843009213693952 (want fewer columns)",
    );
}

#[test]
fn blocks_larger_than_memory() {
    let config = FP8.replace("128,128", "4294967296,18446744073709551615");
    let tensors = [codes("a.weight", "F8_E4M3", &[3, 3]), floats("a.weight_scale_inv", &[1, 1], &[2.0])];
    assert_eq!(bits(&Checkpoint::new(&config, &tensors).gives(&to(DataType::Float))[0]), [2.0f32.to_bits(); 9]);
}

#[test]
fn odd_rows_of_packed_elements() {
    // The second of such matrices would begin within a byte.
    let packed = |shape: Vec<usize>| Tensor("a.weight", "F4", shape, vec![0x22; 10]);
    let scales = |shape: Vec<usize>| Tensor("a.scale", "F8_E8M0", shape, vec![127; 4]);
    Checkpoint::new(FP8, &[packed(vec![4, 1, 5]), scales(vec![4, 1, 1])])
        .refuses("model.safetensors: tensor `a.weight`: float4e2m1 of shape 4x1x5 (want an even number of columns)");
    let even = Checkpoint::new(FP8, &[packed(vec![2, 2, 5 - 1]), scales(vec![2, 2, 1])]);
    let error = even.run(&to(DataType::Float)).expect_err("10 bytes for 16 elements").to_string();
    assert!(error.contains("10 bytes"), "{error}");
    let even =
        Checkpoint::new(FP8, &[packed(vec![2, 1, 10]), Tensor("a.scale", "F8_E8M0", vec![2, 1, 1], vec![127, 128])]);
    let want: Vec<u32> = [[1.0f32; 10], [2.0; 10]].as_flattened().iter().map(|value| value.to_bits()).collect();
    assert_eq!(bits(&even.gives(&to(DataType::Float))[0]), want);
}

#[test]
fn configurations_that_are_no_json() {
    let tensors = || [codes("a.weight", "F8_E4M3", &[2, 2]), floats("a.weight_scale_inv", &[], &[1.0])];
    for (name, text, want) in [
        ("config.json", "{", "not a JSON object: EOF while parsing an object at line 1 column 1"),
        ("config.json", "[1]", "not a JSON object: invalid type: sequence, expected a map at line 1 column 0"),
        ("config.json", "", "an empty file (download it again)"),
        ("hf_quant_config.json", "fp8", "not a JSON object: expected ident at line 1 column 2"),
    ] {
        let checkpoint = Checkpoint::new(FP8, &tensors());
        checkpoint.write(name, text.as_bytes());
        checkpoint.refuses(&format!("{name}: {want}"));
    }
    let checkpoint = Checkpoint::new(FP8, &tensors());
    checkpoint.write("config.json", b"{\"a\": \"\xff\"}");
    checkpoint.refuses("config.json: not a JSON object: invalid utf-8 sequence of 1 bytes from index 7");
    // Keys of other types than they ought to have claim nothing.
    let text = r#"{"quantization_config":{"quant_method":"fp8","weight_block_size":"128"},"text_config":7}"#;
    checkpoint.write("config.json", text.as_bytes());
    checkpoint.gives(&to(DataType::BFloat16));
}

#[test]
fn outputs_that_are_no_checkpoint() {
    let checkpoint =
        Checkpoint::new("", &[codes("a.weight", "F8_E4M3", &[2, 2]), floats("a.scale_weight", &[], &[1.0])]);
    let input = checkpoint.input().join("model.safetensors");
    for (output, want) in [
        ("out.npz", "out.npz: a checkpoint does not take .npz files (want .safetensors)"),
        ("out.txt", "out.txt: unknown file extension"),
    ] {
        let output = checkpoint.0.path().join(output);
        let error = dequantize_file(&input, &output, &to(DataType::Float)).expect_err(want).to_string();
        let error = testkit::fixtures::text_without(checkpoint.0.path(), error);
        assert!(error.starts_with(want), "{error}");
        assert!(!output.exists());
    }
    for data_type in [DataType::String, DataType::Uint4] {
        let error = checkpoint.run(&to(data_type));
        assert!(error.is_err() && is_empty(&checkpoint.output()), "{data_type}: {error:?}");
    }
}
