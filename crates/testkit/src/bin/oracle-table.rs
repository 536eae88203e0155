//! Writes casts as the oracle does them to standard output: for `python/check_oracle.py`, to be held against the Python
//! packages that know these types, and for tests of the library's interfaces. With the argument `every-pair`, fewer
//! values of every pair of types.
//!
//! The output is a sequence of blocks, each a line of words and then its rows:
//! - `cast FROM TO VERSION SATURATE ROUND_MODE COUNT`: COUNT source patterns and COUNT results, 8 bytes each.
//! - `print FROM COUNT`: COUNT lines of a pattern in hexadecimal and the text it becomes.
//! - `read TO COUNT`: COUNT lines of a text and the pattern in hexadecimal it becomes.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use testkit::generators::{every, near_tie_texts, near_ties, random, random_scaled, special};
use testkit::types::Kind;
use testkit::{Rules, Ty, cast_bits, cast_from_string, cast_to_string};

fn main() -> ExitCode {
    let out = &mut BufWriter::new(io::stdout().lock());
    let written = match std::env::args().nth(1).as_deref() {
        None => write_tables(out),
        Some("every-pair") => write_every_pair(out),
        Some(other) => {
            eprintln!("`{other}` is not known (want every-pair, or nothing)");
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
