//! What `quantize` would write for the candidates of a report: its own plan, so that sizes agree to the byte.

use super::source::{FileSource, TensorSource};
use super::survey::Facts;
use super::{CandidateFormat, ReportRequest};
use crate::checkpoint::{Checkpoint, Configuration, TensorRef};
use crate::error::FileError;
use crate::formats::error::InvalidKind;
use crate::formats::format::Format;
use crate::formats::input::{Input, Location, StoredTensor};
use crate::io::positional::{InputFile, ReadAt};
use crate::layouts::{self, Layout, Model};
use crate::loaders::Rules;
use crate::quantize::{QuantizeRequest, forecast};
use crate::selection::Selection;
use crate::summary::TensorSummary;
use onnx_cast::TensorView;
use std::collections::HashMap;
use std::path::Path;

/// What [`quantize_file`](crate::quantize_file) would write for a candidate with scales, and why
/// [`cast_file`](crate::cast_file) would refuse one without.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Forecast {
    /// The candidate.
    pub to: CandidateFormat,
    /// The layout: that of the request, unless it lacks the format; then the plain one.
    pub layout: Layout,
    /// Bytes of the elements of all tensors in the input.
    pub bytes_before: u64,
    /// Bytes of the elements of all tensors in the output, scales and kept tensors included. The headers of files are
    /// not.
    pub bytes_after: u64,
    /// The matrices that are kept, each with the reason.
    pub kept: Vec<(String, String)>,
    /// Why `quantize` or `cast` would refuse. The figures are then those of all tensors.
    pub refused: Option<String>,
}

impl Forecast {
    /// The forecasts of several checkpoints. `named` gives a tensor of the last one its name among all.
    pub(super) fn joined(all: Vec<Forecast>, more: Vec<Forecast>, named: impl Fn(&str) -> String) -> Vec<Forecast> {
        let mut all = all;
        for one in more {
            let kept = one.kept.into_iter().map(|(name, reason)| (named(&name), reason));
            match all.iter_mut().find(|known| known.to == one.to) {
                Some(known) => {
                    known.bytes_before += one.bytes_before;
                    known.bytes_after += one.bytes_after;
                    known.kept.extend(kept);
                    known.refused = known.refused.take().or(one.refused);
                }
                None => all.push(Forecast { kept: kept.collect(), ..one }),
            }
        }
        all
    }
}

/// The forecasts of a report.
#[derive(Default)]
pub(super) struct Forecasts {
    planned: Vec<Planned>,
    model: Model,
}

struct Planned {
    forecast: Forecast,
    /// The bytes of each tensor that is quantized, with those of its scales.
    quantized: HashMap<TensorRef, u64>,
}

impl Forecasts {
    /// Returns the rules of all loaders for the model.
    pub(super) fn rules(&self) -> Rules {
        self.model.rules()
    }

