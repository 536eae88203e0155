//! A compiled group of nodes, as onnxruntime owns it.

use super::abi::ComputeInfo;
use super::host::Host;
use onnx_cast::Plan;
use onnx_cast::scaled::{DynamicQuantizeLinear, ScaledPlan};

/// A compiled group; onnxruntime hands the address of the first field back.
#[repr(C)]
pub(crate) struct Compiled {
    pub(crate) functions: ComputeInfo,
    pub(crate) host: Host,
    pub(crate) group: Group,
}

/// What a group computes. Inputs and outputs are numbers of the group's; an output is `None` where nothing reads it.
pub(crate) enum Group {
    /// Casts of one tensor, one after the other.
    Casts {
        input: usize,
        steps: Vec<Step>,
    },
    Scaled {
        plan: ScaledPlan,
        x: usize,
        scale: usize,
        zero_point: Option<usize>,
        y: Option<usize>,
    },
    /// The outputs are the elements, the scale and the zero point.
    Dynamic {
        operator: DynamicQuantizeLinear,
        plan: ScaledPlan,
        x: usize,
        outputs: [Option<usize>; 3],
    },
}

/// One Cast of a chain.
pub(crate) struct Step {
    pub(crate) plan: Plan,
    pub(crate) output: Option<usize>,
}
