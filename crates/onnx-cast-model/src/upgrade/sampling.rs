//! Upsample and Resize, and other operators whose attributes name how they sample.

use super::draft::{Done, Draft, Given, Refusal};
use super::site::Site;
use crate::edits::NewAttribute;
use onnx_cast::DataType;

/// Upsample is Resize from version 10 on.
pub(super) fn to_resize<'a>(draft: &mut Draft<'_, 'a>, _: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    draft.op_type = "Resize";
    Ok(Some("it is a Resize"))
}

/// Resize-11 has a region of interest as its second input, and attributes for what version 10 does: coordinates are
/// divided by the scale, and rounded down where the scale is 1 or more. Where it is less, version 10 tells no rounding;
/// onnxruntime, whose authors wrote it, rounds up. Where both may be, one Resize stretches, and a second one shrinks.
pub(super) fn resize_modes<'a>(draft: &mut Draft<'_, 'a>, site: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    let mut scales = draft.required(1)?;
    let region = match site.to {
        FIRST_WITHOUT_REGION.. => String::new(),
        _ => site.constant(draft, "roi", DataType::Float, vec![0], Vec::new()),
    };
    // An Upsample's scales are 1 or more.
    let known = if draft.node.is("Upsample") { Some(vec![]) } else { site.known.floats(&scales, site.files) };
    // Another mode than the nearest does not heed how the nearest is rounded to.
    let rounding = match known.as_deref() {
        Some(scales) if scales.iter().all(|&scale| scale >= 1.0) => Some("floor"),
        Some(scales) if scales.iter().all(|&scale| scale <= 1.0) => Some("ceil"),
        _ => draft.string("mode")?.known("mode")?.filter(|mode| mode != "nearest").map(|_| "floor"),
    };
    if rounding.is_none() {
        scales = stretched(draft, site, &region, scales)?;
    }
    draft.set_string(COORDINATES, "asymmetric");
    draft.set_string("nearest_mode", rounding.unwrap_or("ceil"));
    draft.set_input(1, region);
    draft.set_input(2, scales);
    Ok(Some(match rounding {
        Some(_) => "its coordinates and its rounding are attributes",
        None => "one Resize stretches, and another one shrinks",
    }))
}

/// Has a Resize to the nearest stretch the input before the node; the scales that are left to the node.
fn stretched<'a>(
    draft: &mut Draft<'_, 'a>,
    site: &mut Site<'_, '_, 'a>,
    region: &str,
    scales: String,
) -> Result<String, Refusal> {
    let x = draft.required(0)?;
    let one = site.constant(draft, "one", DataType::Float, vec![], 1_f32.to_le_bytes().to_vec());
    let (max, larger) = site.node(draft, "Max", "larger", vec![scales.clone(), one.clone()]);
    let (min, smaller) = site.node(draft, "Min", "smaller", vec![scales, one]);
    let (resize, wide) = site.node(draft, "Resize", "stretched", vec![x, region.to_owned(), larger]);
    let attributes = [(COORDINATES, "asymmetric"), ("nearest_mode", "floor")];
    let resize = attributes.iter().fold(resize, |node, (name, value)| node.with(NewAttribute::string(name, value)));
    draft.before.extend([max, min, resize]);
    draft.set_input(0, wide);
    Ok(smaller)
}

const COORDINATES: &str = "coordinate_transformation_mode";

/// The first opset whose Resize can do without a region of interest.
const FIRST_WITHOUT_REGION: i64 = 13;

/// Resize-13 takes scales or sizes, and has lost a mode of coordinates, which is `half_pixel` without the last half:
/// (x + 0.5) / scale rounded down is (x + 0.5) / scale - 0.5 rounded, with halves up; and rounded, with halves down, it
/// is the same rounded up. Rounded otherwise it would be one more than `half_pixel` has.
pub(super) fn resize_inputs<'a>(draft: &mut Draft<'_, 'a>, _: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    let mut done = None;
    if draft.input(3).is_some() && draft.input(2).is_some() {
        // Version 11 allows sizes only where the scales are empty.
        draft.set_input(2, String::new());
        done = Some("its empty scales are left out");
    }
    if let Given::Value(mode) = draft.string(COORDINATES)?
        && mode == "tf_half_pixel_for_nn"
    {
        let nearest = draft.string("mode")?.known("mode")?.is_none_or(|mode| mode == "nearest");
        let rounding = match draft.string("nearest_mode")?.known("nearest_mode")?.as_deref() {
            Some("floor") if nearest => "round_prefer_ceil",
            None | Some("round_prefer_floor") if nearest => "ceil",
            _ => {
                return Err(
                    "it has no `tf_half_pixel_for_nn` any more, which no other mode is with this rounding".into()
                );
            }
        };
        draft.set_string(COORDINATES, "half_pixel");
        draft.set_string("nearest_mode", rounding);
        done = Some("`tf_half_pixel_for_nn` is `half_pixel` with another rounding");
    }
    Ok(done)
}

/// The modes of GridSample have new names.
pub(super) fn grid_sample<'a>(draft: &mut Draft<'_, 'a>, _: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    let new = match draft.string("mode")?.known("mode")?.as_deref() {
        Some("bilinear") => "linear",
        Some("bicubic") => "cubic",
        _ => return Ok(None),
    };
    draft.set_string("mode", new);
    Ok(Some("its mode has another name"))
}

/// RoiAlign-16 has an attribute for what version 10 does not do.
pub(super) fn roi_align<'a>(draft: &mut Draft<'_, 'a>, _: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    draft.set_string("coordinate_transformation_mode", "output_half_pixel");
    Ok(Some("`coordinate_transformation_mode` is set"))
}
