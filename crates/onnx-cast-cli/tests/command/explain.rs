//! `explain`: whole outputs, the vectors that catch double rounding, and the rule named for each kind of case.

use crate::common::{done, refused, run};
use crate::files::Folder;
use onnx_cast::DataType;
use onnx_cast::scaled::BlockFormat;
use serde_json::Value;
use std::fs;
use testkit::block_scale::{Recipe, ScaleRule, mx_dequantize, mx_quantize, nvfp4_dequantize, nvfp4_quantize};
use testkit::types::Ty;

fn explain(line: &str) -> Value {
    serde_json::from_str(&done(&run(&format!("explain {line} --json")))).expect("JSON")
}

#[test]
fn a_rounding() {
    let expected = "\
source   float 0.300000011920928955078125  0x3e99999a
           sign         0  positive
           exponent     01111101  125 - 127 = -2
           significand  00110011001100110011010
           value        5033165 * 2^-24
result   float8e4m3fn 0.3125  0x2a
           sign         0  positive
           exponent     0101  5 - 7 = -2
           significand  010
           value        5 * 2^-4
rule     rounded once, from the exact value, to the nearest
         Cast-28, saturate true
below    0.28125  0x29  at a distance of 0.018750011920928955078125
above    0.3125  0x2a  at a distance of 0.012499988079071044921875  <- the result
error    0.012499988079071044921875, relative 0.041667
note     `0.3` as float is 0.300000011920928955078125 (0x3e99999a)
";
    assert_eq!(done(&run("explain 0.3 --from float --to float8e4m3fn")), expected);
}

#[test]
fn a_scale_at_the_edge() {
    let expected = "\
source   float 3  0x40400000
           sign         0  positive
           exponent     10000000  128 - 127 = 1
           significand  10000000000000000000000
           value        3
result   float8e8m0 4  0x81
           exponent     10000001  129 - 127 = 2
           value        2^2
rule     round_mode is nearest: halfway between two powers of two, the upper one
         Cast-24, saturate true, round_mode nearest
below    2  0x80  at a distance of 1
above    4  0x81  at a distance of 1  <- the result
error    1, relative 0.33333
";
    assert_eq!(done(&run("explain 3 --from float --to float8e8m0 --round-mode nearest --opset 24")), expected);
}

#[test]
fn an_integer_out_of_range() {
    let expected = "\
source   int16 -300  0xfed4
           sign         1  negative
           value bits   111111011010100  two's complement
result   uint8 212  0xd4
           bits         11010100
rule     out of range: uint8 keeps the low 8 bits
         Cast-28
range    0 to 255
error    512, relative 1.7067
";
    assert_eq!(done(&run("explain -300 --from int16 --to uint8")), expected);
}

#[test]
fn what_is_no_number() {
    let expected = "\
source   float NaN  0x7fc00000
           sign         0  positive
           exponent     11111111  NaN
           significand  10000000000000000000000
result   int8 0  0x00
           sign         0  not negative
           value bits   0000000  two's complement
rule     NaN gives 0
         Cast-28
error    not a number
";
    assert_eq!(done(&run("explain nan --from float --to int8")), expected);
}

#[test]
fn a_text() {
    let expected = "\
source   string \"65519.999999999999999\"
result   float16 65504  0x7bff
           sign         0  positive
           exponent     11110  30 - 15 = 15
           significand  1111111111
           value        2047 * 2^5
rule     rounded once, from the exact value, to the nearest
         Cast-28
below    65504  0x7bff  at a distance of 15.999999999999999  <- the result
error    15.999999999999999, relative 0.0002442
note     without a source type the source is the decimal text itself, cast as a string is
";
    assert_eq!(done(&run("explain 65519.999999999999999 --to float16")), expected);
}

