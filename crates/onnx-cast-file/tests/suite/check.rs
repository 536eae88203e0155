//! Does `check` find the modules that a loader would not read?

use onnx_cast::{DataType, Tensor};
use onnx_cast_file::{
    HeldTensor, Loader, Loading, QuantizeRequest, QuantizedFormat, TensorsInMemory, WeightFormat, check, quantize_file,
    quantize_tensors, safetensors,
};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const ATTENTION: &str = "model.layers.0.self_attn";

/// Quantizes 64x64 matrices of different magnitudes for one architecture, and checks the result for another.
fn checked(modules: &[&str], classes: [&str; 2], loader: Loader, edit: impl Fn(&mut Value)) -> Loading {
    let format: WeightFormat = "nvfp4".parse::<QuantizedFormat>().expect("a format").into();
    checked_as(&QuantizeRequest::new(format), modules, classes, loader, edit)
}

/// As [`checked`], with another request.
fn checked_as(
    request: &QuantizeRequest,
    modules: &[&str],
    [written, read]: [&str; 2],
    loader: Loader,
    edit: impl Fn(&mut Value),
) -> Loading {
    let folder = tempfile::tempdir().expect("a folder");
    let (plain, out) = (folder.path().join("plain"), folder.path().join("out"));
    fs::create_dir(&plain).expect("a folder");
    let values = |scale: usize| (0..64 * 64).map(|at| (at % 7) as f32 * scale as f32).collect::<Vec<f32>>();
    let tensors: Vec<(String, Tensor)> = (1..)
        .zip(modules)
        .map(|(scale, name)| {
            (format!("{name}.weight"), Tensor::from_slice(vec![64, 64], &values(scale)).expect("floats"))
        })
        .collect();
    let views: Vec<_> = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor.view())).collect();
    fs::write(plain.join("model.safetensors"), safetensors::write(None, &views).expect("bytes")).expect("a file");
    fs::write(plain.join("config.json"), json!({ "architectures": [written] }).to_string()).expect("a file");
    quantize_file(&plain, &out, request).expect("quantized");
    let config = fs::read_to_string(out.join("config.json")).expect("a file");
    let mut config: Value = serde_json::from_str(&config).expect("JSON");
    config["architectures"] = json!([read]);
    edit(&mut config);
    fs::write(out.join("config.json"), config.to_string()).expect("a file");
    check(Path::new(&out), loader).expect("checked")
}

/// A request that keeps the tensors that a pattern matches.
fn nvfp4_without(pattern: &str) -> QuantizeRequest {
    let mut request = QuantizeRequest::new("nvfp4".parse::<QuantizedFormat>().expect("a format"));
    request.selection.exclude = vec![pattern.parse().expect("a pattern")];
    request
}

fn problems(loading: &Loading) -> Vec<(&str, &str)> {
    loading.problems.iter().map(|(name, reason)| (name.trim_start_matches(ATTENTION), reason.as_str())).collect()
}

#[test]
fn what_quantize_writes_is_read() {
    let modules = ["q_proj", "k_proj", "v_proj", "o_proj"].map(|name| format!("{ATTENTION}.{name}"));
    let modules: Vec<&str> = modules.iter().map(String::as_str).collect();
    for loader in [Loader::Vllm, Loader::Sglang] {
        let found = checked(&modules, ["LlamaForCausalLM"; 2], loader, |_| ());
        assert_eq!((found.read, problems(&found), &found.undecided[..]), (4, vec![], &[][..]), "{}", loader.name());
    }
    let kimi = checked(&modules, ["LlamaForCausalLM", "UnknownForCausalLM"], Loader::Vllm, |_| ());
    assert_eq!((kimi.read, problems(&kimi)), (0, vec![]));
    assert_eq!(kimi.undecided, [("modules of a model that vLLM's table lacks".to_owned(), 4)]);
}

#[test]
fn joined_modules_have_to_agree() {
    let modules = ["q_proj", "k_proj", "v_proj", "f_a_proj"].map(|name| format!("{ATTENTION}.{name}"));
    let modules: Vec<&str> = modules.iter().map(String::as_str).collect();
    let found = checked(&modules, ["LlamaForCausalLM", "KimiLinearForCausalLM"], Loader::Vllm, |_| ());
    let reason = format!("vLLM joins it with `{ATTENTION}.f_a_proj`, which has another global scale");
    let want: Vec<_> = [".k_proj", ".q_proj", ".v_proj"].map(|name| (name, &*reason)).to_vec();
    assert_eq!(problems(&found), want);
    let found = checked(&modules, ["KimiLinearForCausalLM"; 2], Loader::Vllm, |_| ());
    assert_eq!(problems(&found), []);
}

