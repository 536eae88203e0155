//! A weight as a constant of few bits with scales, and the DequantizeLinear that gives the old name its old type. NVFP4
//! has two of them: the first gives the scales.

use super::ChosenWeight;
use crate::constant::Site;
use crate::edits::{Content, Edits, Home, NewAttribute, NewNode, NewTensor};
use crate::error::ModelError;
use crate::rope::{CastElements, Computed, ElementSource, LastDecoded};
use crate::tree::Names;
use crate::types::schemas::Schema;
use onnx_cast::ops::{Dim, ValueInfo};
use onnx_cast::scaled::{DequantizeLinear, DequantizeOptions};
use onnx_cast::tensor::element_count;
use onnx_cast::{DataType, NEWEST_OPSET};
use onnx_cast_file::__private::Counter;
use onnx_cast_file::__private::pipeline::Compute;
use onnx_cast_file::{
    ConstantRequest, Granularity, QuantizeRequest, QuantizedFormat, Scaled, Selection, TensorSummary, WeightFormat,
};
use std::sync::{Arc, Mutex};

/// The types and shapes of the tensors of a quantized weight, and how DequantizeLinear reads them.
pub(super) struct Form {
    element: DataType,
    scale_type: DataType,
    pub(super) scale_shape: Vec<usize>,
    axis: usize,
    block_size: usize,
    output_dtype: Option<DataType>,
    has_global: bool,
}

/// The tensors of a quantized weight, what becomes of it, and what counts the losses.
pub(super) struct Quantized<'a> {
    pub(super) elements: CastElements<'a>,
    pub(super) scales: CastElements<'a>,
    global: Option<CastElements<'a>>,
    pub(super) summary: TensorSummary,
    pub(super) counter: Arc<Counter>,
}

impl<'a> ChosenWeight<'a> {
    /// Notes what is to be done; returns what becomes of the weight, the opset that it needs, and what counts.
    pub(super) fn edit(
        self,
        edits: &mut Edits<'a>,
        names: &mut Names,
        request: &QuantizeRequest,
        last: &Arc<Mutex<LastDecoded>>,
    ) -> Result<(TensorSummary, i64, Arc<Counter>), ModelError> {
        let ChosenWeight { constant, to, .. } = &self;
        let refuse = |what: String| ModelError::constant(constant.name, what);
        let scaled = self.scaled()?;
        let form = self.form(scaled);
        let needs = form.needs(&constant.shape, self.is_in_function && matches!(self.site, Site::Node(_)));
        let needs = needs.ok_or_else(|| refuse(format!("no opset has {to} with such scales")))?;
        let quantized = self.quantized(&form, scaled, self.around(form.axis), edits, request, last)?;
        let Quantized { elements, scales, global, summary, counter } = quantized;
        self.place(edits, names, &form, [Some(elements), Some(scales), global]);
        Ok((summary, needs, counter))
    }

