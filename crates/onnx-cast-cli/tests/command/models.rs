//! `cast` and `fold` of models: what onnxruntime cannot be asked, since it takes no such model.

use crate::common::{done, stderr, stdout};
use crate::files::Folder;
use onnx_cast::Tensor;
use onnx_cast_file::NamedTensor;
use onnx_cast_model::Model;
use testkit::proto::{Message, int_attribute, model, node, strings, tensor, typed};

/// Folds a model; what the command says of it, without the time.
#[track_caller]
fn fold(bytes: &[u8]) -> (Vec<u8>, String) {
    fold_by(bytes, "fold in.onnx out.onnx")
}

fn fold_by(bytes: &[u8], line: &str) -> (Vec<u8>, String) {
    let folder = Folder::new();
    folder.write("in.onnx", bytes);
    let output = folder.run(line);
    assert_eq!(done(&output), "");
    let said = stderr(&output);
    let (said, _) = said.trim_end().rsplit_once(", ").expect("a time");
    let said = said.strip_prefix("in.onnx -> out.onnx: ").expect("the files").to_owned();
    (folder.read("out.onnx"), said)
}

const FLOAT: i64 = 1;
const FLOAT16: i64 = 10;
const DOUBLE: i64 = 11;
const BFLOAT16: i64 = 16;

fn cast(input: &str, output: &str, to: i64) -> Message {
    node("Cast", &[input], output, vec![int_attribute("to", to)])
}

#[test]
fn what_is_folded_is_told() {
    let one = Message::new().bytes(1, "value").message(5, tensor(&[], FLOAT, &1.5f32.to_le_bytes())).int(20, 4);
    let nodes = vec![
        node("Constant", &[], "one", vec![one]),
        cast("one", "c", DOUBLE),
        cast("x", "wide", FLOAT),
        cast("wide", "y", DOUBLE),
    ];
    let (folded, said) = fold(&model(21, nodes, &[("x", FLOAT16)], &[("y", DOUBLE), ("c", DOUBLE)]));
    assert_eq!(said, "1 cast of a constant computed, 0 removed, 1 joined");
    let folded = Model::parse(&folded).expect("a model");
    let outputs = folded.outputs().iter().map(|output| output.name.as_str()).collect::<Vec<_>>();
    assert_eq!(outputs, ["y", "c"]);
}

/// A value of the branch has the name of what the first Cast reads, which the branch's Cast must not read then.
#[test]
fn a_name_that_a_branch_understands_otherwise() {
    let branch = |inner: &str| {
        let nodes = [node("Neg", &["a"], inner, vec![]), cast("a", "r", DOUBLE)];
        let graph = nodes.into_iter().fold(Message::new(), |graph, node| graph.message(1, node));
        graph.bytes(2, "branch").message(12, Message::new().bytes(1, "r"))
    };
    for (inner, want) in [("x", "0 joined"), ("other", "1 joined")] {
        let attribute = |name: &str| Message::new().bytes(1, name).message(6, branch(inner)).int(20, 5);
        let choice = vec![attribute("then_branch"), attribute("else_branch")];
        let nodes = vec![cast("x", "a", FLOAT), node("If", &["flag"], "y", choice)];
        let bytes = model(21, nodes, &[("x", FLOAT16), ("flag", 9)], &[("y", DOUBLE)]);
        let (folded, said) = fold(&bytes);
        let want = want.replace('1', "2");
        assert_eq!(said, format!("0 casts of constants computed, 0 removed, {want}"), "{inner}");
        assert_eq!(folded == bytes, inner == "x");
    }
}

/// Names that stand twice, values that come later, Casts of themselves: nothing is folded, and nothing is lost.
#[test]
fn graphs_that_are_not_valid_stay() {
    for nodes in [
        vec![cast("a", "a", FLOAT)],
        vec![cast("b", "a", FLOAT), cast("a", "b", FLOAT16)],
        vec![cast("a", "y", FLOAT), cast("x", "a", FLOAT16)],
        vec![cast("x", "a", FLOAT), cast("x", "a", DOUBLE), cast("a", "y", DOUBLE)],
        vec![cast("", "y", FLOAT)],
        vec![cast("x", "", FLOAT16)],
        vec![cast("x", "y", 99)],
        vec![node("Cast", &["x"], "y", vec![])],
        vec![node("Cast", &["x", "x"], "y", vec![int_attribute("to", FLOAT16)])],
        vec![node("CastLike", &["x"], "y", vec![])],
    ] {
        let bytes = model(21, nodes, &[("x", FLOAT16)], &[("y", FLOAT)]);
        let (folded, said) = fold(&bytes);
        assert_eq!(said, "0 casts of constants computed, 0 removed, 0 joined");
        assert_eq!(folded, bytes);
    }
}