#[test]
fn modules_that_a_loader_has_plain_or_opens_are_problems() {
    let modules = ["indexer.wk", "kv_b_proj", "o_proj"].map(|name| format!("{ATTENTION}.{name}"));
    let modules: Vec<&str> = modules.iter().map(String::as_str).collect();
    let classes = ["LlamaForCausalLM", "DeepseekV32ForCausalLM"];
    let found = checked(&modules, classes, Loader::Vllm, |_| ());
    assert_eq!(problems(&found), [(".indexer.wk", "vLLM builds it without quantization")]);
    let found = checked(&modules, classes, Loader::Sglang, |_| ());
    assert_eq!(problems(&found), [(".kv_b_proj", "SGLang reads its weight itself, which is packed")]);
    // For this architecture, both modules are kept and listed.
    for loader in [Loader::Vllm, Loader::Sglang] {
        let found = checked(&modules, [classes[1]; 2], loader, |_| ());
        assert_eq!(problems(&found), [], "{}", loader.name());
    }
    let found =
        checked(&modules, [classes[1]; 2], Loader::Vllm, |config| config["quantization_config"]["ignore"] = json!([]));
    let reason = "it is plain, and vLLM expects it quantized (no list of kept modules has it)";
    assert_eq!(problems(&found), [(".kv_b_proj", reason)]);
}

