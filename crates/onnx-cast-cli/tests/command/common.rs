//! What the tests of the command share.

use assert_cmd::Command;
use onnx_cast::{DataType, Tensor};
use onnx_cast_file::{Format, InputFile, NamedTensor, WriteOptions, put_tensor, read_tensors_from};
use std::path::Path;
use std::process::Output;
use testkit::fixtures::as_on_unix;

/// The command, with these arguments.
pub(crate) fn command<I: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = I>) -> Command {
    let mut command = Command::cargo_bin("onnx-cast").expect("the command is built");
    command.args(args);
    command
}

/// Runs a line of arguments, split at spaces.
pub(crate) fn run(line: &str) -> Output {
    command(line.split(' ')).output().expect("the command runs")
}

pub(crate) fn stdout(output: &Output) -> String {
    as_on_unix(&String::from_utf8(output.stdout.clone()).expect("UTF-8"))
}

pub(crate) fn stderr(output: &Output) -> String {
    as_on_unix(&String::from_utf8(output.stderr.clone()).expect("UTF-8"))
}

/// Asserts that the command did what it was asked, and returns what it printed.
#[track_caller]
pub(crate) fn done(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    stdout(output)
}

/// Asserts that the command refused, with nothing on the standard output, and returns the first line of what it said.
#[track_caller]
pub(crate) fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{}", stdout(output));
    assert_eq!(stdout(output), "");
    let text = stderr(output);
    let line = text.lines().next().unwrap_or_default();
    let line = line.strip_prefix("onnx-cast: error: ").unwrap_or_else(|| panic!("{text}"));
    line.to_owned()
}

fn bytes(format: Format, name: &str, tensor: &Tensor) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_tensor(&mut bytes, Path::new("memory"), format, name, tensor.view(), &WriteOptions::default()).expect("bytes");
    bytes
}

/// The bytes of an `.npy` file.
pub(crate) fn npy(tensor: &Tensor) -> Vec<u8> {
    bytes(Format::Npy, "", tensor)
}

/// The bytes of a `.pb` file.
pub(crate) fn pb(name: &str, tensor: &Tensor) -> Vec<u8> {
    bytes(Format::TensorProto, name, tensor)
}

/// The tensors of a `.safetensors` file.
pub(crate) fn tensors(bytes: Vec<u8>) -> Vec<NamedTensor> {
    let file = InputFile::other(Path::new("memory"), bytes.len() as u64, bytes);
    read_tensors_from(file, Format::Safetensors, None).expect("a file of tensors")
}

/// The names and types of tensors.
pub(crate) fn types(tensors: &[NamedTensor]) -> Vec<(String, DataType)> {
    tensors.iter().map(|one| (one.name.clone(), one.tensor.data_type())).collect()
}
