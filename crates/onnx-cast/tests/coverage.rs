//! Is every list complete? Compares the library's tables with the types and operators of the onnx package.
//! `scripts/checks/onnx_schemas.py` writes those to `data/onnx_schemas.txt`; the test run compares that file with the
//! package again.

use onnx_cast::ops::{Attribute, AttributeValue, Role};
use onnx_cast::ops::{OpError, OpErrorKind, Operator};
use onnx_cast::scaled::{DequantizeLinear, DynamicQuantizeLinear, QuantizeLinear};
use onnx_cast::types::Kind;
use onnx_cast::{BitCast, Cast, CastLike, CastOptions, DataType, NEWEST_OPSET, RoundMode, TensorView};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use testkit::scaled::{DEQUANTIZE_SCALES, FLOATS, QUANTIZE_SCALES, QUANTIZE_SOURCES, QUANTIZED};
use testkit::types::TABLE;

/// One version of an operator in onnx.
#[derive(Debug)]
struct Schema {
    operator: Operator,
    version: i64,
    /// The attribute's name, and its kind with its facts.
    attributes: BTreeMap<&'static str, &'static str>,
    inputs: Vec<BTreeSet<&'static str>>,
    outputs: Vec<BTreeSet<&'static str>>,
}

struct Facts {
    data_types: Vec<(&'static str, i64)>,
    schemas: Vec<Schema>,
}

fn facts() -> Facts {
    let mut facts = Facts { data_types: Vec::new(), schemas: Vec::new() };
    let lines = include_str!("data/onnx_schemas.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in lines {
        let (word, rest) = line.split_once(' ').unwrap_or_else(|| panic!("`{line}` has no value"));
        let pair = || rest.split_once(' ').unwrap_or_else(|| panic!("`{line}` has one value, want two"));
        let types = || rest.split(' ').collect::<BTreeSet<_>>();
        if word == "data_type" {
            let (name, number) = pair();
            facts.data_types.push((name, number.parse().expect("a number")));
            continue;
        }
        if word == "op" {
            let (name, version) = pair();
            let operator = Operator::ALL.iter().find(|operator| operator.name() == name);
            facts.schemas.push(Schema {
                operator: *operator.unwrap_or_else(|| panic!("the library has no operator {name}")),
                version: version.parse().expect("a number"),
                attributes: BTreeMap::new(),
                inputs: Vec::new(),
                outputs: Vec::new(),
            });
            continue;
        }
        let schema = facts.schemas.last_mut().unwrap_or_else(|| panic!("`{line}` precedes every operator"));
        match word {
            "attribute" => drop(schema.attributes.insert(pair().0, pair().1)),
            "input" => schema.inputs.push(types()),
            "output" => schema.outputs.push(types()),
            _ => panic!("`{line}` is not a known fact"),
        }
    }
    facts
}

#[test]
fn the_types_are_those_of_onnx() {
    let facts = facts();
    let (undefined, types) = facts.data_types.split_first().expect("types");
    assert_eq!(*undefined, ("UNDEFINED", 0));
    let ours: Vec<(String, i64)> =
        DataType::ALL.iter().map(|data_type| (data_type.name().to_uppercase(), data_type.onnx().into())).collect();
    let theirs: Vec<(String, i64)> = types.iter().map(|&(name, number)| (name.to_owned(), number)).collect();
    assert_eq!(ours, theirs, "names and numbers, in the order of the numbers");
    for &(name, number) in types {
        let data_type = DataType::from_onnx(number).unwrap_or_else(|| panic!("{name} {number}"));
        assert_eq!(name.parse(), Ok(data_type), "ONNX's name {name}");
        assert_eq!(data_type.name().parse(), Ok(data_type), "the printed name of {name}");
        assert_eq!(data_type.to_string(), data_type.name(), "how {name} prints");
        assert_eq!(data_type.info().data_type, data_type, "the row of {name}");
    }
    let newest = types.last().expect("types").1;
    for number in [i64::MIN, -1, 0, newest + 1, 255, 256 + 1, i64::MAX] {
        assert_eq!(DataType::from_onnx(number), None, "{number} is not a type");
    }
}

#[test]
fn no_two_types_share_a_name() {
    let mut names = BTreeMap::new();
    for &data_type in DataType::ALL {
        for &name in std::iter::once(&data_type.name()).chain(data_type.info().aliases) {
            assert_eq!(name.parse(), Ok(data_type), "{name}");
            assert_eq!(name.to_uppercase().parse(), Ok(data_type), "{name} in upper case");
            assert_eq!(names.insert(name, data_type), None, "{name} names two types");
        }
    }
    for name in ["", "undefined", "float33", "tensor(float)", " float", "float\0"] {
        assert!(name.parse::<DataType>().is_err(), "`{name}` is not a type");
    }
}

/// numpy counts bytes where others count bits.
#[test]
fn names_that_mean_two_types_are_refused() {
    for (name, meanings) in [
        ("i2", "int2, and to numpy means int16"),
        ("i4", "int4, and to numpy means int32"),
        ("I8", "int8, and to numpy means int64"),
        ("u2", "uint2, and to numpy means uint16"),
        ("u4", "uint4, and to numpy means uint32"),
        ("u8", "uint8, and to numpy means uint64"),
        ("f_4", "float4e2m1, and to numpy means float"),
    ] {
        let error = name.parse::<DataType>().expect_err(name).to_string();
        assert_eq!(error, format!("`{name}` may mean {meanings} (want one of these)"));
    }
}

#[test]
fn the_versions_are_those_of_onnx() {
    let facts = facts();
    for &operator in Operator::ALL {
        let theirs: Vec<i64> =
            facts.schemas.iter().filter(|schema| schema.operator == operator).map(|schema| schema.version).collect();
        assert_eq!(operator.versions(), theirs, "versions of {operator}");
        for opset in 0..=NEWEST_OPSET {
            let want = theirs.iter().copied().filter(|&version| version <= opset).max();
            assert_eq!(operator.version_at(opset).ok(), want, "{operator} at opset {opset}");
        }
    }
}

/// Whether this version of the operator accepts a cast between two types.
fn agrees(operator: Operator, version: i64, from: DataType, to: DataType) -> Result<(), OpError> {
    let options = CastOptions::new().opset(version);
    match operator {
        Operator::Cast => Cast::new(to, &options)?.plan(from).map(drop),
        Operator::CastLike => CastLike::new(&options)?.plan(from, to).map(drop),
        Operator::BitCast => BitCast::new(to, version)?.plan(from).map(drop),
        _ => panic!("{operator} is not tested"),
    }
}

#[test]
fn every_version_takes_the_types_of_onnx() {
    for schema in facts().schemas.into_iter().filter(|schema| Operator::CASTS.contains(&schema.operator)) {
        let Schema { operator, version, inputs, outputs, .. } = &schema;
        let name = format!("{operator}-{version}");
        let [types] = &outputs[..] else { panic!("{name}: one output") };
        assert_eq!(inputs.len(), if *operator == Operator::CastLike { 2 } else { 1 }, "{name}: inputs");
        assert!(inputs.iter().all(|input| input == types), "{name}: the same types in and out");
        for &to in DataType::ALL {
            let listed = types.contains(to.name());
            assert_eq!(operator.supports(*version, to), listed, "{name} and {to}: the predicate");
            for &from in DataType::ALL {
                let same_width = *operator != Operator::BitCast || from.bits() == to.bits();
                let want = listed && types.contains(from.name()) && same_width;
                let got = agrees(*operator, *version, from, to);
                assert_eq!(got.is_ok(), want, "{name}: {from} -> {to}: {got:?}");
                // The error names the first version that supports the rejected type.
                if let Err(OpErrorKind::Type { data_type, since, .. }) = got.as_ref().map_err(OpError::kind) {
                    assert!([from, to].contains(data_type), "{name}: {from} -> {to} names {data_type}");
                    assert_eq!(*since, first_version_with(*operator, *data_type), "{name}: {data_type}");
                }
            }
        }
    }
}

#[test]
fn every_version_of_a_scaled_cast_takes_the_types_of_onnx_in_their_roles() {
    use Role::{Quantized, Scale, Values};
    for Schema { operator, version, inputs, outputs, .. } in facts().schemas {
        let (want_inputs, want_outputs): (&[Role], &[Role]) = match operator {
            Operator::QuantizeLinear => (&[Values, Scale, Quantized], &[Quantized]),
            Operator::DequantizeLinear => (&[Quantized, Scale, Quantized], &[Values]),
            Operator::DynamicQuantizeLinear => (&[Values], &[Quantized, Scale, Quantized]),
            _ => continue,
        };
        for (roles, tensors) in [(want_inputs, inputs), (want_outputs, outputs)] {
            assert_eq!(roles.len(), tensors.len(), "{operator}-{version}: inputs and outputs");
            for (&role, types) in roles.iter().zip(&tensors) {
                for &data_type in DataType::ALL {
                    let since = operator.since_as(role, data_type);
                    let takes = since.is_some_and(|since| since <= version);
                    assert_eq!(takes, types.contains(data_type.name()), "{operator}-{version}: {data_type} as {role}");
                }
            }
        }
    }
}

fn first_version_with(operator: Operator, data_type: DataType) -> Option<i64> {
    let facts = facts();
    let mut has = facts.schemas.iter().filter(|schema| schema.operator == operator);
    has.find(|schema| schema.outputs[0].contains(data_type.name())).map(|schema| schema.version)
}

#[test]
fn every_version_has_the_attributes_of_onnx() {
    for Schema { operator, version, attributes, .. } in facts().schemas {
        let name = format!("{operator}-{version}");
        let ours: BTreeSet<&str> =
            operator.attributes().iter().filter(|(_, since)| *since <= version).map(|(name, _)| *name).collect();
        assert_eq!(ours, attributes.keys().copied().collect(), "{name}: attributes");
        for attribute in ["to", "saturate", "round_mode", "axis", "block_size", "output_dtype", "precision"] {
            let int = from_node(operator, version, attribute, AttributeValue::Int(1));
            let string = from_node(operator, version, attribute, AttributeValue::String(string_for(attribute)));
            let other = from_node(operator, version, attribute, AttributeValue::Other);
            assert!(other.is_err(), "{name}: `{attribute}` of another kind");
            match attributes.get(attribute).and_then(|facts| facts.split(' ').next()) {
                None => {
                    let unknown = |result: &Result<(), OpError>| {
                        matches!(result.as_ref().map_err(OpError::kind), Err(OpErrorKind::UnknownAttribute { .. }))
                    };
                    assert!(unknown(&int) && unknown(&string), "{name} has no `{attribute}`: {int:?}, {string:?}");
                }
                Some("INT") => assert!(int.is_ok() && string.is_err(), "{name}: `{attribute}`: {int:?}, {string:?}"),
                Some("STRING") => assert!(int.is_err() && string.is_ok(), "{name}: `{attribute}`: {int:?}, {string:?}"),
                Some(kind) => panic!("{name}: `{attribute}` is of the new kind {kind}"),
            }
        }
        // Required and default values.
        let facts: BTreeMap<_, _> =
            attributes.iter().filter_map(|(name, facts)| Some((*name, facts.split_once(' ')?.1))).collect();
        let defaults = [
            ("to", "required"),
            ("saturate", "optional 1"),
            ("round_mode", "optional up"),
            ("axis", "optional 1"),
            ("block_size", "optional 0"),
            ("output_dtype", "optional 0"),
            ("precision", "optional 0"),
        ];
        for (attribute, want) in defaults {
            assert!(facts.get(attribute).is_none_or(|facts| *facts == want), "{name}: `{attribute}` is {want}");
        }
    }
}

/// Builds the operator from a node with one attribute, and a valid `to` where the operator requires one.
fn from_node(operator: Operator, version: i64, name: &str, value: AttributeValue<'_>) -> Result<(), OpError> {
    let opset = version;
    let to = if operator == Operator::Cast && version < 6 {
        AttributeValue::String(b"FLOAT")
    } else {
        AttributeValue::Int(1)
    };
    let mut attributes = vec![Attribute { name, value }];
    if name != "to" && operator.attributes().iter().any(|(known, _)| *known == "to") {
        attributes.push(Attribute { name: "to", value: to });
    }
    match operator {
        Operator::Cast => Cast::from_node(opset, &attributes).map(drop),
        Operator::CastLike => CastLike::from_node(opset, &attributes).map(drop),
        Operator::BitCast => BitCast::from_node(opset, &attributes).map(drop),
        Operator::QuantizeLinear => QuantizeLinear::from_node(opset, &attributes).map(drop),
        Operator::DequantizeLinear => DequantizeLinear::from_node(opset, &attributes).map(drop),
        Operator::DynamicQuantizeLinear => DynamicQuantizeLinear::from_node(opset, &attributes).map(drop),
        _ => panic!("{operator} is not tested"),
    }
}

fn string_for(attribute: &str) -> &'static [u8] {
    match attribute {
        "to" => b"FLOAT",
        "round_mode" => b"up",
        _ => b"1",
    }
}