/// Source type, value, target, options, result bits, rule.
#[test]
fn vectors() {
    let cases = "
        double 1.00048828125090949470177292823791503906250 float16 - 0x3c01 nearest
        double 65519.999999999 float16 - 0x7bff nearest
        double 65520 float16 - 0x7c00 overflow-to-infinity
        double 0x3e60000000000000 float16 - 0x0000 underflow-to-zero
        double 0x3e60000000000004 float16 - 0x0001 nearest
        double 0x3ff0100000001000 bfloat16 - 0x3f81 nearest
        double 0x47efefffffffffff bfloat16 - 0x7f7f nearest
        double 0x47eff00000000000 bfloat16 - 0x7f80 overflow-to-infinity
        int32 1077936129 bfloat16 - 0x4e81 nearest
        int64 1103806595073 bfloat16 - 0x5381 nearest
        uint64 9223372586610589697 float - 0x5f000001 nearest
        double 0x3ff1000000001000 float8e4m3fn - 0x39 nearest
        double 0x3ff2000000001000 float8e5m2 - 0x3d nearest
        double 0x3ff1000000001000 float8e4m3fnuz - 0x41 nearest
        double 0.25000000000090949470177292823791503906250 float4e2m1 - 0x1 nearest
        double 0.25 float4e2m1 - 0x0 underflow-to-zero
        double 5.00000000000090949470177292823791503906250 float4e2m1 - 0x7 nearest
        double 5 float4e2m1 - 0x6 tie-to-even
        float 7 float4e2m1 - 0x7 overflow-saturates
        float 6.9 float4e2m1 - 0x7 nearest
        float nan float4e2m1 - 0x8 nan-without-code
        float nan float4e2m1 --opset=23 0x7 nan-without-code
        float inf float6e3m2 - 0x1f infinity-saturates
        float 464 float8e4m3fn --saturate=false 0x7e tie-to-even
        float 464.01 float8e4m3fn --saturate=false 0x7f overflow-to-nan
        float 464.01 float8e4m3fn - 0x7e overflow-saturates
        float 61440 float8e5m2 --saturate=false 0x7c overflow-to-infinity
        float 61439 float8e5m2 --saturate=false 0x7b nearest
        float 247.9 float8e4m3fnuz --saturate=false 0x7f nearest
        float 248 float8e4m3fnuz --saturate=false 0x80 overflow-to-nan
        float inf float8e4m3fnuz --opset=23 0x80 infinity-to-nan
        float inf float8e4m3fnuz --opset=24 0x7f infinity-saturates
        float inf float8e4m3fn --saturate=false 0x7f infinity-to-nan
        float inf float16 - 0x7c00 infinity
        float -0.0001 float8e4m3fnuz - 0x00 underflow-to-zero
        float -0.0001 float8e4m3fn - 0x80 underflow-to-zero
        float -0 float8e4m3fnuz - 0x00 zero
        float -0 float16 - 0x8000 zero
        double 0x7ff0000000000001 float16 - 0x7e00 nan
        float8e4m3fn 0x80 bool - 0x00 zero-is-false
        float8e8m0 0x00 bool - 0x01 nonzero-is-true
        float 2.5 int4 - 0x2 tie-to-even
        float 3.5 int4 - 0x4 tie-to-even
        float -2.5 int4 - 0xe tie-to-even
        float 0.7 int4 - 0x1 nearest
        float 8 int4 - 0x8 wraps
        float 7.6 int4 - 0x8 wraps
        float 100 int4 - 0x4 wraps
        float inf int4 - 0x0 infinity-to-zero
        float 127.9 int8 - 0x7f toward-zero
        float 128 int8 - 0x7f out-of-range-saturates
        float -0.9 uint8 - 0x00 toward-zero
        float -1 uint8 - 0x00 out-of-range-saturates
        float -128.9 int8 - 0x80 toward-zero
        float nan int8 - 0x00 nan-to-zero
        float -inf int8 - 0x80 infinity-saturates
        int16 200 int8 - 0xc8 wraps
        int8 -1 uint8 - 0xff wraps
        int8 -1 uint16 - 0xffff wraps
        int16 100 int8 - 0x64 exact
        bool true int8 - 0x01 bool
        double 0x3ff0000000000001 float8e8m0 - 0x80 round-up
        int64 16777217 float8e8m0 - 0x98 round-up
        uint64 9223372036854775809 float8e8m0 - 0xbf round-up
        int64 2147483647 float8e8m0 --round-mode=down 0x9d round-down
        double 1.5 float8e8m0 --round-mode=nearest 0x80 tie-up
        double 1.4999999999999998 float8e8m0 --round-mode=nearest 0x7f nearest
        float 0 float8e8m0 - 0x00 not-positive
        float -3 float8e8m0 --saturate=false 0xff not-positive
        float 1e-39 float8e8m0 - 0x00 underflow-saturates
        double 1e39 float8e8m0 - 0xfe overflow-saturates
        float inf float8e8m0 --saturate=false 0xff infinity-saturates
        float 4 float8e8m0 - 0x81 exact
        float 1.5 float - 0x3fc00000 same-type
        string 1.00000017881393432617187499 float - 0x3f800001 nearest
        string 1.00390626 bfloat16 - 0x3f81 nearest
        string 1.06250000000001 float8e4m3fn - 0x39 nearest
        string 1e400 double - 0x7ff0000000000000 overflow-to-infinity
        string 1e-310 double - 0x000012688b70e62b nearest
        string -1e-400 double - 0x8000000000000000 underflow-to-zero
        string 100.5 int8 - 0x64 toward-zero
        string 6.5 int4 - 0x6 tie-to-even
    ";
    for case in cases.lines().map(str::trim).filter(|case| !case.is_empty()) {
        let words: Vec<&str> = case.split(' ').collect();
        let [from, value, to, options, bits, rule] = words[..] else { panic!("{case}") };
        let options = if options == "-" { String::new() } else { format!(" {options}") };
        let explanation = explain(&format!("{value} --from {from} --to {to}{options}"));
        assert_eq!(explanation["result"]["bits"], bits, "{case}");
        assert_eq!(explanation["rule"]["id"], rule, "{case}");
    }
}

