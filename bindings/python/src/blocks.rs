//! Block formats between numpy's arrays and their elements and scales. Elements narrower than a byte stand one in a byte
//! in an array; those are packed and unpacked in tiles that stay in the nearest cache.

use crate::array::{Contiguous, Elements, Source, overlap};
use crate::error::{of_cast, of_name, refused};
use crate::job::{self, Work, reduce, run};
use crate::pool::threads_of;
use crate::scaled::type_of_array;
use crate::types::number_to_type;
use numpy::PyUntypedArray;
use onnx_cast::__private::{Divide, with_default_float_environment, with_threads};
use onnx_cast::packing::{pack_into_uninit, unpack_into_uninit};
use onnx_cast::scaled::{BlockDequantize, BlockFormat, BlockQuantize, ScaleRule, amax};
use onnx_cast::{CastError, DataType, TensorView};
use pyo3::prelude::*;
use std::fmt::Display;
use std::mem::MaybeUninit;
use std::str::FromStr;

/// Elements of a tile, a multiple of every block.
const TILE: usize = 8192;

/// The elements, one in a byte where they are narrower, the scales, and NVFP4's global scale, a float as Python's
/// double: it is widened and narrowed here, in the default float environment.
type Parts<'py> = (Bound<'py, PyUntypedArray>, Bound<'py, PyUntypedArray>, Option<f64>);

/// Quantizes an array to a block format, into the elements and scales of `out` if they are given.
#[pyfunction]
pub(crate) fn quantize_blocks<'py>(
    array: &Bound<'py, PyUntypedArray>,
    to: &str,
    scale_rule: &str,
    recipe: &str,
    threads: Option<&Bound<'py, PyAny>>,
    out: Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)>,
) -> PyResult<Parts<'py>> {
    let (py, data_type, threads) = (array.py(), type_of_array(array)?, threads_of(threads)?);
    let format: BlockFormat = named("to", to)?;
    let (rule, recipe) = (named("scale_rule", scale_rule)?, named("recipe", recipe)?);
    format.check_options(rule, recipe).map_err(of_cast)?;
    let quantize = BlockQuantize::new(format).rule(rule).recipe(recipe).threads(Some(1));
    let outs = out.iter().flat_map(|(elements, scales)| [elements, scales]);
    let source = Source::of(array, outs)?;
    let (shape, x) = (source.shape(), source.elements());
    // Checks the type and the shape, and finds nothing to do.
    quantize.run_into(&TensorView::new(data_type, &[0], &[]).map_err(refused)?, &mut [], &mut []).map_err(of_cast)?;
    let scales_shape = scale_shape(format, shape);
    let is_new = out.is_none();
    let (mut elements, mut scales) = match &out {
        Some((elements, scales)) => (
            Contiguous::out(elements, format.element(), shape)?,
            Contiguous::out(scales, format.scale(), &scales_shape)?,
        ),
        None => (Contiguous::new(py, format.element(), shape)?, Contiguous::new(py, format.scale(), &scales_shape)?),
    };
    let greatest = match format {
        BlockFormat::NvFp4 => Some(py.detach(|| with_threads(|| greatest(data_type, x, threads))).map_err(of_cast)?),
        _ => None,
    };
    let side = Side::Quantize {
        quantize: quantize.amax(greatest),
        x,
        elements: elements.bytes_mut(x.bytes()).ok_or_else(overlap)?,
        scales: scales.bytes_mut(x.bytes()).ok_or_else(overlap)?,
    };
    run(py, Blocks::new(format, data_type, shape, is_new, side), threads)?;
    let global = greatest.and_then(|greatest| quantize.global_scale(greatest));
    let global = with_default_float_environment(|| global.map(f64::from));
    Ok((elements.into_array(), scales.into_array(), global))
}

/// What the name that a parameter gives stands for.
fn named<T: FromStr<Err: Display>>(parameter: &str, name: &str) -> PyResult<T> {
    name.parse().map_err(|error| of_name(error, parameter, name))
}

/// The shape of a block format's scales.
fn scale_shape(format: BlockFormat, shape: &[usize]) -> Vec<usize> {
    let mut shape = shape.to_vec();
    match shape.last_mut() {
        Some(last) => *last = last.div_ceil(format.block()),
        None => shape.push(1),
    }
    shape
}

