//! Matrices that were joined, with a scale for each of their parts: query, key and value, or gate and up.

use crate::formats::error::{Invalid, InvalidKind};
use crate::formats::input::StoredTensor;
use crate::layouts::spec::Finder;
use crate::layouts::weight::{Grid, Weight};
use crate::text::ShapeText;
use DataType::{BFloat16, Float, Float8E4M3FN, Float8E5M2, Float16, Int8};
use onnx_cast::DataType;

/// Layers of query, key and value, one behind the other. Others have the three of each head together, and no names to
/// tell these from those.
const OF_HEADS: &[&str] = &["qkv_proj"];
/// The same with as many heads of each.
const THIRDS: &[&str] = &["qkv", "W_pack"];
const HALVES: &[&str] = &["gate_up_proj"];

impl Finder<'_> {
    /// Finds the parts of a joined matrix, where there is a scale for each; whether it is one.
    pub(super) fn fit_joined(&self, weight: &mut Weight, scale: &StoredTensor) -> Result<bool, Invalid> {
        let ([rows, columns], parts) = (weight.matrix(), scale.len);
        let layer = weight.name.strip_suffix(".weight").and_then(|layer| layer.rsplit('.').next()).unwrap_or_default();
        let is_meant = weight.values.len() == 2
            && scale.shape == [parts]
            && matches!(weight.element_type(), Float8E4M3FN | Float8E5M2 | Int8)
            && matches!(scale.data_type, Float | Float16 | BFloat16)
            && match parts {
                3 => [OF_HEADS, THIRDS].concat().contains(&layer),
                2 => HALVES.contains(&layer),
                _ => false,
            };
        if !is_meant {
            return Ok(false);
        }
        let ends = match self.claims.heads {
            Some([query, key]) if OF_HEADS.contains(&layer) => {
                [Some(query), query.checked_add(key), key.checked_mul(2).and_then(|both| both.checked_add(query))]
            }
            _ if THIRDS.contains(&layer) && rows.is_multiple_of(3) => [1, 2, 3].map(|part| Some(rows / 3 * part)),
            _ if HALVES.contains(&layer) && rows.is_multiple_of(2) => [Some(rows / 2), Some(rows), Some(rows)],
            _ => [None; 3],
        };
        match ends {
            [Some(first), Some(second), Some(third)] if third == rows => {
                weight.scales.order = Grid::Joined([first, second, third]);
                weight.scales.block = [1, columns.max(1)];
                Ok(true)
            }
            _ => {
                let want = match OF_HEADS.contains(&layer) {
                    true => {
                        "config.json with num_attention_heads, num_key_value_heads and head_dim or hidden_size that \
                         give as many rows"
                    }
                    false => "equal parts",
                };
                let what = format!(
                    "{parts} scales for a joined weight of shape {}, whose parts cannot be told (want {want})",
                    ShapeText(&weight.codes.shape)
                );
                Err(Invalid::new(InvalidKind::Size, what).of_tensor(&scale.name))
            }
        }
    }
}