#[test]
fn the_round_modes_are_those_of_onnx() {
    // ONNX lists the names only in the attribute's description, so they cannot come from the facts.
    let names: Vec<&str> = RoundMode::ALL.iter().map(|mode| mode.name()).collect();
    assert_eq!(names, ["up", "down", "nearest"]);
    for &mode in RoundMode::ALL {
        assert_eq!(mode.name().parse(), Ok(mode), "{mode}");
    }
    assert_eq!(RoundMode::default(), RoundMode::Up);
}

#[test]
fn the_lists_of_types_are_complete() {
    let facts = facts();
    let newest =
        facts.schemas.iter().filter(|schema| schema.operator == Operator::Cast).max_by_key(|schema| schema.version);
    let cast: BTreeSet<&str> = newest.expect("Cast").outputs[0].clone();
    let numeric: BTreeSet<&str> = DataType::NUMERIC.iter().map(|data_type| data_type.name()).collect();
    assert_eq!(numeric.len(), DataType::NUMERIC.len(), "no type twice");
    assert_eq!(&numeric | &BTreeSet::from(["string"]), cast, "all types of Cast but string");
    for &data_type in DataType::ALL {
        let name = data_type.name();
        let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
        let kind = data_type.info().kind;
        let want = match kind {
            Kind::String => None,
            Kind::Bool => Some(8),
            Kind::Float(format) => {
                // `float8e4m3fn` contains all field widths; other names contain only the total width, or none.
                let (width, fields) = name.split_once('e').unwrap_or((name, ""));
                if fields.starts_with(|c: char| c.is_ascii_digit()) {
                    let (exponent, significand) = fields.split_once('m').expect("both fields");
                    assert_eq!(digits(exponent), format.exponent_bits.to_string(), "{name}: exponent");
                    assert_eq!(digits(significand), format.significand_bits.to_string(), "{name}: significand");
                }
                assert_eq!(
                    format.bits,
                    u32::from(format.signed) + format.exponent_bits + format.significand_bits,
                    "{name}: the fields fill the code"
                );
                assert_eq!(data_type.float_format(), Some(format), "{name}");
                match name {
                    "float" => Some(32),
                    "double" => Some(64),
                    _ => Some(digits(width).parse().expect("a width")),
                }
            }
            Kind::Int | Kind::Uint | Kind::Complex => Some(digits(name).parse().expect("a width")),
            _ => panic!("{name} is of a kind that this test does not know"),
        };
        assert_eq!(data_type.bits(), want, "{name}: bits");
        assert_eq!(data_type.is_float(), matches!(kind, Kind::Float(_)), "{name}: float");
        assert_eq!(data_type.is_packed(), want.is_some_and(|bits| bits < 8), "{name}: packed");
        for len in [0usize, 1, 2, 3, 4, 5, 7, 8, 9, 1000] {
            let bytes = want.map(|bits: usize| (len * bits).div_ceil(8));
            assert_eq!(data_type.byte_len(len), bytes, "{name}: bytes of {len} elements");
        }
        assert_eq!(
            data_type.byte_len(usize::MAX).is_some(),
            want.is_some_and(|bits| bits <= 8),
            "{name}: bytes of usize::MAX elements"
        );
        assert!(TensorView::new(data_type, &[usize::MAX, 2], &[]).is_err(), "{name}: a shape that overflows");
    }
}

