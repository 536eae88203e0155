//! `record`, and `convert` with ranges and a page. scripts/checks/record.py has onnxruntime run what is written.

use crate::common::{done, stderr};
use crate::files::Folder;
use serde_json::Value;
use testkit::proto::{Message, model, node, tensor};

const FLOAT: i64 = 1;

/// The constant `w`, a weight of two rows and columns.
pub(crate) fn weight() -> Message {
    let bytes: Vec<u8> = [1.0f32, 2.0, 3.0, 4.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    let value = Message::new().bytes(1, "value").message(5, tensor(&[2, 2], FLOAT, &bytes)).int(20, 4);
    node("Constant", &[], "w", vec![value])
}

/// A MatMul whose result is multiplied, by names that a page must not take for markup.
fn folder() -> Folder {
    let folder = Folder::new();
    let nodes = vec![
        weight(),
        node("MatMul", &["x", "w"], "</script>a", vec![]),
        node("Mul", &["</script>a", "</script>a"], "{{data}}", vec![]),
        node("MatMul", &["{{data}}", "w"], "y", vec![]),
    ];
    folder.write("m.onnx", model(17, nodes, &[("x", FLOAT)], &[("y", FLOAT)]));
    folder
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn record_adds_an_output_for_each_value() {
    let folder = folder();
    let text = done(&folder.run("record m.onnx r.onnx --dry-run -f"));
    assert!(text.ends_with("total: 4 values recorded\n") && !folder.path("r.onnx").exists(), "{text}");
    let told = json(&done(&folder.run("record m.onnx r.onnx --json -f")));
    let outputs: Vec<_> = told["values"].as_array().expect("values").iter().map(|value| &value["output"]).collect();
    let names = ["x", "</script>a", "{{data}}", "y"].map(|name| format!("onnx_cast_record/{name}"));
    assert_eq!(outputs, names.iter().collect::<Vec<_>>());
    let written = folder.read("r.onnx");
    done(&folder.run("record m.onnx r.onnx --quiet -f"));
    assert_eq!(folder.read("r.onnx"), written, "not the same bytes again");
    let again = "the model has a value `onnx_cast_record/x` already: it is a model that `record` has written";
    folder.refuses("record r.onnx s.onnx -f", &format!("r.onnx: {again}"));
    folder.refuses("record m.onnx r.onnx --include z -f", "m.onnx: --include `z` matches no value (did you mean `x`?)");
    folder.refuses("record m.onnx r.pb -f", "r.pb: record takes a model (.onnx)");
}

#[test]
fn convert_says_that_nothing_was_verified() {
    let folder = folder();
    folder.write("r.json", r#"{"x": 1}"#);
    let line = "convert m.onnx h.onnx --to float16 -f";
    let run = "`python -m onnx_cast convert` runs both models, or compare the outputs of one that --emulate writes";
    let said = |options: &str| stderr(&folder.run(&format!("{line}{options}")));
    let why = "not verified: no inputs were given: ";
    assert_eq!(
        said("").lines().last(),
        Some(&*format!("{why}{run}; `onnx-cast record` finds what overflows, for --ranges"))
    );
    assert_eq!(said(" --ranges r.json").lines().last(), Some(&*format!("{why}{run}")));
    for quiet in [" --quiet", " --dry-run", " --emulate", " --explain x"] {
        assert!(!said(quiet).contains("not verified"), "{quiet}");
    }
    assert_eq!(json(&done(&folder.run(&format!("{line} --json"))))["not_verified"], "no inputs were given");
}

/// The product, too large for float16 with the margin, stays float; a name of nothing is counted.
#[test]
fn convert_heeds_ranges() {
    let folder = folder();
    folder.write("r.json", r#"{"{{data}}": 20000, "</script>a": {"max": 10, "min": -3, "nan": 0}, "nothing": 1}"#);
    let line = "convert m.onnx h.onnx --to float16 --ranges r.json -f";
    let types = |margin: &str| {
        let told = json(&done(&folder.run(&format!("{line}{margin} --json"))));
        assert_eq!(told["unknown_ranges"], 1);
        let of = |name: &str| {
            let values = told["values"].as_array().expect("values");
            values.iter().find(|value| value["name"] == name).expect(name)["type"].clone()
        };
        (of("</script>a"), of("{{data}}"))
    };
    assert_eq!(types("").1, "float");
    assert_eq!(types(" --margin 2"), ("float16".into(), "float16".into()));
    let said = stderr(&folder.run(line));
    assert!(said.starts_with("r.json: 1 of 3 names are not floating-point values of the model\n"), "{said}");
    let said = stderr(&folder.run("convert m.onnx h.onnx --to float16 -f --margin 2"));
    assert!(
        said.starts_with("onnx-cast: warning: m.onnx: --margin has no effect: it is for recorded ranges\n"),
        "{said}"
    );
    assert!(!stderr(&folder.run(&format!("{line} --margin 2"))).contains("no effect"));
    folder.refuses(&format!("{line} --margin 0"), "m.onnx: margin 0: want a finite number above 0");
    folder.write("bad.json", r#"{"x": [true]}"#);
    let bad = "convert m.onnx h.onnx --to float16 --ranges bad.json -f";
    folder.refuses(bad, "bad.json: value `x`: true in an array (want a number)");
    folder.refuses(
        "convert m.onnx h.onnx --to float16 --ranges m.onnx -f",
        "m.onnx: not a file of ranges (want .npz, or .json)",
    );
}

#[test]
fn a_page_needs_nothing_but_itself() {
    let folder = folder();
    folder.write("r.json", r#"{"{{data}}": 20000, "</script>a": Infinity}"#);
    done(&folder.run("convert m.onnx h.onnx --to float16 -q --html p.html --ranges r.json"));
    let page = String::from_utf8(folder.read("p.html")).expect("UTF-8");
    for part in ["https:", "http:", " src=", "<link", "@import", "url("] {
        assert!(!page.contains(part), "{part}");
    }
    assert_eq!((page.matches("<script").count(), page.matches("</script>").count()), (3, 3));
    let (_, data) = page.split_once("id=\"data\">").expect("the figures");
    let data = json(data.split_once("</script>").expect("their end").0);
    let name = |node: &Value| (node[1].clone(), node[3].clone());
    let nodes: Vec<_> = data["nodes"].as_array().expect("nodes").iter().map(name).collect();
    assert_eq!(nodes.len(), 3, "{data}");
    let values = data["values"].as_array().expect("values");
    // A value has its node's place, and the magnitude that was recorded.
    let value = |name: &str| values.iter().find(|value| value[1] == name).expect(name);
    assert_eq!((&value("</script>a")[4], &value("</script>a")[5]), (&0.into(), &"inf".into()));
    assert_eq!((&value("{{data}}")[4], &value("{{data}}")[5]), (&1.into(), &20000.0.into()));
    assert_eq!((&value("x")[4], &value("x")[5]), (&Value::Null, &Value::Null));
    assert_eq!(data["limits"][2], 65504.0);
    folder.refuses(
        "convert m.onnx h.onnx --to float16 --html p.html",
        "p.html: already exists (name another file, or --force to replace it)",
    );
}