#[test]
fn to_text() {
    for (from, value, text, rule) in [
        ("float", "0.1", "0.1", "print-shortest"),
        ("float16", "0.1", "0.099975586", "print-shortest"),
        ("double", "1e8", "100000000", "print-shortest"),
        ("float", "-inf", "-INF", "print-special"),
        ("int4", "-8", "-8", "print-integer"),
        ("bool", "true", "1", "print-bool"),
    ] {
        let explanation = explain(&format!("{value} --from {from} --to string"));
        assert_eq!(explanation["result"]["text"], text, "{from} {value}");
        assert_eq!(explanation["rule"]["id"], rule, "{from} {value}");
    }
}

/// Every digit: numbers are texts in the JSON, and distances and errors exact.
#[test]
fn json_is_exact() {
    let explanation = explain("0.1 --from double --to bfloat16");
    assert_eq!(explanation["source"]["value"], "0.1000000000000000055511151231257827021181583404541015625");
    assert_eq!(explanation["result"]["value"], "0.10009765625");
    assert_eq!(explanation["above"]["is_result"], true);
    assert_eq!(explanation["above"]["distance"], "0.0000976562499999944488848768742172978818416595458984375");
    assert_eq!(explanation["error"]["absolute"], explanation["above"]["distance"]);
    assert_eq!(explanation["error"]["relative"], "0.00097656");
    assert_eq!(explanation["result"]["fields"][1]["bits"], "01111011");
    assert_eq!(explanation["version"], 28);
}

/// Before strings could be cast, the source is a double.
#[test]
fn default_source() {
    assert_eq!(explain("1 --to float16")["source"]["type"], "string");
    assert_eq!(explain("1 --to float16 --opset 9")["source"]["type"], "string");
    assert_eq!(explain("1 --to float16 --opset 8")["source"]["type"], "double");
}

#[test]
fn attributes_without_effect_are_noted() {
    let explanation = explain("1 --from float --to int4 --saturate false --round-mode down");
    let note = explanation["notes"][0].as_str().expect("a note");
    assert!(note.starts_with("saturate has no effect on int4: it is for float8e4m3fn, "), "{note}");
    assert_eq!(explanation["notes"][1], "round_mode has no effect on int4: it is for float8e8m0");
}

#[test]
fn refusals() {
    for (line, message) in [
        ("abc --to float", "`abc` is not a number"),
        ("1_000 --from float --to int8", "`1_000` is not a number (as float)"),
        ("300 --from uint8 --to float", "`300` is out of range (as uint8)"),
        ("0x10 --to float", "bits like `0x10` need a source type, which says whose they are"),
        ("0x1ff --from uint8 --to float", "`0x1ff` is not a bit pattern of uint8 (8 bits)"),
        ("0x10 --from int4 --to float", "`0x10` is not a bit pattern of int4 (4 bits)"),
        ("0xfg --from uint8 --to float", "`0xfg` is not a bit pattern of uint8 (8 bits)"),
        (
            "300 --to uint8",
            "`300` is out of range (to uint8); a string cast never wraps or saturates to an integer: give a source \
             type \
             for that",
        ),
        ("1e99999 --to float", "`1e99999` is too long to be written out"),
        ("1 --from complex64 --to float", "Cast-28 does not take complex64 (no version of Cast does)"),
        ("1 --from float --to complex64", "Cast-28 does not take complex64 (no version of Cast does)"),
        ("1 --to float4e2m1 --opset 21", "Cast-21 does not take float4e2m1 (Cast-23 is the first that does)"),
        (
            "1 --to float --opset 13 --saturate false",
            "Cast-13 has no attribute `saturate` (Cast-19 is the first that has it)",
        ),
        ("1 --to float --opset 29", "opset 29 has no Cast known here (want 1 to 28)"),
        ("1 --to float --opset 0", "opset 0 has no Cast known here (want 1 to 28)"),
    ] {
        assert_eq!(refused(&run(&format!("explain {line}"))), message, "{line}");
    }
}

