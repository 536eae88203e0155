//! `quantize` on a model: each selected weight becomes a constant of few bits with scales, followed by a
//! DequantizeLinear that gives the old name its old type. NVFP4 has two of them: the first gives the scales.

mod passed_over;

use crate::constant::Constant;
use crate::edits::{Content, Edits, NewAttribute, NewNode, NewTensor};
use crate::error::{Error, ModelError, ModelErrorKind};
use crate::external::Files;
use crate::graph::opsets;
use crate::graph::values::{Flow, Origin};
use crate::messages::attribute;
use crate::replaced;
use crate::rewrite::{Request, rewrite};
use crate::rope::{CastElements, ElementSource};
use crate::tree::{Document, Graph, Names, Node};
use crate::upgrade;
use crate::weights::MIN_SIZE;
use onnx_cast::{
    BlockFormat, BlockQuantize, Cast, CastError, CastOptions, DataType, DequantizeLinear, DequantizeOptions,
    LinearScale, NEWEST_OPSET, OpError, QuantizeLinear, QuantizeOptions, Tensor, TensorView, greatest_magnitude,
    greatest_magnitudes,
};
use onnx_cast_file::counts::Counter;
use onnx_cast_file::formats::protobuf::wire::{Value, last};
use onnx_cast_file::pipeline::{ReadBack, ScaledCast, Step};
use onnx_cast_file::text::named;
use onnx_cast_file::{FileError, Granularity, QuantizeRequest, QuantizedFormat, Summary, TensorSummary};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

/// Quantizes the weights that MatMul, Gemm and Conv read. The scales of a weight are found while it is in memory; its
/// elements are quantized while they are written.
pub(crate) fn quantize_weights(input: &Path, output: &Path, request: &QuantizeRequest) -> Result<Summary, Error> {
    let QuantizeRequest { storage, run, .. } = request;
    let (dry_run, counts) = (run.dry_run, run.counts());
    let how = Request { counts, ..Request::of(run, storage) };
    let judge = |(mut summary, counters): Made| {
        // Of a dry run, weights are quantized only to be counted.
        for (row, counter) in counters.iter().filter(|_| counts || !dry_run) {
            let row = &mut summary.tensors[*row];
            (row.counts, row.alarms) = (counts.then(|| counter.total()), Some(counter.alarms()));
        }
        FileError::check_losses(&summary, input, &run.fail_on)?;
        Ok(summary)
    };
    let plan = Request { dry_run: true, ..Request::new(storage) };
    let only = |(summary, _): Made| Ok(summary);
    let planned = || rewrite(input, output, &plan, |document, files| edits(document, files, request), only);
    replaced::check((input, output), &run.write, planned)?;
    rewrite(input, output, &how, |document, files| edits(document, files, request), judge)
}

/// What is done, and what counts the values of which of its rows.
type Made = (Summary, Vec<(usize, Arc<Counter>)>);

/// The axes of a weight: that of the outputs, and the one along which products are added up.
#[derive(Clone, Copy)]
struct Axes {
    outputs: usize,
    summed: usize,
}

/// A weight that is to be quantized.
struct QuantizedConstant<'a> {
    constant: Constant<'a>,
    to: QuantizedFormat,
    axes: Axes,
    graph: usize,
    opset: Option<i64>,
    /// Its place among the initializers, and that of the input of the same name.
    index: usize,
    input: Option<usize>,
    row: usize,
}

