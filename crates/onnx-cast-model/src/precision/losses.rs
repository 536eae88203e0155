//! Overflow and underflow of constants in the narrow type, counted in one pass over their elements before planning.

use super::ConvertRequest;
use super::constants::{Span, span_of};
use crate::constant::Constant;
use crate::error::Error;
use crate::external::Files;
use crate::rewrite::{Request, measure};
use crate::rope::CastElements;
use crate::tree::Document;
use onnx_cast::{Cast, CastOptions, DataType};
use onnx_cast_file::__private::Counter;
use onnx_cast_file::__private::pipeline::{Clamp, Step};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A constant that is stored narrow.
pub(crate) struct NarrowConstant {
    pub(crate) name: String,
    /// Whether the original is stored, too.
    pub(crate) twice: bool,
    pub(crate) clamp: Option<Arc<Clamp>>,
}

/// The constants of a model that lose numbers, by name.
#[derive(Default)]
pub(crate) struct Losses {
    /// Constants most of whose numbers become zero or, if sensitive values are kept, subnormal.
    pub(crate) vanishing: HashSet<String>,
    /// The spans of constants in which a number overflows.
    pub(crate) overflowing: HashMap<String, Span>,
}

impl Losses {
    /// Counts the losses of a model's constants. Empty if the target type does not have 16 bits, or if constants are
    /// clamped and so cannot overflow.
    ///
    /// # Errors
    /// If elements cannot be read.
    pub(crate) fn of<'a>(
        document: &Document<'a>,
        files: &'a Files<'a>,
        request: &ConvertRequest,
    ) -> Result<Losses, Error> {
        let mut losses = Losses::default();
        if request.to.bits() != Some(16) || request.clamp.is_some() {
            return Ok(losses);
        }
        let invalid = |error| Error::model(files.path(), error);
        // By constant: its name, its elements, and the same elements as they are cast and counted.
        let mut counted = Vec::new();
        for graph in document.graphs() {
            for (_, constant) in Constant::of_graph(graph, files).map_err(invalid)? {
                let elements = constant.elements.filter(|_| request.from().contains(&constant.data_type));
                let counting = elements.and_then(|elements| Some((counting(&elements, request.to)?, elements)));
                counted.extend(counting.map(|(counting, elements)| (constant.name, elements, counting)));
            }
        }
        let tasks: Vec<_> = counted.iter().map(|(_, _, counting)| counting.task(0)).collect();
        measure(files, &tasks, &Request::of(&request.run, &request.storage))?;
        for (name, elements, counting) in &counted {
            let Some(counts) = counting.counter.as_ref().map(|counter| counter.total()) else { continue };
            let vanished = counts.zero + if request.keeps_sensitive() { counts.subnormal } else { 0 };
            if 2 * vanished > counts.values {
                losses.vanishing.insert((*name).to_owned());
            }
            let span = (counts.overflowed > 0).then(|| span_of(elements)).flatten();
            losses.overflowing.extend(span.map(|span| ((*name).to_owned(), span)));
        }
        Ok(losses)
    }
}

/// The elements cast to a type, with a counter of what that loses.
fn counting<'a>(elements: &CastElements<'a>, to: DataType) -> Option<CastElements<'a>> {
    let from = elements.data_type();
    let down = Cast::new(to, &CastOptions::new()).and_then(|cast| cast.plan(from)).ok()?;
    let counter = Some(Arc::new(Counter::new(from, to).ok()?));
    Some(CastElements { counter, ..elements.then(Step::Cast(down)) })
}
