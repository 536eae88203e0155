//! The command, Python and JavaScript fill in the same requests. Do these have the command's options, by its names, and
//! no others?

use onnx_cast::DataType;
use onnx_cast_file::__private::options_of;
use onnx_cast_file::{
    BitCastRequest, CastRequest, DequantizeRequest, DiffRequest, InspectRequest, Layout, QuantizeRequest,
    ReportRequest, TranscodeRequest,
};
use onnx_cast_model::{ConvertRequest, FoldRequest, RecordRequest, UpgradeRequest};

/// Options of the command that no request has, and why.
const OF_THE_COMMAND: &[(&str, &str)] = &[
    ("--color", "of a terminal"),
    ("--html", "an output of its own"),
    ("--json", "of the standard output"),
    ("--no-saturate", "`--saturate false`"),
    ("--out-dir", "a request for each file"),
    ("--quiet", "of a terminal"),
    ("--rules-file", "read into `rules`"),
    ("--top", "of what is printed"),
    ("--verbose", "of a terminal"),
];

/// Fields of requests that the command has no option for, and why.
const WITHOUT_OPTION: &[(&str, &[&str], &str)] = &[
    ("quantize dequantize transcode", &["npy_plain"], "refused: no such file is written"),
    ("bitcast transcode", &["losses", "fail_on"], "refused: no value changes"),
    (
        "convert fold record upgrade",
        &["copy_others", "resume", "losses", "fail_on", "npy_plain", "shard_size"],
        "refused, or without a meaning: a model is written whole",
    ),
    ("convert", &["allow_unmatched", "clamp"], "for Python's converter of float16"),
];

#[test]
fn requests_have_the_options_of_the_command() {
    let transcode = TranscodeRequest::new(Layout::Plain);
    let requests = [
        ("cast", options_of(&CastRequest::default())),
        ("bitcast", options_of(&BitCastRequest::default())),
        ("dequantize", options_of(&DequantizeRequest::default())),
        ("quantize", options_of(&QuantizeRequest::default())),
        ("transcode", options_of(&transcode)),
        ("convert", options_of(&ConvertRequest::new(DataType::Float16))),
        ("fold", options_of(&FoldRequest::default())),
        ("record", options_of(&RecordRequest::default())),
        ("upgrade", options_of(&UpgradeRequest::default())),
        ("info", options_of(&InspectRequest::default())),
        ("diff", options_of(&DiffRequest::default())),
        ("report", options_of(&ReportRequest::default())),
    ];
    for (command, fields) in requests {
        let lines = include_str!("../data/options.txt").lines().filter_map(|line| line.split_once(' '));
        let of_command = lines.filter(|(of, name)| *of == command && name.starts_with("--")).map(|(_, name)| name);
        // A report is written to a page, which is what `--force` is about.
        let is_own = |name: &&str| {
            !OF_THE_COMMAND.iter().any(|(known, _)| known == name) && (command, *name) != ("report", "--force")
        };
        let options: Vec<String> = of_command.filter(is_own).map(field_of).collect();
        for option in &options {
            assert!(fields.contains(&option.as_str()), "the request of {command} lacks `{option}`: {fields:?}");
        }
        for field in fields {
            let is_explained = |(commands, fields, _): &(&str, &[&str], &str)| {
                commands.split(' ').any(|one| one == command) && fields.contains(&field)
            };
            assert!(
                options.iter().any(|option| option == field) || WITHOUT_OPTION.iter().any(is_explained),
                "{command} has no option for `{field}` of its request"
            );
        }
    }
}

/// The field of an option.
fn field_of(option: &str) -> String {
    match option {
        "--rule" => "rules".to_owned(),
        "--no-copy-others" => "copy_others".to_owned(),
        _ => option.trim_start_matches("--").replace('-', "_"),
    }
}