/// The second Cast reads what the first one read, once that is gone; its name must not go with it. (Found by fuzzing.)
#[test]
fn casts_in_a_row_that_change_nothing() {
    let like = |input: &str, output: &str| node("CastLike", &[input, input], output, vec![]);
    for (nodes, removed, to) in [
        (vec![cast("x", "a", FLOAT), cast("a", "y", FLOAT)], 1, FLOAT),
        (vec![cast("x", "a", FLOAT), cast("a", "b", FLOAT), cast("b", "c", FLOAT), cast("c", "y", FLOAT)], 3, FLOAT),
        (vec![like("x", "a"), like("a", "b"), like("b", "c"), like("a", "y")], 3, FLOAT),
        (vec![cast("x", "h", FLOAT16), cast("h", "a", FLOAT16), cast("a", "y", FLOAT16)], 2, FLOAT16),
    ] {
        let bytes = model(21, nodes, &[("x", FLOAT)], &[("y", to)]);
        let (folded, said) = fold(&bytes);
        assert_eq!(said, format!("0 casts of constants computed, {removed} removed, 0 joined"));
        let run = |bytes: &[u8]| {
            let tensor = onnx_cast::Tensor::from_slice(vec![2], &[1.0f32, 0.3]).expect("a tensor");
            let given = onnx_cast_file::NamedTensor { name: "x".to_owned(), tensor };
            Model::parse(bytes).expect("a model").run(vec![given]).expect("run")
        };
        assert_eq!(run(&folded), run(&bytes));
    }
}

/// Before opset 9 a Constant is a float: what another is cast to becomes an initializer. (Found by fuzzing.)
#[test]
fn a_constant_of_a_type_that_the_node_lacks() {
    const UINT32: i64 = 12;
    let value = Message::new().bytes(1, "value").message(5, tensor(&[], FLOAT, &1.5f32.to_le_bytes())).int(20, 4);
    let nodes =
        vec![node("Constant", &[], "c", vec![value]), cast("c", "u", UINT32), node("Identity", &["u"], "y", vec![])];
    let bytes = model(6, nodes, &[], &[("y", UINT32)]);
    let (folded, said) = fold(&bytes);
    assert_eq!(said, "1 cast of a constant computed, 0 removed, 0 joined");
    let run = |bytes: &[u8]| Model::parse(bytes).expect("a model").run(vec![]).expect("run");
    assert_eq!(run(&folded), run(&bytes));
}

#[test]
fn only_models_are_folded() {
    let folder = Folder::new();
    folder.refuses("fold x.npy out.onnx", "x.npy: fold takes a model (.onnx)");
    folder.refuses("fold x.onnx out.pb", "out.pb: fold takes a model (.onnx)");
    folder.refuses("fold x.onnx out.onnx", "x.onnx: cannot open: No such file or directory (os error 2)");
    folder.write("x.onnx", "Hello World!");
    folder.refuses("fold x.onnx out.onnx", "x.onnx: not a valid ONNX model: groups do not balance");
}

