//! An operator with its attributes: made once for each combination that Python asks for, and run on arrays.

use crate::array::{Contiguous, Elements, Source, copy, overlap};
use crate::error::{Refusal, of_cast, refused};
use crate::job::{Conversion, Job, run};
use crate::parse;
use crate::pool::{threads_of, whole};
use crate::scaled::{Direction, Scaled};
use crate::string_array::{StringArray, is_string_dtype};
use crate::text::{list_of, strings_of};
use crate::types::{number_to_type, others, type_of};
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use onnx_cast::ops::{Attribute, AttributeValue, Dim, OpError, ValueInfo};
use onnx_cast::packing::unpack_into_uninit;
use onnx_cast::tensor::Strings;
use onnx_cast::{BitCast, Cast, CastLike, CastOptions, DataType, NEWEST_OPSET, Plan, TensorView};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::mem::MaybeUninit;

/// An operator with its attributes, its target and, for a scaled cast, its scale and zero point.
#[pyclass(frozen, module = "onnx_cast._native")]
pub(crate) struct Operator {
    which: Which,
    to: DataType,
    threads: Option<usize>,
    /// What Python wants to know again when it makes the result: the kind of text.
    #[pyo3(get)]
    text: Py<PyAny>,
}

enum Which {
    Cast(Cast),
    CastLike(CastLike),
    BitCast(BitCast),
    Scaled(Box<Scaled>),
}

#[pymethods]
impl Operator {
    /// Cast, or CastLike, to a type. `None` leaves an attribute, the opset and the threads at their defaults.
    #[new]
    #[pyo3(signature = (name, to, saturate, round_mode, opset, threads, text))]
    fn new(
        name: &str,
        to: i64,
        saturate: Option<bool>,
        round_mode: Option<&str>,
        opset: Option<&Bound<'_, PyAny>>,
        threads: Option<&Bound<'_, PyAny>>,
        text: Py<PyAny>,
    ) -> PyResult<Self> {
        let to = number_to_type(to)?;
        let opset = opset.map_or(Ok(NEWEST_OPSET), |opset| whole(opset, "opset"))?;
        let threads = threads_of(threads)?;
        let round_mode = round_mode.map(str::parse).transpose().map_err(OpError::from).map_err(of_cast)?;
        let of_target = |error| Refusal::of_cast(error).or_parameter("to");
        let options = CastOptions::new().opset(opset).saturate(saturate).round_mode(round_mode).threads(threads);
        let which = match name {
            "Cast" => Which::Cast(Cast::new(to, &options).map_err(of_target)?),
            "CastLike" => Which::CastLike(CastLike::new(&options).map_err(of_target)?),
            "BitCast" => Which::BitCast(BitCast::new(to, opset).map_err(of_target)?.threads(threads)),
            _ => return Err(refused(format_args!("`{name}` is not Cast, CastLike or BitCast"))),
        };
        Ok(Operator { which, to, threads, text })
    }

    /// The operator of a node, by its attributes: whole numbers, bytes, and `None` for any other kind. CastLike needs
    /// the number of its target.
    #[staticmethod]
    #[pyo3(signature = (name, opset, attributes, like, text))]
    fn of_node(
        name: &str,
        opset: i64,
        attributes: Vec<(String, Option<Value>)>,
        like: Option<i64>,
        text: Py<PyAny>,
    ) -> PyResult<Self> {
        let attributes = lend(&attributes);
        let (which, to) = match (name, like) {
            ("Cast", _) => {
                let cast = Cast::from_node(opset, &attributes).map_err(of_cast)?;
                (Which::Cast(cast), cast.target_type())
            }
            ("BitCast", _) => {
                let cast = BitCast::from_node(opset, &attributes).map_err(of_cast)?;
                (Which::BitCast(cast), cast.target_type())
            }
            ("CastLike", Some(like)) => {
                (Which::CastLike(CastLike::from_node(opset, &attributes).map_err(of_cast)?), number_to_type(like)?)
            }
            _ => return Err(refused(format_args!("`{name}` is not Cast, CastLike or BitCast"))),
        };
        Ok(Operator { which, to, threads: None, text })
    }

    /// QuantizeLinear or DequantizeLinear of a node, by its attributes, its scale and its zero point. The opset is the
    /// newest if it is `None`.
    #[staticmethod]
    #[pyo3(signature = (name, opset, attributes, scale, zero_point, threads))]
    fn scaled(
        py: Python<'_>,
        name: &str,
        opset: Option<i64>,
        attributes: Vec<(String, Option<Value>)>,
        scale: &Bound<'_, PyUntypedArray>,
        zero_point: Option<&Bound<'_, PyUntypedArray>>,
        threads: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let threads = threads_of(threads)?;
        let operator = Direction::of_node(name, opset.unwrap_or(NEWEST_OPSET), &lend(&attributes))?;
        let scaled = Scaled::new(operator, scale, zero_point)?;
        let to = scaled.target_type();
        Ok(Operator { which: Which::Scaled(Box::new(scaled)), to, threads, text: py.None() })
    }

    /// ONNX's number of the target.
    #[getter]
    fn to(&self) -> i32 {
        self.to.onnx()
    }