/// The numeric types and string.
fn types_of_cast() -> usize {
    DataType::NUMERIC.len() + 1
}

#[test]
fn every_type_side_by_side() {
    let text = done(&run("explain 0.3 --from float --all"));
    assert!(text.lines().all(|line| line.chars().count() < 80), "{text}");
    assert_eq!(text.lines().count(), 1 + types_of_cast(), "a heading and a line for each type: {text}");
    for row in [
        "float8e4m3fn   0x2a               0.3125                 nearest",
        "bool           0x01               1                      nonzero-is-true",
        "int8           0x00               0                      toward-zero",
        "string                            \"0.3\"                  print-shortest",
    ] {
        assert!(text.lines().any(|line| line == row), "{row}: {text}");
    }
}

#[test]
fn drawn_where_colours_are_wanted() {
    let line = "explain 0.3 --from float --to float8e4m3fn";
    let plain = done(&run(line));
    assert!(!plain.contains('\u{1b}'), "{plain}");
    let drawn = crate::common::command(line.split(' ')).env("CLICOLOR_FORCE", "1").output().expect("the command runs");
    let drawn = done(&drawn);
    assert!(drawn.ends_with(&plain), "{drawn}");
    let bare: String = drawn.split('\u{1b}').map(|part| part.split_once('m').map_or(part, |(_, rest)| rest)).collect();
    assert!(bare.contains("float8e4m3fn   0 0101 010  0x2a"), "{bare}");
    let place = bare.lines().find(|line| line.contains('x') && line.contains('@')).expect("a line");
    assert!(place.starts_with(&format!("  |{}x{}@", "-".repeat(28), "-".repeat(18))), "{bare}");
}

#[test]
fn a_page_of_one_cast() {
    let folder = Folder::new();
    let line = "explain 0.3 --from float --to float8e4m3fn";
    assert_eq!(done(&folder.run(&format!("{line} --html out.html"))), done(&run(line)));
    assert_eq!(done(&folder.run(&format!("{line} --html quiet.html --quiet"))), "");
    assert_eq!(folder.read("quiet.html"), folder.read("out.html"));
    let page = fs::read_to_string(folder.path("out.html")).expect("a page");
    for part in [
        "<title>float 0.300000011920928955078125 to float8e4m3fn</title>",
        "<span class=\"field exponent\"><span aria-hidden=\"true\"><b>0</b><b>1</b><b>0</b><b>1</b></span>",
        "<dt>exponent</dt><dd><code>0101</code> 5 - 7 = -2</dd>",
        "rounded once, from the exact value, to the nearest",
        "lies 60.0% of the way from the value below to the one above",
        "style=\"left: 60.00%\"",
        "<dt>above</dt><dd>0.3125 <code>0x2a</code>, 0.012499988079071044921875 away, the result</dd>",
        "<dt>operator</dt><dd>Cast-28, saturate true</dd>",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("{{") && !page.contains("http"), "{page}");
}

#[test]
fn a_page_of_every_type() {
    let folder = Folder::new();
    done(&folder.run("explain 1e5 --from double --all --html out.html"));
    let page = fs::read_to_string(folder.path("out.html")).expect("a page");
    assert_eq!(page.matches("<summary>").count(), types_of_cast(), "{page}");
    assert!(
        page.contains(
            "<summary><b>float16</b><span>INF <code>0x7c00</code></span><span>overflow-to-infinity</span></summary>"
        ),
        "{page}"
    );
    // What is text stays text, and what has no result says why.
    let hostile = folder.path("hostile.html");
    let arguments = ["explain", "<b>&", "--all", "--html", hostile.to_str().expect("a path")];
    crate::common::command(arguments).output().expect("the command runs");
    let page = fs::read_to_string(hostile).expect("a page");
    assert!(page.contains("<title>&lt;b&gt;&amp; in every type</title>"), "{page}");
    assert!(page.contains("<p class=\"none\"><b>int4</b><span>"), "{page}");
}

