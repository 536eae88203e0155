//! One thing to be shown: that a cast is right on one backend.

use onnx_cast::backend::Backend;
use onnx_cast::{Plan, TensorView};
use std::fmt;
use testkit::packing::unpack;
use testkit::{Rules, Ty};

pub(super) struct Claim {
    pub(super) from: Ty,
    pub(super) to: Ty,
    pub(super) rules: Rules,
    pub(super) backend: Backend,
}

/// The plan and the buffer of one thread, for one claim.
pub(super) struct Bench<'a> {
    claim: &'a Claim,
    plan: Plan,
    got: Vec<u8>,
}

impl Bench<'_> {
    /// Casts `count` elements and compares with the bytes expected.
    pub(super) fn compare(&mut self, count: usize, source: &[u8], want: &[u8]) -> Result<(), String> {
        // No byte is what it should be until it is written.
        self.got.clear();
        self.got.extend(want.iter().map(|byte| !byte));
        let shape = [count];
        let view = TensorView::new(self.plan.source_type(), &shape, source).map_err(|error| error.to_string())?;
        self.plan.run_into(&view, &mut self.got).map_err(|error| error.to_string())?;
        if self.got == want { Ok(()) } else { Err(self.claim.difference(count, source, &self.got, want)) }
    }
}

impl Claim {
    pub(super) fn bench(&self) -> Bench<'_> {
        let plan = testkit::library::plan(self.from, self.to, &self.rules, self.backend);
        Bench { claim: self, plan, got: Vec::new() }
    }

    /// The first element that is not as expected, where the bytes of a result are not.
    fn difference(&self, count: usize, source: &[u8], got: &[u8], want: &[u8]) -> String {
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