#[test]
fn a_plan_writes_nothing() {
    let folder = Folder::new();
    let value = |size: usize| {
        let tensor = tensor(&[size as i64], FLOAT, &vec![0; 4 * size]);
        Message::new().bytes(1, "value").message(5, tensor).int(20, 4)
    };
    let nodes = vec![
        node("Constant", &[], "large", vec![value(256)]),
        node("Constant", &[], "small", vec![value(255)]),
        node("Identity", &["x"], "y", vec![]),
    ];
    folder.write("in.onnx", model(21, nodes, &[("x", FLOAT)], &[("y", FLOAT)]));
    assert_eq!(
        done(&folder.run("cast in.onnx out.onnx --to float16 --dry-run")),
        "tensor  from            to                    before         after\n\
         large   float           float16               1024 B         512 B\n\
         small   float           (kept)                1020 B        1020 B\n\
         total: 1 tensor (256 elements) cast, 1 tensor (255 elements) kept, 2044 B -> 1532 B\n"
    );
    let json = done(&folder.run("cast in.onnx out.onnx --to float16 --dry-run --json"));
    assert!(json.contains("\"to\": \"float16\"") && json.contains("\"dry_run\": true"), "{json}");
    assert_eq!(folder.names(), ["in.onnx"]);
    let refused = |line: &str, message: &str| folder.refuses(line, message);
    refused(
        "cast in.onnx out.onnx --to float16 --opset 21",
        "in.onnx: --opset is not for models, which import their own (--raise-opset raises it where the target needs \
         that)",
    );
    refused(
        "cast in.onnx out.onnx --to float4e2m1",
        "in.onnx: constant `large`: Cast takes float4e2m1 from opset 23 on, and the model imports 21 (--raise-opset \
         raises it)",
    );
}

#[test]
fn some_casts_are_folded_and_others_are_not() {
    let folder = Folder::new();
    let one = Message::new().bytes(1, "value").message(5, tensor(&[], FLOAT, &1.5f32.to_le_bytes())).int(20, 4);
    let nodes = vec![
        node("Constant", &[], "one", vec![one]),
        cast("one", "c", DOUBLE),
        cast("x", "same", FLOAT16),
        cast("same", "wide", FLOAT),
        cast("wide", "y", DOUBLE),
        cast("wide", "narrow", BFLOAT16),
        cast("unknown", "z", FLOAT16),
    ];
    let outputs = [("y", DOUBLE), ("c", DOUBLE), ("narrow", BFLOAT16), ("z", FLOAT16)];
    folder.write("in.onnx", model(21, nodes, &[("x", FLOAT16)], &outputs));
    let plan = |arguments: &str| {
        let text = done(&folder.run(&format!("fold in.onnx out.onnx --dry-run{arguments} -f")));
        let last = |line: &str| line.split_whitespace().last().unwrap_or_default().to_owned();
        text.lines().skip(1).take(6).map(last).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        done(&folder.run("fold in.onnx out.onnx --dry-run -f")),
        "value   operator  from            to              outcome\n\
         c       Cast      float           double          computed\n\
         same    Cast      float16         float16         removed\n\
         wide    Cast      float16         float           bypassed\n\
         y       Cast      float           double          joined\n\
         narrow  Cast      float           bfloat16        joined\n\
         z       Cast      (unknown)       float16         kept\n\
         total: 1 cast of a constant computed, 1 removed, 2 joined\n"
    );
    assert_eq!(plan(" --exclude narrow"), "computed removed kept joined kept kept");
    assert_eq!(plan(" --include re:^(c|same)$"), "computed removed kept kept kept kept");
    // Over a Cast that is not to be folded none is joined.
    assert_eq!(plan(" --exclude wide"), "computed removed kept kept kept kept");
    assert_eq!(folder.names(), ["in.onnx"]);
    let json = folder.run("fold in.onnx out.onnx --include c --json -f");
    let json: serde_json::Value = serde_json::from_str(&done(&json)).expect("JSON");
    assert_eq!((&json["computed"], &json["removed"], &json["dry_run"]), (&1.into(), &0.into(), &false.into()));
    let first = serde_json::json!({
        "output": "c", "operator": "Cast", "from": "float", "to": "double", "outcome": "computed",
    });
    assert_eq!((&json["casts"][0], json["casts"][5]["from"].is_null()), (&first, true));
    assert_eq!(folder.names(), ["in.onnx", "out.onnx"]);
    let said = folder.run("fold in.onnx out.onnx --quiet -f");
    assert_eq!((done(&said), stderr(&said)), (String::new(), String::new()));
}