/// Without its row here, no test would compute with a type: the oracle's lists are what the exhaustive tests walk over.
#[test]
fn the_oracle_has_every_type() {
    let rows: Vec<(i32, &str, Option<usize>)> =
        TABLE.iter().map(|row| (row.ty.code(), row.name, (row.bits > 0).then_some(row.bits as usize))).collect();
    let want: Vec<_> = DataType::ALL.iter().map(|ours| (ours.onnx(), ours.name(), ours.bits())).collect();
    assert_eq!(rows, want, "`TABLE` in crates/testkit/src/types.rs: numbers, names and bits");
    for (row, ours) in TABLE.iter().zip(DataType::ALL) {
        let (name, page) = (row.name, "crates/testkit/src/types.rs");
        let since = Operator::Cast.since(*ours).map(|since| since as u32);
        assert_eq!(row.cast_since, since, "{page}: the first version of Cast that takes {name}");
        let bit_cast = Operator::BitCast.supports(26, *ours);
        assert_eq!(row.bit_cast, bit_cast, "{page}: whether BitCast-26 takes {name}");
        if let (Some(layout), Some(format)) = (row.ty.layout(), ours.float_format()) {
            let of_oracle = (layout.exponent_bits, layout.significand_bits, layout.bias, layout.max_code());
            let of_library = (format.exponent_bits, format.significand_bits, format.bias, format.max_code());
            assert_eq!(of_oracle, of_library, "{page}: the fields, the bias and the largest code of {name}");
        }
    }
}