#[test]
fn a_quotient_to_an_integer() {
    let expected = "\
value    float 0.3125  0x3ea00000
           sign         0  positive
           exponent     01111101  125 - 127 = -2
           significand  01000000000000000000000
           value        5 * 2^-4
scale    float 0.0599999986588954925537109375  0x3d75c28f
zero     uint8 128  0x80
quotient 5.2083334497486577623..., exactly 83886080/16106127
         float 5.208333492279052734375  0x40a6aaab
           sign         0  positive
           exponent     10000001  129 - 127 = 2
           significand  01001101010101010101011
           value        10922667 * 2^-21
result   uint8 133  0x85
           bits         10000101
back     float 0.2999999821186065673828125  0x3e999999
rule     to the nearest integer, to which the zero point is added
         QuantizeLinear-28, precision float; back by DequantizeLinear-28
below    133  0x85  at a distance of 0.208333492279052734375  <- the result
above    134  0x86  at a distance of 0.791666507720947265625
error    0.0125000178813934326171875, relative 0.04
note     `0.06` as float is 0.0599999986588954925537109375 (0x3d75c28f)
";
    assert_eq!(done(&run("explain 0.3125 --from float --to uint8 --scale 0.06 --zero-point 128")), expected);
}

/// Value, scale and zero point, target, options, result bits, rule, what comes back.
#[test]
fn quotients() {
    let cases = "
        float 2.5 1 - int8 - 0x02 tie-to-even 2
        float 2.5 1 1 int8 - 0x03 tie-to-even 2
        float -0.3 0.05 - int4 - 0xa exact -0.300000011920928955078125
        float 300 1 - uint8 - 0xff out-of-range-saturates 255
        float 3 1 - int2 - 0x1 out-of-range-saturates 1
        float 6 0.5 -100 int8 - 0xa8 exact 6
        float 1 0 - int8 - 0x7f infinity-saturates 0
        float nan 1 - int16 - 0x8000 nan-to-lowest -32768
        float 0 0 7 uint8 - 0x00 nan-to-lowest -0
        float 1 nan - int8 - 0x80 nan-to-lowest NaN
        float 300 0.5 - float8e4m3fn - 0x7e overflow-saturates 224
        float 300 0.5 - float8e4m3fn --saturate=false 0x7f overflow-to-nan NaN
        float -1e-30 1 - float8e5m2 - 0x80 underflow-to-zero -0
        float -0 3 - float4e2m1 - 0x8 zero -0
        float -0 3 0 float4e2m1 - 0x0 zero 0
        float -0 3 -0 float4e2m1 - 0x8 zero -0
        float -0 3 0 float8e4m3fn - 0x80 zero -0
        float nan 1 0 float6e2m3 - 0x20 nan-without-code -0
        float 1.4993 1 - int8 - 0x01 nearest 1
        float 1.4993 1 - int8 --precision=bfloat16 0x02 tie-to-even 2
        float 0.3 0x7d - float4e2m1 --scale-type=float8e8m0 0x2 nearest 0.25
        float16 1 0x3555 - int8 - 0x03 exact 1
        bfloat16 70000 0.5 - float8e5m2 - 0x7b overflow-saturates 28672
        int32 16777221 6710888 - uint8 - 0x03 nearest 20132664
        float 6 2 - int8 --opset=10 0x03 exact 6
        float 6 2 - float8e4m3fn --opset=19 0x44 exact 6
    ";
    for case in cases.lines().map(str::trim).filter(|case| !case.is_empty()) {
        let words: Vec<&str> = case.split(' ').collect();
        let [from, value, scale, zero, to, options, bits, rule, back] = words[..] else { panic!("{case}") };
        let zero = if zero == "-" { String::new() } else { format!("--zero-point {zero}") };
        let options = if options == "-" { "" } else { options };
        let line = format!("{value} --from {from} --to {to} --scale {scale} {zero} {options}");
        let explanation = explain(&line.split_whitespace().collect::<Vec<_>>().join(" "));
        assert_eq!(explanation["result"]["bits"], bits, "{case}");
        assert_eq!(explanation["rule"]["id"], rule, "{case}");
        assert_eq!(explanation["back"]["value"], back, "{case}");
    }
}