    /// What computes the tensors of a weight. `shape` has the sizes before the axis that has scales, of the axis, and
    /// behind it.
    pub(super) fn quantized(
        &self,
        form: &Form,
        scaled: Scaled,
        shape: [usize; 3],
        edits: &mut Edits<'a>,
        request: &QuantizeRequest,
        last: &Arc<Mutex<LastDecoded>>,
    ) -> Result<Quantized<'a>, ModelError> {
        let ChosenWeight { constant, to, .. } = self;
        let refuse = |what: String| ModelError::constant(constant.name, what);
        let elements = constant.elements.as_ref().ok_or_else(|| refuse("strings".to_owned()))?;
        let quantized = ConstantRequest {
            values: elements.values(last).ok_or_else(|| refuse("its elements cannot be read".to_owned()))?,
            from: constant.data_type,
            shape,
            to: to.format,
            scaled,
            rule: request.scale_rule.unwrap_or_default(),
            // 255 * 64 twice fits 16 bits.
            max: request.reduce_range.then_some(64.0),
            counts: request.run.counts(),
        };
        let quantized = quantized.quantized().map_err(|error| refuse(error.to_string()))?;
        edits.measured.extend(quantized.amax.map(|amax| (elements.clone(), amax)));
        let computed = |source: Arc<dyn Compute + 'a>, data_type, len| {
            CastElements::new(ElementSource::Computed(Computed(source)), data_type, len)
        };
        let count = element_count(&form.scale_shape).ok_or_else(|| refuse("too many scales".to_owned()))?;
        let scales = computed(quantized.scales, form.scale_type, count);
        let global = quantized.global.map(|global| computed(global, DataType::Float, 1));
        let elements = computed(quantized.elements, form.element, constant.len);
        let bytes = [Some(&elements), Some(&scales), global.as_ref()].into_iter().flatten();
        let bytes_after = bytes.filter_map(CastElements::byte_len).sum();
        let mut summary =
            TensorSummary::kept(constant.name, constant.shape.clone(), constant.data_type, constant.bytes());
        (summary.to, summary.bytes_after, summary.cast) = (form.element, bytes_after, true);
        summary.quantized = Some(*to);
        Ok(Quantized { elements, scales, global, summary, counter: quantized.counter })
    }

    /// Why the weight is kept: it is a table that the request does not name, it would not become smaller, or its summed
    /// axis is shorter than a block of MX or NVFP4.
    pub(super) fn not_for_dequantize_linear(
        &self,
        selection: &Selection<WeightFormat>,
    ) -> Result<Option<String>, ModelError> {
        if self.axes.is_table && !selection.names(self.constant.name, self.constant.len as u64) {
            let reason = "Gather reads it, and onnxruntime would dequantize all of it at each run (an include pattern \
                          or a rule quantizes it anyway)";
            return Ok(Some(reason.to_owned()));
        }
        let summed = self.constant.shape[self.axes.summed];
        if let QuantizedFormat::Block(format) = self.to.format
            && summed < format.block()
        {
            let (axis, block) = (self.axes.summed, format.block());
            return Ok(Some(format!("axis {axis} has size {summed}, less than a block of {} ({block})", self.to)));
        }
        Ok(self.not_smaller(self.form(self.scaled()?).bytes(self.constant.len)))
    }

    /// What has a scale: a row instead of blocks, if its summed axis is shorter than one.
    fn scaled(&self) -> Result<Scaled, ModelError> {
        let refuse = |what: String| Err(ModelError::constant(self.constant.name, what));
        let element = match self.to.format {
            QuantizedFormat::Block(format) => return Ok(Scaled::Blocks(format.block())),
            QuantizedFormat::Elements(element) => element,
            _ => {
                return refuse(format!(
                    "DequantizeLinear has no {} (`convert` makes a model float16 or bfloat16)",
                    self.to
                ));
            }
        };
        let default = if element == DataType::Int4 { Granularity::Block([1, 32]) } else { Granularity::Row };
        match self.to.granularity.unwrap_or(default) {
            Granularity::Tensor => Ok(Scaled::Tensor),
            Granularity::Row => Ok(Scaled::Axis),
            Granularity::Block([1, size]) if self.constant.shape[self.axes.summed] < size => Ok(Scaled::Axis),
            Granularity::Block([1, size]) => Ok(Scaled::Blocks(size)),
            other => refuse(format!(
                "DequantizeLinear has no {element}/{other} (want {element}/tensor, {element}/row or blocks such as {element}/32)"
            )),
        }
    }

    fn form(&self, scaled: Scaled) -> Form {
        let (shape, from) = (&self.constant.shape, self.constant.data_type);
        let (axis, block_size, scale_shape) = match scaled {
            Scaled::Tensor => (1, 0, Vec::new()),
            Scaled::Axis => (self.axes.outputs, 0, vec![shape[self.axes.outputs]]),
            Scaled::Blocks(size) => {
                let mut scales = shape.clone();
                scales[self.axes.summed] = scales[self.axes.summed].div_ceil(size);
                (self.axes.summed, size, scales)
            }
        };
        let form = |element, scale_type, output_dtype, has_global| Form {
            element,
            scale_type,
            scale_shape,
            axis,
            block_size,
            output_dtype,
            has_global,
        };
        match self.to.format {
            QuantizedFormat::Block(format) if format.scale() == DataType::Float8E8M0 => {
                form(format.element(), format.scale(), Some(from), false)
            }
            QuantizedFormat::Block(format) => {
                form(format.element(), format.scale(), Some(from).filter(|&from| from != DataType::Float), true)
            }
            QuantizedFormat::Elements(element) => form(element, from, None, false),
            // Refused before.
            _ => form(from, from, None, false),
        }
    }

    /// The sizes before an axis, of the axis, and behind it.
    fn around(&self, axis: usize) -> [usize; 3] {
        let shape = &self.constant.shape;
        let axis = axis.min(shape.len() - 1);
        [shape[..axis].iter().product(), shape[axis], shape[axis + 1..].iter().product()]
    }

    /// Puts elements, scales and the scale of the tensor in place of the weight, and the nodes that read them.
    fn place(&self, edits: &mut Edits<'a>, names: &mut Names, form: &Form, tensors: [Option<CastElements<'a>>; 3]) {
        let ChosenWeight { constant, to, graph, site, input, is_in_function, .. } = self;
        let old = constant.name;
        let [elements, scales, global] = tensors;
        let name = names.fresh(format!("{old}_{}", to.format));
        let scale = names.fresh(format!("{old}_scale"));
        // In a function, constants are nodes.
        let (mut initializers, mut nodes) = (Vec::new(), Vec::new());
        let mut add = |name: &str, shape: Vec<usize>, elements: Option<CastElements<'a>>, names: &mut Names| {
            let Some(elements) = elements else { return };
            let content = Content::Elements(elements);
            let home = constant.message.map_or(Home::Model, Home::LargeLike);
            let tensor = NewTensor { message: None, name: Some(name.to_owned()), shape, home, content };
            if *is_in_function {
                nodes.push(constant_node(name, tensor, names));
            } else {
                initializers.push(tensor);
            }
        };
        let mut dequantize = Vec::new();
        if form.has_global {
            let global_name = names.fresh(format!("{old}_global_scale"));
            let codes = names.fresh(format!("{old}_scale_float8"));
            add(&codes, form.scale_shape.clone(), scales, names);
            add(&global_name, Vec::new(), global, names);
            let node = names.fresh(format!("{old}_dequantize_scale"));
            dequantize.push(dequantize_linear(node, [codes, global_name], scale.clone(), None));
        } else {
            add(&scale, form.scale_shape.clone(), scales, names);
        }
        let node = names.fresh(format!("{old}_dequantize"));
        dequantize.push(dequantize_linear(node, [name.clone(), scale], old.to_owned(), Some(form)));
        let weight = elements.map(|elements| NewTensor {
            message: constant.message,
            name: Some(name.clone()),
            shape: constant.shape.clone(),
            home: Home::of(constant.message),
            content: Content::Elements(elements),
        });
        let edit = edits.graphs.entry(*graph).or_default();
        match (site, is_in_function) {
            (Site::Initializer(index, _), _) => drop(edit.initializers.insert(*index, weight)),
            // A Constant outside functions becomes an initializer, which may have more types.
            (Site::Node(index), false) => {
                edit.nodes.entry(*index).or_default().drop = true;
                edit.added_initializers.extend(weight);
            }
            (Site::Node(index), true) => {
                let node = edit.nodes.entry(*index).or_default();
                // The name of the tensor in the attribute says nothing, and is kept.
                node.value = weight.map(|weight| NewTensor { name: None, ..weight });
                node.outputs.insert(0, name);
                node.after.extend(nodes.into_iter().chain(dequantize));
                return;
            }
        }
        if let Some(input) = input {
            edit.inputs.insert(*input, None);
        }
        edit.added_initializers.extend(initializers);
        edit.first.extend(nodes.into_iter().chain(dequantize));
    }
}

