//! Integers of Quark and ModelOpt that contradict themselves, or that are not read: each is refused by an error that names
//! what is wrong, and nothing is written.

#[path = "common/checkpoint.rs"]
mod checkpoint;

use checkpoint::{Checkpoint, codes, floats, ints};

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
            "config.json: quark: the configuration says that weights are {data_type} with the `qscheme` {scheme}, \
             which is not read here (want int4 or uint4 in groups, int8 with a scale for each tensor or row)"
        ));
    }
}

#[test]
fn integers_of_modelopt() {
    let config = r#"{"quantization_config":{"quant_method":"modelopt","quant_algo":"W4A16_AWQ","group_size":32}}"#;
    let weight = || codes("a.weight", "U8", &[8, 64]);
    Checkpoint::new(config, &[weight(), floats("a.weight_scale", &[8, 2], &[1.0])]).refuses(
        "model.safetensors: tensor `a.weight_scale`: scales of shape 8x2 for a weight of shape 16x64 (want one, one for \
         each row, or blocks that the configuration names)",
    );
    let scaled = [weight(), floats("a.weight_scale", &[16, 2], &[1.0]), floats("a.pre_quant_scale", &[64], &[1.0])];
    Checkpoint::new(config, &scaled).refuses(
        "model.safetensors: tensor `a.pre_quant_scale`: it changes the weights beside it, and is not applied here: \
         without it they would be wrong",
    );
    let fp8 = config.replace("W4A16_AWQ", "FP8");
    Checkpoint::new(&fp8, &[weight(), floats("a.weight_scale", &[16, 2], &[1.0])]).refuses(
        "model.safetensors: tensor `a.weight`: the configuration claims FP8, and the tensor holds integers of 4 bits \
         (scales of float, 16x2)",
    );
}
