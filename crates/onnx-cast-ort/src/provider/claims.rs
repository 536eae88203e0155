//! Which nodes of a graph the provider takes, and which of them form a group. onnxruntime replaces each group by one
//! node, so its own optimizations no longer see the nodes of a group.

use super::abi::{Ep, Graph, GraphNode, SupportInfo};
use super::node::{Node, Resolved};
use super::session::{Claim, Provider, provider};
use super::stock;
use crate::abi::StatusPointer;
use crate::api::Failure;
use onnx_cast::DataType;
use onnx_cast::ops::Operator;
use std::collections::HashMap;
use std::ptr;

/// A node that is claimed.
struct Claimed {
    pointer: *const GraphNode,
    node: Node,
    resolved: Resolved,
}

impl Claimed {
    /// Whether the node can be a part of a chain: it casts element by element, between types other than string.
    fn is_link(&self) -> bool {
        match &self.resolved {
            Resolved::Cast(plan) => ![plan.source_type(), plan.target_type()].contains(&DataType::String),
            Resolved::Scaled(_) | Resolved::Dynamic(..) => false,
        }
    }

    /// Whether the node can follow another in a chain. The second input of CastLike could depend on the chain's first
    /// node by way of others, and the group would be a circle.
    fn can_follow(&self) -> bool {
        self.is_link() && self.node.operator != Operator::CastLike
    }

    fn first_name(values: &[Option<super::host::NamedValue>]) -> Option<&str> {
        values.first()?.as_ref().map(|value| value.name.as_str())
    }
}

impl Provider {
    /// Whether the provider takes a node that the library supports.
    fn takes(&self, node: &Node) -> bool {
        match self.claim {
            Claim::All => true,
            Claim::Inexact => !self.is_run(node) || stock::is_inexact(self.release, node),
            Claim::Missing => !self.is_run(node),
        }
    }

    /// # Safety
    /// The pointer is onnxruntime's.
    unsafe fn claimed(&self, graph: *const Graph) -> Result<Vec<Claimed>, Failure> {
        let mut claimed = Vec::new();
        // SAFETY: promised.
        for pointer in unsafe { self.host.nodes(graph) }? {
            // SAFETY: onnxruntime gave the pointer.
            let Some(node) = unsafe { Node::read(self.host, pointer) }? else { continue };
            if let Some(resolved) = node.resolve().filter(|_| self.takes(&node)) {
                claimed.push(Claimed { pointer, node, resolved });
            }
        }
        Ok(claimed)
    }
}

/// The groups: chains of Casts, each of which reads what the one before writes, and single nodes.
fn groups(claimed: &[Claimed]) -> Vec<Vec<*const GraphNode>> {
    let mut writer = HashMap::new();
    for (index, one) in claimed.iter().enumerate().filter(|(_, one)| one.is_link()) {
        writer.extend(Claimed::first_name(&one.node.outputs).map(|name| (name, index)));
    }
    let mut next = vec![None; claimed.len()];
    let mut is_first = vec![true; claimed.len()];
    for (index, one) in claimed.iter().enumerate().filter(|(_, one)| one.can_follow()) {
        let before = Claimed::first_name(&one.node.inputs).and_then(|name| writer.get(name));
        // A second reader of the same value begins a chain of its own.
        if let Some(&before) = before.filter(|&&before| next[before].is_none()) {
            next[before] = Some(index);
            is_first[index] = false;
        }
    }
    let chain = |first| std::iter::successors(Some(first), |&index: &usize| next[index]);
    let firsts = (0..claimed.len()).filter(|&index| is_first[index]);
    firsts.map(|first| chain(first).map(|index| claimed[index].pointer).collect()).collect()
}

/// Names the nodes of a graph that the provider takes. Branches and bodies are graphs of their own.
pub(crate) unsafe extern "system" fn get_capability(
    functions: *mut Ep,
    graph: *const Graph,
    support: *mut SupportInfo,
) -> StatusPointer {
    // SAFETY: onnxruntime's promise: the provider is ours.
    let provider = unsafe { provider(functions) };
    let host = provider.host;
    host.status(|| {
        // SAFETY: onnxruntime's promise: the graph lives during the call.
        let claimed = unsafe { provider.claimed(graph) }?;
        for group in groups(&claimed) {
            let (nodes, count) = (group.as_ptr(), group.len());
            // SAFETY: there are as many nodes, which onnxruntime gave.
            let added = unsafe { host.providers.EpGraphSupportInfo_AddNodesToFuse(support, nodes, count, ptr::null()) };
            host.api.check(added)?;
        }
        Ok(())
    })
}