/// The values of a block format, as a type, in `out` if it is given.
#[pyfunction]
pub(crate) fn dequantize_blocks<'py>(
    parts: Parts<'py>,
    format: &str,
    recipe: &str,
    to: i64,
    threads: Option<&Bound<'py, PyAny>>,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let (elements, scales, global) = parts;
    let global = with_default_float_environment(|| global.map(|global| global as f32));
    let (py, to, threads) = (elements.py(), number_to_type(to)?, threads_of(threads)?);
    let format: BlockFormat = named("format", format)?;
    for (what, array, want) in [("elements", &elements, format.element()), ("scales", &scales, format.scale())] {
        let got = type_of_array(array)?;
        if got != want {
            return Err(refused(format_args!("{what} are of type {got} (want {want}, for {format})")));
        }
    }
    let (elements, scales) = (Source::of(&elements, out.into_iter())?, Source::of(&scales, out.into_iter())?);
    let (shape, want) = (elements.shape(), scale_shape(format, elements.shape()));
    if scales.shape() != want {
        return Err(refused(format_args!(
            "scales of shape {:?} (want {want:?}, for elements of {shape:?})",
            scales.shape()
        )));
    }
    let recipe = named("recipe", recipe)?;
    format.check_options(ScaleRule::default(), recipe).map_err(of_cast)?;
    let dequantize = BlockDequantize::new(format, to).recipe(recipe).threads(Some(1));
    let mut values = match out {
        Some(out) => Contiguous::out(out, to, shape)?,
        None => Contiguous::new(py, to, shape)?,
    };
    let (elements, scales) = (elements.elements(), scales.elements());
    if values.bytes_mut(scales.bytes()).is_none() {
        return Err(overlap());
    }
    let values_bytes = values.bytes_mut(elements.bytes()).ok_or_else(overlap)?;
    let side = Side::Dequantize { dequantize, global, elements, scales, values: values_bytes };
    run(py, Blocks::new(format, to, shape, out.is_none(), side), threads)?;
    Ok(values.into_array())
}

/// A direction with the memory of both sides, where elements stand one in a byte.
enum Side<'a> {
    Quantize {
        quantize: BlockQuantize,
        x: Elements<'a>,
        elements: &'a mut [MaybeUninit<u8>],
        scales: &'a mut [MaybeUninit<u8>],
    },
    Dequantize {
        dequantize: BlockDequantize,
        global: Option<f32>,
        elements: Elements<'a>,
        scales: Elements<'a>,
        values: &'a mut [MaybeUninit<u8>],
    },
}

/// `len` elements to quantize or dequantize, in rows of which the last block may be short.
struct Blocks<'a> {
    format: BlockFormat,
    /// The type of the plain values.
    value: DataType,
    row: usize,
    len: usize,
    is_new: bool,
    side: Side<'a>,
}

impl<'a> Blocks<'a> {
    fn new(format: BlockFormat, value: DataType, shape: &[usize], is_new: bool, side: Side<'a>) -> Self {
        let (len, row) = (shape.iter().product(), shape.last().copied().unwrap_or(1).max(1));
        // Rows of whole blocks are as good as one.
        let row = if row.is_multiple_of(format.block()) { row.max(len) } else { row };
        Blocks { format, value, row, len, is_new, side }
    }

    /// Elements that are worked on at once.
    fn tile(&self) -> usize {
        if self.format.element().is_packed() { self.rows_of(TILE) } else { self.len }
    }

    /// A part of a row, or whole rows, of so many elements at most.
    fn rows_of(&self, most: usize) -> usize {
        if self.row > most { most } else { most / self.row * self.row }
    }

    /// Works on elements or scales that are not contiguous, in tiles that are copied first.
    fn gathered(self) -> Result<(), CastError> {
        let (mut buffers, mut rest) = ([Vec::new(), Vec::new()], self);
        while rest.len > 0 {
            let tile = rest.rows_of(job::TILE).min(rest.len);
            let (mut tile, behind) = rest.divide(tile);
            let [first, second] = &mut buffers;
            match &mut tile.side {
                Side::Quantize { x, .. } => *x = x.gathered(first),
                Side::Dequantize { elements, scales, .. } => {
                    (*elements, *scales) = (elements.gathered(first), scales.gathered(second));
                }
            }
            tile.on_this_thread()?;
            rest = behind;
        }
        Ok(())
    }

    /// Whether what is read has to be copied first.
    fn is_strided(&self) -> bool {
        let read = match &self.side {
            Side::Quantize { x, .. } => [x, x],
            Side::Dequantize { elements, scales, .. } => [elements, scales],
        };
        read.iter().any(|read| matches!(read, Elements::Strided(_)))
    }

