//! Values of branches and loops: their numbers come out of the graphs within as outputs of the nodes around.
//!
//! A branch gives those of both, where those that it does not have are of nothing. A loop gives a row for each round, and
//! of the rows one is made behind it.

use super::nodes::Recorder;
use super::{RECORD_PREFIX, Recorded, RecordedValue, declaration};
use crate::edits::{Edits, NewAttribute, NewNode, NodeEdit};
use crate::error::{ModelError, ModelErrorKind};
use crate::messages::attribute;
use crate::tree::{Graph, Node};
use onnx_cast_file::__private::Short;
use onnx_cast_file::__private::wire::varints;
use onnx_cast_file::{Pattern, admits};
use std::collections::{HashMap, HashSet};

/// A value, and the value of the graph at hand that has its numbers.
pub(super) struct Probe {
    pub(super) value: Recorded,
    pub(super) numbers: String,
}

pub(super) struct Prober<'p, 'n, 'a> {
    pub(super) recorder: Recorder<'n, 'a>,
    pub(super) edits: Edits<'a>,
    /// The values of each graph that can be recorded.
    pub(super) values: HashMap<usize, Vec<Recorded>>,
    pub(super) include: &'p [Pattern],
    pub(super) exclude: &'p [Pattern],
    /// Those that are recorded.
    pub(super) graphs: HashSet<usize>,
}

impl<'a> Prober<'_, '_, 'a> {
    /// Adds the nodes that record the values of a graph, and of those within it.
    pub(super) fn graph(&mut self, graph: &Graph<'a>) -> Vec<Probe> {
        let mut probes = Vec::new();
        let values = self.values.remove(&graph.id).unwrap_or_default();
        self.graphs.insert(graph.id);
        for value in values.into_iter().filter(|value| admits(self.include, self.exclude, &value.name)) {
            let numbers = self.recorder.value(&value.name, value.data_type);
            probes.push(Probe { value, numbers });
        }
        for (index, node) in graph.nodes.iter().enumerate() {
            probes.extend(self.within(graph.id, index, node));
        }
        probes
    }

    /// Those of the graphs within a node.
    fn within(&mut self, graph: usize, index: usize, node: &Node<'a>) -> Vec<Probe> {
        let graphs: Vec<&Graph<'a>> = node.graphs().collect();
        match graphs[..] {
            [first, second]
                if node.is("If") && [first, second].iter().all(|one| outputs(one) == node.outputs.len()) =>
            {
                self.branches(graph, index, [first, second])
            }
            [body] if node.is("Loop") && outputs(body) == node.outputs.len() + 1 => self.rounds(graph, index, body),
            [body] if node.is("Scan") && outputs(body) == node.outputs.len() && body.opset >= Some(9) => {
                let probes = self.rounds(graph, index, body);
                self.scan(graph, index, node, probes.len());
                probes
            }
            _ => Vec::new(),
        }
    }

    fn branches(&mut self, graph: usize, index: usize, [first, second]: [&Graph<'a>; 2]) -> Vec<Probe> {
        let (of_first, mut first_nodes) = self.inside(first);
        let (of_second, mut second_nodes) = self.inside(second);
        let nothing = self.recorder.nothing();
        let (mut first_outputs, mut second_outputs) = (Vec::new(), Vec::new());
        let all =
            of_first.into_iter().map(|probe| (true, probe)).chain(of_second.into_iter().map(|probe| (false, probe)));
        let mut probes = Vec::new();
        for (is_first, probe) in all {
            for (nodes, outputs, is_own) in
                [(&mut first_nodes, &mut first_outputs, is_first), (&mut second_nodes, &mut second_outputs, !is_first)]
            {
                // An output is what a node of the graph gives.
                let (from, output) = (if is_own { &probe.numbers } else { &nothing }, self.recorder.name("output"));
                nodes.push(NewNode::new("Identity", output.clone(), vec![from.clone()], output.clone()));
                outputs.push(output);
            }
            probes.push(Probe { numbers: self.recorder.name("branch"), ..probe });
        }
        self.close(first, first_nodes, &first_outputs);
        self.close(second, second_nodes, &second_outputs);
        self.node(graph, index).added_outputs.extend(probes.iter().map(|probe| probe.numbers.clone()));
        probes
    }

    fn node(&mut self, graph: usize, index: usize) -> &mut NodeEdit<'a> {
        self.edits.graphs.entry(graph).or_default().nodes.entry(index).or_default()
    }

