//! Divides a checkpoint into files of at most a given size. Tensors keep their order, and a quantized weight stays in
//! one file with its scales.

use super::{OutputFile, OutputPlan, OutputTensor, Source};
use crate::error::FileError;
use crate::formats::error::{Invalid, InvalidKind};
use crate::formats::format::Format;
use crate::io::fs::HAS_OUTPUTS;
use crate::layouts::companions;
use crate::shard_size::ShardSize;
use crate::text::{Count, Short, Wording};
use std::collections::HashMap;

impl<'a> OutputPlan<'a> {
    /// Distributes the tensors over new files, if the request specifies a size. Each file holds as many tensors as fit.
    /// A tensor that is larger than the size gets its own file.
    pub(crate) fn divide(&mut self) -> Result<(), FileError> {
        let Some(size) = self.options.shard_size.filter(|_| HAS_OUTPUTS) else { return Ok(()) };
        let outputs = &self.opened.outputs;
        let is_safetensors = self.files.iter().all(|file| file.format == Format::Safetensors);
        let Some(folder) = outputs.folder.as_ref().filter(|_| is_safetensors) else {
            return self.options.refuse_shards(&self.opened.input);
        };
        let metadata = self.joined_metadata()?;
        let rows: Vec<OutputTensor<'a>> = self.files.drain(..).flat_map(|file| file.rows).collect();
        let shards = Shards::of(&rows, size);
        let (count, above) = (shards.0.len(), shards.0.iter().filter(|shard| shard.bytes > size.bytes()).count());
        let stem = self.opened.stem();
        let name = |index: usize| match count {
            1 => format!("{stem}.safetensors"),
            _ => format!("{stem}-{:05}-of-{count:05}.safetensors", index + 1),
        };
        let mut rows: Vec<Option<OutputTensor<'a>>> = rows.into_iter().map(Some).collect();
        for (index, shard) in shards.0.iter().enumerate() {
            let rows = shard.rows.iter().filter_map(|&row| rows[row].take()).collect();
            let (path, metadata) = (folder.join(name(index)), metadata.clone());
            self.files.push(OutputFile { path, format: Format::Safetensors, metadata, head: None, rows });
        }
        self.index = (count > 1).then(|| folder.join(format!("{stem}.safetensors.index.json")));
        let last = if count > 1 { format!(" to {}", name(count - 1)) } else { String::new() };
        let larger = match above {
            0 => String::new(),
            _ => format!("; {} larger, as tensors are not split", above),
        };
        self.notes.push(format!("{} of at most {size}: {}{last}{larger}", Count(count, "file"), name(0)));
        Ok(())
    }

    /// Merges the metadata of all files.
    fn joined_metadata(&self) -> Result<Option<Vec<(String, String)>>, FileError> {
        let mut all: Option<Vec<(String, String)>> = None;
        for (key, value) in self.files.iter().flat_map(|file| &file.metadata).flatten() {
            let all = all.get_or_insert_default();
            match all.iter().find(|(known, _)| known == key) {
                Some((_, known)) if known == value => {}
                Some(_) => {
                    let what = format!("the files have several values of `{}` in their metadata, and ", Short(key));
                    let what = Wording::from(what).field("shard_size", " joins them (want the files as they are)");
                    let error = Invalid::new(InvalidKind::Contradiction, what);
                    return Err(FileError::invalid(self.opened.path(), error));
                }
                None => all.push((key.clone(), value.clone())),
            }
        }
        Ok(all)
    }
}

/// The output files, each with the indices of its tensors.
struct Shards(Vec<OneShard>);

#[derive(Default)]
struct OneShard {
    rows: Vec<usize>,
    bytes: u64,
}

impl Shards {
    fn of(rows: &[OutputTensor<'_>], size: ShardSize) -> Shards {
        let mut shards = vec![OneShard::default()];
        for group in groups(rows) {
            let bytes: u64 = group.iter().map(|&row| rows[row].summary.bytes_after).sum();
            match shards.last_mut() {
                Some(last) if last.rows.is_empty() || last.bytes + bytes <= size.bytes() => {
                    last.rows.extend(group);
                    last.bytes += bytes;
                }
                _ => shards.push(OneShard { rows: group, bytes }),
            }
        }
        shards.iter_mut().for_each(|shard| shard.rows.sort_unstable());
        Shards(shards)
    }
}

/// Returns groups of tensors that must share a file, as indices, ordered by the first tensor of each group.
fn groups(rows: &[OutputTensor<'_>]) -> Vec<Vec<usize>> {
    let headers: Vec<_> = rows.iter().map(|row| &row.summary).collect();
    let headers: Vec<_> = headers.iter().map(|row| (&*row.name, row.to, row.shape.len())).collect();
    let mut owners: Vec<usize> = (0..rows.len()).collect();
    for (codes, companions) in companions(&headers) {
        companions.into_iter().for_each(|companion| owners[companion] = codes);
    }
    for index in 1..rows.len() {
        if matches!(rows[index].source, Source::WithPrevious) {
            owners[index] = owners[index - 1];
        }
    }
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut places = HashMap::new();
    for (index, owner) in owners.into_iter().enumerate() {
        let place = *places.entry(owner).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Vec::new());
        }
        groups[place].push(index);
    }
    groups
}
