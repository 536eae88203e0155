//! Rounds of files: a tensor written and read, cast from format to format, compared; files of several tensors.

use super::counts::Counts;
use super::{State, draw};
use crate::claim::Claim;
use onnx_cast::backend::{self, Backend};
use onnx_cast::{CastOptions, Tensor};
use onnx_cast_file::safetensors::{self, type_name};
use onnx_cast_file::{
    CastRequest, DiffRequest, Format, InputFile, NamedTensor, WriteOptions, cast_file, diff, read_tensor_as,
    read_tensors_from, write_tensor,
};
use std::path::{Path, PathBuf};
use testkit::generators::Rng;
use testkit::library::data_type;
use testkit::packing::pack;
use testkit::{Direct, Rules, Ty};

/// The formats of one tensor.
const ONE: [Format; 3] = [Format::TensorProto, Format::Npy, Format::Safetensors];

/// A tensor of numbers, and what it was packed from.
struct Drawn {
    ty: Ty,
    values: Vec<u64>,
    tensor: Tensor,
}

impl Drawn {
    /// Of so many elements that they are whole bytes in any type, as `.safetensors` wants them.
    fn new(rng: &mut Rng, ty: Ty, to: Ty) -> Result<Drawn, String> {
        let len = draw::length(rng).min(1 << 14) / 8 * 8;
        let values = draw::values(rng, ty, to, len);
        let tensor = Tensor::new(data_type(ty), draw::shape(rng, len), pack(ty, &values));
        Ok(Drawn { ty, values, tensor: tensor.map_err(|error| error.to_string())? })
    }

    /// Whether `got` is this tensor cast, by the oracle.
    fn check(&self, to: Ty, rules: Rules, backend: Backend, got: &[u8]) -> Result<(), String> {
        let direct = Direct::new(self.ty, to, &rules);
        let results: Vec<u64> = self.values.iter().map(|&value| direct.cast(value)).collect();
        let want = pack(to, &results);
        if got == want {
            return Ok(());
        }
        let claim = Claim { from: self.ty, to, rules, backend };
        let difference = claim.difference(results.len(), self.tensor.bytes().unwrap_or_default(), got, &want);
        Err(format!("{claim}: {difference}"))
    }
}

fn holds(format: Format, ty: Ty) -> bool {
    format != Format::Safetensors || type_name(data_type(ty)).is_some()
}

/// Whether a file of numpy's tells that its elements are of this type, and not only how wide they are.
fn numpy_tells(ty: Ty) -> bool {
    ty.bits() > 8 || matches!(ty, Ty::Int8 | Ty::Uint8 | Ty::Bool)
}

fn some_format(rng: &mut Rng, ty: Ty) -> Format {
    let format = draw::pick(rng, &ONE);
    if holds(format, ty) { format } else { Format::TensorProto }
}

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn some_backend(rng: &mut Rng) -> Backend {
    let backends: Vec<Backend> = backend::available().collect();
    draw::pick(rng, &backends)
}

/// The options of a claim without attributes that change nothing, which jobs on files refuse.
fn attributes(claim: &Claim) -> CastOptions {
    let mut options = claim.options();
    if !data_type(claim.to).name().starts_with("float8") {
        options.saturate = None;
    }
    if claim.to != Ty::Float8E8M0 {
        options.round_mode = None;
    }
    options
}

/// One tensor: written, read, written in another format, compared, cast from file to file.
pub(super) fn one(rng: &mut Rng, state: &State, counts: &mut Counts) -> Result<(), String> {
    let (from, to) = (draw::numeric(rng), draw::numeric(rng));
    let drawn = Drawn::new(rng, from, to)?;
    let path = |stem: &str, format: Format| state.folder.path().join(format!("{stem}.{}", format.extension()));
    let formats = [some_format(rng, from), some_format(rng, from)];
    let [first, second] = [path("first", formats[0]), path("second", formats[1])];
    // From a file of several to another, integers would be kept where floats are asked for: that is the other round.
    let between = |from, to| if from == to { Format::TensorProto } else { to };
    let output = path("cast", between(formats[0], some_format(rng, to)));
    let pair = format!("{} in {} -> {} in {}", from.name(), first.display(), to.name(), output.display());
    let told = |error: &dyn std::fmt::Display| format!("{pair}: {error}");

    for (path, format) in [(&first, formats[0]), (&second, formats[1])] {
        let written = write_tensor(path, format, "w", drawn.tensor.view(), &WriteOptions::default());
        written.map_err(|error| told(&error))?;
        let read = read_tensor_as(path, Some(data_type(from))).map_err(|error| told(&error))?;
        if read.tensor != drawn.tensor {
            return Err(told(&"what is read is not what was written"));
        }
    }
    if numpy_tells(from) || !formats.contains(&Format::Npy) {
        let differences = diff(&first, &second, &DiffRequest::default()).map_err(|error| told(&error))?;
        if !differences.is_empty() {
            return Err(told(&format!("{differences:?} from format to format")));
        }
    }
    let rules = draw::rules(rng, from, to);
    let claim = Claim { from, to, rules, backend: some_backend(rng) };
    let mut request = CastRequest::new(data_type(to));
    request.options = attributes(&claim);
    request.run.threads = Some(draw::threads(rng));
    request.run.losses = rng.below(2) == 0;
    request.raw.from = Some(data_type(from));
    cast_file(&first, &output, &request).map_err(|error| told(&error))?;
    let read = read_tensor_as(&output, Some(data_type(to))).map_err(|error| told(&error))?;
    if read.tensor.shape() != drawn.tensor.shape() {
        return Err(told(&format!("a shape of {:?}, want {:?}", read.tensor.shape(), drawn.tensor.shape())));
    }
    drawn.check(to, rules, claim.backend, read.tensor.bytes().unwrap_or_default()).map_err(|error| told(&error))?;
    counts.files += 3;
    counts.tensors += 3;
    remove(&[first, second, output])
}