    fn rounds(&mut self, graph: usize, index: usize, body: &Graph<'a>) -> Vec<Probe> {
        let (probes, nodes) = self.inside(body);
        let outputs: Vec<String> = probes.iter().map(|probe| probe.numbers.clone()).collect();
        self.close(body, nodes, &outputs);
        let names: Vec<String> = probes.iter().map(|_| self.recorder.name("rounds")).collect();
        self.node(graph, index).added_outputs.extend(names.iter().cloned());
        let of_rows = |(probe, rows): (Probe, String)| Probe { numbers: self.recorder.of_rows(&rows), ..probe };
        probes.into_iter().zip(names).map(of_rows).collect()
    }

    /// The axes and directions of a Scan's outputs, where they are given, for those that are new.
    fn scan(&mut self, graph: usize, index: usize, node: &Node<'a>, count: usize) {
        for (at, given) in node.attributes.iter().enumerate() {
            if !matches!(given.name, "scan_output_axes" | "scan_output_directions") || given.refers {
                continue;
            }
            let known = varints(given.message, attribute::INTS).filter_map(Result::ok).map(|number| number as i64);
            let numbers: Vec<i64> = known.chain(std::iter::repeat_n(0, count)).collect();
            self.node(graph, index).attributes.insert(at, Some(NewAttribute::ints(given.name, &numbers)));
        }
    }

    /// The values of a graph within another, and the nodes that it gets.
    fn inside(&mut self, graph: &Graph<'a>) -> (Vec<Probe>, Vec<NewNode<'a>>) {
        let around = std::mem::take(&mut self.recorder.nodes);
        let probes = self.graph(graph);
        (probes, std::mem::replace(&mut self.recorder.nodes, around))
    }

    /// Adds the outputs of the model, one for each name.
    pub(super) fn outputs(&mut self, probes: Vec<Probe>) -> Result<Vec<RecordedValue>, ModelError> {
        let (mut order, mut by_name): (Vec<Recorded>, HashMap<String, Vec<String>>) = (Vec::new(), HashMap::new());
        for Probe { value, numbers } in probes {
            let all = by_name.entry(value.name.clone()).or_default();
            if all.is_empty() {
                order.push(value);
            }
            all.push(numbers);
        }
        let mut outputs = Vec::with_capacity(order.len());
        for Recorded { name, data_type } in order {
            let output = format!("{RECORD_PREFIX}{name}");
            if self.recorder.fresh(&output) != output {
                let what = format!(
                    "the model has a value `{}` already: it is a model that `record` has written",
                    Short(&output)
                );
                return Err(ModelError::new(ModelErrorKind::Ranges, what).named(&output));
            }
            let numbers = match &by_name.remove(&name).unwrap_or_default()[..] {
                [one] => one.clone(),
                several => self.recorder.of_several(&several.iter().map(String::as_str).collect::<Vec<_>>()),
            };
            let node = NewNode::new("Identity", output.clone(), vec![numbers], output.clone());
            self.recorder.nodes.push(node);
            outputs.push(RecordedValue { name, data_type, output });
        }
        Ok(outputs)
    }

    /// Gives a graph its nodes and outputs.
    pub(super) fn close(&mut self, graph: &Graph<'a>, nodes: Vec<NewNode<'a>>, outputs: &[String]) {
        let edit = self.edits.graphs.entry(graph.id).or_default();
        edit.added_outputs.extend(outputs.iter().map(|output| declaration(output)));
        match graph.nodes.len().checked_sub(1) {
            Some(last) => edit.nodes.entry(last).or_default().after.extend(nodes),
            None => edit.first.extend(nodes),
        }
    }
}

fn outputs(graph: &Graph<'_>) -> usize {
    graph.outputs.len()
}