#[test]
fn what_the_constants_of_a_model_lose() {
    let folder = Folder::new();
    let mut values = vec![1.0f32; 256];
    values[..5].copy_from_slice(&[1e6, 1e-9, 1.0001, f32::NAN, 6.2e-5]);
    let nodes = vec![
        node("Constant", &[], "w", vec![value(tensor(&[256], FLOAT, &words(&values)))]),
        node("Constant", &[], "v", vec![value(tensor(&[256], FLOAT, &words(&[0.5; 256])))]),
        node("Constant", &[], "small", vec![value(tensor(&[1], FLOAT, &words(&[1e9])))]),
    ];
    folder.write("in.onnx", model(21, nodes, &[], &[("w", FLOAT)]));
    folder.write("out.onnx", "old");
    let lines = "onnx-cast: warning: in.onnx: 1 value overflowed, 1 value was NaN (first in tensor `w`)\n  \
                 w: 256 values, 1 overflowed, 1 became zero, 1 NaN, error at most 1.000166e-4, relative 1.000000e0\n  \
                 v: 256 values, no error\n";
    for (losses, loss) in [("overflow", "overflow"), ("subnormal,nan,underflow", "nan")] {
        let output = folder.run(&format!("cast in.onnx out.onnx --to float16 --stats --fail-on {losses} -f"));
        let said = format!("onnx-cast: in.onnx: tensor `w`: {loss} in 1 value cast to float16 (nothing is written)\n");
        assert_eq!((output.status.code(), stderr(&output)), (Some(1), said));
        assert_eq!((folder.read("out.onnx"), folder.names().len()), (b"old".to_vec(), 2));
    }
    let json = folder.run("cast in.onnx out.onnx --to float16 --json --fail-on nan -f");
    assert_eq!(json.status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_str(&stdout(&json)).expect("JSON");
    assert_eq!((&json["tensors"][0]["counts"]["nan"], json["tensors"][2]["counts"].is_null()), (&1.into(), true));
    assert_eq!(folder.read("out.onnx"), b"old");
    let output = folder.run("cast in.onnx out.onnx --to float16 --stats --fail-on subnormal -f");
    assert_eq!(done(&output), "");
    let said = stderr(&output);
    assert_eq!(said.split_once('\n').map(|(_, rest)| rest), Some(lines), "{said}");
}

/// Opsets are raised from 7 on; casts without it work.
#[test]
fn an_old_model_is_not_raised() {
    let folder = Folder::new();
    let tensor = tensor(&[256], FLOAT, &[0; 1024]).bytes(8, "w");
    let name = |name: &str| Message::new().bytes(1, name);
    let graph = Message::new().message(5, tensor).message(11, name("w")).message(12, name("w"));
    folder.write("in.onnx", Message::new().int(1, 2).message(7, graph).into_bytes());
    folder.refuses(
        "cast in.onnx out.onnx --to bfloat16 --raise-opset",
        "in.onnx: opset 1 cannot be raised to 13: opsets are raised from 7 on \
         (onnx.version_converter.convert_version(model, 7) gives such a model)",
    );
    done(&folder.run("cast in.onnx out.onnx --to float16 -q"));
}

fn words(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// An attribute of kind TENSOR.
fn value(tensor: Message) -> Message {
    Message::new().bytes(1, "value").message(5, tensor).int(20, 4)
}

/// A model with constants in every place: an initializer in another file, one in `float_data`, strings, Constant nodes,
/// in branches of an If without a name, in a function. `v` is the value of the one in `float_data`.
fn everywhere(v: f32) -> Vec<u8> {
    let entry = |key: &str, value: &str| Message::new().bytes(1, key).bytes(2, value);
    let external = typed(&[2, 2], FLOAT)
        .bytes(8, "w")
        .message(13, entry("location", "w.data"))
        .message(13, entry("offset", "8"))
        .int(14, 1);
    let entries = typed(&[3], FLOAT).bytes(4, words(&[1.0, v, 3.0])).bytes(8, "entries");
    let branch = |to| {
        let nodes = [node("Constant", &[], "c", vec![value(tensor(&[1], FLOAT16, &[0, 60]))]), cast("c", "r", to)];
        nodes.into_iter().fold(Message::new(), |graph, node| graph.message(1, node)).bytes(2, "branch")
    };
    let branches = [("then_branch", FLOAT), ("else_branch", DOUBLE)];
    let branches = branches.map(|(name, to)| Message::new().bytes(1, name).message(6, branch(to)).int(20, 5)).to_vec();
    let like = node("CastLike", &["x", "w"], "like", vec![]).bytes(3, "a like");
    let nodes = [
        node("Constant", &[], "k", vec![int_attribute("value_int", 7)]),
        node("Constant", &[], "t", vec![Message::new().bytes(1, "value_string").bytes(4, "text").int(20, 3)]),
        node("If", &["flag"], "y", branches),
        cast("unknown", "z", FLOAT16),
        cast("k", "kf", FLOAT),
        like,
    ];
    let graph = nodes.into_iter().fold(Message::new(), |graph, node| graph.message(1, node));
    let declared = Message::new().bytes(1, "x").message(2, Message::new().message(1, Message::new().int(1, DOUBLE)));
    let graph = graph.message(5, external).message(5, entries).message(5, strings(&["a", "bc"]).bytes(8, "s"));
    let opset = |domain: &str, version| Message::new().bytes(1, domain).int(2, version);
    let inside = node("Constant", &[], "k", vec![int_attribute("value_int", 8)]);
    let function = Message::new().bytes(1, "F").message(7, inside).message(9, opset("", 21)).bytes(10, "own");
    Message::new()
        .int(1, 10)
        .message(7, graph.message(11, declared))
        .message(8, opset("", 21))
        .message(8, opset("own", 1))
        .message(14, entry("by", "hand"))
        .message(25, function)
        .into_bytes()
}

#[test]
fn what_a_model_holds() {
    let folder = Folder::new();
    folder.write("m.onnx", everywhere(-2.0));
    folder.write("w.data", words(&[9.0, 9.0, 0.5, -0.5, 0.0, f32::INFINITY]));
    let expected = "\
tensor              type            shape          bytes
w                   float           2x2             16 B
    min -5e-1, max inf, mean 0e0, 1 zeros, 0 NaN, 1 infinities
entries             float           3               12 B
    min -2e0, max 3e0, mean 6.666666666666666e-1, 0 zeros, 0 NaN, 0 infinities
s                   string          2                3 B
k                   int64           scalar           8 B
    min 7, max 7, mean 7e0, 0 zeros, 0 NaN, 0 infinities
t                   string          scalar           4 B
If_2/then_branch/c  float16         1                2 B
    min 1e0, max 1e0, mean 1e0, 0 zeros, 0 NaN, 0 infinities
If_2/else_branch/c  float16         1                2 B
    min 1e0, max 1e0, mean 1e0, 0 zeros, 0 NaN, 0 infinities
own:F/k             int64           scalar           8 B
    min 8, max 8, mean 8e0, 0 zeros, 0 NaN, 0 infinities
total: 8 tensors, 55 B (.onnx)
metadata: by = hand
cast: Cast r, float16 to float in If_2/then_branch
cast: Cast r, float16 to double in If_2/else_branch
cast: Cast z, (unknown) to float16
cast: Cast kf, int64 to float
cast: CastLike a like, double to float
opset: ai.onnx 21
opset: own 1
IR version: 10
";
    assert_eq!(done(&folder.run("info m.onnx --stats")), expected);
    let json: serde_json::Value = serde_json::from_str(&done(&folder.run("info m.onnx --json"))).expect("JSON");
    assert_eq!(json["model"]["opsets"][1], serde_json::json!({ "domain": "own", "version": 1 }));
    let cast = serde_json::json!({ "node": "z", "operator": "Cast", "from": null, "to": "float16", "graph": "" });
    assert_eq!((&json["model"]["casts"][2], &json["model"]["ir_version"]), (&cast, &10.into()));
    folder.write("w.data", words(&[9.0; 5]));
    folder.refuses("info m.onnx", "m.onnx: tensor `w`: external data at `w.data` has 20 bytes (want 16 from 8 on)");
    folder.write("m.onnx", b"");
    folder.refuses("info m.onnx", "m.onnx: not a valid ONNX model: 0 graphs (want 1)");
}

#[test]
fn models_that_differ() {
    let folder = Folder::new();
    folder.write("w.data", words(&[0.0; 6]));
    folder.write("a.onnx", everywhere(2.0));
    folder.write("b.onnx", everywhere(2.25));
    assert_eq!(done(&folder.run("diff a.onnx a.onnx")), "");
    let output = folder.run("diff a.onnx b.onnx");
    let expected = "entries: 1 of 3 elements differ, the first is 1, by at most 2.5e-1\n";
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), expected.to_owned()));
    done(&folder.run("diff a.onnx b.onnx --tolerance 0.25"));
    // Elements in another place are the same elements.
    done(&folder.run(
        "cast a.onnx c.onnx --to float16 --min-elements 1000000 --external-data c.data --external-threshold 1 -q",
    ));
    done(&folder.run("diff a.onnx c.onnx"));
    assert_eq!(stderr(&folder.run("diff a.onnx c.onnx")), "a.onnx and c.onnx: equal\n");
    // One constant each, but of two names.
    let one = |name: &str| {
        let node = node("Constant", &[], name, vec![value(tensor(&[1], FLOAT, &[0; 4]))]);
        model(21, vec![node], &[], &[(name, FLOAT)])
    };
    folder.write("x.onnx", one("x"));
    folder.write("y.onnx", one("y"));
    let output = folder.run("diff x.onnx y.onnx");
    let graph = "graph: different outputs\n";
    assert_eq!(stdout(&output), format!("x: only in x.onnx\ny: only in y.onnx\n{graph}"));
}

