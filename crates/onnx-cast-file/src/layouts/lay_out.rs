//! The tensors that a layout has for a weight, from its row.

use super::format::{Activations, Granularity, QuantizedFormat, WeightFormat};
use super::gguf::BLOCK as GGUF_BLOCK;
use super::spec::{EXPERTS, Experts, Held, LayoutSpec, Loaders, Names, SHAPE};
use super::table::Layout;
use super::tiles::tiled;
use super::weight::Weight;
use super::written::{Integers, Order, WrittenWeight};
use crate::formats::error::{Invalid, InvalidKind};
use crate::formats::format::Format;
use crate::formats::input::{Location, StoredTensor};
use crate::text::Wording;
use DataType::{BFloat16, Float, Float8E4M3FN, Float8E8M0, Float16, Int4, Int8, Int32, Uint8};
use onnx_cast::DataType;
use onnx_cast::scaled::BlockFormat;

/// The matrices of a weight, by its shape and its name, and the names of its elements and scales.
struct Form<'n> {
    /// How many there are, their rows and their columns.
    matrices: [usize; 3],
    module: &'n str,
    order: Order,
    experts: Option<&'static Experts>,
    elements: String,
    scales: String,
}

impl Layout {
    /// What a plain weight becomes.
    pub(crate) fn write(
        self,
        stored: &StoredTensor,
        WeightFormat { format: to, granularity }: WeightFormat,
        activations: Option<Activations>,
    ) -> Result<WrittenWeight, Invalid> {
        if !matches!(stored.data_type, Float | Float16 | BFloat16) {
            return Err(stored.unfit("float, float16 or bfloat16 to quantize"));
        }
        let written = self.lay_out(stored, to, self.choose(to, granularity, activations)?)?;
        written.check_words(&stored.name)?;
        self.check_columns(&stored.name, &written)?;
        Ok(written)
    }

    /// Returns whether loaders of the layout join matrices. They do if the layout has a quantization configuration.
    pub(crate) fn is_joined(self) -> bool {
        self.spec().configuration.is_some()
    }