#[test]
fn a_quotient_in_json() {
    let explanation = explain("0.3125 --to uint8 --scale 0.06 --zero-point 128");
    assert_eq!(explanation["operator"], "QuantizeLinear");
    assert_eq!((&explanation["precision"], &explanation["back_version"]), (&Value::from("float"), &Value::from(28)));
    assert_eq!(explanation["source"]["type"], "float");
    assert_eq!(explanation["scale"]["bits"], "0x3d75c28f");
    assert_eq!(explanation["zero_point"]["value"], "128");
    assert_eq!(explanation["quotient"]["exact"], "83886080/16106127");
    assert_eq!(explanation["quotient"]["rounded"]["value"], "5.208333492279052734375");
    assert_eq!(explanation["error"]["absolute"], "0.0125000178813934326171875");
    assert_eq!(explanation["notes"][0], "without a source type VALUE is a float");
    // A quotient whose decimals end, one that is not a number, and a scale that DequantizeLinear does not take.
    assert_eq!(explain("1 --to int8 --scale 8")["quotient"]["exact"], "0.125");
    assert_eq!(explain("0 --to int8 --scale 0")["quotient"]["exact"], Value::Null);
    let explanation = explain("7 --from int32 --to int8 --scale 2 --scale-type int32");
    assert_eq!((&explanation["back"], &explanation["error"]), (&Value::Null, &Value::Null));
    let note = explanation["notes"][0].as_str().expect("a note");
    assert!(note.starts_with("nothing comes back: DequantizeLinear-28 does not take int32 as a scale"), "{note}");
    let text = &explain("0.3 --to float8e4m3fn --scale 0.07")["rule"]["text"];
    assert_eq!(text, "the rounded quotient goes to the nearest");
    let note = &explain("6 --to int8 --scale 2 --opset 10")["notes"][1];
    assert_eq!(note, "QuantizeLinear-10 has no output_dtype: a zero point of 0 gives the type");
}

#[test]
fn refusals_of_scales() {
    for (line, message) in [
        ("1 --to int8 --scale abc", "`abc` is not a number (as float)"),
        ("1 --to int8 --scale 0x1ffffffff", "`0x1ffffffff` is not a bit pattern of float (32 bits)"),
        ("1 --to uint8 --scale 1 --zero-point 256", "`256` is out of range (as uint8)"),
        ("1 --to float4e2m1 --scale 1 --zero-point 1", "a zero point of float4e2m1 must be 0, and `1` is not"),
        (
            "1 --to int64 --scale 1",
            "QuantizeLinear-28 does not take int64 as quantized elements (no version of QuantizeLinear does)",
        ),
        (
            "1 --from double --to int8 --scale 1",
            "QuantizeLinear-28 does not take double as values (no version of QuantizeLinear does)",
        ),
        (
            "1 --to int8 --scale 1 --precision double",
            "QuantizeLinear-28: `precision` is double (want float, float16 or bfloat16)",
        ),
        (
            "1 --to int8 --scale 1 --precision float --opset 21",
            "QuantizeLinear-21 has no attribute `precision` (QuantizeLinear-23 is the first that has it)",
        ),
        (
            "1 --to int4 --scale 1 --opset 19",
            "QuantizeLinear-19 does not take int4 as quantized elements (QuantizeLinear-21 is the first that does)",
        ),
        ("1 --to int8 --scale 1 --opset 9", "opset 9 has no QuantizeLinear known here (want 10 to 28)"),
    ] {
        assert_eq!(refused(&run(&format!("explain {line}"))), message, "{line}");
    }
    for line in ["1 --all --scale 1", "1 --to int8 --zero-point 1", "1 --to int8 --scale 1 --round-mode up"] {
        let said = refused(&run(&format!("explain {line}")));
        assert!(said.contains("cannot be used with") || said.contains("were not provided"), "{line}: {said}");
    }
}