    /// Those of the scaled candidates, for a checkpoint.
    pub(super) fn of_checkpoint(
        checkpoint: &Checkpoint,
        sources: &[FileSource<'_>],
        path: &Path,
        request: &ReportRequest,
    ) -> Result<Forecasts, FileError> {
        if !checkpoint.holds_weights() {
            let is_gguf = checkpoint.files.iter().any(|file| file.format == Format::Gguf);
            return Ok(if is_gguf { Forecasts::of_gguf(request) } else { Forecasts::default() });
        }
        // An unreadable configuration is an error, whatever the candidates are.
        checkpoint.model()?;
        if !sources.iter().any(FileSource::is_quantized) {
            return Ok(Forecasts::new(checkpoint, path, request));
        }
        let facts =
            |source: &FileSource<'_>| names_alone(source.input.path(), source.tensors.iter().map(TensorSource::facts));
        let config = layouts::plain_config(&checkpoint.folder().join("config.json"), None)?;
        let plain = Checkpoint::with(sources.iter().map(facts).collect(), Configuration::Text(Some(config)));
        Ok(Forecasts::new(&plain, path, request))
    }

    /// Those of the scaled candidates, for a `.gguf` file.
    fn of_gguf(request: &ReportRequest) -> Forecasts {
        const REFUSED: &str = "it does not read .gguf files (dequantize the file first)";
        let planned = |&to: &CandidateFormat| Planned::new(to, Layout::Plain, Vec::new(), Some(REFUSED.to_owned()));
        let scaled = request.to.iter().filter(|to| to.weights().is_some());
        Forecasts { planned: scaled.map(planned).collect(), ..Forecasts::default() }
    }

    /// Those for tensors in memory, of which nothing but names and shapes is looked at.
    pub(super) fn of_tensors(tensors: &[(&str, TensorView<'_>)], path: &Path, request: &ReportRequest) -> Forecasts {
        let facts = tensors.iter().map(|(name, view)| Facts {
            name,
            data_type: view.data_type(),
            shape: view.shape(),
            len: view.len(),
        });
        let input = names_alone(path, facts);
        Forecasts::new(&Checkpoint::with(vec![input], Configuration::Text(None)), path, request)
    }

    fn new(checkpoint: &Checkpoint, path: &Path, request: &ReportRequest) -> Forecasts {
        let ReportRequest { include, exclude, min_elements, .. } = request;
        // Scales of a quantized checkpoint are no weights.
        let cast = |to: CandidateFormat| {
            let selection = Selection {
                include: include.clone(),
                exclude: exclude.clone(),
                min_elements: *min_elements,
                ..Selection::new(to.element())
            };
            let tensors = checkpoint.tensors().map(|(_, stored)| {
                let to = selection.target(&stored.name, stored.data_type, stored.len as u64);
                ((&*stored.name, stored.data_type, stored.shape.len()), to.unwrap_or(stored.data_type))
            });
            let refused = layouts::check_cast(path, &tensors.collect::<Vec<_>>()).err()?;
            Some(Planned::new(to, Layout::Plain, Vec::new(), Some(refused.to_string())))
        };
        let plan = |&to: &CandidateFormat| {
            let Some(weights) = to.weights() else { return cast(to) };
            let layout = request.layout.unwrap_or(Layout::DEFAULT);
            let has_such_weights = layout.granularity(weights.format, weights.granularity).is_ok();
            let layout = if has_such_weights { layout } else { Layout::Plain };
            let selection = Selection {
                include: include.clone(),
                exclude: exclude.clone(),
                min_elements: *min_elements,
                ..Selection::new(weights)
            };
            let how = QuantizeRequest::default().selection(selection).layout(Some(layout));
            let found = forecast(checkpoint, path, &how);
            let (rows, refused) = match found {
                Ok(rows) => (rows, None),
                Err(error) if error.kind() == Some(InvalidKind::NoWeights) => {
                    (Vec::new(), Some("no weight of a Linear layer, by the names".to_owned()))
                }
                Err(error) => (Vec::new(), Some(error.to_string())),
            };
            Some(Planned::new(to, layout, rows, refused))
        };
        Forecasts {
            planned: request.to.iter().filter_map(plan).collect(),
            model: checkpoint.model().unwrap_or_default(),
        }
    }

    fn of(&self, to: CandidateFormat) -> Option<&Planned> {
        self.planned.iter().find(|planned| planned.forecast.to == to && planned.forecast.refused.is_none())
    }

    /// Whether a tensor has a candidate.
    pub(super) fn admits(&self, tensor: TensorRef, to: CandidateFormat) -> bool {
        self.of(to).is_none_or(|planned| planned.quantized.contains_key(&tensor))
    }

    /// The bytes that a tensor gets in a candidate, if `quantize` would write them.
    pub(super) fn bytes(&self, tensor: TensorRef, to: CandidateFormat) -> Option<u64> {
        self.of(to)?.quantized.get(&tensor).copied()
    }

    /// The forecasts without the tensors.
    pub(super) fn finish(self) -> Vec<Forecast> {
        self.planned.into_iter().map(|planned| planned.forecast).collect()
    }
}

impl Planned {
    fn new(
        to: CandidateFormat,
        layout: Layout,
        rows: Vec<(TensorRef, TensorSummary)>,
        refused: Option<String>,
    ) -> Planned {
        let (bytes_before, bytes_after) = (0, 0);
        let mut forecast = Forecast { to, layout, bytes_before, bytes_after, kept: Vec::new(), refused };
        let mut quantized = HashMap::<TensorRef, u64>::new();
        for (tensor, row) in rows {
            forecast.bytes_before += row.bytes_before;
            forecast.bytes_after += row.bytes_after;
            // The marker of a layout is made of no tensor.
            if row.cast && Some(&*row.name) != layout.spec().marker {
                *quantized.entry(tensor).or_default() += row.bytes_after;
            }
            forecast.kept.extend(row.reason.map(|reason| (row.name, reason)));
        }
        Planned { forecast, quantized }
    }
}

/// Creates an input with the names and shapes of tensors, without their elements.
fn names_alone<'f>(path: &Path, tensors: impl Iterator<Item = Facts<'f>>) -> Input {
    let stored = |Facts { name, data_type, shape, len }: Facts<'f>| StoredTensor {
        name: name.to_owned(),
        data_type,
        shape: shape.to_vec(),
        len,
        place: Location::Memory(Vec::new()),
    };
    Input {
        file: InputFile::other(path, 0, Nothing),
        format: Format::Safetensors,
        tensors: tensors.map(stored).collect(),
        members: Vec::new(),
        left_out: Vec::new(),
        metadata: None,
        message: None,
    }
}

/// The elements of tensors that are not read.
#[derive(Debug)]
struct Nothing;

impl ReadAt for Nothing {
    fn read_at(&self, _: u64, _: &mut [u8]) -> std::io::Result<usize> {
        Ok(0)
    }
}