    /// Returns the loaders of such weights in the layout; `None` if they are unknown because the layout is only read.
    pub(crate) fn loaders_of(self, to: QuantizedFormat, granularity: Granularity) -> Option<&'static [&'static str]> {
        let held = self.spec().held;
        let found = held.iter().find(|held| held.formats.contains(&to) && held.contains(granularity));
        match found.map(|held| held.loaders) {
            Some(Loaders::Are(loaders)) => Some(loaders),
            Some(Loaders::None(_)) => Some(&[]),
            None => (!held.is_empty()).then_some(&[]),
        }
    }

    /// Returns the treatments of activations with which a loader loads experts with such weights; `None` if it was not
    /// tried.
    pub(crate) fn experts_of(
        self,
        to: QuantizedFormat,
        granularity: Granularity,
        loader: &str,
    ) -> Option<&'static [Activations]> {
        let mut held = self.spec().held.iter();
        let held = held.find(|held| held.formats.contains(&to) && held.contains(granularity))?;
        held.experts.iter().find(|(known, _)| *known == loader).map(|(_, activations)| *activations)
    }

    /// Returns the treatments of activations that vLLM and SGLang support beside such weights.
    pub(crate) fn activations_of(self, to: QuantizedFormat, granularity: Granularity) -> Vec<Activations> {
        let held = self.spec().held.iter();
        let held = held.filter(|held| held.formats.contains(&to) && held.contains(granularity));
        held.flat_map(|held| held.activations).copied().collect()
    }

    /// Returns whether a program loads any format in this layout.
    pub(crate) fn has_loader(self, program: &str) -> bool {
        let loads = |held: &Held| matches!(held.loaders, Loaders::Are(programs) if programs.contains(&program));
        self.spec().held.iter().any(loads)
    }

    /// Refuses blocks with fewer columns than others, where the layout's loaders do.
    pub(crate) fn check_columns(self, name: &str, written: &WrittenWeight) -> Result<(), Invalid> {
        let ([_, rows, columns], [down, across]) = (written.matrices, written.block);
        let is_block = matches!(written.granularity, Granularity::Block(_)) && down > 1 && !written.are_experts;
        if self.spec().has_short_columns || !is_block || columns.is_multiple_of(across) {
            return Ok(());
        }
        let (data_type, to) = (written.scale_type, written.to);
        let what = format!("{data_type} of shape {rows}x{columns} (want columns in blocks of {across} for {to}; ");
        let what = Wording::from(what).field("exclude", " keeps the tensor)");
        Err(Invalid::new(InvalidKind::Size, what).of_tensor(name))
    }

    /// What a quantized weight becomes, with the same scales, or for smaller parts if the layout has no others.
    pub(crate) fn write_quantized(
        self,
        weight: &Weight,
        to: QuantizedFormat,
        granularity: Granularity,
        activations: Option<Activations>,
    ) -> Result<WrittenWeight, Invalid> {
        let stored = StoredTensor {
            name: weight.name.clone(),
            data_type: Float,
            shape: weight.values.clone(),
            len: weight.len(),
            place: Location::Memory(Vec::new()),
        };
        let smaller = match (granularity, to) {
            (_, QuantizedFormat::Block(format)) => vec![Granularity::Block([1, format.block()])],
            _ if to == QuantizedFormat::Elements(Float8E4M3FN) && weight.element_type() != Float8E4M3FN => {
                vec![Granularity::Block([128, 128])]
            }
            (Granularity::Tensor, _) => vec![granularity, Granularity::Row, Granularity::Block([128, 128])],
            (Granularity::Row | Granularity::Block(_), _) => vec![granularity],
        };
        let choose = |granularity: &Granularity| self.choose(to, Some(*granularity), activations);
        // Where none fits, the error is about one that would, but for activations.
        let would_fit = |granularity: &&Granularity| self.choose(to, Some(**granularity), None).is_ok();
        let found = smaller.iter().map(choose).find(Result::is_ok);
        let found = found.or_else(|| smaller.iter().find(would_fit).or(smaller.last()).map(choose));
        self.lay_out(&stored, to, found.unwrap_or_else(|| self.choose(to, None, activations))?)
    }

    /// Refuses a layout of other files than `.safetensors`.
    pub(crate) fn check_file(self, to: QuantizedFormat) -> Result<(), Invalid> {
        let file = self.spec().file;
        if file == Format::Safetensors {
            return Ok(());
        }
        if let QuantizedFormat::Gguf(_) = to {
            let what =
                format!("{to}: not a format of quantized weights in other files than {file} (want an output {file})");
            return Err(Invalid::new(InvalidKind::Unsupported, what));
        }
        Err(self.not_held(to, &format!("they are in {file} files, which `quantize` writes of plain weights in files")))
    }

    /// Whether a program loads weights of a format.
    pub(crate) fn is_loaded_by(self, to: QuantizedFormat, program: &str) -> bool {
        let mut held = self.spec().held.iter().filter(|held| held.formats.contains(&to));
        held.any(|held| matches!(held.loaders, Loaders::Are(programs) if programs.contains(&program)))
    }

    /// What has a scale, and whether the layout has that.
    pub(crate) fn granularity(self, to: QuantizedFormat, asked: Option<Granularity>) -> Result<Granularity, Invalid> {
        self.choose(to, asked, None).map(|(granularity, _)| granularity)
    }

    /// What has a scale, and what becomes of activations, where the layout's loaders read both together.
    fn choose(
        self,
        to: QuantizedFormat,
        asked: Option<Granularity>,
        activations: Option<Activations>,
    ) -> Result<(Granularity, Activations), Invalid> {
        let refuse = |reason: String| Err(self.not_held(to, &reason));
        if self.is_only_read() {
            return refuse(
                "the layout can only be read (want compressed-tensors, which transformers and vLLM load)".to_owned(),
            );
        }
        let known = self.spec().held.iter().filter(|held| held.formats.contains(&to));
        let known: Vec<(Granularity, &Held)> = match to {
            QuantizedFormat::Block(format) => {
                known.map(|held| (Granularity::Block([1, format.block()]), held)).collect()
            }
            QuantizedFormat::Gguf(_) => known.map(|held| (Granularity::Block([1, GGUF_BLOCK]), held)).collect(),
            QuantizedFormat::Elements(_) => known
                .filter_map(|held| Some((asked.filter(|asked| held.contains(*asked)).or(held.default())?, held)))
                .collect(),
        };
        let Some(&(first, _)) = known.first() else {
            return refuse("the layout has no such weights".to_owned());
        };
        let is_asked = |(granularity, _): &&(Granularity, &Held)| asked.is_none_or(|asked| asked == *granularity);
        let Some(&(granularity, held)) = known.iter().find(is_asked) else {
            return match (to, asked) {
                (QuantizedFormat::Elements(_), Some(asked)) => refuse(format!("the layout has no {to}/{asked}")),
                _ => refuse(format!("its blocks have {first} elements")),
            };
        };
        if let Loaders::None(reason) = held.loaders {
            return refuse(reason.to_owned());
        }
        let fits = |held: &Held| held.choice(activations);
        let found = known.iter().filter(is_asked).find_map(|(granularity, held)| Some((*granularity, fits(held)?)));
        if let Some(found) = found {
            return Ok(found);
        }
        let others: Vec<String> =
            known.iter().filter(|(_, held)| fits(held).is_some()).map(|(other, _)| format!("{to}/{other}")).collect();
        let want = if others.is_empty() { String::new() } else { format!(" (want {})", others.join(" or ")) };
        match activations {
            None => refuse(format!(
                "loaders of its {to}/{granularity} need scales of activations, which take calibration \
                                data{want}"
            )),
            Some(activations) => {
                let names: Vec<&str> = held.activations.iter().map(|known| known.name()).collect();
                refuse(format!(
                    "loaders of its {to}/{granularity} have activations {}, not {activations}{want}",
                    names.join(" or ")
                ))
            }
        }
    }

    /// The loaders of such weights, by their sources; none where the layout does not hold them.
    pub fn loaders(self, to: QuantizedFormat, granularity: Option<Granularity>) -> &'static [&'static str] {
        let holds = |held: &&Held| {
            let is_meant = granularity.is_none_or(|granularity| held.contains(granularity));
            held.formats.contains(&to) && is_meant
        };
        match self.spec().held.iter().find(holds).map(|held| held.loaders) {
            Some(Loaders::Are(loaders)) => loaders,
            _ => &[],
        }
    }

    /// Whether weights in the layout are read and never written.
    pub(crate) fn is_only_read(self) -> bool {
        self.spec().held.is_empty()
    }

    /// A format that the layout does not have.
    pub(crate) fn not_held(self, to: QuantizedFormat, reason: &str) -> Invalid {
        let what = format!("{} does not support {}: {reason}", self.name(), to.name());
        Invalid::new(InvalidKind::Unsupported, what)
    }

    /// Whether weights of Linear layers are held.
    pub(crate) fn holds_matrices(self) -> bool {
        !self.spec().names.is_empty()
    }

    /// Whether experts in one tensor are quantized unless a rule says otherwise.
    pub(crate) fn takes_experts(self, WeightFormat { format: to, granularity }: WeightFormat) -> bool {
        self.spec().experts.as_ref().is_some_and(|experts| {
            let chosen = || self.granularity(to, granularity);
            let holds = |held: &Held| chosen().is_ok_and(|granularity| held.contains(granularity));
            experts.by_default && experts.only.is_none_or(|(all, _)| held(all, to).is_some_and(holds))
        })
    }

    /// The tensors of a weight.
    fn lay_out(
        self,
        stored: &StoredTensor,
        to: QuantizedFormat,
        (granularity, activations): (Granularity, Activations),
    ) -> Result<WrittenWeight, Invalid> {
        let spec = self.spec();
        self.check_file(to)?;
        let (element, scale_type) = match to {
            QuantizedFormat::Block(format) => (format.element(), format.scale()),
            QuantizedFormat::Elements(element) if spec.arithmetic.in_weight_type => (element, stored.data_type),
            QuantizedFormat::Elements(_) | QuantizedFormat::Gguf(_) => (to.element(), Float),
        };
        // Loaders have integers in words only beside activations that keep their type.
        let are_integers = matches!(to, QuantizedFormat::Elements(Int4 | Int8));
        let are_words = spec.packs_integers && are_integers && activations == Activations::Kept;
        let is_block = matches!(to, QuantizedFormat::Block(_));
        let is_packed = are_words || is_block && element.is_packed();
        let form = self.form(stored, to, is_packed)?;
        let block = block_of(stored, to, granularity, &form)?;
        let is_in_tiles = spec.has_tiles && is_block && fits_tiles(stored, form.matrices, block)?;
        if let Some((all, reason)) = form.experts.and_then(|experts| experts.only)
            && !held(all, to).is_some_and(|held| held.contains(granularity))
        {
            return Err(self.not_held(to, reason));
        }
        let Form { matrices, module, order, experts, elements, scales } = form;
        let global = spec.global.name(module, &scales);
        Ok(WrittenWeight {
            module: module.strip_suffix('.').unwrap_or(module).to_owned(),
            to,
            granularity,
            activations,
            settings: None,
            matrices,
            order,
            are_experts: experts.is_some(),
            container: match element {
                _ if are_words => Int32,
                _ if is_packed && !spec.is_typed => Uint8,
                element => element,
            },
            scales_shape: scales_shape(
                spec,
                granularity,
                matrices,
                block,
                experts.map(|experts| (experts, &*elements)),
            ),
            elements,
            scales,
            scale_type,
            is_in_tiles,
            scale_container: if scale_type == Float8E8M0 && !spec.is_typed { Uint8 } else { scale_type },
            keeps_scale_type: spec.keeps_scale_type,
            divides: spec.global.divides,
            global: (to == QuantizedFormat::Block(BlockFormat::NvFp4)).then(|| (global, spec.global.shape.to_vec())),
            shape: are_words.then(|| format!("{module}{SHAPE}")),
            arithmetic: spec.arithmetic,
            integers: Integers {
                bits: if to == QuantizedFormat::Elements(Int4) { 4 } else { 8 },
                are_symmetric: true,
                have_groups: false,
            },
            block,
        })
    }

    /// The matrices of a weight, where the layout has a place for them.
    fn form<'n>(self, stored: &'n StoredTensor, to: QuantizedFormat, is_packed: bool) -> Result<Form<'n>, Invalid> {
        let (spec, name) = (self.spec(), &*stored.name);
        let module = name.strip_suffix("weight");
        if let (&[count, rows, columns], Some(experts), None) = (&stored.shape[..], &spec.experts, module)
            && let Some((elements, scales)) = experts.names.iter().find_map(|names| names.of_values(name))
        {
            let order = if matches!(to, QuantizedFormat::Block(_)) { experts.order } else { Order::Same };
            let (matrices, module) = match order {
                Order::Exchanged => ([count, columns, rows], name),
                // Both weights of a layer are of one module.
                _ => ([count, rows, columns], name.rsplit_once('.').map_or(name, |(module, _)| module)),
            };
            return Ok(Form { matrices, module, order, experts: Some(experts), elements, scales });
        }
        let Some(names) = spec.matrix_names(is_packed) else {
            return Err(stored.unfit("the matrices of all experts, as gate_up_proj and down_proj"));
        };
        match (&stored.shape[..], module) {
            (&[rows, columns], Some(module)) => {
                let (elements, scales) = (format!("{module}{}", names.elements), format!("{module}{}", names.scales));
                let (matrices, order) = ([1, rows, columns], Order::Same);
                Ok(Form { matrices, module, order, experts: None, elements, scales })
            }
            ([_, _, _], _) if spec.experts.is_none() => {
                let layout = spec.name;
                let want = format!("a matrix: {layout} has no experts in one tensor, each is a weight of its own");
                Err(stored.unfit(want))
            }
            _ => Err(stored.unfit("a matrix whose name ends in `weight`")),
        }
    }
}

