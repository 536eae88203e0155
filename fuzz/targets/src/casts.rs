//! Casts between numbers: every backend against the scalar cast, and that against the oracle.

use arbitrary::{Result, Unstructured};
use onnx_cast::Cast;
use onnx_cast::backend;
use testkit::library::scalar::scalar_cast;
use testkit::library::{self, data_type, plan, run};
use testkit::packing::{pack, packed_len, unpack};
use testkit::{Direct, Rules, Ty, cast_bits};

/// A cast, and where its elements stand.
struct Case {
    from: Ty,
    to: Ty,
    rules: Rules,
    /// How far from where memory begins: kernels take any address.
    at: usize,
    /// Elements that the end of the data lacks a byte for are left out, and up to seven more.
    fewer: usize,
}

impl Case {
    fn new(data: &mut Unstructured<'_>) -> Result<Case> {
        let (from, to) = (*data.choose(&Ty::NUMERIC)?, *data.choose(&Ty::NUMERIC)?);
        let rules = Rules::every(from, to);
        let rules = *data.choose(&rules)?;
        Ok(Case { from, to, rules, at: data.int_in_range(0..=63)?, fewer: data.int_in_range(0..=7)? })
    }
}

/// A cast, and elements for it.
pub fn casts(data: &[u8]) {
    let mut data = Unstructured::new(data);
    let Ok(Case { from, to, rules, at, fewer }) = Case::new(&mut data) else { return };
    let rest = data.take_rest();
    let count = (rest.len() * 8 / from.bits() as usize).saturating_sub(fewer);
    // With nothing behind the last element, so that a sanitizer sees a read past it.
    let mut memory = vec![0; at];
    memory.extend(&rest[..packed_len(from, count)]);
    let source = &memory[at..];
    let values = unpack(from, source, count).expect("the bytes of the source");

    let mut want = vec![0; count];
    Direct::new(from, to, &rules).cast_all(&values, &mut want);
    let slow = 8.min(count);
    let exact: Vec<u64> = values[..slow].iter().map(|&bits| cast_bits(from, to, bits, &rules)).collect();
    assert_eq!(exact, want[..slow], "the oracle's two ways, {} to {} {rules:?}", from.name(), to.name());

    let options = library::options(&rules, backend::available().next().expect("a backend"));
    let planned = Cast::new(data_type(to), &options).expect("a version that takes the target").rules();
    let scalar = scalar_cast(data_type(from), data_type(to), &planned, &values);
    assert_eq!(scalar, want, "the scalar cast and the oracle, {} to {} {rules:?}", from.name(), to.name());

    let want = pack(to, &want);
    for backend in backend::available() {
        let mut got = Vec::with_capacity(want.len());
        run(&plan(from, to, &rules, backend), count, source, &mut got);
        assert_eq!(got, want, "{} to {} {rules:?} on {backend:?}, from byte {at}", from.name(), to.name());
    }
}
