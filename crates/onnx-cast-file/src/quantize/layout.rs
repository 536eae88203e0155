//! What each layout holds for a weight: the names, types and shapes of its tensors, and what configurations say.

pub(super) mod experts;

use super::QuantizeRequest;
use super::format::{Granularity, QuantizedFormat};
use super::numbers::Numbers;
use crate::formats::input::{Place, Stored};
use crate::layouts::{LayoutError, Scheme, TensorRef, Weight};
use crate::rewrite::{Origin, Row};
use crate::summary::TensorSummary;
use DataType::{BFloat16, Float, Float8E4M3FN, Float8E5M2, Float8E8M0, Float16, Int4, Int8, Int32, Uint8};
use experts::Form;
use onnx_cast::{BlockFormat, DataType};

/// How weights are laid out.
#[derive(Clone, Copy)]
pub(crate) struct Plan<'a> {
    pub(super) layout: Scheme,
    pub(crate) request: &'a QuantizeRequest,
}

/// How elements lie beside the values that they stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// As the values do.
    Same,
    /// With rows and columns exchanged: experts of gpt-oss.
    Exchanged,
    /// As the values do, but two rows in a byte, and blocks go down the rows: NVFP4 experts of ModelOpt.
    Down,
}

/// What configurations say of integers.
#[derive(Clone, Copy)]
pub(crate) struct Integers {
    pub(crate) bits: u32,
    /// Whether all zero points are 0.
    pub(crate) are_symmetric: bool,
    /// Whether each column tells its group.
    pub(crate) have_groups: bool,
}

/// A weight that is quantized, and the tensors that hold it.
pub(crate) struct Chosen {
    /// The name of the weight without its last part.
    pub(crate) module: String,
    pub(crate) to: QuantizedFormat,
    pub(crate) granularity: Granularity,
    /// How many matrices there are, their rows and their columns.
    pub(crate) matrices: [usize; 3],
    /// How the elements lie.
    pub(crate) order: Order,
    /// Whether the tensor holds the matrices of all experts of a layer.
    pub(crate) are_experts: bool,
    /// The name of the elements, and the type of what holds them.
    pub(crate) elements: String,
    pub(crate) container: DataType,
    /// The name of the scales, the type that they are computed in, and the one that the file gives them.
    pub(crate) scales: String,
    pub(crate) scale_type: DataType,
    pub(crate) scale_container: DataType,
    /// Whether a type of float scales that the weight has already may stay.
    pub(crate) keeps_scale_type: bool,
    /// Whether NVFP4's global scale is a divisor.
    pub(crate) divides: bool,
    /// The name and the shape of NVFP4's global scale.
    pub(crate) global: Option<(String, Vec<usize>)>,
    /// The name of the shape, where elements are packed in words.
    pub(crate) shape: Option<String>,
    /// How scales and elements are computed.
    pub(crate) numbers: Numbers,
    pub(crate) integers: Integers,
    /// Rows and columns of a block.
    pub(crate) block: [usize; 2],
}

impl Chosen {
    /// The shape of the elements, of so many bits, in what holds them.
    pub(crate) fn elements_shape(&self, bits: usize) -> Vec<usize> {
        let [count, rows, columns] = self.matrices;
        let width = |len| len * bits / self.container.bits().unwrap_or(8);
        let block = self.block[1];
        match self.order {
            Order::Exchanged => vec![count, rows, columns / block, width(block)],
            Order::Down => vec![count, width(rows), columns],
            Order::Same if self.are_experts => vec![count, rows, width(columns)],
            Order::Same => vec![rows, width(columns)],
        }
    }

    /// The shape of the scales. Those of one tensor have no axes in ComfyUI, nor where ModelOpt has experts.
    pub(crate) fn scales_shape(&self) -> Vec<usize> {
        let [count, rows, columns] = self.matrices;
        let [down, across] = self.block;
        match self.granularity {
            Granularity::Tensor if self.are_experts || self.scales.ends_with("scale_weight") => Vec::new(),
            Granularity::Tensor => vec![1],
            // fbgemm has the columns of this weight as an axis before the last.
            Granularity::Axis if self.are_experts && self.elements.ends_with("down_proj") => {
                vec![count, columns, rows.div_ceil(down)]
            }
            _ if self.are_experts => vec![count, rows.div_ceil(down), columns.div_ceil(across)],
            _ => vec![rows.div_ceil(down), columns.div_ceil(across)],
        }
    }