    /// Casts an object, into `out` if it is given; `packed` selects ONNX's packed bytes. `new`: `out` has not been
    /// written before.
    #[pyo3(signature = (x, out, packed, new = false))]
    pub(crate) fn run<'py>(
        this: &Bound<'py, Self>,
        x: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
        packed: bool,
        new: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let operator = this.get();
        if operator.to != DataType::String
            && let Ok(array) = x.cast_exact::<PyUntypedArray>()
        {
            let dtype = array.dtype();
            if let Some(from) = type_of(&dtype)? {
                return Ok(operator.numbers(array, from, Target { out, packed, new })?.into_any());
            }
            if is_string_dtype(&dtype)? {
                return Ok(operator.parse_array(array, out, packed)?.into_any());
            }
        }
        others(this.py())?.call1((this, x, out, packed))
    }

    /// The result for ONNX's bytes of so many elements, packed as ONNX packs them; else as `run`.
    #[pyo3(signature = (bytes, number, shape, out, packed, new = false))]
    fn run_packed<'py>(
        &self,
        bytes: &Bound<'py, PyUntypedArray>,
        number: i64,
        shape: Vec<usize>,
        out: Option<&Bound<'py, PyAny>>,
        packed: bool,
        new: bool,
    ) -> PyResult<Bound<'py, PyUntypedArray>> {
        let source = Contiguous::of(bytes)?;
        let from = number_to_type(number)?;
        // Compared with the bytes that there are before anything of the shape's size is allocated.
        TensorView::new(from, &shape, source.bytes()).map_err(refused)?;
        self.cast(bytes.py(), (from, &shape), (Elements::Bytes(source.bytes()), false), Target { out, packed, new })
    }

    /// The numbers of a list of texts, as an array of a shape.
    fn parse<'py>(
        &self,
        py: Python<'py>,
        texts: &Bound<'py, PyList>,
        shape: Vec<usize>,
        out: Option<&Bound<'py, PyAny>>,
        packed: bool,
    ) -> PyResult<Bound<'py, PyUntypedArray>> {
        let plan = self.plan(DataType::String)?;
        let strings = strings_of(texts)?;
        let view = TensorView::strings(&shape, strings.view()).map_err(refused)?;
        let spread = self.to.is_packed() && !packed;
        // In a buffer of its own, so that nothing is written where an element is not a number.
        let mut bytes = vec![0; self.to.byte_len(view.len()).unwrap_or(0)];
        py.detach(|| plan.run_into(&view, &mut bytes)).map_err(of_cast)?;
        let mut target = self.target(py, &shape, out, packed)?;
        let out = target.bytes_mut(&bytes).ok_or_else(overlap)?;
        if spread {
            unpack_into_uninit(self.to, &bytes, out).map_err(refused)?;
        } else {
            copy(&bytes, out);
        }
        Ok(target.into_array())
    }

    /// The numbers of an array of `StringDType`.
    fn parse_array<'py>(
        &self,
        array: &Bound<'py, PyUntypedArray>,
        out: Option<&Bound<'py, PyAny>>,
        packed: bool,
    ) -> PyResult<Bound<'py, PyUntypedArray>> {
        let (py, plan) = (array.py(), self.plan(DataType::String)?);
        let texts = StringArray::of(array)?;
        let mut target = self.target(py, texts.shape(), out, packed)?;
        let numbers = target.bytes_mut(&[]).ok_or_else(overlap)?;
        if out.is_none() {
            parse::parse(py, &plan, &texts, numbers, packed)?;
        } else {
            // In a buffer of its own, so that nothing is written where an element is not a number.
            let mut bytes = vec![MaybeUninit::new(0); numbers.len()];
            parse::parse(py, &plan, &texts, &mut bytes, packed)?;
            numbers.copy_from_slice(&bytes);
        }
        Ok(target.into_array())
    }

    /// The texts of an array of numbers, in C order.
    fn print<'py>(&self, py: Python<'py>, array: &Bound<'py, PyUntypedArray>) -> PyResult<Bound<'py, PyList>> {
        let dtype = array.dtype();
        let from = type_of(&dtype)?.ok_or_else(|| PyTypeError::new_err(format!("ONNX has no type for {dtype}")))?;
        let plan = self.plan(from)?;
        let source = Contiguous::of(array)?;
        let shape = [array.len()];
        let mut packed = Vec::new();
        let bytes = if from.is_packed() {
            packed.resize(from.byte_len(array.len()).unwrap_or(0), 0);
            onnx_cast::packing::pack(from, source.bytes(), &mut packed).map_err(refused)?;
            &packed
        } else {
            source.bytes()
        };
        let view = TensorView::new(from, &shape, bytes).map_err(refused)?;
        let mut strings = Strings::new();
        py.detach(|| plan.run_strings_into(&view, &mut strings)).map_err(of_cast)?;
        list_of(py, &strings)
    }

    /// Texts as they are, as str.
    fn texts<'py>(&self, py: Python<'py>, texts: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyList>> {
        self.plan(DataType::String)?;
        list_of(py, &strings_of(texts)?)
    }
}