/// A Constant that gives a tensor.
fn constant_node<'a>(output: &str, tensor: NewTensor<'a>, names: &mut Names) -> NewNode<'a> {
    let name = names.fresh(format!("{output}_constant"));
    NewNode { value: Some(tensor), ..NewNode::new("Constant", name, Vec::new(), output.to_owned()) }
}

/// A DequantizeLinear with the attributes that are not at their defaults.
fn dequantize_linear(name: String, inputs: [String; 2], output: String, form: Option<&Form>) -> NewNode<'static> {
    let mut node = NewNode::new("DequantizeLinear", name, inputs.into(), output);
    let Some(form) = form else { return node };
    node.attributes.extend((form.axis != 1).then(|| NewAttribute::int("axis", form.axis as i64)));
    let block_size = (form.block_size > 0).then(|| NewAttribute::int("block_size", form.block_size as i64));
    node.attributes.extend(block_size);
    node.attributes.extend(form.output_dtype.map(|to| NewAttribute::int("output_dtype", to.onnx().into())));
    node
}

impl Form {
    /// Elements with scales that no DequantizeLinear reads.
    pub(super) fn plain(element: DataType, scale_type: DataType, scale_shape: Vec<usize>) -> Form {
        Form { element, scale_type, scale_shape, axis: 0, block_size: 0, output_dtype: None, has_global: false }
    }

    /// Bytes of this many elements and their scales.
    pub(super) fn bytes(&self, len: usize) -> Option<u64> {
        let scales = self.scale_type.byte_len(element_count(&self.scale_shape)?)?;
        let global = if self.has_global { 4 } else { 0 };
        Some(self.element.byte_len(len)?.checked_add(scales)?.checked_add(global)? as u64)
    }

    /// The first opset whose DequantizeLinear reads a weight of a shape, and whose Constant, where there is one, has
    /// such elements.
    fn needs(&self, shape: &[usize], is_constant: bool) -> Option<i64> {
        let info = |data_type, shape: &[usize]| {
            let shape = Some(shape.iter().map(|&size| Dim::Known(size as u64)).collect());
            ValueInfo { data_type, shape }
        };
        let operator = |opset: i64, form: Option<&Form>| {
            let options = DequantizeOptions::new().opset(opset).axis(form.map_or(1, |form| form.axis as i64));
            let options = options.block_size(form.map_or(0, |form| form.block_size));
            let options = match form.and_then(|form| form.output_dtype) {
                Some(data_type) => options.output_dtype(data_type),
                None => options,
            };
            DequantizeLinear::new(&options).ok()
        };
        let reads = |opset: i64| -> Option<()> {
            let mut scale_type = self.scale_type;
            if self.has_global {
                let codes = info(scale_type, &self.scale_shape);
                scale_type = operator(opset, None)?.infer(&codes, &info(DataType::Float, &[]), None).ok()?.data_type;
            }
            let scale = info(scale_type, &self.scale_shape);
            operator(opset, Some(self))?.infer(&info(self.element, shape), &scale, None).ok().map(drop)
        };
        // Version 10 knows no axis, whose default it takes.
        let first = if self.scale_shape.is_empty() { 10 } else { 13 };
        let of_constant =
            |data_type| if is_constant { Schema::first_giving("Constant", data_type) } else { Some(first) };
        let first = first.max(of_constant(self.element)?).max(of_constant(self.scale_type)?);
        (first..=NEWEST_OPSET).find(|&opset| reads(opset).is_some())
    }
}
