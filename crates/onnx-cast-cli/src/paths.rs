//! The paths of a request. What is written must not replace what is read, or another output: of two that lead to the
//! same file one is a mistake, but for IN and OUT, which may be the same. The list comes from the command's own
//! arguments, so a new one that takes a path is in it.

use crate::args::{EXTERNAL_DATA, FILES, OUT_DIR, OUTPUT};
use anyhow::{Result, bail};
use clap::{Arg, ArgMatches, Command};
use onnx_cast_file::__private::fs::place_of;
use onnx_cast_file::__private::{PathText, folder_of, is_stream};
use onnx_cast_file::Format;
use std::any::TypeId;
use std::path::{Path, PathBuf};

/// A path of a request.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    /// What it is called: `IN`, `--html`.
    pub(crate) what: String,
    pub(crate) path: PathBuf,
    pub(crate) is_written: bool,
    /// Of an input and its own output the same number.
    pub(crate) pair: Option<usize>,
}

impl Named {
    pub(crate) fn read(what: impl Into<String>, path: &Path) -> Named {
        Named { what: what.into(), path: path.to_owned(), is_written: false, pair: None }
    }

    pub(crate) fn written(what: impl Into<String>, path: &Path) -> Named {
        Named { is_written: true, ..Named::read(what, path) }
    }

    fn of_pair(self, pair: usize) -> Named {
        Named { pair: Some(pair), ..self }
    }
}

/// Refuses a request of the command in which an output is another output, or something that is read.
pub(crate) fn check_request(all: &Command, matches: &ArgMatches) -> Result<()> {
    let Some((name, given)) = matches.subcommand() else { return Ok(()) };
    match all.find_subcommand(name) {
        Some(command) => {
            let named = of_request(command, given);
            check(&named)?;
            // The command creates the folder of `--out-dir`.
            if given.try_contains_id(OUT_DIR).unwrap_or(false) { Ok(()) } else { check_output_folders(&named) }
        }
        None => Ok(()),
    }
}

/// As [`check_request`], of paths by themselves.
pub(crate) fn check(paths: &[Named]) -> Result<()> {
    let places: Vec<PathBuf> = paths.iter().map(|named| place_of(&named.path)).collect();
    for (index, one) in paths.iter().enumerate() {
        for (other, _) in paths.iter().zip(&places).take(index).filter(|(_, place)| **place == places[index]) {
            // Two outputs of one name are told by their inputs.
            let is_pair = one.pair.is_some() && (one.pair == other.pair || one.is_written && other.is_written);
            if (one.is_written || other.is_written) && !is_pair && !is_stream(&one.path) {
                let (output, other) = if one.is_written { (one, other) } else { (other, one) };
                let path = PathText(&output.path);
                bail!("{path}: {} is also {} (name another file)", output.what, other.what);
            }
        }
    }
    check_folders(paths, &places)
}

/// Refuses an output folder that holds the input of another output: its files would be replaced before they are read.
fn check_folders(paths: &[Named], places: &[PathBuf]) -> Result<()> {
    for (output, place) in paths.iter().zip(places).filter(|(named, _)| named.is_written && named.pair.is_some()) {
        let is_lost = |(input, at): &(&Named, &PathBuf)| {
            !input.is_written && input.pair != output.pair && *at != place && at.starts_with(place)
        };
        if let Some((input, _)) = paths.iter().zip(places).find(is_lost) {
            let [folder, input] = [&output.path, &input.path].map(|path| PathText(path));
            bail!("{folder}: {} holds {input}, which is read (name another folder)", output.what);
        }
    }
    Ok(())
}

/// Refuses an output file whose folder does not exist, before anything is read. A job that writes a folder creates it.
fn check_output_folders(paths: &[Named]) -> Result<()> {
    let is_file = |path: &Path| Format::from_path(path).is_ok() && !path.is_dir() && !is_stream(path);
    for output in paths.iter().filter(|named| named.is_written && is_file(&named.path)) {
        let folder = folder_of(&output.path);
        if !folder.is_dir() {
            let what = if folder.exists() { "is not a folder" } else { "does not exist" };
            bail!("{}: cannot write: `{}` {what}", PathText(&output.path), PathText(folder));
        }
    }
    Ok(())
}

/// Whether an argument is a path.
fn is_path(arg: &Arg) -> bool {
    arg.get_value_parser().type_id() == TypeId::of::<PathBuf>()
}

