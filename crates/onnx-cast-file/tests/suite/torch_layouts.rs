//! Checkpoints of packages for torch that contradict themselves, or that are not read: each is refused by an error that
//! names what is wrong, and nothing is written.

use crate::common::checkpoint;

use checkpoint::{Checkpoint, Tensor, bits as bits_of, codes, file, floats, ints, longs, to};
use onnx_cast::DataType;
use onnx_cast_file::{Layout, RunOptions};

/// A configuration of Quark.
fn quark(weight: &str) -> String {
    format!(r#"{{"quantization_config":{{"quant_method":"quark","global_quant_config":{{"weight":{{{weight}}}}}}}}}"#)
}

#[test]
fn integers_of_quark() {
    let grouped = |data_type: &str| quark(&format!(r#""dtype":"{data_type}","qscheme":"per_group","group_size":32"#));
    let weight = || ints("a.weight", &[64, 2], &[7]);
    let scales = || floats("a.weight_scale", &[2, 16], &[1.0]);
    let name = "model.safetensors: tensor";
    Checkpoint::new(&grouped("uint4"), &[weight(), scales()])
        .refuses(&format!("{name} `a.weight`: the tensor of zero points is missing (want `a.weight_zero_point`)"));
    Checkpoint::new(&grouped("int4"), &[weight(), floats("a.weight_scale", &[3, 16], &[1.0])]).refuses(&format!(
        "{name} `a.weight_scale`: float of shape 3x16 (want groups of the configuration's size for 64 columns)"
    ));
    Checkpoint::new(&grouped("int4"), &[weight(), floats("a.weight_scale", &[16], &[1.0])]).refuses(&format!(
        "{name} `a.weight_scale`: float of shape 16 (want float16, bfloat16 or float of two axes, groups and rows of \
         the weight)"
    ));
    Checkpoint::new(&grouped("int4"), &[weight(), floats("a.weight_scale", &[2, 17], &[1.0])])
        .refuses(&format!("{name} `a.weight`: int32 of shape 64x2 (want 2 columns, for scales of 17)"));
    let zeros = ints("a.weight_zero_point", &[2, 3], &[0]);
    Checkpoint::new(&grouped("uint4"), &[weight(), scales(), zeros]).refuses(&format!(
        "{name} `a.weight_zero_point`: int32 of shape 2x3 (want 2x2, zero points of 4 bits for 2 groups of 16 rows)"
    ));
    for (data_type, scheme) in [("int4", "per_channel"), ("int8", "per_group"), ("uint8", "per_tensor")] {
        let config = quark(&format!(r#""dtype":"{data_type}","qscheme":"{scheme}""#));
        Checkpoint::new(&config, &[weight(), scales()]).refuses(&format!(
            "config.json: quark: the configuration says that weights are {data_type} with the `qscheme` {scheme} \
             (want int4 or uint4 in groups, int8 with a scale for each tensor or row)"
        ));
    }
}

#[test]
fn integers_of_modelopt() {
    let config = r#"{"quantization_config":{"quant_method":"modelopt","quant_algo":"W4A16_AWQ","group_size":32}}"#;
    let weight = || codes("a.weight", "U8", &[8, 64]);
    Checkpoint::new(config, &[weight(), floats("a.weight_scale", &[8, 2], &[1.0])]).refuses(
        "model.safetensors: tensor `a.weight_scale`: scales of shape 8x2 for a weight of shape 16x64 (want one, one \
         for \
         each row, or blocks that the configuration names)",
    );
    let scaled = [weight(), floats("a.weight_scale", &[16, 2], &[1.0]), floats("a.pre_quant_scale", &[64], &[1.0])];
    Checkpoint::new(config, &scaled).refuses(
        "model.safetensors: tensor `a.pre_quant_scale`: it changes the weights beside it, and is unsupported: without \
         it they would be wrong",
    );
    let fp8 = config.replace("W4A16_AWQ", "FP8");
    Checkpoint::new(&fp8, &[weight(), floats("a.weight_scale", &[16, 2], &[1.0])]).refuses(
        "model.safetensors: tensor `a.weight`: the configuration claims FP8, and the tensor holds integers of 4 bits \
         (scales of float, 16x2)",
    );
}

/// A weight of HQQ of 16 rows and 32 columns in groups of 16 along the rows, 4 bits.
fn hqq() -> Vec<Tensor> {
    vec![
        codes("a.W_q", "U8", &[16, 16]),
        floats("a.scale", &[32, 1], &[0.5]),
        floats("a.zero", &[32, 1], &[8.0]),
        longs("a.shape", &[16, 32]),
        ints("a.group_size", &[], &[16]),
        ints("a.axis", &[], &[1]),
        Tensor("a.packing", "U8", vec![7], b"4bit_u8".to_vec()),
    ]
}

/// The same with another tensor of a name, or without it.
fn hqq_but(name: &str, other: Option<Tensor>) -> Vec<Tensor> {
    hqq().into_iter().filter(|tensor| tensor.0 != name).chain(other).collect()
}

#[test]
fn settings_of_hqq() {
    const CONFIG: &str = r#"{"quantization_config":{"quant_method":"hqq"}}"#;
    let values = Checkpoint::new("", &hqq()).gives(&to(DataType::Float));
    assert_eq!(values[0].tensor.shape(), [16, 32]);
    // 0x38: the first half of the groups is 3, the second 8.
    assert_eq!(bits_of(&values[0])[..256], [(-2.5f32).to_bits(); 256]);
    assert_eq!(bits_of(&values[0])[256..], [0f32.to_bits(); 256]);
    let name = "model.safetensors: tensor";
    let huge = longs("a.shape", &[1 << 40, 1 << 40]);
    let large = longs("a.shape", &[1 << 20, 1 << 20]);
    let text = |text: &[u8]| Some(Tensor("a.packing", "U8", vec![text.len()], text.to_vec()));
    for (part, other, want) in [
        ("a.zero", None, "`a.W_q`: the zero point of each group is missing (want `a.zero`)"),
        ("a.axis", None, "`a.W_q`: a setting of the weight is missing (want `a.axis`)"),
        ("a.shape", None, "`a.W_q`: a setting of the weight is missing (want `a.shape`)"),
        (
            "a.scale",
            None,
            "`a.W_q`: uint8 elements without scales (want `a.scale`; --exclude keeps the tensor as it is)",
        ),
        (
            "a.scale",
            Some(floats("a.scale", &[31, 1], &[0.5])),
            "`a.scale`: float of shape 31x1 (want float, float16 or bfloat16, one for each of 32 groups of 16)",
        ),
        (
            "a.zero",
            Some(floats("a.zero", &[33, 1], &[0.5])),
            "`a.zero`: float of shape 33x1 (want float, one for each scale: 32)",
        ),
        (
            "a.shape",
            Some(huge),
            "`a.shape`: a `shape` of another kind (want the two sizes of a weight in groups of 16)",
        ),
        (
            "a.shape",
            Some(large),
            "`a.W_q`: uint8 of shape 16x16 (want 549755813888 bytes: 4 bits for each of 1048576x1048576)",
        ),
        ("a.axis", Some(ints("a.axis", &[], &[2])), "`a.axis`: a `axis` of another kind (want 0 or 1)"),
        (
            "a.packing",
            text(b"7bit"),
            "`a.packing`: a `packing` of another kind (want 8bit_u8, 4bit_u8, 3bit_32, 2bit_u8 or \
             1bit_u8)",
        ),
    ] {
        let tensors = hqq_but(part, other);
        let want = want.replace("--exclude", "`exclude`");
        let error = Checkpoint::new(CONFIG, &tensors).run(&to(DataType::BFloat16)).expect_err(&want).to_string();
        assert!(error.contains(&want) || error.contains(&want.replace("`exclude` ", "")), "{name} {want}\n{error}");
    }
}

/// A file with an entry of metadata.
fn with_metadata(file: &[u8], key: &str, value: &str) -> Vec<u8> {
    let len = u64::from_le_bytes(*file.first_chunk().expect("a length")) as usize;
    let header = std::str::from_utf8(&file[8..8 + len]).expect("a header");
    let entry = format!(r#"{{"__metadata__":{{"{key}":{value:?}}},"#);
    let header = header.replacen('{', &entry, 1);
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &file[8 + len..]].concat()
}

#[test]
fn classes_of_torchao_and_quanto() {
    // Without metadata the shapes tell the blocks.
    let weight =
        |scales: &[usize]| [codes("a._weight_qdata", "I8", &[4, 8]), floats("a._weight_scale", scales, &[0.5])];
    let values = Checkpoint::new("", &weight(&[4, 2])).gives(&to(DataType::Float));
    assert_eq!(bits_of(&values[0]), [28f32.to_bits(); 32]);
    let refused = Checkpoint::new("", &weight(&[4, 3])).run(&to(DataType::Float)).expect_err("scales").to_string();
    assert!(refused.contains("`a._weight_scale`: float of shape 4x3 (want a `block_size` for each axis"), "{refused}");
    for class in ["Int4PlainInt32Tensor", "Int4TilePackedTo4dTensor"] {
        let metadata = format!(r#"{{"_type":"{class}","_data":{{"block_size":[1,8]}}}}"#);
        let checkpoint = Checkpoint::new("", &[]);
        checkpoint.write("model.safetensors", &with_metadata(&file(&weight(&[4, 1])), "a.weight", &metadata));
        let refused = checkpoint.run(&to(DataType::Float)).expect_err(class).to_string();
        assert!(refused.contains(&format!("a {class} (want")), "{refused}");
    }
    let plain = [codes("a.weight._data", "I8", &[4, 8]), floats("a.weight._scale", &[3, 1], &[0.5])];
    let refused = Checkpoint::new("", &plain).run(&to(DataType::Float)).expect_err("scales").to_string();
    assert!(refused.contains("`a.weight._scale`: scales of shape 3x1 for a weight of shape 4x8"), "{refused}");
}

#[test]
fn blocks_of_torchao() {
    let both = |elements, shape: &[usize], scales, grid: &[usize]| {
        [codes("a._weight_qdata", elements, shape), codes("a._weight_scale", scales, grid)]
    };
    // 0x38 is 1 in float8e4m3fn, and 2^-71 in float8e8m0; -0 and 1.5 in float4e2m1: the lower half is the even column.
    let metadata = |class: &str, data: &str| format!(r#"{{"_type":"{class}","_data":{{{data}}}}}"#);
    let checkpoint = |tensors: &[Tensor], metadata: &str| {
        let checkpoint = Checkpoint::new("", &[]);
        checkpoint.write("model.safetensors", &with_metadata(&file(tensors), "a.weight", metadata));
        checkpoint
    };
    let mx = |element: &str, more: &str| {
        metadata("MXTensor", &format!(r#""elem_dtype":{{"_type":"torch.dtype","_data":"{element}"}}{more}"#))
    };
    let scale = 2f32.powi(0x38 - 127);
    for (shape, more) in [([3, 2], r#","block_size":32"#), ([3, 1], r#","block_size":64"#), ([3, 2], "")] {
        let tensors = both("F8_E4M3", &[3, 64], "F8_E8M0", &shape);
        let values = checkpoint(&tensors, &mx("float8_e4m3fn", more)).gives(&to(DataType::Float));
        assert_eq!(bits_of(&values[0]), [scale.to_bits(); 192], "{more}");
    }
    let row = [-0.0f32, 1.5].map(|value| value.to_bits());
    let nvfp4 = both("U8", &[3, 32], "F8_E4M3", &[3, 4]);
    let values = checkpoint(&nvfp4, &metadata("NVFP4Tensor", r#""block_size":16"#)).gives(&to(DataType::Float));
    assert_eq!(bits_of(&values[0]), row.repeat(96));
    // Without metadata the types and shapes tell all of it.
    assert_eq!(bits_of(&Checkpoint::new("", &nvfp4).gives(&to(DataType::Float))[0]), row.repeat(96));
    let tiles = both("F8_E4M3", &[3, 64], "F8_E8M0", &[32, 16]);
    assert_eq!(bits_of(&Checkpoint::new("", &tiles).gives(&to(DataType::Float))[0]), [scale.to_bits(); 192]);

    let refused = |tensors: &[Tensor], metadata: &str, want: &str| {
        let error = checkpoint(tensors, metadata).run(&to(DataType::Float)).expect_err(want).to_string();
        assert!(error.contains(want), "{error}");
    };
    let told = mx("float8_e4m3fn", r#","is_swizzled_scales":true"#);
    let rows = both("F8_E4M3", &[3, 64], "F8_E8M0", &[3, 2]);
    refused(&rows, &told, "(want one for each 32 columns in tiles of 128x4, 32x16)");
    refused(&tiles, &mx("float8_e4m3fn", r#","is_swizzled_scales":false"#), "(want one for each 32 columns, 3x2)");
    refused(&rows, &mx("float8_e4m3fn", r#","block_size":0"#), "want a `block_size` in the file's metadata");
    refused(&nvfp4, &mx("float4_e2m1fn_x2", ""), "want float8e8m0, as MXTensor has them");
    let six = both("U8", &[3, 24], "F8_E8M0", &[3, 1]);
    refused(&six, &mx("fp6_e3m2", ""), "want float8 or two codes of 4 bits in a byte, as MXTensor has them");
}

#[test]
fn bitnet_divides_unless_it_multiplies() {
    let weight = || [codes("a.weight", "U8", &[2, 3]), floats("a.weight_scale", &[1], &[4.0])];
    // 0x38: 0, 2, 3 and 0, each less 1.
    let given = to(DataType::Float).layout(Some(Layout::BitNet));
    for (config, want) in
        [("", [-0.25f32, 0.25, 0.5, -0.25]), (r#""linear_class":"autobitlinear","#, [-4.0, 4.0, 8.0, -4.0])]
    {
        let config = format!(r#"{{"quantization_config":{{{config}"quant_method":"bitnet"}}}}"#);
        let values = Checkpoint::new(&config, &weight()).gives(&to(DataType::Float));
        assert_eq!(values[0].tensor.shape(), [8, 3]);
        let want: Vec<u32> = want.iter().flat_map(|value| [value.to_bits(); 6]).collect();
        assert_eq!(bits_of(&values[0]), want);
    }
    assert_eq!(bits_of(&Checkpoint::new("", &weight()).gives(&given)[0])[0], (-0.25f32).to_bits());
    let scales = [codes("a.weight", "U8", &[2, 3]), floats("a.weight_scale", &[8], &[4.0])];
    let refused = Checkpoint::new("", &scales).run(&given).expect_err("scales").to_string();
    assert!(
        refused.contains("`a.weight_scale`: float of shape 8 (want one of float, float16 or bfloat16)"),
        "{refused}"
    );
}

#[test]
fn float8_of_autoround() {
    let config = r#"{"quantization_config":{"quant_method":"auto-round","packing_format":"auto_round:fp8","bits":8}}"#;
    // 0x38 is 1.
    for (scale, shape) in [("a.weight_scale", &[4][..]), ("a.weight_scale", &[1]), ("a.weight_scale_inv", &[4, 1])] {
        let tensors = [codes("a.weight", "F8_E4M3", &[4, 8]), floats(scale, shape, &[0.75])];
        let values = Checkpoint::new(config, &tensors).gives(&to(DataType::Float));
        assert_eq!(bits_of(&values[0]), [0.75f32.to_bits(); 32], "{scale} {shape:?}");
    }
}

#[test]
fn layouts_that_are_not_read_say_why() {
    for method in ["eetq", "fp_quant", "exl3", "nunchaku", "aqlm", "higgs"] {
        let config = format!(r#"{{"quantization_config":{{"quant_method":"{method}"}}}}"#);
        let weight = [codes("a.weight", "I8", &[4, 8])];
        let refused = Checkpoint::new(&config, &weight).run(&to(DataType::Float)).expect_err(method).to_string();
        assert!(refused.contains(&format!("`quant_method` is `{method}`, which is unsupported: ")), "{refused}");
        assert!(refused.ends_with("(dequantize it with the package that wrote it)"), "{refused}");
    }
}

/// Codes of HQQ as `BitPack` packs them: one of each part in a word, the first in the upper bits.
fn packed(codes: &[u8], rows: usize, columns: usize, bits: usize) -> Vec<u8> {
    let (word, count) = if bits == 3 { (4, 10) } else { (1, 8 / bits) };
    let step = rows.div_ceil(count);
    let mut words = vec![0u32; step * columns];
    for (index, code) in codes.iter().enumerate() {
        let (row, column) = (index / columns, index % columns);
        words[row % step * columns + column] |= u32::from(*code) << (bits * (count - 1 - row / step));
    }
    words.iter().flat_map(|value| value.to_le_bytes()[..word].to_vec()).collect()
}

#[test]
fn hqq_of_every_width_on_several_threads() {
    for (round, (rows, columns, group, bits)) in
        [(24, 5120, 64, 4), (8, 18432, 128, 3), (64, 4096, 32, 2), (16, 4096, 16, 1), (3, 100_000, 80, 8)]
            .into_iter()
            .enumerate()
    {
        for axis in [0, 1] {
            let len: usize = rows * columns;
            let draw = |index: usize| (index as u32).wrapping_mul(2_654_435_761).wrapping_add(round as u32) >> 11;
            let all: Vec<u8> = (0..len).map(|index| (draw(index) as usize % (1 << bits)) as u8).collect();
            let groups = len / group;
            let numbers = |from: usize| -> Vec<f32> {
                (0..groups).map(|index| (draw(index + from) % 1023) as f32 / 64.0 + 0.25).collect()
            };
            let (scales, zeros) = (numbers(7), numbers(99));
            let [down, across] = if axis == 1 { [groups, group] } else { [group, groups] };
            let name = ["8bit_u8", "4bit_u8", "3bit_32", "2bit_u8", "1bit_u8"];
            let name = name.iter().find(|name| name.starts_with(&bits.to_string())).expect("a packing");
            let bytes = packed(&all, down, across, bits);
            let words = if bits == 3 { "I32" } else { "U8" };
            let count = bytes.len() / if bits == 3 { 4 } else { 1 };
            let tensors = [
                Tensor("a.W_q", words, vec![count / across, across], bytes),
                floats("a.scale", &[groups, 1], &scales),
                floats("a.zero", &[groups, 1], &zeros),
                longs("a.shape", &[rows as i64, columns as i64]),
                ints("a.group_size", &[], &[group as i32]),
                ints("a.axis", &[], &[axis]),
                Tensor("a.packing", "U8", vec![name.len()], name.as_bytes().to_vec()),
            ];
            for threads in [1, 3] {
                let run = RunOptions::new().threads(Some(threads));
                let values = Checkpoint::new("", &tensors).gives(&to(DataType::Float).run(run));
                for (index, got) in bits_of(&values[0]).iter().enumerate() {
                    let at = if axis == 1 { index / group } else { index % groups };
                    let want = (f32::from(all[index]) - zeros[at]) * scales[at];
                    assert_eq!(*got, want.to_bits(), "{rows}x{columns}, {bits} bits, axis {axis}: value {index}");
                }
            }
        }
    }
}

/// A weight of quanto of 8 groups of 32 columns of 4 bits; 0x38 is 8 in the first half, and 3 in the second.
fn quanto(name: &'static str, more: Vec<Tensor>) -> Vec<Tensor> {
    let name = |end: &str| -> &'static str { Box::leak(format!("{name}.{end}").into_boxed_str()) };
    let mut tensors = vec![
        codes(name("weight._data._data"), "U8", &[8, 32]),
        floats(name("weight._scale"), &[16, 1], &[0.5]),
        floats(name("weight._shift"), &[16, 1], &[1.0]),
    ];
    tensors.extend(more);
    tensors
}

#[test]
fn quanto_needs_what_tells_its_shape() {
    let refused = |config: &str, tensors: &[Tensor], want: &str| {
        let error = Checkpoint::new(config, tensors).run(&to(DataType::Float)).expect_err(want).to_string();
        assert!(error.contains(want), "{error}");
    };
    let gives = |config: &str, tensors: &[Tensor], shape: [usize; 2]| {
        let values = Checkpoint::new(config, tensors).gives(&to(DataType::Float));
        let value = values.iter().find(|tensor| tensor.name.ends_with("weight")).expect("a weight");
        assert_eq!(value.tensor.shape(), shape);
        let all = bits_of(value);
        assert_eq!((&all[..256], &all[256..]), (&[3f32.to_bits(); 256][..], &[0.5f32.to_bits(); 256][..]));
    };
    let unknown = "16 groups of 32 columns of a weight whose shape nothing tells (want a bias, \
                   `hidden_size` in config.json and a usual name, or optimum-quanto to dequantize the model)";
    // 160 columns have groups of 32; 16 groups of them are no whole rows.
    let hidden = |size: usize| format!(r#"{{"hidden_size": {size}, "vision_config": {{"hidden_size": 32}}}}"#);
    refused("", &quanto("a.q_proj", vec![]), unknown);
    refused(&hidden(160), &quanto("a.q_proj", vec![]), unknown);
    refused(&hidden(256), &quanto("a.q_proj", vec![]), unknown);
    refused(&hidden(32), &quanto("vision.q_proj", vec![]), unknown);
    refused(&hidden(32), &quanto("a.other", vec![]), unknown);
    gives(&hidden(32), &quanto("a.q_proj", vec![]), [16, 32]);
    gives(&hidden(16), &quanto("a.down_proj", vec![]), [16, 32]);
    gives("", &quanto("a.other", vec![floats("a.other.bias", &[16], &[0.0])]), [16, 32]);
    gives(r#"{"text_config": {"hidden_size": 32}}"#, &quanto("a.up_proj", vec![]), [16, 32]);
    refused("", &quanto("a.other", vec![floats("a.other.bias", &[7], &[0.0])]), unknown);
    // Rows that are no groups tell their columns.
    let rows = |scales: usize, shift: usize| {
        vec![
            codes("a.weight._data._data", "U8", &[4, 33]),
            floats("a.weight._scale", &[scales, 1], &[0.5]),
            floats("a.weight._shift", &[shift, 1], &[1.0]),
        ]
    };
    for (scales, bits) in [(7, 4), (8, 4), (13, 2), (16, 2)] {
        let values = Checkpoint::new("", &rows(scales, scales)).gives(&to(DataType::Float));
        assert_eq!(values[0].tensor.shape(), [scales, 33], "{bits} bits");
    }
    refused(
        "",
        &rows(9, 9),
        "`a.weight._data._data`: uint8 of shape 4x33 (want as many rows as 9 groups of 4 or 2 bits",
    );
    refused("", &rows(8, 7), "`a.weight._shift`: float of shape 7x1 (want float, one for each scale: 8)");
    refused("", &rows(8, 8)[..2], "what is subtracted from each group is missing (want `a.weight._shift`)");
    let whole = [codes("a.weight._data._data", "U8", &[4, 33]), ints("a.weight._scale", &[8, 1], &[1])];
    refused("", &whole, "`a.weight._scale`: int32 of shape 8x1 (want float, float16 or bfloat16");
}

#[test]
fn integers_of_torchao_in_groups() {
    let tensors = |scales: &[usize], zeros: &[usize]| {
        [
            codes("a._weight_qdata", "I8", &[3, 32]),
            floats("a._weight_scale", scales, &[0.5, 0.5, 0.5, 2.0, 2.0, 2.0]),
            floats("a._weight_zero_point", zeros, &[1.0, 1.0, 1.0, -1.0, -1.0, -1.0]),
        ]
    };
    let checkpoint = |tensors: &[Tensor], block: &str| {
        let metadata = format!(r#"{{"_type":"Int4Tensor","_data":{{"block_size":{block}}}}}"#);
        let checkpoint = Checkpoint::new("", &[]);
        checkpoint.write("model.safetensors", &with_metadata(&file(tensors), "a.weight", &metadata));
        checkpoint
    };
    // 0x38 is -8 and 3: the lower half is the even column.
    let values = checkpoint(&tensors(&[2, 3], &[2, 3]), "[1,32]").gives(&to(DataType::Float));
    let row = [[-3f32, 2.5], [-17.0, 5.0]].map(|pair| pair.map(f32::to_bits).repeat(16)).concat();
    assert_eq!(bits_of(&values[0]), row.repeat(3));
    let refused = |tensors: &[Tensor], block: &str, want: &str| {
        let error = checkpoint(tensors, block).run(&to(DataType::Float)).expect_err(want).to_string();
        assert!(error.contains(want), "{error}");
    };
    refused(&tensors(&[3, 2], &[2, 3]), "[1,32]", "`a._weight_scale`: float of shape 3x2 (want float, float16 or");
    refused(&tensors(&[2, 3], &[3, 2]), "[1,32]", "`a._weight_zero_point`: float of shape 3x2 (want type and shape");
    refused(&tensors(&[2, 3], &[2, 3])[..2], "[1,32]", "what is added to each group is missing");
    refused(&tensors(&[2, 3], &[2, 3]), "[1,48]", "want a `block_size` of groups that divide 64 columns");
    refused(&tensors(&[2, 3], &[2, 3]), "[3,32]", "want a `block_size` of groups that divide 64 columns");
}

#[test]
fn integers_of_torchao_on_several_threads() {
    let ([rows, columns], group) = ([300, 5120], 128);
    let draw = |index: usize| (index as u32).wrapping_mul(2_654_435_761) >> 13;
    let bytes: Vec<u8> = (0..rows * columns / 2).map(|index| draw(index) as u8).collect();
    let numbers = |from: usize| -> Vec<f32> {
        (0..rows * columns / group).map(|index| (draw(index + from) % 1023) as f32 / 64.0 - 7.0).collect()
    };
    let (scales, zeros) = (numbers(5), numbers(77));
    let tensors = [
        Tensor("a._weight_qdata", "I8", vec![rows, columns / 2], bytes.clone()),
        floats("a._weight_scale", &[columns / group, rows], &scales),
        floats("a._weight_zero_point", &[columns / group, rows], &zeros),
    ];
    let checkpoint = Checkpoint::new("", &[]);
    let metadata = r#"{"_type":"Int4Tensor","_data":{"block_size":[1,128]}}"#;
    checkpoint.write("model.safetensors", &with_metadata(&file(&tensors), "a.weight", metadata));
    for threads in [1, 3] {
        let run = RunOptions::new().threads(Some(threads));
        let values = checkpoint.gives(&to(DataType::Float).run(run));
        for (index, got) in bits_of(&values[0]).iter().enumerate() {
            let code = (bytes[index / 2] >> (index % 2 * 4)) << 4;
            let at = index % columns / group * rows + index / columns;
            let want = f32::from(code as i8 >> 4) * scales[at] + zeros[at];
            assert_eq!(*got, want.to_bits(), "value {index}");
        }
    }
}

#[test]
fn widths_of_gemma() {
    let config = |settings: &str| format!(r#"{{"quantization_config":{{"quant_method":"gemma",{settings}}}}}"#);
    let weight = |data_type: &'static str, scales: &[usize]| {
        [codes("a.b.weight", data_type, &[2, 4]), floats("a.b.weight_scale", scales, &[0.5])]
    };
    let gives = |settings: &str, data_type: &'static str, want: &[f32]| {
        let values = Checkpoint::new(&config(settings), &weight(data_type, &[2, 1])).gives(&to(DataType::Float));
        let want: Vec<u32> = want.iter().cycle().take(8 * want.len()).map(|value| value.to_bits()).collect();
        assert_eq!(bits_of(&values[0]), want, "{settings}");
    };
    // 0x38: 8 and 3, each less 8; 0, 2, 3 and 0, each less 2; 56.
    let (four, two, eight) = ([0.0, -2.5], [-1.0, 0.0, 0.5, -1.0], [28.0]);
    gives(r#""num_bits": 4"#, "U8", &four);
    gives(r#""quantize_embeddings": true"#, "U8", &four);
    gives(r#""num_bits": 2"#, "U8", &two);
    gives(r#""num_bits": 8"#, "I8", &eight);
    gives(
        r#""num_bits": 4, "module_quant_configs": {"^a\\.[bc]$": {"num_bits": 2}, "c": {"num_bits": 8}}"#,
        "U8",
        &two,
    );
    gives(r#""num_bits": 8, "module_quant_configs": {"c": {"num_bits": 2}}"#, "I8", &eight);
    // What is found first in the name decides.
    gives(r#""module_quant_configs": {"b": {"num_bits": 8}, "a": {"num_bits": 2}}"#, "U8", &two);
    let refused = |settings: &str, tensors: &[Tensor], want: &str| {
        let error = Checkpoint::new(&config(settings), tensors).run(&to(DataType::Float)).expect_err(want).to_string();
        assert!(error.contains(want), "{error}");
    };
    let usual = weight("U8", &[2, 1]);
    refused(
        r#""module_quant_configs": {"a": {"num_bits": 8}, "a.b": {"num_bits": 2}}"#,
        &usual,
        "claim two widths of it",
    );
    refused(r#""num_bits": 3"#, &usual, "the configuration claims integers of 3 bits (want 2, 4 or 8)");
    refused(
        r#""num_bits": 8"#,
        &usual,
        "`a.b.weight`: uint8 of shape 2x4 (want int8 for the 8 bits of the configuration)",
    );
    refused(r#""module_quant_configs": {"(?=a)": {}}"#, &usual, "layers are named by the expression `(?=a)`");
    refused(
        "\"num_bits\": 4",
        &weight("U8", &[2, 3]),
        "`a.b.weight_scale`: float of shape 2x3 (want float of shape 2x1",
    );
    refused(
        "\"num_bits\": 4",
        &weight("U8", &[1, 1]),
        "`a.b.weight_scale`: float of shape 1x1 (want float of shape 2x1",
    );
    // An odd number of scales: the last byte of their zero points has one of them.
    let odd = [codes("a.b.weight", "U8", &[3, 4]), floats("a.b.weight_scale", &[3, 1], &[0.5])];
    let values = Checkpoint::new(&config("\"num_bits\": 4"), &odd).gives(&to(DataType::Float));
    assert_eq!(bits_of(&values[0])[22..], [0f32, -2.5].map(f32::to_bits));
}
