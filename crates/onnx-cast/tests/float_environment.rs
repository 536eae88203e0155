//! Does every public function that computes give the same bits whatever the host has set in the floating-point control
//! register? The functions are listed here, and a new one in `src/ops` is missed until it is listed too.
#![cfg(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64"))]

use onnx_cast::__private::DefaultEnvironment;
use onnx_cast::scalar::{Rules, cast_one};
use onnx_cast::scaled::{
    BlockDequantize, BlockFormat, BlockPlan, BlockQuantize, DequantizeLinear, DequantizeOptions, DynamicQuantizeLinear,
    GlobalScale, LinearScale, QuantizeLinear, QuantizeOptions, Recipe, ScaleRule, SymmetricScale, amax, block_amax,
};
use onnx_cast::tensor::Strings;
use onnx_cast::types::{BFloat16, Float4E2M1, Float8E4M3FN, Float16};
use onnx_cast::{Cast, CastLike, CastOptions, DataType, Tensor, TensorView, cast_slice, cast_slice_packed};
use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::path::Path;
use testkit::library::control_register::{self, Setting};

/// What a function gives, as bytes. No float arithmetic here: it would run in the environment under test.
type Call = Box<dyn Fn() -> Vec<u8> + Sync>;

/// Functions that compute, with a call of each.
struct Calls(Vec<(&'static str, Call)>);

impl Calls {
    fn add(&mut self, name: &'static str, call: impl Fn() -> Vec<u8> + Sync + 'static) {
        self.0.push((name, Box::new(call)));
    }
}

fn tensor(shape: &[usize], floats: Vec<f32>) -> Tensor {
    Tensor::from_slice(shape.to_vec(), &floats).expect("as many floats")
}

fn scalar(value: f32) -> Tensor {
    tensor(&[], vec![value])
}

fn bytes(tensor: &Tensor) -> Vec<u8> {
    tensor.bytes().expect("numbers").to_vec()
}

fn bits(floats: &[f32]) -> Vec<u8> {
    floats.iter().flat_map(|float| float.to_bits().to_le_bytes()).collect()
}

/// Tensors whose results depend on the environment, if arithmetic does: of subnormals alone, of numbers whose quotients
/// and products are inexact, and of numbers next to the smallest and the largest.
fn inputs(len: usize) -> [Tensor; 4] {
    let subnormals =
        (0..len as u32).map(|i| f32::from_bits((i.wrapping_mul(40_009) % 0x0080_0000) | ((i % 3) << 31))).collect();
    let inexact = (0..len).map(|i| (i % 1009) as f32 * 0.37 - 101.3).collect();
    let tiny = (0..len).map(|i| ((i % 61) as f32 - 30.0) * 1.3e-38).collect();
    let huge = (0..len).map(|i| ((i % 61) as f32 - 30.0) * 1.1e37).collect();
    [subnormals, inexact, tiny, huge].map(|floats| tensor(&[2, len / 2], floats))
}

fn casts(calls: &mut Calls, x: &Tensor) {
    let cast = |to| Cast::new(to, &CastOptions::new()).expect("a type of numbers");
    let plan = move |from, to| cast(to).plan(from).expect("types of numbers");
    for to in [DataType::Float16, DataType::BFloat16, DataType::Float8E4M3FN, DataType::Int8, DataType::Double] {
        let (x, y) = (x.clone(), x.clone());
        calls.add("Cast::run", move || bytes(&cast(to).run(&x.view()).expect("floats")));
        calls.add("Cast::run_owned", move || bytes(&cast(to).run_owned(y.clone()).expect("floats")));
    }
    let to = DataType::Float16;
    macro_rules! into {
        ($($name:literal $operator:expr, $run:ident $(, $like:expr)?;)*) => {$({
            let (x, operator) = (x.clone(), $operator);
            calls.add($name, move || {
                let mut out = vec![0; 2 * x.len()];
                operator.$run(&x.view() $(, $like)?, &mut out).expect("a buffer that fits");
                out
            });
        })*};
    }
    into! {
        "Cast::run_into" cast(to), run_into;
        "Plan::run_into" plan(DataType::Float, to), run_into;
        "CastLike::run_into" CastLike::new(&CastOptions::new()).expect("the newest"), run_into, to;
    }
    let uninit = |x: &Tensor, run: &dyn Fn(&mut [MaybeUninit<u8>]) -> Vec<u8>| {
        let mut memory = Vec::with_capacity(2 * x.len());
        run(&mut memory.spare_capacity_mut()[..2 * x.len()])
    };
    let y = x.clone();
    calls.add("Cast::run_into_uninit", move || {
        uninit(&y, &|out| cast(to).run_into_uninit(&y.view(), out).expect("a buffer that fits").to_vec())
    });
    let y = x.clone();
    calls.add("Plan::run_into_uninit", move || {
        uninit(&y, &|out| plan(DataType::Float, to).run_into_uninit(&y.view(), out).expect("a buffer").to_vec())
    });
    let y = x.clone();
    calls.add("CastLike::run_into_uninit", move || {
        let operator = CastLike::new(&CastOptions::new()).expect("the newest");
        uninit(&y, &|out| operator.run_into_uninit(&y.view(), to, out).expect("a buffer that fits").to_vec())
    });
    let y = x.clone();
    calls.add("CastLike::run", move || {
        bytes(&CastLike::new(&CastOptions::new()).expect("the newest").run(&y.view(), to).expect("floats"))
    });
    let y = x.clone();
    calls.add("Plan::run", move || bytes(&plan(DataType::Float, to).run(&y.view()).expect("floats")));
    let y = x.clone();
    calls.add("Plan::run_owned", move || bytes(&plan(DataType::Float, to).run_owned(y.clone()).expect("floats")));
    let floats = x.to_vec::<f32>().expect("floats");
    let y = floats.clone();
    calls.add("cast_slice", move || {
        let mut out = vec![BFloat16::from_bits(0); y.len()];
        cast_slice(&y, &mut out, &CastOptions::new()).expect("a buffer that fits");
        out.iter().flat_map(|code| code.to_bits().to_le_bytes()).collect()
    });
    let y = floats.clone();
    calls.add("cast_slice_packed", move || {
        let mut out = vec![0; DataType::Float4E2M1.byte_len(y.len()).expect("few")];
        cast_slice_packed::<f32, Float4E2M1>(&y, &mut out, &CastOptions::new()).expect("a buffer that fits");
        out
    });
    calls.add("cast_one", move || {
        let rules = Rules::new(DataType::Float8E4M3FN, 28, true, onnx_cast::RoundMode::Up);
        floats.iter().map(|float| cast_one::<f32, Float8E4M3FN>(*float, &rules).to_bits()).collect()
    });
}

fn strings(calls: &mut Calls, x: &Tensor) {
    let text = |from: DataType| {
        Cast::new(DataType::String, &CastOptions::new()).and_then(|cast| cast.plan(from)).expect("a type of numbers")
    };
    let joined = |strings: &Strings| strings.view().bytes().to_vec();
    let y = x.clone();
    calls.add("Plan::run_strings_into", move || {
        let mut strings = Strings::new();
        text(DataType::Float).run_strings_into(&y.view(), &mut strings).expect("floats");
        joined(&strings)
    });
    let y = x.clone();
    calls.add("Cast::run_strings_into", move || {
        let mut strings = Strings::new();
        let cast = Cast::new(DataType::String, &CastOptions::new()).expect("the newest");
        cast.run_strings_into(&y.view(), &mut strings).expect("floats");
        joined(&strings)
    });
    let y = x.clone();
    calls.add("CastLike::run_strings_into", move || {
        let mut strings = Strings::new();
        let cast = CastLike::new(&CastOptions::new()).expect("the newest");
        cast.run_strings_into(&y.view(), &mut strings).expect("floats");
        joined(&strings)
    });
    let mut printed = Strings::new();
    text(DataType::Float).run_strings_into(&x.view(), &mut printed).expect("floats");
    for to in [DataType::Double, DataType::Float, DataType::Float16] {
        let printed = printed.clone();
        calls.add("Plan::run", move || {
            let shape = [printed.view().len()];
            let view = TensorView::strings(&shape, printed.view()).expect("as many strings");
            bytes(&Cast::new(to, &CastOptions::new()).expect("the newest").run(&view).expect("numbers"))
        });
    }
}

fn linear(calls: &mut Calls, x: &Tensor) {
    let scales = [1e-41f32, 0.037, 3e38].map(scalar);
    for scale in scales {
        let quantize = QuantizeLinear::new(&QuantizeOptions::new().output_dtype(DataType::Int8)).expect("the newest");
        let plan = quantize.plan(DataType::Float, DataType::Float, None).expect("types that it has");
        let q = quantize.run(&x.view(), &scale.view(), None).expect("a scale of the tensor");
        let (y, s) = (x.clone(), scale.clone());
        calls.add("QuantizeLinear::run", move || bytes(&quantize.run(&y.view(), &s.view(), None).expect("floats")));
        let (y, s) = (x.clone(), scale.clone());
        calls.add("ScaledPlan::run", move || bytes(&plan.run(&y.view(), &s.view(), None).expect("floats")));
        let (y, s) = (x.clone(), scale.clone());
        calls.add("ScaledPlan::run_into", move || {
            let mut out = vec![0; y.len()];
            plan.run_into(&y.view(), &s.view(), None, &mut out).expect("a buffer that fits");
            out
        });
        let (y, s) = (x.clone(), scale.clone());
        calls.add("ScaledPlan::run_into_uninit", move || {
            let mut memory = Vec::with_capacity(y.len());
            let out = &mut memory.spare_capacity_mut()[..y.len()];
            plan.run_into_uninit(&y.view(), &s.view(), None, out).expect("a buffer that fits").to_vec()
        });
        let (y, s) = (x.clone(), scale.clone());
        calls.add("BoundScaledPlan::run_part", move || {
            let mut out = vec![0; y.len()];
            let bound = plan.bind(y.shape(), &s.view(), None).expect("a scale of the tensor");
            bound.run_part(0, y.len(), &bytes(&y), &mut out).expect("a buffer that fits");
            out
        });
        let (y, s) = (x.clone(), scale.clone());
        calls.add("BoundScaledPlan::run_part_uninit", move || {
            let mut out = vec![MaybeUninit::new(0); y.len()];
            let bound = plan.bind(y.shape(), &s.view(), None).expect("a scale of the tensor");
            bound.run_part_uninit(0, y.len(), &bytes(&y), &mut out).expect("a buffer that fits").to_vec()
        });
        for to in [DataType::Float, DataType::Float16] {
            let (q, s) = (q.clone(), scale.clone());
            let operator = DequantizeLinear::new(&DequantizeOptions::new().output_dtype(to)).expect("the newest");
            calls.add("DequantizeLinear::run", move || {
                bytes(&operator.run(&q.view(), &s.view(), None).expect("codes of int8"))
            });
        }
        for global in [GlobalScale::Factor(0.7), GlobalScale::Divisor(0.7)] {
            let (q, s, again) = (q.clone(), scale.clone(), q.clone());
            calls.add("BlockPlan::bind", move || {
                let float = DataType::Float;
                let block = [2, q.len()];
                let plan = BlockPlan::dequantize(DataType::Int8, float, float, block).expect("types that it has");
                let (plan, one) = (plan.global_scale(Some(global)), [1, 1]);
                let s = bytes(&s);
                let view = TensorView::new(float, &one, &s).expect("a scale");
                let mut out = vec![0; 4 * q.len()];
                let bound = plan.bind(q.shape(), &view, None).expect("a scale for the block");
                bound.run_part(0, q.len(), &bytes(&q), &mut out).expect("a buffer that fits");
                out
            });
            let (q, s) = (again, scale.clone());
            calls.add("BlockPlan::run", move || {
                let float = DataType::Float;
                let plan =
                    BlockPlan::dequantize(DataType::Int8, float, float, [2, q.len()]).expect("types that it has");
                let s = bytes(&s);
                let view = TensorView::new(float, &[1, 1], &s).expect("a scale");
                bytes(&plan.global_scale(Some(global)).run(&q.view(), &view, None).expect("a scale for the block"))
            });
        }
    }
    let dynamic = DynamicQuantizeLinear::new(28).expect("the newest");
    let y = x.clone();
    calls.add("DynamicQuantizeLinear::run", move || {
        let found = dynamic.run(&y.view()).expect("floats");
        [bytes(&found.y), bits(&[found.scale]), vec![found.zero_point]].concat()
    });
    let y = x.clone();
    calls.add("DynamicQuantizeLinear::scale", move || {
        let (scale, zero_point) = dynamic.scale(&y.view()).expect("floats");
        [bits(&[scale]), vec![zero_point]].concat()
    });
    let y = x.clone();
    calls.add("DynamicQuantizeLinear::extremes", move || bits(&dynamic.extremes(&y.view()).expect("floats")));
    let symmetric = [DataType::Int8, DataType::Float8E4M3FN].map(LinearScale::new);
    for linear in [symmetric[0], symmetric[1], symmetric[0].axis(0), symmetric[0].block_size(16).asymmetric()] {
        let y = x.clone();
        calls.add("LinearScale::run", move || {
            let found = linear.run(&y.view()).expect("floats");
            let zeros = found.zero_point.as_ref().map(bytes).unwrap_or_default();
            [bytes(&found.y), bytes(&found.scale), zeros].concat()
        });
    }
    let greatest = x.to_vec::<f32>().expect("floats").iter().map(|x| x.abs()).collect::<Vec<f32>>();
    for scale_type in [DataType::Float, DataType::Float16, DataType::BFloat16] {
        let greatest = greatest.clone();
        calls.add("SymmetricScale::scales", move || {
            let scale = SymmetricScale::new(DataType::Int8).scale_type(scale_type);
            bytes(&scale.scales(&greatest, &[greatest.len()]).expect("as many scales"))
        });
    }
}

fn blocks(calls: &mut Calls, x: &Tensor) {
    let greatest = x.to_vec::<f32>().expect("floats").iter().map(|x| x.abs()).collect::<Vec<f32>>();
    let nvfp4 = Recipe::ALL.iter().map(|recipe| BlockQuantize::new(BlockFormat::NvFp4).recipe(*recipe));
    let mx = ScaleRule::ALL.iter().map(|rule| BlockQuantize::new(BlockFormat::MxFp4).rule(*rule));
    for quantize in nvfp4.chain(mx) {
        let (y, most) = (x.clone(), greatest.clone());
        calls.add("BlockQuantize::run", move || {
            let found = quantize.run(&y.view()).expect("floats");
            [bytes(&found.elements), bytes(&found.scales), bits(found.global_scale.as_slice())].concat()
        });
        let y = x.clone();
        calls.add("BlockQuantize::run_into", move || {
            let format = quantize.run(&y.view()).expect("floats");
            let (mut elements, mut scales) = (bytes(&format.elements), bytes(&format.scales));
            let global = quantize.run_into(&y.view(), &mut elements, &mut scales).expect("buffers that fit");
            [elements, scales, bits(global.as_slice())].concat()
        });
        let y = x.clone();
        calls.add("BlockQuantize::run_into_uninit", move || {
            let format = quantize.run(&y.view()).expect("floats");
            let room = |tensor: &Tensor| vec![MaybeUninit::new(0); bytes(tensor).len()];
            let (mut elements, mut scales) = (room(&format.elements), room(&format.scales));
            let done = quantize.run_into_uninit(&y.view(), &mut elements, &mut scales);
            let (elements, scales, global) = done.expect("buffers that fit");
            [elements.to_vec(), scales.to_vec(), bits(global.as_slice())].concat()
        });
        calls.add("BlockQuantize::scales", move || quantize.scales(&most));
        let found = quantize.run(&x.view()).expect("floats");
        for to in [DataType::Float, DataType::Float16] {
            let found = found.clone();
            calls.add("BlockScaled::dequantize", move || bytes(&found.dequantize(to).expect("values")));
        }
        calls.add("BlockDequantize::run_into", move || {
            let mut out = vec![0; 4 * found.elements.len()];
            let dequantize = BlockDequantize::new(found.format, DataType::Float).recipe(found.recipe);
            let done = dequantize.run_into(&found.elements.view(), &bytes(&found.scales), found.global_scale, &mut out);
            done.expect("a buffer that fits");
            out
        });
        let found = quantize.run(&x.view()).expect("floats");
        calls.add("BlockDequantize::run_into_uninit", move || {
            let mut out = vec![MaybeUninit::new(0); 4 * found.elements.len()];
            let dequantize = BlockDequantize::new(found.format, DataType::Float).recipe(found.recipe);
            let (elements, scales) = (found.elements.view(), bytes(&found.scales));
            let done = dequantize.run_into_uninit(&elements, &scales, found.global_scale, &mut out);
            done.expect("a buffer that fits").to_vec()
        });
        let most = greatest.clone();
        calls.add("BlockQuantize::global_scale", move || {
            most.iter().flat_map(|most| bits(quantize.global_scale(*most).as_slice())).collect()
        });
    }
    let y = x.clone();
    calls.add("amax", move || bits(&[amax(&y.view()).expect("floats")]));
    let y = x.clone();
    calls.add("block_amax", move || bits(&block_amax(&y.view(), [2, 7]).expect("floats")));
    // What is converted from and to the 16-bit floats' own types.
    let floats = x.to_vec::<f32>().expect("floats");
    calls.add("Float16::from_f32", move || {
        floats.iter().flat_map(|float| Float16::from_f32(*float).to_bits().to_le_bytes()).collect()
    });
}

fn calls(len: usize) -> Calls {
    let mut calls = Calls(Vec::new());
    for x in inputs(len) {
        casts(&mut calls, &x);
        strings(&mut calls, &x);
        linear(&mut calls, &x);
        blocks(&mut calls, &x);
    }
    calls
}

/// Compares what a call gives under a setting, which must still be there afterwards.
fn check(name: &str, setting: Setting, call: &Call, want: &[u8]) {
    let mut got = Vec::new();
    let after = control_register::with(setting, || got = call());
    assert!(got == want, "{name} under {setting}: other bytes than in the default environment");
    assert_eq!(after, setting, "{name}");
}

#[test]
fn every_function_gives_the_same_bits_in_every_environment() {
    let calls = calls(70);
    for (name, call) in &calls.0 {
        let want = call();
        for setting in control_register::settings() {
            check(name, setting, call, &want);
        }
    }
}

/// Threads begin with the environment of the thread that starts them, on Linux.
#[test]
fn threads_that_began_in_another_environment_give_the_same_bits() {
    let mut calls = Calls(Vec::new());
    let len = 2 * 600_011;
    let [subnormals, inexact, ..] = inputs(len);
    for x in [subnormals, inexact] {
        let nvfp4 = BlockQuantize::new(BlockFormat::NvFp4);
        let y = x.clone();
        calls.add("BlockQuantize::run", move || {
            let found = nvfp4.run(&y.view()).expect("floats");
            [bytes(&found.elements), bytes(&found.scales), bits(found.global_scale.as_slice())].concat()
        });
        let (y, linear) = (x.clone(), LinearScale::new(DataType::Uint8).axis(0).asymmetric());
        calls.add("LinearScale::run", move || {
            let found = linear.run(&y.view()).expect("floats");
            [bytes(&found.y), bytes(&found.scale)].concat()
        });
        calls.add("DynamicQuantizeLinear::run", move || {
            let found = DynamicQuantizeLinear::new(28).map(|dynamic| dynamic.run(&x.view()));
            let found = found.expect("the newest").expect("floats");
            [bytes(&found.y), bits(&[found.scale]), vec![found.zero_point]].concat()
        });
    }
    let wants: Vec<Vec<u8>> = calls.0.iter().map(|(_, call)| call()).collect();
    for setting in control_register::settings().skip(1).step_by(5) {
        let mut pool = None;
        control_register::with(setting, || {
            pool = Some(rayon::ThreadPoolBuilder::new().num_threads(3).build());
        });
        let pool = pool.expect("a pool").expect("three threads");
        for ((name, call), want) in calls.0.iter().zip(&wants) {
            assert!(pool.install(call) == *want, "{name} on threads that began under {setting}");
        }
    }
}

#[test]
fn guard_restores_the_setting_when_it_is_dropped() {
    for setting in control_register::settings() {
        let mut inner = Vec::new();
        let after = control_register::with(setting, || {
            let _environment = DefaultEnvironment::enter();
            inner = bytes(
                &Cast::new(DataType::Double, &CastOptions::new())
                    .expect("a type")
                    .run(&scalar(1e-41).view())
                    .expect("a float"),
            );
        });
        assert_eq!(after, setting);
        assert_eq!(inner, f64::from(1e-41f32).to_le_bytes());
    }
}

/// Public functions of operators that compute nothing: they take settings, resolve types, return fields or copy bytes.
/// `run_counted` is `run_into` without checks.
const NOT_ARITHMETIC: &str = "new from_node threads version plan infer target_type source_type scale_type \
    zero_point_type quantized_type data_type opset saturate round_mode backend rules block_size axis asymmetric recipe \
    rule precision max of_zeros of_underflow store_hint scale_count name versions version_at since since_as supports \
    attributes is_lossless_to is_same_via BlockPlan::dequantize BlockPlan::quantize BlockPlan::global_scale \
    ScaledPlan::bind BlockFormat::check_options BitCast::run BitCast::run_owned BitCast::run_into \
    BitCast::run_into_uninit Plan::run_counted GlobalScale::value \
    GlobalScale::divides";

#[test]
fn every_public_function_of_the_operators_is_listed() {
    let calls = calls(8);
    let mut listed: BTreeSet<&str> = calls.0.iter().map(|(name, _)| *name).collect();
    listed.extend(NOT_ARITHMETIC.split_whitespace());
    // QuantizeLinear and DequantizeLinear have their functions from a macro, which names no type.
    assert!(listed.contains("QuantizeLinear::run") && listed.contains("DequantizeLinear::run"));
    listed.insert("run");
    let mut functions = BTreeSet::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ops"), &mut functions);
    assert!(functions.contains("BlockQuantize::run_into"), "the sources have another form");
    let is_listed = |name: &str| {
        let (owner, function) = name.rsplit_once("::").unwrap_or(("", name));
        listed.contains(name)
            || function != "run" && !owner.is_empty() && listed.contains(function)
            || owner.is_empty() && listed.contains(function)
    };
    let missing: Vec<_> = functions.iter().filter(|name| !is_listed(name)).collect();
    assert!(missing.is_empty(), "{missing:?}: add a call to `calls`, or the name to NOT_ARITHMETIC");
}

/// The public functions of the files in a folder, with the types that have them.
fn collect(folder: &Path, functions: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, functions);
            continue;
        }
        let source = std::fs::read_to_string(&path).expect("text");
        let source = source.split("#[cfg(test)]").next().unwrap_or_default();
        let mut owner = String::new();
        for line in source.lines() {
            if let Some(header) = line.strip_prefix("impl") {
                let header = header.split(" for ").last().unwrap_or(header);
                let header = header.trim_start_matches(|c: char| !c.is_ascii_uppercase());
                owner = header.chars().take_while(|c| c.is_alphanumeric()).collect::<String>() + "::";
            } else if line.starts_with('}') {
                owner.clear();
            } else if let Some(function) =
                line.trim_start().strip_prefix("pub ").and_then(|rest| rest.split("fn ").nth(1))
            {
                let is_function = line.trim_start().starts_with("pub fn ")
                    || line.contains("pub const fn ")
                    || line.contains("pub unsafe fn ");
                let name: String = function.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                if is_function {
                    functions.insert(format!("{owner}{name}"));
                }
            }
        }
    }
}