/// Models whose constants are equal may differ in their nodes.
#[test]
fn nodes_that_differ() {
    let folder = Folder::new();
    let casts = |operator: &str, name: &str, to: i64, opset: i64| {
        let attribute = Message::new().bytes(1, "to").int(3, to).int(20, 2);
        let nodes = vec![node(operator, &["x"], "a", vec![attribute]), node("Identity", &["a"], name, vec![])];
        model(opset, nodes, &[("x", FLOAT)], &[(name, 10)])
    };
    folder.write("a.onnx", casts("Cast", "y", 10, 21));
    folder.write("b.onnx", casts("Cast", "y", 16, 22));
    folder.write("c.onnx", casts("BitCast", "z", 10, 21));
    let diff = |other: &str| stdout(&folder.run(&format!("diff a.onnx {other}")));
    assert_eq!(diff("b.onnx"), "node a: different attribute to\nopset ai.onnx: different version\n");
    let want = "graph: different outputs\nnode a: different operator\nnode y: only in a.onnx\nnode z: only in c.onnx\n";
    assert_eq!(diff("c.onnx"), want);
    assert_eq!(folder.run("diff a.onnx c.onnx").status.code(), Some(1));
    done(&folder.run("diff a.onnx b.onnx --values"));
    let json: serde_json::Value =
        serde_json::from_str(&stdout(&folder.run("diff a.onnx b.onnx --json"))).expect("JSON");
    let node = serde_json::json!({ "name": "node a", "difference": "node", "parts": "attribute to" });
    assert_eq!(json["differences"][0], node);
}

