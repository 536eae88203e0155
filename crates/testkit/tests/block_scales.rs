//! Does the oracle quantize to MX and NVFP4 as those who own the recipes do, apart from the differences named here?
//!
//! `scripts/generate/block_scales.py` writes what the owners give to `data/block_scales.json`. Another such file is
//! read where the environment variable `BLOCK_SCALES` names one.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;
use testkit::Ty;
use testkit::block_scale::{MX_BLOCK, NVFP4_BLOCK, Recipe, ScaleRule, mx_quantize, nvfp4_block, nvfp4_global};

/// A difference that is not copied.
struct Difference {
    /// How the owner, the rule and the element type begin.
    owner: &'static str,
    /// How the name of the input begins.
    input: &'static str,
    /// What differs: `the global scale`, `the scale` or `elements`. Empty if any can.
    what: &'static str,
    reason: &'static str,
}

/// A difference without a row fails the test, and so does a row without a difference.
const DIFFERENCES: &[Difference] = {
    const fn row(owner: &'static str, input: &'static str, what: &'static str, reason: &'static str) -> Difference {
        Difference { owner, input, what, reason }
    }
    const LOG2: &str = "the logarithm in float of a value just above a power of two is a whole number";
    const TIES: &str = "ties are rounded toward zero";
    const PLUS_ZERO: &str = "+0 becomes -0";
    const NOT_FINITE: &str = "infinity and NaN count for the scales, and elements are not 0";
    &[
        row("torchao rceil", "above ", "the scale", LOG2),
        row("torchao rceil", "least scale", "elements", "elements are not scaled where the scale is 2^-127"),
        row("torchao rceil", "subnormal", "elements", "elements are not scaled where the scale is 2^-127"),
        row("torchao", "least scale", "elements", "divides by 2^-126 where the scale is 2^-127"),
        row("torchao", "subnormal", "elements", "divides by 2^-126 where the scale is 2^-127"),
        row("torchao", "infinity", "", NOT_FINITE),
        row("torchao", "NaN", "", NOT_FINITE),
        row("torchao", "all zero", "", "the global scale is 0, and the scales are NaN"),
        row("modelopt rceil", "above ", "the scale", LOG2),
        row("modelopt rceil float4e2m1", "at ", "elements", TIES),
        row("modelopt rceil float4e2m1", "ties", "elements", TIES),
        row("modelopt rceil float4e2m1", "zero", "elements", PLUS_ZERO),
        row("modelopt rceil float4e2m1", "minus zero", "elements", PLUS_ZERO),
        row("modelopt rceil float4e2m1", "subnormal", "elements", PLUS_ZERO),
        row("modelopt", "infinity", "", NOT_FINITE),
        row("modelopt", "NaN", "", NOT_FINITE),
        row("modelopt", "all zero", "", "the global scale is 0, and the scales are NaN"),
        row("modelopt", "a block of zeros", "elements", "-0 becomes +0"),
        row("compressed-tensors", "a block of zeros", "elements", "-0 becomes +0"),
        row("compressed-tensors", "infinity", "", NOT_FINITE),
        row("compressed-tensors", "NaN", "the global scale", NOT_FINITE),
        row("compressed-tensors", "bfloat16", "the global scale", "1 / amax and its product are rounded to bfloat16"),
    ]
};

