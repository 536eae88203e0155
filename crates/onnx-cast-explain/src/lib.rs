//! One value cast, taken apart: its bits field by field, the values beside it, the rule that decided, and the error;
//! with a scale, QuantizeLinear and back; of a block, its scale and each element. And the table of types. The command
//! `explain` and the page in the browser show the same.
//!
//! The results are the library's: nothing here rounds. Exact decimals only compare and print.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::too_many_lines))]

mod decimal;
mod error;
mod explain;
pub mod html;
pub mod types;
mod value;

pub use error::ExplainError;
pub use explain::{
    Block, BlockRequest, Explanation, Request, Scaling, all, all_json, block_json, block_page, block_text, drawing,
    explain, explain_block, json, page, page_of_all, text,
};
