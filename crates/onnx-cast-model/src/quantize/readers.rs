//! Finds the nodes that read a weight, directly or through Identity and Transpose. onnxruntime has an operator with
//! quantized weights for some of them.

use super::ChosenWeight;
use super::counterparts::{Operator, int, reason};
use super::readings::{perm, site};
use crate::constant::Site;
use crate::edits::{Content, Edits, Home, NewNode, NewTensor};
use crate::graph::values::{Flow, Id, Step};
use crate::rope::{CastElements, ElementSource};
use crate::tree::{Names, Node};
use onnx_cast::DataType;

/// Everything that reads a weight.
#[derive(Default)]
pub(super) struct Readers {
    /// In the order of the steps.
    pub(super) all: Vec<Reader>,
    /// The graph and index of each Identity and Transpose between, which nothing needs once the readers are replaced.
    between: Vec<(usize, usize)>,
}

/// A node that reads a weight.
#[derive(Clone, Copy)]
pub(super) struct Reader {
    /// The place of the node in [`Flow::steps`].
    pub(super) step: usize,
    pub(super) input: usize,
    pub(super) operator: Operator,
    /// Whether the node reads the weight with its two axes exchanged: behind Transposes, and by `transB` of Gemm.
    pub(super) is_turned: bool,
}

impl Readers {
    /// Finds the readers of a weight.
    ///
    /// # Errors
    /// The reason why the weight is kept: an output, or an operator that is not in `operators`, needs it as it is.
    pub(super) fn of(
        flow: &Flow<'_, '_>,
        weight: &ChosenWeight<'_>,
        operators: &[Operator],
    ) -> Result<Readers, String> {
        if weight.is_in_function {
            return Err("it is in a function".to_owned());
        }
        let mut readers = Readers { all: Vec::new(), between: Vec::new() };
        let value = (0..flow.values.len()).find(|&value| site(flow, value) == Some((weight.graph, weight.site)));
        let mut values: Vec<(Id, bool)> = value.into_iter().map(|value| (value, false)).collect();
        while let Some((value, is_turned)) = values.pop() {
            if flow.values[value].outputs > 0 {
                return Err("it is an output".to_owned());
            }
            for read in &flow.values[value].reads {
                let step = &flow.steps[read.step];
                let turns = step.node.is("Transpose")
                    && perm(step.node).is_ok_and(|perm| perm.is_none_or(|perm| perm == [1, 0]));
                match step.outputs.first() {
                    Some(&Some(output)) if turns || step.node.is("Identity") => {
                        readers.between.push((step.graph.id, step.index));
                        values.push((output, is_turned != turns));
                    }
                    _ => {
                        let operator = Operator::of(step, read.input).filter(|operator| operators.contains(operator));
                        let operator = operator.ok_or_else(|| reason(step.node, read.input))?;
                        let is_turned = is_turned != (operator == Operator::Gemm && int(step.node, "transB", 0) != 0);
                        readers.all.push(Reader { step: read.step, input: read.input, operator, is_turned });
                    }
                }
            }
        }
        readers.all.sort_by_key(|reader| (reader.step, reader.input));
        let has_turned = readers.all.iter().any(|reader| reader.is_turned);
        match readers.all.first() {
            None => Err("nothing reads it".to_owned()),
            Some(_) if has_turned && weight.constant.shape.len() != 2 => Err("Transpose reads it".to_owned()),
            Some(_) => Ok(readers),
        }
    }

    /// Removes the nodes between the weight and its readers.
    pub(super) fn drop_between(&self, edits: &mut Edits<'_>) {
        for (graph, index) in &self.between {
            edits.graphs.entry(*graph).or_default().nodes.entry(*index).or_default().drop = true;
        }
    }
}

/// Puts nodes in place of the node of a step.
pub(super) fn replace<'a>(step: &Step<'_, 'a>, nodes: Vec<NewNode<'a>>, edits: &mut Edits<'a>) {
    let node = edits.graphs.entry(step.graph.id).or_default().nodes.entry(step.index).or_default();
    node.drop = true;
    node.after.extend(nodes);
}

/// The name of an input; empty if the node leaves it out.
pub(super) fn input(node: &Node<'_>, index: usize) -> String {
    node.inputs.get(index).copied().unwrap_or_default().to_owned()
}

/// The name of the first output.
pub(super) fn output(node: &Node<'_>) -> String {
    node.outputs.first().copied().unwrap_or_default().to_owned()
}

/// The output of a product, and the Add of its bias, if it has one, which gives `output`.
pub(super) fn with_bias<'a>(bias: String, output: String, names: &mut Names) -> (String, Option<NewNode<'a>>) {
    if bias.is_empty() {
        return (output, None);
    }
    let product = names.fresh(format!("{output}_product"));
    let name = names.fresh(format!("{output}_bias"));
    let add = NewNode::new("Add", name, vec![product.clone(), bias], output);
    (product, Some(add))
}

/// A Reshape of a value, with its shape as an initializer of a graph.
pub(super) fn reshape<'a>(
    value: &str,
    shape: &[i64],
    graph: usize,
    edits: &mut Edits<'a>,
    names: &mut Names,
) -> NewNode<'a> {
    let [output, name, sizes] = ["reshaped", "reshape", "shape"].map(|end| names.fresh(format!("{value}_{end}")));
    let bytes: Vec<u8> = shape.iter().flat_map(|size| size.to_le_bytes()).collect();
    let elements = CastElements::new(ElementSource::Owned(bytes.into()), DataType::Int64, shape.len());
    edits.graphs.entry(graph).or_default().added_initializers.push(NewTensor {
        message: None,
        name: Some(sizes.clone()),
        shape: vec![shape.len()],
        home: Home::Model,
        content: Content::Elements(elements),
    });
    NewNode::new("Reshape", name, vec![value.to_owned(), sizes], output)
}

impl<'a> ChosenWeight<'a> {
    /// The name of a tensor in another shape, by a Reshape that runtimes compute once.
    pub(super) fn reshaped(&self, name: &str, shape: &[usize], edits: &mut Edits<'a>, names: &mut Names) -> String {
        let shape: Vec<i64> = shape.iter().map(|&size| size as i64).collect();
        let reshape = reshape(name, &shape, self.graph, edits, names);
        let output = reshape.outputs[0].clone();
        edits.graphs.entry(self.graph).or_default().first.push(reshape);
        output
    }

    /// Puts tensors in place of the constant.
    pub(super) fn replace_constant(&self, tensors: Vec<NewTensor<'a>>, edits: &mut Edits<'a>) {
        let edit = edits.graphs.entry(self.graph).or_default();
        edit.added_initializers.extend(tensors);
        match self.site {
            Site::Initializer(index, input) => {
                edit.initializers.insert(index, None);
                edit.inputs.extend(input.map(|input| (input, None)));
            }
            Site::Node(index) => edit.nodes.entry(index).or_default().drop = true,
        }
    }
}