/// Several tensors: cast or kept as the summary says, through an archive and back.
pub(super) fn several(rng: &mut Rng, state: &State, counts: &mut Counts) -> Result<(), String> {
    let named: Vec<Ty> = Ty::NUMERIC.into_iter().filter(|&ty| type_name(data_type(ty)).is_some()).collect();
    let to = draw::pick(rng, &named);
    let count = 1 + rng.below(6);
    let drawn = (0..count).map(|_| {
        let ty = draw::pick(rng, &named);
        Drawn::new(rng, ty, to)
    });
    let drawn = drawn.collect::<Result<Vec<Drawn>, String>>()?;
    let names: Vec<String> = (0..drawn.len()).map(|nth| format!("w{nth}")).collect();
    let views: Vec<_> = names.iter().zip(&drawn).map(|(name, drawn)| (name.as_str(), drawn.tensor.view())).collect();
    let path = |name: &str| state.folder.path().join(name);
    let (input, output) = (path("in.safetensors"), path("out.safetensors"));
    std::fs::write(&input, safetensors::write(None, &views).map_err(told)?).map_err(told)?;

    let rules = Rules { saturate: rng.below(2) == 0, ..Rules::default() };
    let backend = some_backend(rng);
    let mut request = CastRequest::new(data_type(to));
    request.options = attributes(&Claim { from: to, to, rules, backend });
    request.run.threads = Some(draw::threads(rng));
    let summary = cast_file(&input, &output, &request).map_err(told)?;
    let file = InputFile::open(&output).map_err(told)?;
    let written = read_tensors_from(file, Format::Safetensors, None).map_err(told)?;
    if written.len() != drawn.len() || summary.tensors.len() != drawn.len() {
        return Err(format!("{} tensors of {}", written.len(), drawn.len()));
    }
    for NamedTensor { name: of, tensor } in &written {
        let nth = names.iter().position(|name| name == of).ok_or("a name that was not there")?;
        let row = summary.tensors.iter().find(|row| row.name == *of).ok_or("a name without a summary")?;
        let target = if row.cast { to } else { drawn[nth].ty };
        if tensor.data_type() != data_type(target) || tensor.shape() != drawn[nth].tensor.shape() {
            return Err(format!("{of} is {} {:?}", tensor.data_type(), tensor.shape()));
        }
        let got = tensor.bytes().unwrap_or_default();
        let done = match drawn[nth].tensor.bytes() {
            Some(before) if !row.cast && got != before => Err("what is kept is not as it was".to_owned()),
            _ if !row.cast => Ok(()),
            _ => drawn[nth].check(target, rules, backend, got),
        };
        done.map_err(|fault| format!("{of}, {fault}"))?;
    }
    counts.files += 2;
    counts.tensors += 2 * drawn.len() as u64;
    if written.iter().all(|one| Ty::from_code(one.tensor.data_type() as i32).is_some_and(numpy_tells)) {
        through_an_archive(state.folder.path(), &output, to)?;
        counts.files += 1;
        counts.tensors += drawn.len() as u64;
    }
    remove(&[input, output])
}

/// To an archive of numpy's with nothing cast, which must hold the same tensors.
fn through_an_archive(folder: &Path, file: &Path, to: Ty) -> Result<(), String> {
    let archive = folder.join("through.npz");
    let mut keep = CastRequest::new(data_type(to));
    keep.selection.to = None;
    cast_file(file, &archive, &keep).map_err(told)?;
    let differences = diff(file, &archive, &DiffRequest::default()).map_err(told)?;
    if !differences.is_empty() {
        return Err(format!("through an archive: {differences:?}"));
    }
    remove(&[archive])
}

fn remove(paths: &[PathBuf]) -> Result<(), String> {
    paths.iter().try_for_each(|path| match std::fs::remove_file(path) {
        // Two of a round may have had one name.
        Err(error) if path.exists() => Err(format!("{}: {error}", path.display())),
        _ => Ok(()),
    })
}
