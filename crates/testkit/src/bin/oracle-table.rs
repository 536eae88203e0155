//! Writes casts as the oracle does them to standard output: for `python/check_oracle.py`, to be compared with the
//! Python packages that know these types, and for tests of the library's interfaces. With the argument `every-pair`,
//! fewer values of every pair of types; with `scaled`, elements of QuantizeLinear and DequantizeLinear and tensors of
//! DynamicQuantizeLinear.
//!
//! The output is a sequence of blocks, each a line of words and then its rows:
//! - `cast FROM TO VERSION SATURATE ROUND_MODE COUNT`: COUNT source patterns and COUNT results, 8 bytes each.
//! - `quantize X SCALE TO PRECISION SATURATE COUNT` and `dequantize X SCALE TO COUNT`, where X, SCALE, TO and PRECISION
//!   are types: COUNT patterns of X and COUNT of SCALE, COUNT zero points (values) and COUNT results, 8 bytes each.
//! - `dynamic SCALE ZERO_POINT COUNT`, a tensor of DynamicQuantizeLinear: COUNT patterns of float and COUNT codes of
//!   uint8, 8 bytes each; SCALE is a pattern of float in hexadecimal.
//! - `print FROM COUNT`: COUNT lines of a pattern in hexadecimal and the text it becomes.
//! - `read TO COUNT`: COUNT lines of a text and the pattern in hexadecimal it becomes.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use testkit::generators::{Rng, every, near_tie_texts, near_ties, random, random_scaled, special};
use testkit::scaled::{DEQUANTIZE_SCALES, FLOATS, QUANTIZE_SCALES, QUANTIZE_SOURCES, QUANTIZED};
use testkit::scaled::{dequantize_direct, dynamic_quantize, quantize_direct};
use testkit::types::Kind;
use testkit::{Rules, Ty, cast_bits, cast_from_string, cast_to_string};

fn main() -> ExitCode {
    let out = &mut BufWriter::new(io::stdout().lock());
    let written = match std::env::args().nth(1).as_deref() {
        None => write_tables(out),
        Some("every-pair") => write_every_pair(out),
        Some("scaled") => write_scaled(out),
        Some(other) => {
            eprintln!("`{other}` is not known (want every-pair, scaled, or nothing)");
            return ExitCode::from(2);
        }
    };
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("standard output: {error}");
            ExitCode::FAILURE
        }
    }
}

fn is_float(ty: Ty) -> bool {
    matches!(ty.kind(), Kind::Float(_) | Kind::PowerOfTwo)
}

fn write_tables(out: &mut impl Write) -> io::Result<()> {
    for from in Ty::NUMERIC {
        if is_float(from) && from.bits() <= 16 {
            write_casts(out, from, Ty::Double, &every(from))?;
            write_casts(out, from, Ty::Float, &every(from))?;
        }
    }
    for from in [Ty::Double, Ty::Float] {
        for to in Ty::NUMERIC {
            let wide_integer = matches!(to.kind(), Kind::Int { .. }) && to.bits() >= 8;
            if from != to && (is_float(to) || wide_integer) {
                write_casts(out, from, to, &mixed(from, to))?;
            }
        }
    }
    for from in [Ty::Int32, Ty::Uint32, Ty::Int64, Ty::Uint64] {
        for to in [Ty::Float, Ty::Double] {
            write_casts(out, from, to, &mixed(from, to))?;
        }
    }
    for from in [Ty::Double, Ty::Float, Ty::Float16] {
        write_prints(out, from, &if from == Ty::Float16 { every(from) } else { printable(from) })?;
    }
    write_readings(out, Ty::Double, &near_tie_texts(Ty::Double, 30_000, 44))?;
    out.flush()
}

/// Special, near-tie and random values of each numeric type to each, and to string and back.
fn write_every_pair(out: &mut impl Write) -> io::Result<()> {
    for from in Ty::NUMERIC {
        for to in Ty::NUMERIC {
            let mut values = special(from);
            values.extend(near_ties(from, to, 300, 45));
            values.extend(random(from, 150, 46));
            values.extend(random_scaled(from, 151, 47));
            write_casts(out, from, to, &values)?;
        }
        let values: Vec<u64> = special(from).into_iter().chain(random(from, 301, 48)).collect();
        write_prints(out, from, &values)?;
        let mut texts: Vec<String> = values.iter().map(|&bits| cast_to_string(from, bits)).collect();
        texts.extend(near_tie_texts(from, 301, 49));
        texts.retain(|text| cast_from_string(text, from, &Rules::default()).is_ok());
        write_readings(out, from, &texts)?;
    }
    out.flush()
}

