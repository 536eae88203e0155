//! Does no damage to a model make its reader panic, and does a small file take little memory?

use onnx_cast_file::{InspectRequest, RunOptions};
use onnx_cast_model::{Model, UpgradeRequest, inspect, upgrade};
use testkit::fixtures::files;
use testkit::proto::{Message, node};

const MODELS: &str = include_str!("fixtures/models.txt");

/// Reads and runs a model of bytes that may be anything.
fn read(bytes: &[u8]) {
    if let Ok(model) = Model::parse(bytes) {
        let _ = model.run(Vec::new());
    }
}

#[test]
fn every_prefix() {
    for (_, file) in files(MODELS) {
        (0..file.len()).for_each(|len| read(&file[..len]));
    }
}

#[test]
fn every_bit_flipped() {
    for (_, mut file) in files(MODELS) {
        for bit in 0..file.len() * 8 {
            file[bit / 8] ^= 1 << (bit % 8);
            read(&file);
            file[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// A model of graphs within graphs, by nodes of long names; the innermost has what is given.
fn deep(innermost: Message) -> Vec<u8> {
    let mut graph = innermost.bytes(2, "g");
    for _ in 0..30 {
        let branch = Message::new().bytes(1, "then_branch".repeat(40)).message(6, graph).int(20, 5);
        let choice = node("If", &["c"], "", vec![branch]).bytes(3, "name".repeat(1000));
        graph = Message::new().message(1, choice).bytes(2, "g");
    }
    Message::new().int(1, 9).message(7, graph).message(8, Message::new().int(2, 11)).into_bytes()
}

/// What is listed has the path of its graph, which must not be as long as all names around it are together.
#[test]
fn paths_of_deep_graphs_are_bounded() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, out) = (folder.path().join("x.onnx"), folder.path().join("y.onnx"));
    let empty = |graph: Message, place: usize| {
        graph.message(5, Message::new().int(1, 0).int(2, 1).bytes(8, format!("{place}")))
    };
    std::fs::write(&path, deep((0..500).fold(Message::new(), empty))).expect("written");
    let names = inspect(&path, &InspectRequest::default()).expect("listed").file.tensors;
    assert_eq!(names.len(), 500);
    assert!(names.iter().all(|tensor| tensor.name.chars().count() <= 260), "{}", names[0].name);
    assert!(names[7].name.ends_with("/7"), "{}", names[7].name);
    let softmax = |graph: Message, place: usize| graph.message(1, node("Softmax", &["x"], &place.to_string(), vec![]));
    std::fs::write(&path, deep((0..500).fold(Message::new(), softmax))).expect("written");
    let request = UpgradeRequest::default().opset(Some(13)).run(RunOptions::new().dry_run(true));
    let done = upgrade(&path, &out, &request).expect("raised").rewritten;
    assert_eq!(done.len(), 500);
    assert!(done.iter().all(|one| one.graph.chars().count() <= 256), "{}", done[0].graph);
}
