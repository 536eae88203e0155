//! What the long proof and the soak compare with the oracle: one cast with its settings, on one backend.

use onnx_cast::backend::Backend;
use onnx_cast::{Cast, CastOptions, Plan};
use std::fmt;
use testkit::library::{data_type, options};
use testkit::packing::unpack;
use testkit::{Rules, Ty};

/// One thing to be shown: that a cast is right on one backend.
pub(crate) struct Claim {
    pub(crate) from: Ty,
    pub(crate) to: Ty,
    pub(crate) rules: Rules,
    pub(crate) backend: Backend,
}

impl Claim {
    /// The settings in the library's terms.
    pub(crate) fn options(&self) -> CastOptions {
        options(&self.rules, self.backend).threads(1)
    }

    pub(crate) fn plan(&self) -> Plan {
        let cast = Cast::new(data_type(self.to), &self.options()).expect("a version that takes the target");
        cast.plan(data_type(self.from)).expect("a version that takes the source")
    }

    /// The first element that is not as expected, where the bytes of a result are not.
    pub(crate) fn difference(&self, count: usize, source: &[u8], got: &[u8], want: &[u8]) -> String {
        let Claim { from, to, .. } = *self;
        let elements = |ty, bytes: &[u8]| unpack(ty, bytes, count).unwrap_or_default();
        let results = elements(to, got).into_iter().zip(elements(to, want));
        for (bits, (got, want)) in elements(from, source).into_iter().zip(results) {
            if got != want {
                let digits = |ty: Ty| ty.bits().div_ceil(4) as usize + 2;
                let (from, to) = (digits(from), digits(to));
                return format!("{bits:#0from$x} gives {got:#0to$x}, want {want:#0to$x}");
            }
        }
        "the padding is not zero".to_owned()
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rules { opset_version, saturate, round_mode } = self.rules;
        write!(f, "{} {} -> {}", self.backend.name(), self.from.name(), self.to.name())?;
        write!(f, " (version {opset_version}")?;
        if self.to.obeys_saturate() {
            write!(f, ", saturate {}", u8::from(saturate))?;
        }
        if self.to == Ty::Float8E8M0 {
            write!(f, ", {}", round_mode.name())?;
        }
        f.write_str(")")
    }
}