/// All paths of a request. What stands under the heading of outputs is written.
fn of_request(command: &Command, given: &ArgMatches) -> Vec<Named> {
    let mut named = Vec::new();
    let out_dir = command.get_arguments().any(|arg| arg.get_id() == OUT_DIR).then_some(OUT_DIR);
    let out_dir = out_dir.and_then(|id| given.get_one::<PathBuf>(id));
    for arg in command.get_arguments().filter(|arg| is_path(arg) && arg.get_id() != OUT_DIR) {
        let values: Vec<&PathBuf> = given.get_many(arg.get_id().as_str()).into_iter().flatten().collect();
        let what = arg.get_long().map_or_else(|| value_name(arg), |long| format!("--{long}"));
        match (&values[..], out_dir) {
            ([input, output], None) if arg.get_id() == FILES => {
                named.extend([Named::read("IN", input).of_pair(0), Named::written("OUT", output).of_pair(0)]);
            }
            (inputs, Some(folder)) if arg.get_id() == FILES => {
                for (pair, input) in inputs.iter().enumerate() {
                    let output = folder.join(input.file_name().unwrap_or_default());
                    let shown = PathText(input);
                    named.push(Named::read(shown.to_string(), input).of_pair(pair));
                    named.push(Named::written(format!("the output of {shown}"), &output).of_pair(pair));
                }
            }
            _ => named.extend(values.iter().map(|path| {
                let is_output = arg.get_help_heading() == Some(OUTPUT) || value_name(arg).starts_with("OUT");
                let is_model = arg.is_positional() && command.get_arguments().any(|arg| value_name(arg) == "OUT.onnx");
                let pair = is_model.then_some(0);
                Named { what: what.clone(), path: (*path).clone(), is_written: is_output, pair }
            })),
        }
    }
    named.extend(external_data(command, given, &named));
    named
}

/// The external data files of the models among the outputs.
fn external_data(command: &Command, given: &ArgMatches, named: &[Named]) -> Vec<Named> {
    let is_given = command.get_arguments().any(|arg| arg.get_id() == EXTERNAL_DATA);
    let data = is_given.then(|| given.get_one::<String>(EXTERNAL_DATA)).flatten();
    let is_model = |named: &&Named| named.is_written && named.pair.is_some() && onnx_cast_model::is_model(&named.path);
    let beside = |model: &Named| {
        let own = || format!("{}.data", model.path.file_name().unwrap_or_default().to_string_lossy());
        let name = data.cloned().unwrap_or_else(own);
        Named::written(format!("the external data of {}", PathText(&model.path)), &model.path.with_file_name(name))
    };
    named.iter().filter(is_model).map(beside).collect()
}