fn read() -> Value {
    let checked_in = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/block_scales.json");
    let path = std::env::var_os("BLOCK_SCALES").map_or(checked_in, PathBuf::from);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// Numbers of `digits` hexadecimal digits each.
fn numbers(value: &Value, digits: usize) -> Vec<u64> {
    let parts = text(value).as_bytes().chunks(digits).map(|part| std::str::from_utf8(part).expect("ASCII"));
    parts.map(|part| u64::from_str_radix(part, 16).expect("hexadecimal digits")).collect()
}

fn floats(value: &Value) -> Vec<f32> {
    numbers(value, 8).into_iter().map(|bits| f32::from_bits(bits as u32)).collect()
}

/// What was compared, and the rows of the differences that occurred.
#[derive(Default)]
struct Tally {
    compared: usize,
    named: BTreeSet<usize>,
    failures: Vec<String>,
}

impl Tally {
    fn check(&mut self, owner: &str, input: &str, got: &[u64], want: &[u64], what: &str) {
        self.compared += 1;
        if got == want {
            return;
        }
        let named = DIFFERENCES.iter().position(|row| {
            owner.starts_with(row.owner) && input.starts_with(row.input) && (row.what == what || row.what.is_empty())
        });
        match named {
            Some(row) => {
                self.named.insert(row);
            }
            None => self.failures.push(format!("{owner}: {input}: {what}\n  oracle {got:x?}\n  owner  {want:x?}\n")),
        }
    }
}

fn compare() -> Tally {
    let file = read();
    let mut tally = Tally::default();
    let blocks = file["mx"]["blocks"].as_array().expect("blocks");
    for result in file["mx"]["results"].as_array().expect("results") {
        let (rule, element) = (text(&result["rule"]), text(&result["element"]));
        let owner = format!("{} {rule} {element}", text(&result["owner"]));
        let rule = ScaleRule::ALL.into_iter().find(|known| known.name() == rule).expect("a rule");
        let element = Ty::from_name(element).expect("a type");
        let (scales, elements) = (numbers(&result["scales"], 2), numbers(&result["elements"], 2));
        assert_eq!((scales.len(), elements.len()), (blocks.len(), blocks.len() * MX_BLOCK), "{owner}");
        for ((block, scale), codes) in blocks.iter().zip(scales).zip(elements.chunks(MX_BLOCK)) {
            let (got, got_codes) = mx_quantize(&floats(&block["values"]), element, rule);
            tally.check(&owner, text(&block["name"]), &[got], &[scale], "the scale");
            if got == scale {
                tally.check(&owner, text(&block["name"]), &got_codes, codes, "elements");
            }
        }
    }
    for tensor in file["nvfp4"].as_array().expect("tensors") {
        let (name, values) = (text(&tensor["name"]), floats(&tensor["values"]));
        let weights = Ty::from_name(text(&tensor["type"])).expect("a type");
        for result in tensor["results"].as_array().expect("results") {
            let owner = text(&result["owner"]);
            let recipe = Recipe::ALL.into_iter().find(|known| known.name() == owner).expect("a recipe");
            let (global, scales) = (numbers(&result["global"], 8)[0], numbers(&result["scales"], 2));
            let elements = numbers(&result["elements"], 2);
            assert_eq!(elements.len(), scales.len() * NVFP4_BLOCK, "{owner} {name}");
            tally.check(owner, name, &[nvfp4_global(&values, recipe).to_bits().into()], &[global], "the global scale");
            // The blocks by the owner's global scale, so that a difference there is not counted again.
            let g = f32::from_bits(global as u32);
            for ((block, scale), codes) in values.chunks(NVFP4_BLOCK).zip(scales).zip(elements.chunks(NVFP4_BLOCK)) {
                let (got, got_codes) = nvfp4_block(block, g, recipe, weights);
                tally.check(owner, name, &[got], &[scale], "the scale");
                if got == scale {
                    tally.check(owner, name, &got_codes, codes, "elements");
                }
            }
        }
    }
    tally
}

#[test]
fn the_oracle_quantizes_as_the_owners() {
    let tally = compare();
    assert!(tally.compared > 2500, "{} compared", tally.compared);
    let (count, first) = (tally.failures.len(), tally.failures.iter().take(20).cloned().collect::<String>());
    assert_eq!(count, 0, "{count} of {} differ:\n{first}", tally.compared);
    if std::env::var_os("BLOCK_SCALES").is_none() {
        for (row, Difference { owner, input, reason, .. }) in DIFFERENCES.iter().enumerate() {
            assert!(tally.named.contains(&row), "no difference of {owner}, {input}: {reason}");
        }
    }
}
