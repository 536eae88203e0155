//! The products with quantized weights that onnxruntime fuses with the DequantizeLinear before them, and those whose
//! weights it dequantizes whenever the model runs, which takes longer than the float model does.

use super::ChosenWeight;
use super::readings::{Calls, Found, site};
use crate::constant::Site;
use crate::error::ModelError;
use crate::graph::values::Flow;
use onnx_cast::DataType;
use onnx_cast_file::{Granularity, QuantizedFormat};
use std::collections::{BTreeMap, HashMap};

/// The release with these rules. `scripts/checks/quantized_models.py` compares them with the models that the installed
/// release makes.
const RELEASE: &str = "onnxruntime 1.31";

impl ChosenWeight<'_> {
    /// Whether MatMulNBits can have the elements and the scales that DequantizeLinear reads.
    fn fits_nbits(&self) -> bool {
        let has_blocks = match self.to.granularity {
            Some(Granularity::Block([_, size])) => size >= 16 && size.is_power_of_two(),
            _ => true,
        };
        let is_integer = matches!(self.to.format, QuantizedFormat::Elements(DataType::Int8 | DataType::Int4));
        is_integer && has_blocks && self.constant.shape.len() == 2 && self.constant.data_type != DataType::BFloat16
    }
}

/// Says for how many products onnxruntime dequantizes weights at each run, and how many it fuses; nothing if it fuses
/// all of them.
pub(super) fn note(
    calls: &Calls<'_, '_>,
    flows: &[Flow<'_, '_>],
    weights: &[ChosenWeight<'_>],
) -> Result<Option<String>, ModelError> {
    let by_site: HashMap<(usize, Site), &ChosenWeight<'_>> =
        weights.iter().map(|one| ((one.graph, one.site), one)).collect();
    let (mut all, mut others) = (0, BTreeMap::<String, usize>::new());
    for flow in flows {
        for Found { value, reading } in calls.readings(flow)? {
            let Some(weight) = site(flow, value).and_then(|site| by_site.get(&site)) else { continue };
            all += 1;
            let by_tensor = weight.to.granularity == Some(Granularity::Tensor);
            if !(weight.fits_nbits() && reading.fuses(by_tensor)) {
                *others.entry(reading.operator).or_default() += 1;
            }
        }
    }
    let count: usize = others.values().sum();
    let others: Vec<String> = others.iter().map(|(operator, count)| format!("{operator} ({count})")).collect();
    Ok((count > 0).then(|| {
        format!(
            "{RELEASE} fuses {} of {all} products with the DequantizeLinear of their weights, and dequantizes those of \
             {count} at each run: {} (the forms matmulnbits and dynamic may avoid it)",
            all - count,
            others.join(", ")
        )
    }))
}