fn value_name(arg: &Arg) -> String {
    arg.get_value_names().and_then(<[_]>::first).map(ToString::to_string).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Args;
    use clap::CommandFactory;

    /// What each command wants beside its paths.
    const WANTS: &[(&str, &str)] = &[
        ("cast", "--to float16"),
        ("bitcast", "--to uint16"),
        ("dequantize", "--to float16"),
        ("quantize", "--to int8"),
        ("transcode", "--layout plain"),
        ("convert", "--to float16"),
        ("report", "--to float16"),
        ("explain", "1 --to float16"),
        ("run", "--output y.pb"),
    ];

    /// Arguments that hold a path, and are not one: a name beside OUT, and those of `run`, which checks them itself.
    const NOT_PATHS: &[&str] = &[EXTERNAL_DATA, "inputs", "outputs"];

    /// A place for a path among the arguments.
    #[derive(Clone, Debug, PartialEq)]
    struct Slot {
        option: Option<String>,
        is_written: bool,
        is_in_or_out: bool,
    }

    fn slots(command: &Command) -> Vec<Slot> {
        let mut slots = Vec::new();
        for arg in command.get_arguments() {
            let (name, id) = (value_name(arg), arg.get_id().as_str());
            let seems = arg.get_action().takes_values()
                && ["FILE", "DIR", "html", "onnx"].iter().any(|part| name.contains(part));
            assert!(is_path(arg) || !seems || NOT_PATHS.contains(&id), "{}: {id} takes a path", command.get_name());
            if !is_path(arg) || id == OUT_DIR {
                continue;
            }
            let option = arg.get_long().map(|long| format!("--{long}"));
            let is_written = arg.get_help_heading() == Some(OUTPUT) || name.starts_with("OUT");
            let is_in_or_out = id == FILES || ["IN.onnx", "OUT.onnx"].contains(&&*name);
            slots.push(Slot { option: option.clone(), is_written, is_in_or_out });
            if id == FILES {
                slots.push(Slot { option, is_written: true, is_in_or_out });
            }
        }
        slots
    }

    fn check_line(line: &str) -> Result<()> {
        let all = Args::command();
        let matches =
            all.clone().try_get_matches_from(line.split_whitespace()).unwrap_or_else(|error| panic!("{line}: {error}"));
        check_request(&all, &matches)
    }

    /// Every path of every command beside every other: an output may be no other path, but for OUT, which may be IN.
    #[test]
    fn an_output_is_no_other_path() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(at("there.onnx"), "a model").expect("a file");
        std::fs::create_dir(at("inner")).expect("a folder");
        let mut pairs = 0;
        for command in Args::command().get_subcommands() {
            let (name, slots) = (command.get_name(), slots(command));
            let wants = WANTS.iter().find(|(of, _)| *of == name).map_or("", |(_, wants)| wants);
            let line = |paths: &dyn Fn(usize) -> Option<String>| {
                let mut line = format!("onnx-cast {name} {wants}");
                for (index, slot) in slots.iter().enumerate() {
                    // What is not compared is left out, if it may be.
                    let Some(path) =
                        paths(index).or_else(|| slot.option.is_none().then(|| at(&format!("{index}.onnx"))))
                    else {
                        continue;
                    };
                    line = format!("{line} {} {path}", slot.option.as_deref().unwrap_or_default());
                }
                line
            };
            if slots.len() > 1 {
                check_line(&line(&|index| Some(at(&format!("{index}.onnx")))))
                    .unwrap_or_else(|error| panic!("{name}: {error}"));
            }
            for second in 0..slots.len() {
                for first in 0..second {
                    let is_in_place = slots[first].is_in_or_out && slots[second].is_in_or_out;
                    let may = is_in_place || !slots[first].is_written && !slots[second].is_written;
                    for (one, other) in [("there.onnx", "inner/../there.onnx"), ("new.onnx", "./inner/../new.onnx")] {
                        let line = line(&|index| {
                            (index == first).then(|| at(one)).or_else(|| (index == second).then(|| at(other)))
                        });
                        assert_eq!(check_line(&line).is_ok(), may, "{line}");
                        pairs += 1;
                    }
                }
            }
        }
        assert!(pairs > 40, "{pairs}");
    }

    #[test]
    fn an_output_folder_holds_no_other_input() {
        for line in [
            "cast i/llama o/llama/model.safetensors --to float16 --out-dir o -f",
            "cast o/llama/model.safetensors i/llama --to float16 --out-dir o -f",
            "dequantize llama o/llama/sub/x.safetensors --to float16 --out-dir o -f",
        ] {
            let error = check_line(&format!("onnx-cast {line}")).expect_err(line).to_string();
            assert!(error.starts_with("o/llama: the output of ") && error.contains(", which is read"), "{error}");
        }
        check_line("onnx-cast cast i/llama o/llama2/model.safetensors --to float16 --out-dir o")
            .expect("a folder beside");
    }

    #[test]
    fn files_that_are_not_named_are_in_it() {
        for (line, says) in [
            (
                "convert a.onnx b.onnx --to float16 --html b.onnx.data",
                "b.onnx.data: the external data of b.onnx is also --html",
            ),
            (
                "convert a.onnx o/b.onnx --to float16 --external-data c.html --html o/c.html",
                "o/c.html: the external data of o/b.onnx is also --html",
            ),
            (
                "cast a.npy b.npy --to float16 --out-dir o --rules-file o/b.npy",
                "o/b.npy: the output of b.npy is also --rules-file",
            ),
            (
                "cast a.onnx b.onnx --to float16 --out-dir o --external-data e.bin -f",
                "o/e.bin: the external data of o/b.onnx is also the external data of o/a.onnx",
            ),
            (
                "quantize a.onnx b.onnx --to int8 --out-dir o --external-data a.onnx -f",
                "o/a.onnx: the external data of o/a.onnx is also the output of a.onnx",
            ),
            ("cast a.onnx b.onnx --to float16 --out-dir o", ""),
            ("cast i/a.npy o/a.gguf --to float16 --out-dir o", ""),
            ("cast i/a.npy o/b.gguf --to float16 --out-dir o", ""),
            ("cast - - --to float16", ""),
        ] {
            let line = format!("onnx-cast {line}");
            match check_line(&line) {
                Ok(()) => assert_eq!(says, "", "{line}"),
                Err(error) => {
                    let error = error.to_string();
                    let error = error.strip_suffix(" (name another file)");
                    assert_eq!(error, Some(says), "{line}");
                }
            }
        }
    }
}