    /// Works on a part of a row, or on whole rows.
    fn at_once(self, packed: &mut [MaybeUninit<u8>; TILE]) -> Result<(), CastError> {
        let element = self.format.element();
        let shape = if self.len < self.row { [1, self.len] } else { [self.len / self.row, self.row] };
        let is_packed = element.is_packed();
        let packed = if is_packed { &mut packed[..element.byte_len(self.len).unwrap_or(0)] } else { &mut [] };
        match self.side {
            Side::Quantize { quantize, x, elements, scales } => {
                let x = TensorView::new(self.value, &shape, x.bytes())?;
                if !is_packed {
                    return quantize.run_into_uninit(&x, elements, scales).map(drop);
                }
                let (packed, ..) = quantize.run_into_uninit(&x, packed, scales)?;
                let _ = unpack_into_uninit(element, packed, elements);
                Ok(())
            }
            Side::Dequantize { dequantize, global, elements, scales, values } => {
                let mut elements = elements.bytes();
                if is_packed && let Ok(packed) = pack_into_uninit(element, elements, packed) {
                    elements = packed;
                }
                let elements = TensorView::new(element, &shape, elements)?;
                dequantize.run_into_uninit(&elements, scales.bytes(), global, values).map(drop)
            }
        }
    }
}

impl Divide for Blocks<'_> {
    fn elements(&self) -> usize {
        self.len
    }

    fn grain(&self) -> usize {
        if self.len <= self.row { TILE } else { self.row }
    }

    fn divide(self, at: usize) -> (Self, Self) {
        let Blocks { format, value, row, len, is_new, side } = self;
        let in_values = at * value.info().bits as usize / 8;
        let in_scales = at / row * row.div_ceil(format.block()) + (at % row).div_ceil(format.block());
        let part = |len, side| Blocks { format, value, row, len, is_new, side };
        match side {
            Side::Quantize { quantize, x, elements, scales } => {
                let (x, behind) = x.split_at(in_values);
                let (elements, elements_behind) = elements.split_at_mut(at);
                let (scales, scales_behind) = scales.split_at_mut(in_scales);
                let low = Side::Quantize { quantize, x, elements, scales };
                let high = Side::Quantize { quantize, x: behind, elements: elements_behind, scales: scales_behind };
                (part(at, low), part(len - at, high))
            }
            Side::Dequantize { dequantize, global, elements, scales, values } => {
                let (elements, elements_behind) = elements.split_at(at);
                let (scales, scales_behind) = scales.split_at(in_scales);
                let (values, behind) = values.split_at_mut(in_values);
                let side = |elements, scales, values| Side::Dequantize { dequantize, global, elements, scales, values };
                (part(at, side(elements, scales, values)), part(len - at, side(elements_behind, scales_behind, behind)))
            }
        }
    }
}

impl Work for Blocks<'_> {
    fn bytes(&self) -> [usize; 2] {
        match &self.side {
            Side::Quantize { x, elements, scales, .. } => [x.byte_len(), elements.len() + scales.len()],
            Side::Dequantize { elements, scales, values, .. } => {
                [elements.byte_len() + scales.byte_len(), values.len()]
            }
        }
    }

    fn is_new(&self) -> bool {
        self.is_new
    }

    fn on_this_thread(self) -> Result<(), CastError> {
        let mut rest = self;
        while rest.row > TILE && rest.row < rest.len {
            let row = rest.row;
            let (first, behind) = rest.divide(row);
            first.on_this_thread()?;
            rest = behind;
        }
        if rest.is_strided() {
            return rest.gathered();
        }
        let mut packed = [MaybeUninit::uninit(); TILE];
        while rest.len > 0 {
            let tile = rest.tile().min(rest.len);
            let (first, behind) = rest.divide(tile);
            first.at_once(&mut packed)?;
            rest = behind;
        }
        Ok(())
    }
}

/// The greatest magnitude of finite elements.
fn greatest(data_type: DataType, x: Elements<'_>, threads: Option<usize>) -> Result<f32, CastError> {
    let width = data_type.info().bits as usize / 8;
    let of_tile = |bytes: &[u8]| amax(&TensorView::new(data_type, &[bytes.len() / width], bytes)?);
    // Magnitudes are in the order of their bits, whatever the float environment of the thread.
    let join = |one: f32, other: f32| if one.to_bits() > other.to_bits() { one } else { other };
    reduce(x, width, threads, &of_tile, &join)
}