fn edits<'a>(
    document: &Document<'a>,
    files: &'a Files<'a>,
    request: &QuantizeRequest,
) -> Result<(Edits<'a>, Made), ModelError> {
    let (mut chosen, mut tensors, mut counters) = (Vec::new(), Vec::new(), Vec::new());
    for body in document.bodies() {
        let readers = readers(body)?;
        for graph in body.every() {
            choose(document, graph, &readers, files, request, &mut chosen, &mut tensors)?;
        }
    }
    request.selection.check_names(tensors.iter().map(|row| &*row.name))?;
    let mut edits = Edits::default();
    let mut passed_over = Vec::new();
    for body in document.bodies() {
        passed_over.extend(passed_over::passed_over(document, body, &chosen, &request.selection, files)?);
    }
    if chosen.is_empty() {
        let passed_over = match named(&passed_over) {
            none if none.is_empty() => none,
            passed_over => format!(" (passed over: {passed_over})"),
        };
        let what = format!(
            "no weight to quantize: no large float initializer is the right operand of MatMul or Gemm or the filter of \
             Conv, and no rule names another{passed_over}"
        );
        return Err(ModelError::new(ModelErrorKind::Request, what));
    }
    if document.training {
        return Err(ModelError::training());
    }
    let mut names = document.names();
    let mut needed = (0, 0);
    for one in chosen {
        let row = one.row;
        let (opset, name) = (one.opset.unwrap_or(0), one.constant.name);
        let (summary, needs, counter) = one.edit(&mut edits, &mut names, request)?;
        if needs > opset && !request.raise_opset {
            return Err(ModelError::needs_opset(name, "DequantizeLinear", summary.to, needs, opset));
        }
        needed = needed.max((needs, opset));
        tensors[row] = summary;
        counters.push((row, counter));
    }
    let (needs, opset) = needed;
    if needs > opset {
        upgrade::raise(document, files, needs, &mut edits, &mut names)?;
    }
    // Initializers need no inputs from version 4 of the format on.
    let newest = opsets::ir_version(needs).into_iter().chain([4]).max();
    edits.ir_version = newest.filter(|&version| document.ir_version >= 3 && version > document.ir_version);
    let mut summary = Summary::new(tensors);
    summary.passed_over = passed_over;
    Ok((edits, (summary, counters)))
}

fn choose<'a>(
    document: &Document<'a>,
    graph: &Graph<'a>,
    readers: &HashMap<(usize, usize), Axes>,
    files: &'a Files<'a>,
    request: &QuantizeRequest,
    chosen: &mut Vec<QuantizedConstant<'a>>,
    tensors: &mut Vec<TensorSummary>,
) -> Result<(), ModelError> {
    let inputs: HashMap<&str, usize> =
        graph.inputs.iter().enumerate().map(|(index, input)| (input.name, index)).collect();
    let defaults: HashSet<&str> =
        if document.ir_version >= 4 { inputs.keys().copied().collect() } else { HashSet::new() };
    for (index, named) in graph.initializers.iter().enumerate() {
        let constant = Constant::of_tensor(named.name, named.message, files)?;
        let summary = TensorSummary::kept(constant.name, constant.shape.clone(), constant.data_type, constant.bytes());
        let is_float = matches!(constant.data_type, DataType::Float | DataType::Float16 | DataType::BFloat16);
        let selection = &request.selection;
        let is_large = constant.len as u64 >= selection.min_size.unwrap_or(MIN_SIZE);
        let axes = readers
            .get(&(graph.id, index))
            .copied()
            .filter(|axes| axes.summed.max(axes.outputs) < constant.shape.len());
        let to = selection.target_if(constant.name, constant.len as u64, |_| axes.is_some());
        let is_fixed = defaults.contains(constant.name);
        if let Some(to) = to.filter(|_| is_float && is_large && !is_fixed && constant.shape.len() >= 2) {
            let axes = axes.unwrap_or(Axes { outputs: 0, summed: constant.shape.len() - 1 });
            let input = inputs.get(constant.name).copied();
            let (graph, opset, row) = (graph.id, graph.opset, tensors.len());
            chosen.push(QuantizedConstant { constant, to, axes, graph, opset, index, input, row });
        }
        tensors.push(summary);
    }
    Ok(())
}

/// The axes of the weights that nodes of a body read, by their graph and their place there: branches may have one name
/// for initializers of their own.
fn readers(body: &Graph<'_>) -> Result<HashMap<(usize, usize), Axes>, ModelError> {
    let flow = Flow::of(body);
    let mut readers = HashMap::new();
    for step in &flow.steps {
        let (node, Some(&Some(weight))) = (step.node, step.inputs.get(1)) else { continue };
        let value = &flow.values[weight];
        let Origin::Initializer(index, _) = value.origin else { continue };
        let named = flow.graphs.get(&value.graph).and_then(|graph| graph.initializers.get(index));
        let Some(Ok(head)) = named.map(|named| onnx_cast_file::formats::pb::head(named.message)) else { continue };
        let rank = head.shape.len();
        if rank < 2 {
            continue;
        }
        let axes = if node.is("MatMul") {
            Axes { outputs: rank - 1, summed: rank - 2 }
        } else if node.is("Gemm") {
            let is_transposed = int(node, "transB")?.unwrap_or(0) != 0;
            if is_transposed { Axes { outputs: 0, summed: 1 } } else { Axes { outputs: 1, summed: 0 } }
        } else if node.is("Conv") {
            Axes { outputs: 0, summed: 1 }
        } else {
            continue;
        };
        readers.insert((value.graph, index), axes);
    }
    Ok(readers)
}

