//! Quantized checkpoints: the layouts in which they hold weights, read back as the values that they stand for.
//!
//! A weight of such a checkpoint is several tensors: elements of 8 bits or fewer, scales of blocks of them, perhaps a
//! global scale, zero points and the order of groups. `config.rs` reads what the checkpoint claims to be, `find.rs`
//! puts the tensors together by their names, `describe.rs` compares types and shapes with the claim, and `values.rs`
//! computes the values part by part. The arithmetic is that of `onnx-cast`.

mod changes;
mod claims;
mod coding;
mod companions;
mod config;
mod describe;
mod description;
mod edit_config;
mod encoding;
mod find;
mod form;
mod format;
mod gguf;
mod group;
mod json;
mod lay_out;
mod model;
mod packed_ints;
mod signs;
mod spec;
mod table;
mod tiles;
mod values;
mod verify;
mod weight;
mod written;

pub(crate) use form::form_of;
pub(crate) use format::gguf_names;
pub use format::{Activations, GgufFormat, Granularity, QuantizedFormat, WeightFormat, check_scale_rule};
pub use table::Layout;

pub(crate) use claims::{Claims, KeyValueCache};
pub(crate) use config::{Config, config_of_folder, is_configuration, read as read_configuration};
pub(crate) use description::{description, without_description};
pub(crate) use edit_config::{plain_config, quantized_config, torch_name, with_torch_dtype};
pub(crate) use find::{Role, Weights, check_beside};
pub(crate) use gguf::{BlockValues, decode as decode_blocks, encode as encode_blocks};
pub(crate) use group::{Group, ModuleName};
pub(crate) use lay_out::are_experts;
pub(crate) use model::Model;
pub(crate) use signs::{check_cast, check_plain, companions};
pub(crate) use spec::{Calibration, GROUPS, KeptNames, SHAPE, ZERO_POINTS};
pub(crate) use table::{layers_of, without_layers};
pub(crate) use tiles::{ROWS as PANEL, in_panels, panel_at};
pub(crate) use values::WeightValues;
pub(crate) use verify::{Scales, find_nan, scales_of};
pub(crate) use weight::{Encoding, Grid, Weight};
pub(crate) use written::{Arithmetic, Integers, Order, WrittenWeight};