#[test]
fn quantize_says_whether_loaders_would_read_its_output() {
    let folder = tempfile::tempdir().expect("a folder");
    let (plain, out) = (folder.path().join("plain"), folder.path().join("out"));
    fs::create_dir(&plain).expect("a folder");
    let tensor = Tensor::from_slice(vec![64, 64], &[1.0f32; 64 * 64]).expect("floats");
    let tensors = [("model.layers.0.self_attn.o_proj.weight", tensor.view())];
    fs::write(plain.join("model.safetensors"), safetensors::write(None, &tensors).expect("bytes")).expect("a file");
    fs::write(plain.join("config.json"), r#"{"architectures": ["LlamaForCausalLM"]}"#).expect("a file");
    for (format, want) in [
        ("nvfp4", &["vLLM 0.", "SGLang 0.", "would read every module that the rules decide"][..]),
        (
            "mxfp4",
            &["SGLang 0.", "would not read 1 module: SGLang does not load mxfp4 in the layout compressed-tensors"],
        ),
    ] {
        let format: WeightFormat = format.parse::<QuantizedFormat>().expect("a format").into();
        let done = quantize_file(&plain, &out, &QuantizeRequest::new(format)).expect("quantized");
        let note = done.notes.last().expect("a note");
        let mut request = QuantizeRequest::new(format);
        request.run.dry_run = true;
        let planned = quantize_file(&plain, folder.path().join("planned"), &request).expect("planned");
        assert_eq!(planned.notes.last(), Some(note));
        assert!(want.iter().all(|part| note.contains(part)), "{note}");
        fs::remove_dir_all(&out).expect("removed");
    }
    // Callers show the notes of tensors in memory as warnings: only problems are reported.
    for (format, want) in [("nvfp4", None), ("mxfp4", Some("SGLang does not load mxfp4"))] {
        let bytes = Box::new(tensor.bytes().expect("bytes").to_vec());
        let held = HeldTensor { name: tensors[0].0.to_owned(), data_type: DataType::Float, shape: vec![64, 64], bytes };
        let held = TensorsInMemory::new(vec![held], Some(r#"{"architectures": ["LlamaForCausalLM"]}"#));
        let format = format.parse::<QuantizedFormat>().expect("a format");
        let made = quantize_tensors(held.expect("tensors"), &QuantizeRequest::new(format)).expect("quantized");
        let found: Vec<&String> = made.summary.notes.iter().filter(|note| note.contains("would")).collect();
        assert!(found.iter().map(|note| note.contains(want.unwrap_or_default())).eq(want.map(|_| true)), "{found:?}");
    }
}

#[test]
fn a_quantized_module_may_not_be_listed_as_kept() {
    let modules = [format!("{ATTENTION}.o_proj")];
    let modules: Vec<&str> = modules.iter().map(String::as_str).collect();
    let found = checked(&modules, ["LlamaForCausalLM"; 2], Loader::Vllm, |config| {
        config["quantization_config"]["ignore"] = json!(["re:.*o_proj"]);
    });
    let reason = "it is quantized, and the configuration lists it as not quantized";
    assert_eq!(problems(&found), [(".o_proj", reason)]);
}

#[test]
fn quantized_weights_need_a_configuration() {
    let modules = [format!("{ATTENTION}.o_proj")];
    let modules: Vec<&str> = modules.iter().map(String::as_str).collect();
    let found = checked(&modules, ["LlamaForCausalLM"; 2], Loader::Vllm, |config| {
        config.as_object_mut().expect("an object").remove("quantization_config");
    });
    assert_eq!((found.read, problems(&found)), (0, vec![("", "no configuration says that its weights are quantized")]));
}

/// Loaders merge the gate and up projections of each expert, and keep one of their global scales.
#[test]
fn the_projections_of_an_expert_have_to_agree() {
    let modules = ["w1", "w2", "w3"].map(|name| format!("model.layers.0.block_sparse_moe.experts.0.{name}"));
    let modules: Vec<&str> = modules.iter().map(String::as_str).collect();
    let mixtral = checked(&modules, ["MixtralForCausalLM"; 2], Loader::Vllm, |_| ());
    assert_eq!((mixtral.read, problems(&mixtral), &mixtral.undecided[..]), (3, vec![], &[][..]));
    let sglang = checked(&modules, ["MixtralForCausalLM"; 2], Loader::Sglang, |_| ());
    assert_eq!((problems(&sglang), &sglang.undecided[..]), (vec![], &[("experts".to_owned(), 3)][..]));
    // transformers ignores the global scale of experts.
    let transformers = checked(&modules, ["MixtralForCausalLM"; 2], Loader::Transformers, |config| {
        config["model_type"] = json!("mixtral");
    });
    let reason = "transformers does not load experts of nvfp4 in the layout compressed-tensors";
    assert_eq!(problems(&transformers), modules.iter().map(|name| (*name, reason)).collect::<Vec<_>>());
    let granite = checked(&modules, ["GraniteMoeForCausalLM"; 2], Loader::Transformers, |config| {
        config["model_type"] = json!("granitemoe");
    });
    let reason = "transformers reads the experts of this model from one tensor";
    assert_eq!(problems(&granite), modules.iter().map(|name| (*name, reason)).collect::<Vec<_>>());
}

#[test]
fn modules_need_the_settings_of_their_group() {
    let modules = ["k_proj", "o_proj", "q_proj", "v_proj"].map(|name| format!("{ATTENTION}.{name}"));
    let modules: Vec<&str> = modules.iter().map(String::as_str).collect();
    let group = |edit: fn(&mut Value)| {
        let edit = |config: &mut Value| edit(&mut config["quantization_config"]["config_groups"]["group_0"]);
        checked(&modules, ["LlamaForCausalLM"; 2], Loader::Vllm, edit)
    };
    /// An edit of the configuration, and a part of the result.
    type Case = (fn(&mut Value), &'static str);
    let cases: [Case; 4] = [
        (
            |group| group["targets"] = json!([format!("{ATTENTION}.o_proj"), "re:.*[kv]_proj$"]),
            "it is quantized, and no group of the configuration targets it",
        ),
        (
            |group| group["format"] = json!("pack-quantized"),
            "`format` of its group is pack-quantized, and its tensors are those of nvfp4-pack-quantized",
        ),
        (
            |group| group["input_activations"] = json!({ "dynamic": true, "num_bits": 4, "type": "float" }),
            "vLLM loads nvfp4 with activations none or static, not dynamic",
        ),
        (
            |group| group["input_activations"] = json!({ "dynamic": "local", "num_bits": 4, "type": "float" }),
            "its activations have a scale in the checkpoint, by the configuration, and `input_global_scale` is missing",
        ),
    ];
    for (edit, want) in cases {
        let found = group(edit);
        let all =
            if want.contains("targets") { &[".q_proj"][..] } else { &[".k_proj", ".o_proj", ".q_proj", ".v_proj"] };
        assert_eq!(problems(&found), all.iter().map(|name| (*name, want)).collect::<Vec<_>>());
    }
    // Modules that no group targets are plain.
    let request = nvfp4_without("*.o_proj.weight");
    let found = checked_as(&request, &modules, ["LlamaForCausalLM"; 2], Loader::Vllm, |config| {
        let quantization = &mut config["quantization_config"];
        quantization["ignore"] = json!([]);
        quantization["config_groups"]["group_0"]["targets"] = json!(["re:.*[qkv]_proj$"]);
    });
    assert_eq!((found.read, problems(&found)), (4, vec![]));
}

#[test]
fn the_experts_of_a_layer_have_one_format() {
    let modules = ["0.w1", "0.w2", "0.w3", "1.w1", "1.w2", "1.w3"];
    let modules = modules.map(|name| format!("model.layers.0.block_sparse_moe.experts.{name}"));
    let modules: Vec<&str> = modules.iter().map(String::as_str).collect();
    let request = nvfp4_without("*.experts.0.*");
    let found = checked_as(&request, &modules, ["MixtralForCausalLM"; 2], Loader::Vllm, |_| ());
    let reason = format!("its layer's experts are loaded together, and `{}` has another format", modules[0]);
    let want: Vec<_> = modules[3..].iter().map(|name| (*name, &*reason)).collect();
    assert_eq!(problems(&found), want);
}

#[test]
fn each_checkpoint_of_a_folder_is_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let (plain, out) = (folder.path().join("plain"), folder.path().join("out"));
    fs::create_dir_all(plain.join("text_encoder")).expect("a folder");
    let tensor = Tensor::from_slice(vec![64, 64], &[1.0f32; 64 * 64]).expect("floats");
    let tensors = [("model.layers.0.self_attn.o_proj.weight", tensor.view())];
    let bytes = safetensors::write(None, &tensors).expect("bytes");
    fs::write(plain.join("text_encoder/model.safetensors"), bytes).expect("a file");
    fs::write(plain.join("text_encoder/config.json"), r#"{"architectures": ["LlamaForCausalLM"]}"#).expect("a file");
    fs::write(plain.join("model_index.json"), r#"{"text_encoder": ["transformers", "LlamaModel"]}"#).expect("a file");
    let format = "nvfp4".parse::<QuantizedFormat>().expect("a format");
    quantize_file(&plain, &out, &QuantizeRequest::new(format)).expect("quantized");
    let found = check(&out, Loader::Vllm).expect("checked");
    assert_eq!((found.read, problems(&found)), (1, vec![]));
    fs::remove_file(out.join("text_encoder/config.json")).expect("a file");
    let found = check(&out, Loader::Vllm).expect("checked");
    assert_eq!(problems(&found), [("text_encoder/", "no configuration says that its weights are quantized")]);
}

#[test]
fn modules_that_the_model_has_may_not_be_missing() {
    let modules = ["mlp.gate_proj", "mlp.up_proj", "self_attn.k_proj", "self_attn.o_proj", "self_attn.q_proj"];
    let modules = modules.map(|name| format!("model.layers.1.{name}"));
    let modules: Vec<&str> = modules.iter().map(String::as_str).collect();
    let missing = |config: Value| {
        let found = checked(&modules, ["LlamaForCausalLM"; 2], Loader::Vllm, |known| {
            known.as_object_mut().expect("an object").extend(config.as_object().expect("an object").clone());
        });
        assert!(
            found
                .problems
                .iter()
                .all(|(_, reason)| *reason == "the model has this module, and the checkpoint lacks it")
        );
        found.problems.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    let in_layer = ["model.layers.1.mlp.down_proj", "model.layers.1.self_attn.v_proj"];
    assert_eq!(missing(json!({ "model_type": "llama" })), in_layer);
    let layers = ["model.layers.0", in_layer[0], in_layer[1], "model.layers.2"];
    assert_eq!(missing(json!({ "model_type": "llama", "num_hidden_layers": 3 })), layers);
    // A length that a file merely claims does not cost anything.
    assert!(missing(json!({ "model_type": "llama", "num_hidden_layers": u64::MAX })).len() < 5);
    assert_eq!(missing(json!({ "model_type": "unknown", "num_hidden_layers": 3 })), [""; 0]);
}
