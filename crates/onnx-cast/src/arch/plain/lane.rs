//! Single lanes of vectors in plain Rust, and what instructions give for one.

pub(super) const QUIET: u32 = 1 << 22;

/// A lane of `W` bits, with zeros above.
pub(super) fn lane<const W: usize, const B: usize>(value: &[u8; B], index: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes[..W / 8].copy_from_slice(&value[index * W / 8..][..W / 8]);
    u64::from_le_bytes(bytes)
}

/// A lane of several vectors.
pub(super) fn lane_of<const W: usize, const B: usize>(values: &[[u8; B]], index: usize) -> u64 {
    let count = 8 * B / W;
    lane::<W, B>(&values[index / count], index % count)
}

/// A vector of the low bits of what a function gives for each lane. Not inlined: hundreds of kernels call it.
#[inline(never)]
pub(super) fn lanes<const W: usize, const B: usize>(f: impl Fn(usize) -> u64) -> [u8; B] {
    let mut value = [0; B];
    for (index, lane) in value.chunks_exact_mut(W / 8).enumerate() {
        lane.copy_from_slice(&f(index).to_le_bytes()[..W / 8]);
    }
    value
}

/// The low `W` bits as a signed integer.
pub(super) fn signed<const W: usize>(value: u64) -> i64 {
    (value << (64 - W)) as i64 >> (64 - W)
}

/// A mask of lanes, a bool for each byte.
#[inline(never)]
pub(super) fn mask<const W: usize, const B: usize>(f: impl Fn(usize) -> bool) -> [bool; B] {
    core::array::from_fn(|byte| f(byte / (W / 8)))
}

pub(super) fn float<const B: usize>(value: &[u8; B], index: usize) -> f32 {
    f32::from_bits(lane::<32, B>(value, index) as u32)
}

pub(super) fn double<const B: usize>(values: &[[u8; B]], index: usize) -> f64 {
    f64::from_bits(lane_of::<64, B>(values, index))
}

/// The bits of a result of some operands: the first NaN of them, quiet, or the usual one.
pub(super) fn result<const RICH: bool>(operands: &[f32], result: f32) -> u64 {
    let bits = match operands.iter().find(|operand| operand.is_nan()) {
        Some(operand) => operand.to_bits() | QUIET,
        // x86's is negative, that of other processors positive.
        None if result.is_nan() && RICH => 0xffc0_0000,
        None if result.is_nan() => 0x7fc0_0000,
        None => result.to_bits(),
    };
    bits.into()
}

/// A double as a float, to nearest even.
pub(super) fn narrow(value: f64) -> u64 {
    if value.is_nan() {
        let bits = value.to_bits();
        return (bits >> 32 & 1 << 31) | 0x7fc0_0000 | (bits >> 29 & 0x7f_ffff);
    }
    (value as f32).to_bits().into()
}

/// A float as a double.
pub(super) fn widen(value: f32) -> u64 {
    if value.is_nan() {
        let bits = u64::from(value.to_bits());
        return (bits & 1 << 31) << 32 | 0x7ff8 << 48 | (bits & 0x7f_ffff) << 29;
    }
    f64::from(value).to_bits()
}

/// Toward zero, saturating; NaN to 0.
pub(super) fn int<const SIGNED: bool>(value: f64) -> u64 {
    (if SIGNED { value as i32 as u32 } else { value as u32 }).into()
}

/// Likewise, to be saturated to 16 bits or fewer, where NaN may be below 0 if they have no sign.
pub(super) fn short<const SIGNED: bool, const RICH: bool>(value: f64) -> u64 {
    let of_nan = if SIGNED || !RICH { 0 } else { i32::MIN };
    ((if value.is_nan() { of_nan } else { value as i32 }) as u32).into()
}