fn int(node: &Node<'_>, name: &str) -> Result<Option<i64>, ModelError> {
    let Some(found) = node.attribute(name).filter(|attribute| !attribute.refers) else { return Ok(None) };
    Ok(last(found.message, attribute::I, Value::int)?)
}

/// A DequantizeLinear with the attributes that are not at their defaults.
fn dequantize(
    name: String,
    inputs: [String; 2],
    output: String,
    axis: i64,
    block_size: usize,
    output_dtype: Option<DataType>,
) -> NewNode<'static> {
    let mut node = NewNode::new("DequantizeLinear", name, inputs.into(), output);
    node.attributes.extend((axis != 1).then(|| NewAttribute::int("axis", axis)));
    node.attributes.extend((block_size > 0).then(|| NewAttribute::int("block_size", block_size as i64)));
    node.attributes.extend(output_dtype.map(|to| NewAttribute::int("output_dtype", to.onnx().into())));
    node
}

/// The scales of a weight, as a DequantizeLinear reads them.
struct Found {
    /// What divides the elements.
    scale: Tensor,
    /// The scales as they are stored; none if they are `scale`.
    stored: Option<(Tensor, Tensor)>,
    axis: i64,
    block_size: usize,
    element: DataType,
    output_dtype: Option<DataType>,
}

impl<'a> QuantizedConstant<'a> {
    /// Notes what is to be done; returns what becomes of the weight, the opset that it needs, and what counts.
    fn edit(
        self,
        edits: &mut Edits<'a>,
        names: &mut Names,
        request: &QuantizeRequest,
    ) -> Result<(TensorSummary, i64, Arc<Counter>), ModelError> {
        let (found, elements, needs, counter) = self.quantized(request)?;
        let QuantizedConstant { constant, to, graph, index, input, .. } = &self;
        let old = constant.name.to_owned();
        let mut bytes_after = elements.byte_len().unwrap_or(0);
        let name = names.fresh(format!("{old}_{to}"));
        let scale_name = names.fresh(format!("{old}_scale"));
        let edit = edits.graphs.entry(*graph).or_default();
        let mut add = |name: &str, tensor: &Tensor| {
            let bytes: Arc<[u8]> = tensor.bytes().unwrap_or_default().into();
            bytes_after += bytes.len() as u64;
            let elements = CastElements::new(ElementSource::Owned(bytes), tensor.data_type(), tensor.len());
            let (shape, content) = (tensor.shape().to_vec(), Content::Elements(elements));
            edit.added_initializers.push(NewTensor { message: None, name: Some(name.to_owned()), shape, content });
        };
        let scale = match &found.stored {
            None => {
                add(&scale_name, &found.scale);
                scale_name
            }
            Some((codes, global)) => {
                let global_name = names.fresh(format!("{old}_global_scale"));
                let codes_name = names.fresh(format!("{old}_scale_float8"));
                add(&codes_name, codes);
                add(&global_name, global);
                let name = names.fresh(format!("{old}_dequantize_scale"));
                edit.first.push(dequantize(name, [codes_name, global_name], scale_name.clone(), 1, 0, None));
                scale_name
            }
        };
        let content = Content::Elements(elements);
        let tensor =
            NewTensor { message: constant.message, name: Some(name.clone()), shape: constant.shape.clone(), content };
        edit.initializers.insert(*index, Some(tensor));
        if let Some(input) = input {
            edit.inputs.insert(*input, None);
        }
        let &Found { axis, block_size, output_dtype, .. } = &found;
        let node_name = names.fresh(format!("{old}_dequantize"));
        edit.first.push(dequantize(node_name, [name, scale], old.clone(), axis, block_size, output_dtype));
        let mut summary = TensorSummary::kept(&old, constant.shape.clone(), constant.data_type, constant.bytes());
        (summary.to, summary.bytes_after, summary.cast) = (found.element, bytes_after, true);
        Ok((summary, needs, counter))
    }