/// ONNX's number of a tensor's type, and its shape, in which an unknown dimension is `None`.
type Described = (i64, Vec<Option<u64>>);

/// ONNX's number of the result's type of QuantizeLinear or DequantizeLinear, from the types and shapes of its inputs
/// alone. Refuses the types and shapes that [`Operator::run`] refuses, except for shapes with an unknown dimension.
#[pyfunction]
pub(crate) fn infer_scaled(
    name: &str,
    opset: Option<i64>,
    attributes: Vec<(String, Option<Value>)>,
    x: Described,
    scale: Described,
    zero_point: Option<Described>,
) -> PyResult<i32> {
    let operator = Direction::of_node(name, opset.unwrap_or(NEWEST_OPSET), &lend(&attributes))?;
    let info = |(number, shape): Described| -> PyResult<ValueInfo> {
        let shape = shape.into_iter().map(|dim| dim.map_or(Dim::Unknown, Dim::Known)).collect();
        Ok(ValueInfo { data_type: number_to_type(number)?, shape: Some(shape) })
    };
    let zero_point = zero_point.map(info).transpose()?;
    let result = operator.infer(&info(x)?, &info(scale)?, zero_point.as_ref()).map_err(of_cast)?;
    Ok(result.data_type.onnx())
}

/// The value of an attribute of a node.
#[derive(FromPyObject)]
pub(crate) enum Value {
    Int(i64),
    Bytes(Vec<u8>),
}

/// Attributes as the library takes them.
fn lend<'a>(attributes: &'a [(String, Option<Value>)]) -> Vec<Attribute<'a>> {
    let lent = |(name, given): &'a (String, Option<Value>)| {
        let value = match given {
            Some(Value::Int(value)) => AttributeValue::Int(*value),
            Some(Value::Bytes(value)) => AttributeValue::String(value),
            None => AttributeValue::Other,
        };
        Attribute { name, value }
    };
    attributes.iter().map(lent).collect()
}

impl Operator {
    /// Threads at most.
    pub(crate) fn threads(&self) -> Option<usize> {
        self.threads
    }

    /// The cast of a type.
    pub(crate) fn plan(&self, from: DataType) -> PyResult<Plan> {
        match &self.which {
            Which::Cast(cast) => cast.plan(from),
            Which::CastLike(cast) => cast.plan(from, self.to),
            Which::BitCast(cast) => cast.plan(from),
            Which::Scaled(_) => return Err(refused(format_args!("a scaled cast does not take {from}"))),
        }
        .map_err(|error| Refusal::of_cast(error).or_parameter("x").into())
    }

    /// The array that takes the result.
    fn target<'py>(
        &self,
        py: Python<'py>,
        shape: &[usize],
        out: Option<&Bound<'py, PyAny>>,
        packed: bool,
    ) -> PyResult<Contiguous<'py>> {
        let make = |data_type, shape: &[usize]| match out {
            Some(out) => Contiguous::out(out, data_type, shape),
            None => Contiguous::new(py, data_type, shape),
        };
        if !packed {
            return make(self.to, shape);
        }
        let len = onnx_cast::tensor::element_count(shape).and_then(|len| self.to.byte_len(len));
        let len = len.ok_or_else(|| refused(format_args!("the bytes of {} do not fit in memory", self.to)))?;
        make(DataType::Uint8, &[len])
    }

    fn numbers<'py>(
        &self,
        array: &Bound<'py, PyUntypedArray>,
        from: DataType,
        target: Target<'_, 'py>,
    ) -> PyResult<Bound<'py, PyUntypedArray>> {
        let source = Source::of(array, target.out.into_iter())?;
        self.cast(array.py(), (from, source.shape()), (source.elements(), from.is_packed()), target)
    }

    /// Casts elements of a type and shape: their bytes, and whether they stand one in a byte though they are narrower.
    fn cast<'py>(
        &self,
        py: Python<'py>,
        (from, shape): (DataType, &[usize]),
        (src, src_spread): (Elements<'_>, bool),
        Target { out, packed, new }: Target<'_, 'py>,
    ) -> PyResult<Bound<'py, PyUntypedArray>> {
        let dst_is_new = new || out.is_none();
        let (len, dst_spread) = (shape.iter().product(), self.to.is_packed() && !packed);
        let work = |conversion: Conversion<'_>| -> PyResult<Bound<'py, PyUntypedArray>> {
            let mut target = self.target(py, shape, out, packed)?;
            let dst = target.bytes_mut(src.bytes()).ok_or_else(overlap)?;
            run(py, Job { conversion, len, src_spread, dst_spread, src, dst, dst_is_new }, self.threads)?;
            Ok(target.into_array())
        };
        match &self.which {
            Which::Scaled(scaled) => scaled.with_conversion((from, shape), self.threads, work),
            _ => work(Conversion::Cast(self.plan(from)?)),
        }
    }
}

/// Where numbers go: the caller's array, and whether that is new memory; whether as ONNX's packed bytes.
struct Target<'a, 'py> {
    out: Option<&'a Bound<'py, PyAny>>,
    packed: bool,
    new: bool,
}
