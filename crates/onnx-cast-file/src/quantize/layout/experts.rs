//! Experts of a layer in one tensor of three axes: which layouts hold them so, and under which names.

use super::{Chosen, Order, Plan, unfit};
use crate::formats::input::Stored;
use crate::layouts::{LayoutError, Scheme};
use crate::quantize::format::{Granularity, QuantizedFormat};
use DataType::Float8E4M3FN;
use onnx_cast::{BlockFormat, DataType};

/// The matrices of a weight, by its shape and its name.
pub(super) struct Form<'n> {
    /// How many there are, their rows and their columns.
    pub(super) matrices: [usize; 3],
    /// The name up to `weight`; of experts, all of it.
    pub(super) module: &'n str,
    pub(super) order: Order,
    pub(super) are_experts: bool,
}

impl Plan<'_> {
    /// The matrices of a weight, where the layout has a place for them.
    pub(super) fn form<'n>(&self, stored: &'n Stored, to: QuantizedFormat) -> Result<Form<'n>, LayoutError> {
        let name = &*stored.name;
        let has_experts = matches!(self.layout, Scheme::ModelOpt | Scheme::Fbgemm | Scheme::DeepSeek);
        match (&stored.shape[..], name.strip_suffix("weight")) {
            (&[count, columns, rows], None) if self.layout == Scheme::GptOss => {
                Ok(Form { matrices: [count, rows, columns], module: name, order: Order::Exchanged, are_experts: true })
            }
            _ if self.layout == Scheme::GptOss => {
                Err(unfit(stored, "the matrices of all experts, as gate_up_proj and down_proj".to_owned()))
            }
            (&[count, rows, columns], None) if has_experts && is_named_as_experts(name) => {
                let is_down = self.layout == Scheme::ModelOpt && matches!(to, QuantizedFormat::Block(_));
                let order = if is_down { Order::Down } else { Order::Same };
                Ok(Form { matrices: [count, rows, columns], module: name, order, are_experts: true })
            }
            (&[rows, columns], Some(module)) => {
                Ok(Form { matrices: [1, rows, columns], module, order: Order::Same, are_experts: false })
            }
            ([_, _, _], _) if !has_experts => {
                let layout = self.layout.name();
                Err(unfit(
                    stored,
                    format!("a matrix: {layout} has no experts in one tensor, each is a weight of its own"),
                ))
            }
            _ => Err(unfit(stored, "a matrix whose name ends in `weight`".to_owned())),
        }
    }

    /// Whether experts in one tensor are quantized unless a rule says otherwise.
    pub(in crate::quantize) fn takes_experts(&self, to: QuantizedFormat) -> bool {
        match self.layout {
            Scheme::GptOss | Scheme::Fbgemm => true,
            Scheme::ModelOpt => matches!(
                (to, self.request.granularity),
                (QuantizedFormat::Block(BlockFormat::NvFp4), _)
                    | (QuantizedFormat::Elements(Float8E4M3FN), None | Some(Granularity::Tensor))
            ),
            // Its loaders want inputs as the last axis, which the shape does not tell.
            _ => false,
        }
    }

    /// Names the tensors of experts as the layout has them.
    pub(super) fn name_experts(&self, chosen: &mut Chosen, name: &str) -> Result<(), LayoutError> {
        let scales = match self.layout {
            Scheme::ModelOpt => "_weight_scale",
            Scheme::DeepSeek => "_scale_inv",
            _ => "_scale",
        };
        (chosen.elements, chosen.scales) = (name.to_owned(), format!("{name}{scales}"));
        // Both weights of a layer are of one module.
        chosen.module = name.rsplit_once('.').map_or(name, |(module, _)| module).to_owned();
        if let Some(global) = &mut chosen.global {
            *global = (format!("{name}_weight_scale_2"), Vec::new());
        }
        let is_known = match (self.layout, chosen.to, chosen.granularity) {
            (Scheme::ModelOpt, QuantizedFormat::Block(format), _) => format == BlockFormat::NvFp4,
            (Scheme::ModelOpt, _, granularity) => granularity == Granularity::Tensor,
            _ => true,
        };
        if is_known {
            return Ok(());
        }
        let reason = "experts in one tensor have nvfp4, or float8e4m3fn with a scale for the tensor".to_owned();
        Err(LayoutError::Unsupported { layout: self.layout.name(), to: chosen.to.name(), reason })
    }
}

/// Whether a tensor holds the matrices of all experts of a layer, by its name, as layouts have them.
fn is_named_as_experts(name: &str) -> bool {
    ["gate_up_proj", "down_proj"].iter().any(|end| name.strip_suffix(end).is_some_and(|start| start.ends_with('.')))
}

/// Whether a tensor holds the experts of a layer, and is one of those that are quantized.
pub(in crate::quantize) fn are_experts(stored: &Stored) -> bool {
    stored.shape.len() == 3 && is_named_as_experts(&stored.name) && stored.name.contains(".experts.")
}