/// Elements on and beside ties, by scales that are powers of two or others, with zero points of integers.
fn write_scaled(out: &mut impl Write) -> io::Result<()> {
    let mut rng = Rng::new(51);
    for (from, scale_type) in QUANTIZE_SOURCES.into_iter().flat_map(|from| QUANTIZE_SCALES.map(|scale| (from, scale))) {
        for to in QUANTIZED {
            let mut values = special(from);
            values.extend(near_ties(from, to, 300, 52));
            values.extend(random_scaled(from, 150, 53));
            let columns = Columns::new(values, scale_type, to, &mut rng);
            for (precision, saturate) in FLOATS.into_iter().flat_map(|float| [(float, true), (float, false)]) {
                let words = ["quantize", from.name(), scale_type.name(), to.name(), precision.name()];
                columns.write(out, &format!("{} {saturate}", words.join(" ")), |x, scale, zero_point| {
                    quantize_direct((from, x), (scale_type, scale), zero_point, to, precision, saturate)
                })?;
            }
        }
    }
    for from in QUANTIZED.into_iter().chain([Ty::Int32]) {
        for scale_type in DEQUANTIZE_SCALES {
            let values = if from.bits() <= 8 { every(from).repeat(4) } else { random_scaled(from, 1000, 54) };
            // The zero point of int32 is 0.
            let zero_points_of = if from == Ty::Int32 { Ty::Float4E2M1 } else { from };
            let columns = Columns::new(values, scale_type, zero_points_of, &mut rng);
            for to in FLOATS {
                let words = ["dequantize", from.name(), scale_type.name(), to.name()];
                columns.write(out, &words.join(" "), |x, scale, zero_point| {
                    dequantize_direct((from, x), (scale_type, scale), zero_point, to)
                })?;
            }
        }
    }
    for seed in 0..200 {
        // Zeros, then tensors of several magnitudes, half of them of one sign.
        let of_sign = |bits: u64| match seed % 4 {
            0 => bits & 0x7fff_ffff,
            1 => bits | 0x8000_0000,
            _ => bits,
        };
        let near_one = |bits: u64| (bits & 0x807f_ffff) | ((110 + seed / 8 + (bits >> 23) % 8) << 23);
        let x = random(Ty::Float, 100, seed).into_iter().map(near_one).map(of_sign);
        let x: Vec<u64> = if seed == 0 { vec![0, 1 << 31] } else { x.collect() };
        let floats: Vec<f32> = x.iter().map(|&bits| f32::from_bits(bits as u32)).collect();
        let (codes, scale, zero_point) = dynamic_quantize(&floats);
        writeln!(out, "dynamic {:x} {zero_point} {}", scale.to_bits(), x.len())?;
        for bits in x.into_iter().chain(codes.into_iter().map(u64::from)) {
            out.write_all(&bits.to_le_bytes())?;
        }
    }
    out.flush()
}

/// Elements, and a scale and a zero point for each.
struct Columns {
    values: Vec<u64>,
    scales: Vec<u64>,
    zero_points: Vec<i64>,
}

impl Columns {
    fn new(values: Vec<u64>, scale_type: Ty, zero_points_of: Ty, rng: &mut Rng) -> Self {
        let mut kinds = special(scale_type);
        kinds.extend(random_scaled(scale_type, 300, 55));
        let powers = [0.25f32, 0.5, 1.0, 2.0, 4.0].map(|power| power.to_bits().into());
        let powers = powers.map(|bits| cast_bits(Ty::Float, scale_type, bits, &Rules::default()));
        let mut scale = || match rng.below(2) {
            0 => powers[rng.below(5) as usize],
            _ => kinds[rng.below(kinds.len() as u64) as usize],
        };
        let scales = values.iter().map(|_| scale()).collect();
        let range = zero_points_of.int_range();
        let zero_point = |_| range.map_or(0, |(low, high)| low as i64 + rng.below((high - low) as u64 + 1) as i64);
        let zero_points = values.iter().map(zero_point).collect();
        Self { values, scales, zero_points }
    }

    fn write(&self, out: &mut impl Write, words: &str, result: impl Fn(u64, u64, i64) -> u64) -> io::Result<()> {
        writeln!(out, "{words} {}", self.values.len())?;
        let zero_points = self.zero_points.iter().map(|&zero_point| zero_point as u64);
        let results = self.values.iter().zip(&self.scales).zip(&self.zero_points).map(|((&x, &s), &z)| result(x, s, z));
        for bits in self.values.iter().copied().chain(self.scales.iter().copied()).chain(zero_points).chain(results) {
            out.write_all(&bits.to_le_bytes())?;
        }
        Ok(())
    }
}

fn write_prints(out: &mut impl Write, from: Ty, values: &[u64]) -> io::Result<()> {
    writeln!(out, "print {} {}", from.name(), values.len())?;
    for &bits in values {
        writeln!(out, "{bits:x} {}", cast_to_string(from, bits))?;
    }
    Ok(())
}

fn write_readings(out: &mut impl Write, to: Ty, texts: &[String]) -> io::Result<()> {
    writeln!(out, "read {} {}", to.name(), texts.len())?;
    for text in texts {
        let bits = cast_from_string(text, to, &Rules::default()).expect("the texts are numbers");
        writeln!(out, "{text} {bits:x}")?;
    }
    Ok(())
}

fn mixed(from: Ty, to: Ty) -> Vec<u64> {
    let mut values = special(from);
    values.extend(near_ties(from, to, 40_000, 41));
    values.extend(random(from, 10_000, 42));
    values.extend(random_scaled(from, 10_000, 43));
    values
}

/// Doubles and floats of all sorts, and those half way between two shortest decimals: `2^21 + 0.25` in float.
fn printable(from: Ty) -> Vec<u64> {
    let mut values = mixed(from, Ty::Int64);
    let layout = from.layout().expect("it is a float type");
    for places in 2..12 {
        let exponent = layout.bias as u64 + u64::from(layout.significand_bits) - places;
        values.extend((0..500).map(|low| (exponent << layout.significand_bits) | low));
    }
    values
}

fn write_casts(out: &mut impl Write, from: Ty, to: Ty, values: &[u64]) -> io::Result<()> {
    for rules in Rules::distinct(from, to) {
        let Rules { opset_version, saturate, round_mode } = rules;
        let (from_name, to_name, mode) = (from.name(), to.name(), round_mode.name());
        writeln!(out, "cast {from_name} {to_name} {opset_version} {saturate} {mode} {}", values.len())?;
        for &bits in values {
            out.write_all(&bits.to_le_bytes())?;
        }
        for &bits in values {
            out.write_all(&cast_bits(from, to, bits, &rules).to_le_bytes())?;
        }
    }
    Ok(())
}