#[test]
fn a_page_of_a_quotient() {
    let folder = Folder::new();
    let line = "explain 0.3125 --to uint8 --scale 0.06 --zero-point 128";
    assert_eq!(done(&folder.run(&format!("{line} --html out.html"))), done(&run(line)));
    let page = fs::read_to_string(folder.path("out.html")).expect("a page");
    for part in [
        "<title>float 0.3125 to uint8 by a scale of 0.0599999986588954925537109375</title>",
        "<h2><small>zero</small> uint8 <span>128</span> <code>0x80</code></h2>",
        "<h2><small>quotient</small> float <span>5.208333492279052734375</span> <code>0x40a6aaab</code></h2>",
        "<h2><small>back</small> float <span>0.2999999821186065673828125</span> <code>0x3e999999</code></h2>",
        "5.208333492279052734375 + 128 lies 20.8% of the way from the value below to the one above",
        "<dt>exact quotient</dt><dd>5.2083334497486577623..., exactly 83886080/16106127</dd>",
        "<dt>operator</dt><dd>QuantizeLinear-28, precision float; back by DequantizeLinear-28</dd>",
        "<dt>error</dt><dd>0.0125000178813934326171875, relative 0.04</dd>",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("{{") && !page.contains("http"), "{page}");
}

const BLOCK: [f32; 9] = [0.3, -1.7, 0.01, 5.0, -0.0, 3.4e-5, -6.9, 7.1, 0.25];

/// Codes and values of a block, as `explain` shows them.
fn block(options: &str) -> (Value, Vec<String>, Vec<String>) {
    let values: Vec<String> = BLOCK.iter().map(|value| format!("{value:?}")).collect();
    let shown = explain(&format!("{} {options}", values.join(" ")));
    let bits = |end: &str| {
        let elements = shown["elements"].as_array().expect("elements").iter();
        elements.map(|one| one[end]["bits"].as_str().expect("bits").to_owned()).collect::<Vec<String>>()
    };
    let (results, back) = (bits("result"), bits("back"));
    (shown, results, back)
}

fn hex(codes: &[u64], digits: usize) -> Vec<String> {
    codes.iter().map(|code| format!("0x{code:0digits$x}")).collect()
}

#[test]
fn blocks_are_those_of_the_oracle() {
    for format in BlockFormat::ALL.iter().filter(|format| **format != BlockFormat::NvFp4) {
        let element = Ty::from_code(format.element().onnx()).expect("a type of both");
        let digits = format.element().bits().expect("bits").div_ceil(4);
        for rule in ScaleRule::ALL {
            let (scale, codes) = mx_quantize(&BLOCK, element, rule);
            let want = mx_dequantize(scale, element, &codes, Ty::Float);
            let (shown, results, back) = block(&format!("--to {format} --scale-rule {}", rule.name()));
            assert_eq!(shown["scale"]["bits"], hex(&[scale], 2)[0], "{format} {}", rule.name());
            assert_eq!((results, back), (hex(&codes, digits), hex(&want, 8)), "{format} {}", rule.name());
        }
    }
    for recipe in Recipe::ALL {
        let quantized = nvfp4_quantize(&BLOCK, BLOCK.len(), recipe, Ty::Float);
        let want = nvfp4_dequantize(&quantized, BLOCK.len(), recipe, Ty::Float);
        let options = format!("--to nvfp4 --recipe {}", recipe.name());
        for options in [options.clone(), format!("{options} --global-scale {:e}", quantized.global)] {
            let (shown, results, back) = block(&options);
            assert_eq!(shown["scale"]["bits"], hex(&quantized.scales, 2)[0], "{options}");
            assert_eq!(shown["global_scale"]["bits"], hex(&[quantized.global.to_bits().into()], 8)[0], "{options}");
            assert_eq!((results, back), (hex(&quantized.elements, 1), hex(&want, 8)), "{options}");
        }
    }
}

