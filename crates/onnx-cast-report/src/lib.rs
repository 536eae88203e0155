//! Shows the loss of casts to several types: a [`Report`](onnx_cast_file::Report) as [`text`] for a terminal, as
//! [`json`] for programs, and as a [`page`] with plots; and the results of the other jobs as JSON. The command and the
//! Python package use the same output.
//!
//! ```
//! use onnx_cast::{DataType, Tensor};
//! use onnx_cast_file::{ReportRequest, report_of};
//!
//! let weights = Tensor::from_slice(vec![3], &[0.5f32, 0.3, 1e-9])?;
//! let request = ReportRequest::default().to(vec![DataType::Float8E4M3FN.into()]);
//! let report = report_of(&[("w", weights.view())], &request)?;
//! let text = onnx_cast_report::text(&report, 20, "top");
//! assert!(text.contains("1 of 1 tensors lose more than 30% of their values to zero"));
//! assert!(onnx_cast_report::page("weights", &report)?.starts_with("<!doctype html>"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::too_many_lines, clippy::disallowed_methods))]

mod convert_page;
mod json;
mod limits;
mod page;
mod results;
mod text;
mod words;

pub use convert_page::convert_page;
pub use json::{counts, json};
pub use page::{page, page_data};
pub use results::{
    cast_json, convert_json, diff_json, fold_json, info_json, loading_json, quantized_json, record_json, tensors_json,
    upgrade_json,
};
pub use text::{Tables, text, verdict};
pub use words::{column, printable, shape, size};
