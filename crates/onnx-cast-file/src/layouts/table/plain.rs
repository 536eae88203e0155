//! This library's own layout: elements and scales in their own types.

use super::{
    BASE, FP8, FP8_E5M2, INT8, KEPT, KEPT_OR_STATIC, MXFP4, MXFP6, MXFP8, NVFP4, OTHER_BLOCKS, OWN, ROWS_OR_COLUMNS,
    TENSOR, held,
};
use crate::layouts::spec::{Calibration, LayoutSpec, Loaders, Scales, ZERO_POINTS};

pub(super) const SPEC: LayoutSpec = LayoutSpec {
    name: "plain",
    beside: &[ZERO_POINTS],
    held: &[
        held(&[MXFP4, NVFP4, MXFP6, MXFP8], &[], Loaders::Are(&[OWN]), KEPT_OR_STATIC),
        held(&OTHER_BLOCKS, &[], Loaders::Are(&[OWN]), KEPT),
        // There is no configuration, so the block size must follow from the number of scales per row.
        held(&[FP8, FP8_E5M2, INT8], &[ROWS_OR_COLUMNS, TENSOR, Scales::Groups], Loaders::Are(&[OWN]), KEPT_OR_STATIC),
    ],
    calibration: Some(Calibration {
        input: "input_scale",
        nvfp4: Some(("input_scale", false)),
        cache: Some(["k_scale", "v_scale"]),
    }),
    is_typed: true,
    keeps_scale_type: true,
    has_mxint8: true,
    counts_scales: true,
    ..BASE
};