#[test]
fn a_block() {
    let text = done(&run("explain 6 -0.5 0.3 1 --to mxfp4"));
    assert!(text.lines().all(|line| line.chars().count() < 80), "{text}");
    let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    for line in [
        "format mxfp4: float4e2m1, float8e8m0 for 32 values",
        "rule floor",
        "greatest float 6 0x40c00000 A",
        "scale float8e8m0 1 0x7f 2^(floor(log2 A) - 2)",
        "exponent 01111111 127 - 127 = 0",
        "value quotient element back error",
        "6 6 6 0x7 6 none",
        "-0.5 -0.5 -0.5 0x9 -0.5 none",
        "1 1 1 0x2 1 none",
        "note without a source type the values are floats",
    ] {
        assert!(words.contains(&line.split_whitespace().collect()), "{line}: {text}");
    }
    let text = done(&run("explain 6 -0.5 0.3 1 --to nvfp4 --recipe compressed-tensors"));
    assert!(
        text.lines().all(|line| line.chars().count() < 80) && text.contains("\nrecipe   compressed-tensors\n"),
        "{text}"
    );
    // One value is a block, too, and bits are those of its type.
    let shown = explain("0x3f80 --from bfloat16 --to mxint8");
    assert_eq!(
        (&shown["elements"][0]["source"]["value"], &shown["divisor"]["value"]),
        (&"1".into(), &"0.015625".into())
    );
    assert_eq!(shown["elements"][0]["back"]["type"], "bfloat16");
    assert_eq!((&shown["scale_rule"], &shown["formula"]), (&"floor".into(), &"2^(floor(log2 A) - 0)".into()));
    let shown: Value = serde_json::from_str(&done(&run("explain --json --to mxfp4 -- 1 -inf"))).expect("JSON");
    assert_eq!((&shown["scale"]["bits"], &shown["elements"][0]["error"]), (&"0xff".into(), &Value::Null));
    assert_eq!(explain("1 2 --to nvfp4 --recipe torchao")["factor"]["type"], "float");
}

#[test]
fn refusals_of_blocks() {
    let many = ["1"; 33].join(" ");
    for (line, message) in [
        ("1 2 --to float8e4m3fn", "several values need a block format, as --to mxfp4 or --to nvfp4"),
        (
            "1 --to int8 --scale-rule even",
            "--scale-rule, --recipe and --global-scale need a block format, as --to mxfp4 or --to nvfp4",
        ),
        ("1 2 --to int8/row", "int8/row has scales that depend on the tensor: --scale gives int8 one"),
        ("1 2 --to mxfp4 --scale 2", "blocks of mxfp4 have neither --scale nor the options of a cast"),
        ("1 2 --to mxfp4 --saturate false", "blocks of mxfp4 have neither --scale nor the options of a cast"),
        ("1 --to mxfp4 --recipe torchao", "a recipe is for nvfp4: mxfp4 has a scale rule"),
        ("1 --to mxfp4 --global-scale 2", "a global scale is for nvfp4: mxfp4 has a scale rule"),
        (
            "1 --to nvfp4 --scale-rule even",
            "a scale rule is for MX, whose scales are powers of two: nvfp4 has a recipe",
        ),
        ("1 --to nvfp4 --global-scale -1", "no tensor has the scale -1 by the recipe modelopt"),
        ("1 --to nvfp4 --global-scale 0", "no tensor has the scale 0 by the recipe modelopt"),
        ("1 --to nvfp4 --global-scale nan", "no tensor has the scale NaN by the recipe modelopt"),
        ("1 --from int8 --to mxfp4", "a block of mxfp4 is made of float, float16 or bfloat16, not of int8"),
        ("1 x --to mxfp4", "`x` is not a number (as float)"),
        (&format!("{many} --to mxfp4"), "a block of mxfp4 has 32 values, not 33"),
    ] {
        assert_eq!(refused(&run(&format!("explain {line}"))), message, "{line}");
    }
    for line in ["--to nvfp4 --scale-rule floor", "--to mxfp4 --recipe modelopt"] {
        let (to, _) = line.split_at(line.find(" --s").or(line.find(" --r")).expect("an option"));
        assert_eq!(done(&run(&format!("explain 1 2 {line}"))), done(&run(&format!("explain 1 2 {to}"))), "{line}");
    }
}

#[test]
fn a_page_of_a_block() {
    let folder = Folder::new();
    let line = "explain 6 -0.5 0.3 --to nvfp4";
    assert_eq!(done(&folder.run(&format!("{line} --html out.html"))), done(&run(line)));
    let page = fs::read_to_string(folder.path("out.html")).expect("a page");
    for part in [
        "<title>A block of 3 values in nvfp4</title>",
        "<h2><small>greatest</small> float <span>6</span> <code>0x40c00000</code></h2>",
        "<h2><small>scale</small> float8e4m3fn <span>448</span> <code>0x7e</code></h2>",
        "<th scope=\"col\">quotient</th>",
        "<td>-0.5 0x9</td>",
        "<td title=\"0.300000011920928955078125\">0.30000001192...</td>",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("{{") && !page.contains("http"), "{page}");
}