/// Where it is asked for, a DequantizeLinear of constants becomes its values, a chain keeps both roundings, and other
/// nodes stay. Quantized weights are quantized otherwise.
#[test]
fn scaled_casts_of_constants_are_computed() {
    let constant = |name: &str, dims: &[i64], data_type, raw: &[u8]| {
        let value = Message::new().bytes(1, "value").int(20, 4).message(5, tensor(dims, data_type, raw));
        node("Constant", &[], name, vec![value])
    };
    let floats = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
    let attributes = || vec![int_attribute("block_size", 2), int_attribute("axis", 1)];
    let nodes = vec![
        constant("codes", &[2, 4], 3, &[1, 2, 3, 4, 0xff, 0xfe, 0xfd, 0xfc]),
        constant("zero", &[2, 2], 3, &[0, 1, 0, 0]),
        constant("scale", &[2, 2], 1, &floats(&[0.1, 10.0, 1.0, 0.5])),
        node("DequantizeLinear", &["codes", "scale", "zero"], "values", attributes()),
        constant("step", &[], 1, &floats(&[0.3])),
        node("QuantizeLinear", &["values", "step"], "again", vec![int_attribute("output_dtype", 17)]),
        node("DequantizeLinear", &["again", "step"], "back", vec![]),
        node("QuantizeLinear", &["x", "step"], "y", vec![]),
    ];
    let outputs = [("values", 1), ("back", 1), ("y", 2)];
    let bytes = model(28, nodes, &[("x", 1)], &outputs);
    let (folded, said) = fold(&bytes);
    assert_eq!((folded, said.as_str()), (bytes.clone(), "0 casts of constants computed, 0 removed, 0 joined"));
    let (folded, said) = fold_by(&bytes, "fold in.onnx out.onnx --dequantize");
    assert_eq!(said, "3 casts of constants computed, 0 removed, 0 joined");
    let run = |bytes: &[u8]| {
        let x = Tensor::from_slice(vec![2], &[0.4f32, -1.0]).expect("a slice");
        let x = NamedTensor { name: "x".to_owned(), tensor: x };
        Model::parse(bytes).expect("a model").run(vec![x]).expect("it runs")
    };
    let (before, after) = (run(&bytes), run(&folded));
    assert_eq!(before, after);
    assert_eq!(after[0].tensor.to_vec::<f32>(), Some(vec![0.1, 0.2, 20.0, 30.0, -1.0, -2.0, -1.5, -2.0]));
    let dropped = b"DequantizeLinear";
    assert!(!folded.windows(dropped.len()).any(|part| part == dropped), "no DequantizeLinear is left");
}