    /// The scales of the weight, its elements as they are to be stored, the opset that they need, and what counts them.
    fn quantized(&self, request: &QuantizeRequest) -> Result<(Found, CastElements<'a>, i64, Arc<Counter>), ModelError> {
        let QuantizedConstant { constant, to, .. } = self;
        let refuse = |what: String| ModelError::constant(constant.name, what);
        let wrong = |error: CastError| refuse(error.to_string());
        let elements = constant.elements.clone().ok_or_else(|| refuse("strings".to_owned()))?;
        let bytes = elements.read().ok_or_else(|| refuse("its elements cannot be read".to_owned()))?;
        let x = TensorView::new(constant.data_type, &constant.shape, &bytes).map_err(|error| wrong(error.into()))?;
        let found = match to {
            QuantizedFormat::Block(format) => self.blocks(&x, *format, request).map_err(wrong)?,
            QuantizedFormat::Elements(data_type) => self.linear(&x, *data_type, request).map_err(wrong)?,
            _ => return Err(refuse(format!("{to} is not for models"))),
        };
        let options = QuantizeOptions::new()
            .axis(found.axis)
            .block_size(found.block_size)
            .output_dtype(found.element)
            .precision(DataType::Float);
        let plan = QuantizeLinear::new(&options)
            .and_then(|operator| operator.plan(constant.data_type, found.scale.data_type(), None));
        let plan = plan.map_err(|error| refuse(error.to_string()))?.with_threads(Some(1));
        plan.bind(&constant.shape, &found.scale.view(), None).map_err(wrong)?;
        let needs =
            found.needs(&constant.shape).ok_or_else(|| refuse(format!("no opset has {to} with such scales")))?;
        let counter = Counter::of_quantized(constant.data_type, true).map_err(|error| refuse(error.to_string()))?;
        let counter = Arc::new(counter);
        let alarms = Counter::of_quantized(constant.data_type, false).map_err(|error| refuse(error.to_string()))?;
        // A value that is not finite also spoils those that share its scale: then all are compared.
        let is_counted = request.run.counts() || alarms.is_interested(&bytes, constant.len);
        let back =
            is_counted.then(|| found.read_back(&counter)).transpose().map_err(|error| refuse(error.to_string()))?;
        let (shape, scale) = (constant.shape.clone(), found.scale.clone());
        let cast = ScaledCast { plan, shape, scale, zero_point: None, back };
        Ok((found, elements.then(Step::Scaled(Arc::new(cast))), needs, counter))
    }

    /// Scales of float, in the weight's type, which is that of the result.
    fn linear(&self, x: &TensorView<'_>, element: DataType, request: &QuantizeRequest) -> Result<Found, CastError> {
        let default = if element == DataType::Int4 { Granularity::Block([1, 32]) } else { Granularity::Axis };
        let granularity = request.granularity.unwrap_or(default);
        let found = LinearScale::new(element);
        let (found, axis, block_size) = match granularity {
            Granularity::Axis => (found.axis(self.axes.outputs as i64), self.axes.outputs, 0),
            Granularity::Block([1, size]) => {
                (found.axis(self.axes.summed as i64).block_size(size), self.axes.summed, size)
            }
            _ => (found, 1, 0),
        };
        let scale = found.run(x)?.scale;
        let scale = if x.data_type() == DataType::Float { scale } else { narrow(&scale, x.data_type())? };
        Ok(Found { scale, stored: None, axis: axis as i64, block_size, element, output_dtype: None })
    }

