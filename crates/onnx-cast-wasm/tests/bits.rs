//! Does `data/bits.json` have what the library gives? It is what the module is compared with, in node and in a browser
//! (`npm/test/bits.mjs`): a hash of the results of every pair of types, for every value of a source of 16 bits or
//! fewer, and random ones of wider sources, 10^7 in all. `bash scripts/update.sh` writes it.

use onnx_cast::packing::pack;
use onnx_cast::{Cast, CastOptions, DataType, RoundMode, TensorView};
use serde_json::{Map, Value};

/// Random values of each wide source, of which there are six.
const WIDE: usize = 10_000_000 / 6 + 1;

/// Two hashes of 32 bits over the bytes, in hexadecimal: FNV-1a, and the same with another prime.
fn hash(bytes: &[u8]) -> String {
    let of =
        |prime: u32| bytes.iter().fold(0x811c_9dc5_u32, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(prime));
    format!("{:08x}{:08x}", of(0x0100_0193), of(0x85eb_ca6b))
}

/// Marsaglia's xorshift of 32 bits.
struct Random(u32);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0
    }
}

/// Random elements. Of every second one the exponent is near 0, or the integer is shifted, so that it is in the range
/// of narrow types.
fn random(data_type: DataType) -> Vec<u8> {
    let mut random = Random((data_type.onnx() as u32).wrapping_mul(2_654_435_761));
    let mut bytes = Vec::new();
    for index in 0..WIDE {
        let (low, mut high) = (random.next(), 0);
        if data_type.bits() == Some(64) {
            high = random.next();
        }
        let mut code = u64::from(high) << 32 | u64::from(low);
        if index % 2 == 1 {
            let more = u64::from(random.next());
            code = match data_type {
                DataType::Float => code & 0x807f_ffff | (95 + (more & 63)) << 23,
                DataType::Double => code & 0x800f_ffff_ffff_ffff | (959 + (more & 127)) << 52,
                _ if high == 0 && data_type.bits() == Some(32) => code >> (more & 31),
                _ => code >> (more & 63),
            };
        }
        bytes.extend_from_slice(&code.to_le_bytes()[..data_type.bits().unwrap_or(0) / 8]);
    }
    bytes
}

/// The elements of a source, with their number.
fn elements(data_type: DataType) -> (usize, Vec<u8>) {
    let bits = data_type.bits().expect("a type of numbers");
    match bits {
        _ if data_type == DataType::Bool => (2, vec![0, 1]),
        ..8 => {
            let codes: Vec<u8> = (0..1 << bits).collect();
            let mut packed = vec![0; data_type.byte_len(codes.len()).expect("few")];
            pack(data_type, &codes, &mut packed).expect("packed");
            (codes.len(), packed)
        }
        8 => (256, (0..=255).collect()),
        16 => (1 << 16, (0..=u16::MAX).flat_map(u16::to_le_bytes).collect()),
        _ => (WIDE, random(data_type)),
    }
}

/// The settings that a target obeys, each with its name.
fn settings(to: DataType) -> Vec<(String, CastOptions)> {
    let mut all = vec![(String::new(), CastOptions::new())];
    if to.obeys_saturate() {
        all.push((" saturate=false".to_owned(), CastOptions::new().saturate(false)));
    }
    if to.obeys_round_mode() {
        let mode = |&mode: &RoundMode| (format!(" round_mode={mode}"), CastOptions::new().round_mode(mode));
        all.extend(RoundMode::ALL.iter().map(mode));
    }
    all
}

#[test]
fn the_hashes_are_those_of_the_library() {
    let mut found = Map::new();
    for &from in DataType::NUMERIC {
        let (len, bytes) = elements(from);
        for &to in DataType::NUMERIC {
            for (name, options) in settings(to) {
                let shape = [len];
                let view = TensorView::new(from, &shape, &bytes).expect("a tensor");
                let cast = Cast::new(to, &options).and_then(|cast| cast.plan(from)).expect("a cast");
                let result = cast.run(&view).expect("a result");
                found.insert(format!("{from} {to}{name}"), hash(result.bytes().expect("numbers")).into());
            }
        }
    }
    assert!(found.len() >= DataType::NUMERIC.len().pow(2), "{}", found.len());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/bits.json");
    if std::env::var_os("UPDATE_BITS").is_some() {
        let text = serde_json::to_string_pretty(&Value::Object(found.clone())).expect("JSON");
        std::fs::write(path, text + "\n").expect("written");
    }
    let text = std::fs::read_to_string(path).expect("data/bits.json");
    let wanted: Map<String, Value> = serde_json::from_str(&text).expect("JSON");
    for (pair, hash) in &found {
        assert_eq!(Some(hash), wanted.get(pair), "{pair}");
    }
    assert_eq!(found.len(), wanted.len());
}