/// DequantizeLinears of constants are computed, also those that give the scales of a selected weight; nothing else is.
#[test]
fn weights_of_a_model_are_dequantized() {
    let constant = |name: &str, dims: &[i64], data_type, raw: &[u8]| {
        let value = Message::new().bytes(1, "value").int(20, 4).message(5, tensor(dims, data_type, raw));
        node("Constant", &[], name, vec![value])
    };
    let floats = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
    let blocks = || vec![int_attribute("block_size", 2), int_attribute("axis", 0)];
    let nodes = vec![
        constant("codes", &[4], 3, &[1, 2, 3, 0xfc]),
        constant("scale codes", &[2], 3, &[2, 3]),
        constant("global", &[], 1, &floats(&[0.5])),
        node("DequantizeLinear", &["scale codes", "global"], "scales", vec![]),
        node("DequantizeLinear", &["codes", "scales"], "weight", blocks()),
        node("DequantizeLinear", &["codes", "global"], "other", vec![]),
        node("QuantizeLinear", &["other", "global"], "again", vec![int_attribute("output_dtype", 3)]),
    ];
    let folder = Folder::new();
    folder.write("m.onnx", model(28, nodes, &[], &[("weight", FLOAT), ("other", FLOAT), ("again", 3)]));
    let run = |name: &str| Model::parse(&folder.read(name)).expect("a model").run(vec![]).expect("it runs");
    let count = |name: &str, operator: &str| {
        let bytes = folder.read(name);
        bytes.windows(operator.len()).filter(|part| *part == operator.as_bytes()).count()
    };
    done(&folder.run("dequantize m.onnx all.onnx --to float -q"));
    assert_eq!((count("all.onnx", "DequantizeLinear"), run("all.onnx")), (0, run("m.onnx")));
    assert_eq!(count("all.onnx", "QuantizeLinear"), 1, "what is not a weight stays");
    let plan = done(&folder.run("dequantize m.onnx no.onnx --to float --include weight --dry-run"));
    assert!(plan.contains("weight") && !plan.contains("scales") && !plan.contains("other"), "{plan}");
    done(&folder.run("dequantize m.onnx one.onnx --to float --include weight -q"));
    assert_eq!((count("one.onnx", "DequantizeLinear"), run("one.onnx")), (1, run("m.onnx")));
    for (line, message) in [
        (
            "dequantize m.onnx no.onnx --to bf16",
            "m.onnx: weight `weight` is float in the model (want --to float, not bfloat16: what reads it takes no \
             other; \
             `onnx-cast cast` stores it in another type)",
        ),
        (
            "dequantize all.onnx no.onnx --to float",
            "all.onnx: no weight to dequantize: no DequantizeLinear reads constants alone",
        ),
        (
            "dequantize m.onnx no.onnx --to float --include weigth",
            "m.onnx: --include `weigth` matches no value (did you mean `weight`?)",
        ),
        (
            "dequantize m.onnx no.onnx --to float --layout plain",
            "m.onnx: --layout is for checkpoints (.safetensors, .gguf)",
        ),
    ] {
        folder.refuses(line, message);
    }
}