    /// Refuses rows that end within a word of integers.
    pub(crate) fn check_words(&self, name: &str) -> Result<(), LayoutError> {
        let [_, rows, columns] = self.matrices;
        if self.container != Int32 || (columns * self.integers.bits as usize).is_multiple_of(32) {
            return Ok(());
        }
        let want = "columns that fill words of 32 bits (--exclude keeps the tensor)".to_owned();
        let (tensor, data_type, shape) = (name.to_owned(), self.scale_type, vec![rows, columns]);
        Err(LayoutError::Part { tensor, data_type, shape, want })
    }

    /// Whether each matrix has blocks of its own, of several rows.
    pub(crate) fn is_cut_by_matrix(&self) -> bool {
        self.are_experts && self.order == Order::Same && self.granularity != Granularity::Tensor
    }

    /// Whether the greatest magnitude of the tensor is needed before its elements.
    pub(crate) fn needs_greatest(&self) -> bool {
        self.to == QuantizedFormat::Block(BlockFormat::NvFp4) || self.granularity == Granularity::Tensor
    }
}

impl<'a> Plan<'a> {
    pub(crate) fn new(request: &'a QuantizeRequest) -> Plan<'a> {
        Plan { layout: request.layout.unwrap_or(Scheme::CompressedTensors), request }
    }

    pub(crate) fn layout(&self) -> Scheme {
        self.layout
    }

    /// What a weight becomes.
    pub(crate) fn choose(&self, stored: &Stored, to: QuantizedFormat) -> Result<Chosen, LayoutError> {
        if !matches!(stored.data_type, Float | Float16 | BFloat16) {
            return Err(unfit(stored, "float, float16 or bfloat16 to quantize".to_owned()));
        }
        let granularity = self.granularity(to, self.request.granularity)?;
        let chosen = self.lay_out(stored, to, granularity)?;
        chosen.check_words(&stored.name)?;
        Ok(chosen)
    }

    /// What a quantized weight becomes, with the same scales, or for smaller parts if the layout has no others.
    pub(crate) fn name_weight(
        &self,
        weight: &Weight,
        to: QuantizedFormat,
        granularity: Granularity,
    ) -> Result<Chosen, LayoutError> {
        let stored = Stored {
            name: weight.name.clone(),
            data_type: Float,
            shape: weight.values.clone(),
            len: weight.len(),
            place: Place::Memory(Vec::new()),
        };
        let smaller = match (granularity, to) {
            (_, QuantizedFormat::Block(format)) => vec![Granularity::Block([1, format.block()])],
            _ if to == QuantizedFormat::Elements(Float8E4M3FN) && weight.element_type() != Float8E4M3FN => {
                vec![Granularity::Block([128, 128])]
            }
            (Granularity::Tensor, _) => vec![granularity, Granularity::Axis, Granularity::Block([128, 128])],
            (Granularity::Axis | Granularity::Block(_), _) => vec![granularity],
        };
        let found = smaller.into_iter().map(|granularity| self.granularity(to, Some(granularity)));
        let found = found.reduce(|first, next| first.or(next));
        self.lay_out(&stored, to, found.unwrap_or(Ok(granularity))?)
    }

    /// The tensors of a weight.
    fn lay_out(&self, stored: &Stored, to: QuantizedFormat, granularity: Granularity) -> Result<Chosen, LayoutError> {
        let Form { matrices, module, order, are_experts } = self.form(stored, to)?;
        let [_, rows, columns] = matrices;
        let block = match granularity {
            Granularity::Tensor => [rows.max(1), columns.max(1)],
            Granularity::Axis if are_experts => [rows.max(1), 1],
            Granularity::Axis => [1, columns.max(1)],
            Granularity::Block([1, block]) if order == Order::Down => [block, 1],
            Granularity::Block(block) => block,
        };
        let is_short = [rows, columns].iter().zip(block).any(|(size, block)| !size.is_multiple_of(block));
        // Blocks of several rows may be smaller at the edges; no layout has such blocks within rows.
        if is_short && (to != QuantizedFormat::Elements(Float8E4M3FN) || block[0] == 1) {
            let (axis, size) = if order == Order::Down { ("rows", block[0]) } else { ("columns", block[1]) };
            let want = format!("{axis} in blocks of {size} for {to} (--exclude keeps the tensor)");
            return Err(unfit(stored, want));
        }
        let numbers = Numbers::new(self.layout, to, granularity, stored.data_type);
        let mut chosen = Chosen {
            module: module.strip_suffix('.').unwrap_or(module).to_owned(),
            to,
            granularity,
            matrices,
            order,
            are_experts,
            elements: format!("{module}weight"),
            container: Uint8,
            scales: format!("{module}weight_scale"),
            scale_type: numbers.scale_type,
            scale_container: numbers.scale_type,
            keeps_scale_type: matches!(self.layout, Scheme::CompressedTensors | Scheme::Plain),
            global: None,
            divides: self.layout == Scheme::CompressedTensors,
            shape: None,
            numbers,
            integers: Integers {
                bits: if to == QuantizedFormat::Elements(Int4) { 4 } else { 8 },
                are_symmetric: true,
                have_groups: false,
            },
            block,
        };
        match to {
            QuantizedFormat::Block(format) => self.lay_out_blocks(&mut chosen, format, module),
            QuantizedFormat::Elements(data_type) => self.lay_out_elements(&mut chosen, data_type, module),
        }
        if are_experts && order != Order::Exchanged {
            self.name_experts(&mut chosen, &stored.name)?;
        }
        Ok(chosen)
    }

    /// What has a scale, and whether the layout has that.
    fn granularity(&self, to: QuantizedFormat, asked: Option<Granularity>) -> Result<Granularity, LayoutError> {
        granularity_in(self.layout, to, asked)
    }

    fn lay_out_blocks(&self, chosen: &mut Chosen, format: BlockFormat, module: &str) {
        let is_packed = format.element().is_packed();
        chosen.scale_container = match (self.layout, format.scale()) {
            (Scheme::Plain, data_type) => data_type,
            (_, Float8E8M0) => Uint8,
            (_, data_type) => data_type,
        };
        chosen.container = if is_packed && self.layout != Scheme::Plain { Uint8 } else { format.element() };
        if chosen.order == Order::Exchanged {
            (chosen.elements, chosen.scales) = (format!("{module}_blocks"), format!("{module}_scales"));
        }
        if self.layout == Scheme::CompressedTensors && is_packed {
            chosen.elements = format!("{module}weight_packed");
        }
        if format == BlockFormat::NvFp4 {
            chosen.global = Some(match self.layout {
                Scheme::CompressedTensors => (format!("{module}weight_global_scale"), vec![1]),
                _ => (format!("{module}weight_scale_2"), Vec::new()),
            });
        }
    }

    fn lay_out_elements(&self, chosen: &mut Chosen, data_type: DataType, module: &str) {
        chosen.container = data_type;
        match self.layout {
            Scheme::DeepSeek => chosen.scales = format!("{module}weight_scale_inv"),
            Scheme::ComfyUi => chosen.scales = format!("{module}scale_weight"),
            Scheme::CompressedTensors if matches!(data_type, Int4 | Int8) => {
                chosen.container = Int32;
                chosen.elements = format!("{module}weight_packed");
                chosen.shape = Some(format!("{module}weight_shape"));
            }
            _ => {}
        }
    }

    /// The tensor by which ComfyUI knows scaled weights.
    pub(crate) fn marker<'r>(&self) -> Option<Row<'r>> {
        let summary = TensorSummary { cast: true, ..TensorSummary::kept("scaled_fp8", vec![2], Float8E4M3FN, 2) };
        let tensor = TensorRef { file: 0, tensor: 0 };
        (self.layout == Scheme::ComfyUi).then(|| Row { summary, tensor, origin: Origin::Bytes(vec![0; 2]) })
    }
}

/// What has a scale in a layout, which must have that.
fn granularity_in(layout: Scheme, to: QuantizedFormat, asked: Option<Granularity>) -> Result<Granularity, LayoutError> {
    let refuse = |reason: String| Err(LayoutError::Unsupported { layout: layout.name(), to: to.name(), reason });
    let (known, default) = match (layout, to) {
        (Scheme::CompressedTensors, QuantizedFormat::Block(BlockFormat::MxFp6E3M2 | BlockFormat::MxInt8))
        | (Scheme::CompressedTensors | Scheme::ModelOpt, QuantizedFormat::Block(BlockFormat::MxFp8E5M2))
        | (
            Scheme::ModelOpt,
            QuantizedFormat::Block(BlockFormat::MxFp6E2M3 | BlockFormat::MxFp6E3M2 | BlockFormat::MxInt8),
        )
        | (Scheme::Quark | Scheme::GptOss, QuantizedFormat::Elements(_))
        | (Scheme::DeepSeek | Scheme::Fbgemm | Scheme::ComfyUi, QuantizedFormat::Block(_)) => {
            (false, Granularity::Axis)
        }
        (Scheme::Quark | Scheme::GptOss, QuantizedFormat::Block(format)) => {
            (format == BlockFormat::MxFp4, Granularity::Axis)
        }
        (_, QuantizedFormat::Block(_)) => (true, Granularity::Axis),
        (Scheme::CompressedTensors, QuantizedFormat::Elements(data_type)) => {
            (data_type != Float8E5M2, if data_type == Int4 { Granularity::Block([1, 32]) } else { Granularity::Axis })
        }
        (Scheme::Plain, QuantizedFormat::Elements(data_type)) => (data_type != Int4, Granularity::Axis),
        (layout, QuantizedFormat::Elements(data_type)) => (
            data_type == Float8E4M3FN,
            match layout {
                Scheme::DeepSeek => Granularity::Block([128, 128]),
                Scheme::Fbgemm => Granularity::Axis,
                _ => Granularity::Tensor,
            },
        ),
    };
    if !known {
        return refuse("the layout has no such weights".to_owned());
    }
    if let QuantizedFormat::Block(format) = to {
        let block = Granularity::Block([1, format.block()]);
        return match asked {
            Some(asked) if asked != block => refuse(format!("its blocks are {}", block)),
            _ => Ok(block),
        };
    }
    let granularity = asked.unwrap_or(default);
    let is_known = match (layout, granularity) {
        (Scheme::Fbgemm, granularity) => granularity == Granularity::Axis,
        (Scheme::ComfyUi, granularity) => granularity == Granularity::Tensor,
        // No configuration tells the size of blocks: their number in a row has to.
        (Scheme::Plain, Granularity::Block([rows, _])) => rows == 1,
        (Scheme::DeepSeek, granularity) => matches!(granularity, Granularity::Block(_)),
        (Scheme::ModelOpt, granularity) => {
            matches!(granularity, Granularity::Tensor | Granularity::Axis | Granularity::Block([128, 128]))
        }
        (Scheme::CompressedTensors, Granularity::Block([rows, _])) => {
            (rows == 1) == matches!(to, QuantizedFormat::Elements(Int4 | Int8))
        }
        _ => true,
    };
    if is_known { Ok(granularity) } else { refuse(format!("the layout has no scales by {granularity}")) }
}

/// The arithmetic that a report predicts: a layout's, or the default one's; the plain one's where it lacks such weights.
pub(crate) fn predicted(
    layout: Option<Scheme>,
    to: QuantizedFormat,
    granularity: Option<Granularity>,
    from: DataType,
) -> Numbers {
    let layout = layout.unwrap_or(Scheme::CompressedTensors);
    match granularity_in(layout, to, granularity) {
        Ok(granularity) => Numbers::new(layout, to, granularity, from),
        Err(_) => Numbers::new(Scheme::Plain, to, granularity.unwrap_or(Granularity::Axis), from),
    }
}

/// A tensor that a layout has no place for.
pub(super) fn unfit(stored: &Stored, want: String) -> LayoutError {
    let (tensor, data_type, shape) = (stored.name.clone(), stored.data_type, stored.shape.clone());
    LayoutError::Part { tensor, data_type, shape, want }
}
