//! What can be wrong with a checkpoint in several files.

use crate::formats::limits::MAX_HEADER;
use crate::text::Short;
use thiserror::Error;

/// A folder or an index that is not a checkpoint in several files.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ShardError {
    /// A folder without a checkpoint, or with several.
    #[error(
        "{count} of *.safetensors.index.json and {files} of *.safetensors in this folder (want one; name the file)"
    )]
    Folder {
        /// Indices.
        count: usize,
        /// Files of tensors.
        files: usize,
    },
    /// An index that is too large.
    #[error("an index of {len} bytes (want at most {MAX_HEADER})")]
    TooLarge {
        /// Its length.
        len: u64,
    },
    /// An index that is not JSON of its form.
    #[error("the index is not valid: {what}")]
    Index {
        /// What the JSON reader says.
        what: String,
    },
    /// A tensor that the index names twice.
    #[error("tensor `{}` stands twice in weight_map", Short(tensor))]
    Twice {
        /// The tensor.
        tensor: String,
    },
    /// A file that is not in the folder of the index.
    #[error("weight_map names the file `{}` (want the name of a .safetensors file, without a folder)", Short(file))]
    FileName {
        /// The name.
        file: String,
    },
    /// A tensor that is not where the index says.
    #[error("tensor `{}` is not in {}, where weight_map has it", Short(tensor), Short(file))]
    Missing {
        /// The tensor.
        tensor: String,
        /// The file.
        file: String,
    },
    /// A tensor that the index does not name, or has elsewhere.
    #[error("tensor `{}` of {} is not there by weight_map", Short(tensor), Short(file))]
    Unlisted {
        /// The tensor.
        tensor: String,
        /// The file.
        file: String,
    },
    /// A checkpoint some of whose files a cast in place has replaced.
    #[error("a cast in place was interrupted here (run it again, and it is finished)")]
    Unfinished,
    /// An output folder with weights that the output does not have.
    #[error(
        "it holds other weights, such as {}, which would stay beside the new ones (remove them, or name another \
         folder; `force` leaves them)",
        Short(file)
    )]
    OtherWeights {
        /// One of them.
        file: String,
    },
    /// An output that is a file, where the input is several.
    #[error("one file, where the checkpoint has several (want a folder, or an index, *.safetensors.index.json)")]
    Output,
}