/// The lists that the tests of scaled casts walk over.
#[test]
fn the_oracle_has_every_type_of_scaled_casts() {
    use Operator::{DequantizeLinear, QuantizeLinear};
    for (list, types, operator, role) in [
        ("QUANTIZE_SOURCES", &QUANTIZE_SOURCES[..], QuantizeLinear, Role::Values),
        ("QUANTIZE_SCALES", &QUANTIZE_SCALES[..], QuantizeLinear, Role::Scale),
        ("QUANTIZED", &QUANTIZED[..], QuantizeLinear, Role::Quantized),
        ("DEQUANTIZE_SCALES", &DEQUANTIZE_SCALES[..], DequantizeLinear, Role::Scale),
        ("FLOATS", &FLOATS[..], DequantizeLinear, Role::Values),
    ] {
        let ours: BTreeSet<&str> = types.iter().map(|ty| ty.name()).collect();
        let takes = |data_type: &&DataType| operator.since_as(role, **data_type).is_some();
        let want: BTreeSet<&str> = DataType::ALL.iter().filter(takes).map(|data_type| data_type.name()).collect();
        assert_eq!(ours, want, "`{list}` in crates/testkit/src/scaled.rs: what {operator} takes as {role}");
    }
}

/// Every type is the source and the target of a hand-written case in `tests/spec`.
#[test]
fn every_type_has_vectors() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/spec");
    let main = fs::read_to_string(folder.join("main.rs")).expect("tests/spec/main.rs");
    let mut code = String::new();
    for entry in fs::read_dir(&folder).expect("tests/spec") {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).expect("a file");
        let (name, module) = (path.display(), path.file_stem().and_then(OsStr::to_str).expect("a module's name"));
        // What is not compiled or not run proves nothing.
        assert!(module == "main" || main.contains(&format!("\nmod {module};\n")), "{name} is not a module of main.rs");
        for left_out in ["cfg(", "cfg_attr(", "cfg!(", "#[ignore", "/*"] {
            assert!(!text.contains(left_out), "{name}: `{left_out}`, where every vector is for every run");
        }
        code += &text;
    }
    // `(Float, f(0.3), Float16, 0x34CD)`: the source follows a bracket, and the target is between the bits.
    let rows: Vec<Vec<&str>> = code
        .lines()
        .map(|line| line.trim())
        .filter(|line| !line.starts_with("//"))
        .map(|line| line.split(", ").collect())
        .collect();
    let is_source = |name: &str| {
        rows.iter().flatten().any(|cell| cell.strip_suffix(name).is_some_and(|before| before.ends_with('(')))
    };
    let is_target = |name: &str| rows.iter().any(|row| row.len() >= 4 && row[2..row.len() - 1].contains(&name));
    for &data_type in DataType::NUMERIC {
        let name = format!("{data_type:?}");
        assert!(is_source(&name), "tests/spec has no vector from {name}: one case a line, `({name}, bits, to, bits)`");
        assert!(is_target(&name), "tests/spec has no vector to {name}: one case a line, `(from, bits, {name}, bits)`");
    }
}