/// A name as long as it may be is printed, and does not make every other line as long.
#[test]
fn one_long_name_does_not_widen_every_line() {
    let empty = |name: String| Message::new().int(1, 0).int(2, FLOAT).bytes(8, name);
    let names = (0..1000).map(|place| place.to_string()).chain(["x".repeat(70_000)]);
    let graph = names.fold(Message::new().bytes(2, "g"), |graph, name| graph.message(5, empty(name)));
    let casts = ["a".repeat(70_000), "b".to_owned()];
    let graph = casts.iter().fold(graph, |graph, name| graph.message(1, cast("x", name, FLOAT16)));
    let bytes = Message::new().int(1, 8).message(7, graph).message(8, Message::new().int(2, 21)).into_bytes();
    let folder = Folder::new();
    folder.write("m.onnx", bytes);
    for line in ["info m.onnx", "cast m.onnx o.onnx --to float16 --dry-run", "fold m.onnx o.onnx --dry-run"] {
        let said = done(&folder.run(line));
        assert!((70_000..600_000).contains(&said.len()), "{line}: {} letters", said.len());
    }
}

/// What onnxruntime cannot run by itself is said, and what it fuses; MatMulNBits or MatMulInteger takes the place of
/// MatMul.
#[test]
fn where_a_quantized_model_runs_is_said() {
    let value = tensor(&[32, 32], FLOAT, &0.5f32.to_le_bytes().repeat(32 * 32));
    let weight = node("Constant", &[], "w", vec![Message::new().bytes(1, "value").int(20, 4).message(5, value)]);
    let folder = Folder::new();
    let nodes = vec![weight, node("MatMul", &["x", "w"], "y", vec![])];
    folder.write("m.onnx", model(25, nodes, &[("x", FLOAT)], &[("y", FLOAT)]));
    let has = |name: &str| folder.read("out.onnx").windows(name.len()).any(|part| part == name.as_bytes());
    let output = folder.run("quantize m.onnx out.onnx --to mxfp4 --force");
    let said = stderr(&output);
    done(&output);
    assert!(said.contains("out.onnx: onnxruntime has no CPU kernel for the DequantizeLinear of mxfp4: "), "{said}");
    assert!(has("DequantizeLinear") && !has("MatMulNBits"));
    let output = folder.run("quantize m.onnx out.onnx --to int4 --form matmulnbits --zero-points --force");
    let said = stderr(&output);
    done(&output);
    assert!(!said.contains("note"), "{said}");
    assert!(has("MatMulNBits") && has("com.microsoft") && has("w_zero_points") && !has("DequantizeLinear"));
    let said = stderr(&folder.run("dequantize out.onnx back.onnx --to float"));
    let want = "and the weights of MatMulNBits (1) are not read back (quantize the float model again, in the form qdq)";
    assert!(said.contains(want), "{said}");
    let said = stderr(&folder.run("quantize m.onnx out.onnx --to int8 --force"));
    assert!(!said.contains("note"), "{said}");
    let said = stderr(&folder.run("quantize m.onnx out.onnx --to float8e4m3fn --force"));
    assert!(said.contains("out.onnx: onnxruntime 1.31 fuses 0 of 1 products"), "{said}");
    let said = stderr(&folder.run("quantize m.onnx out.onnx --to int8 --form dynamic --force"));
    assert!(said.contains("processors without VNNI") && has("MatMulInteger") && !has("com.microsoft"), "{said}");
    let said = stderr(&folder.run("dequantize out.onnx back.onnx --to float"));
    assert!(said.contains("the weights of MatMulInteger (1) are not read back"), "{said}");
    for (line, message) in [
        ("--to int8 --zero-points", "m.onnx: --zero-points is for weights that MatMulNBits reads"),
        ("--to int8 --reduce-range", "m.onnx: --reduce-range is for products of integers"),
        ("--to int8 --form other", "invalid value 'other' for '--form <FORM>': unknown form `other` (want qdq,"),
    ] {
        let said = stderr(&folder.run(&format!("quantize m.onnx no.onnx {line}")));
        assert!(said.contains(message), "{said}");
    }
}