    /// Scales of MX and NVFP4, in blocks along the axis whose products are added up.
    fn blocks(&self, x: &TensorView<'_>, format: BlockFormat, request: &QuantizeRequest) -> Result<Found, CastError> {
        let (axis, block) = (self.axes.summed, format.block());
        let (outer, inner) = (&x.shape()[..axis], &x.shape()[axis + 1..]);
        let product = |sizes: &[usize]| sizes.iter().product::<usize>();
        // Matrices whose rows lie along the axis, or whose columns do.
        let (shape, blocks) = if product(inner) == 1 {
            ([1, product(outer), x.shape()[axis]], [1, block])
        } else {
            ([product(outer), x.shape()[axis], product(inner)], [block, 1])
        };
        let bytes = x.bytes().unwrap_or_default();
        let greatest = greatest_magnitudes(&TensorView::new(x.data_type(), &shape, bytes)?, blocks)?;
        let quantize = BlockQuantize::new(format).rule(request.rule).threads(1).greatest(greatest_magnitude(x)?);
        let each = Tensor::from_slice(vec![greatest.len(), 1], &greatest)?;
        let found = quantize.run(&each.view())?;
        let mut shape = x.shape().to_vec();
        shape[axis] = shape[axis].div_ceil(block);
        let mut codes = found.scales.bytes().unwrap_or_default().to_vec();
        if format == BlockFormat::MxInt8 {
            // MXINT8 counts in 64ths, ONNX's int8 in units.
            codes.iter_mut().for_each(|code| *code = code.saturating_sub(6));
        }
        let codes = Tensor::new(format.scale(), shape, codes)?;
        let element = format.element();
        let output_dtype = Some(x.data_type()).filter(|_| format.scale() == DataType::Float8E8M0);
        let found =
            |scale, stored| Found { scale, stored, axis: axis as i64, block_size: block, element, output_dtype };
        let Some(global) = found_global(&quantize, x)? else { return Ok(found(codes, None)) };
        let global = Tensor::from_slice(Vec::new(), &[global])?;
        let dequantize = DequantizeLinear::new(&DequantizeOptions::new().output_dtype(DataType::Float))?;
        let scale = dequantize.run(&codes.view(), &global.view(), None)?;
        let output_dtype = Some(x.data_type()).filter(|&data_type| data_type != DataType::Float);
        Ok(Found { output_dtype, ..found(scale, Some((codes, global))) })
    }
}

/// NVFP4's scale of a tensor.
fn found_global(quantize: &BlockQuantize, x: &TensorView<'_>) -> Result<Option<f32>, CastError> {
    Ok(quantize.global_scale(greatest_magnitude(x)?))
}

/// Scales in another type; those that underflow become its least positive number.
fn narrow(scale: &Tensor, to: DataType) -> Result<Tensor, CastError> {
    let options = CastOptions::new();
    let narrowed = Cast::new(to, &options)?.run(&scale.view())?;
    let back = Cast::new(DataType::Float, &options)?.run(&narrowed.view())?.to_vec::<f32>().unwrap_or_default();
    if !back.contains(&0.0) {
        return Ok(narrowed);
    }
    let least = if to == DataType::Float16 { 2f32.powi(-24) } else { f32::MIN_POSITIVE };
    let scales: Vec<f32> = back.into_iter().map(|scale| if scale == 0.0 { least } else { scale }).collect();
    Cast::new(to, &options)?.run(&Tensor::from_slice(scale.shape().to_vec(), &scales)?.view())
}

impl Found {
    /// What reads the weight back as floats, for a counter.
    fn read_back(&self, counter: &Arc<Counter>) -> Result<ReadBack, OpError> {
        let options = DequantizeOptions::new().axis(self.axis).block_size(self.block_size);
        let operator = DequantizeLinear::new(&options.output_dtype(DataType::Float))?;
        let plan = operator.plan(self.element, self.scale.data_type(), None)?.with_threads(Some(1));
        Ok(ReadBack { plan, counter: Arc::clone(counter) })
    }

    /// The first opset whose DequantizeLinear reads the weight.
    fn needs(&self, shape: &[usize]) -> Option<i64> {
        let reads = |opset: i64| -> Option<()> {
            let operator = |axis, block_size, output_dtype: Option<DataType>| {
                let options = DequantizeOptions::new().opset(opset).axis(axis).block_size(block_size);
                let options = match output_dtype {
                    Some(data_type) => options.output_dtype(data_type),
                    None => options,
                };
                DequantizeLinear::new(&options).ok()
            };
            if let Some((codes, global)) = &self.stored {
                operator(1, 0, None)?.plan(codes.data_type(), global.data_type(), None).ok()?;
            }
            let block = operator(self.axis, self.block_size, self.output_dtype)?;
            let plan = block.plan(self.element, self.scale.data_type(), None).ok()?;
            plan.bind(shape, &self.scale.view(), None).ok().map(drop)
        };
        // Version 10 knows no axis, whose default it takes.
        let first = if self.scale.shape().is_empty() { 10 } else { 13 };
        (first..=NEWEST_OPSET).find(|&opset| reads(opset).is_some())
    }
}