impl LayoutSpec {
    /// The endings of a matrix's tensors; `None` where only experts are held.
    fn matrix_names(&self, is_packed: bool) -> Option<&Names> {
        let is_meant = |names: &&Names| names.elements.ends_with("_packed") == is_packed;
        self.names.iter().find(is_meant).or(self.names.first())
    }
}

/// What is held in a format.
fn held(all: &'static [Held], to: QuantizedFormat) -> Option<&'static Held> {
    all.iter().find(|held| held.formats.contains(&to))
}

/// Rows and columns of a block.
fn block_of(
    stored: &StoredTensor,
    to: QuantizedFormat,
    granularity: Granularity,
    form: &Form<'_>,
) -> Result<[usize; 2], Invalid> {
    let [_, rows, columns] = form.matrices;
    let block = match granularity {
        Granularity::Tensor => [rows.max(1), columns.max(1)],
        Granularity::Row if form.experts.is_some() => [rows.max(1), 1],
        Granularity::Row => [1, columns.max(1)],
        Granularity::Block([1, block]) if form.order == Order::Down => [block, 1],
        Granularity::Block(block) => block,
    };
    let is_short = [rows, columns].iter().zip(block).any(|(size, block)| !size.is_multiple_of(block));
    // Blocks of several rows may be smaller at the edges; no layout has such blocks within rows.
    if is_short && (to != QuantizedFormat::Elements(Float8E4M3FN) || block[0] == 1) {
        let (axis, size) = if form.order == Order::Down { ("rows", block[0]) } else { ("columns", block[1]) };
        let want = Wording::from(format!("{axis} in blocks of {size} for {to}; "));
        return Err(stored.unfit(want.field("exclude", " keeps the tensor")));
    }
    Ok(block)
}

/// Rejects matrices that ComfyUI would pad, and matrices whose panels of 128 rows are too large to compute at once.
fn fits_tiles(stored: &StoredTensor, [_, rows, columns]: [usize; 3], [_, block]: [usize; 2]) -> Result<bool, Invalid> {
    /// Max number of columns of a panel.
    const MOST: usize = 1 << 16;
    let want = match (rows.is_multiple_of(block), columns <= MOST) {
        (true, true) => return Ok(true),
        (false, _) => format!("rows in blocks of {block}, which ComfyUI would pad; "),
        (true, false) => format!("at most {MOST} columns; "),
    };
    Err(stored.unfit(Wording::from(want).field("exclude", " keeps the tensor")))
}

/// The shape of the scales; of experts, their elements are named too.
fn scales_shape(
    spec: &LayoutSpec,
    granularity: Granularity,
    [count, rows, columns]: [usize; 3],
    [down, across]: [usize; 2],
    experts: Option<(&Experts, &str)>,
) -> Vec<usize> {
    let grid = [rows.div_ceil(down), columns.div_ceil(across)];
    match (granularity, experts) {
        (Granularity::Tensor, Some(_)) => Vec::new(),
        (Granularity::Tensor, None) => spec.tensor_scale.to_vec(),
        (Granularity::Row, Some((experts, name))) if experts.have_scales_of_columns && name.ends_with(EXPERTS[1]) => {
            vec![count, grid[1], grid[0]]
        }
        (_, Some(_)) => vec![count, grid[0], grid[1]],
        (Granularity::Block(_), None) if spec.has_tiles => tiled(&grid),
        (Granularity::Row, None) if !spec.has_column_of_scales => vec![rows],
        (Granularity::Block([height, _]), None) if height > 1 && spec.has_axes_between => vec![grid[0], 1, grid[1], 1],
        _ => grid.to_vec(),
    }
}

/// Whether a tensor holds the experts of a layer, by its name and its shape, and is one of those that are quantized.
pub(crate) fn are_experts(stored: &StoredTensor) -> bool {
    let is_named = |end: &&str| stored.name.strip_suffix(end).is_some_and(|start| start.ends_with('.'));
    stored.shape.len() == 3 && EXPERTS.iter().any(is_named) && stored.name.contains(".experts.")
}
