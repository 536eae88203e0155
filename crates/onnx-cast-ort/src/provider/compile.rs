//! Groups of nodes as plans: which input and which output of the group each of them has.

use super::abi::{ComputeContext, ComputeInfo, Ep, Graph, GraphNode, PROVIDER_VERSION};
use super::compute::compute;
use super::group::{Compiled, Group, Step};
use super::host::{Host, NamedValue};
use super::node::{Node, Resolved};
use super::session::provider;
use crate::abi::StatusPointer;
use crate::api::Failure;
use std::ffi::c_void;
use std::ptr;

/// The names of the inputs and outputs of a group.
struct Border {
    inputs: Vec<Option<NamedValue>>,
    outputs: Vec<Option<NamedValue>>,
}

/// The position of a value among others.
fn position(values: &[Option<NamedValue>], value: Option<&NamedValue>) -> Option<usize> {
    let name = &value?.name;
    values.iter().position(|known| known.as_ref().is_some_and(|known| known.name == *name))
}

impl Border {
    /// The number of a node's input; `None` where it is missing.
    fn input(&self, node: &Node, index: usize) -> Option<usize> {
        position(&self.inputs, node.inputs.get(index)?.as_ref())
    }

    fn output(&self, node: &Node, index: usize) -> Option<usize> {
        position(&self.outputs, node.outputs.get(index)?.as_ref())
    }
}

/// A node with what runs it.
struct Link {
    node: Node,
    resolved: Resolved,
}

/// # Safety
/// The pointers are onnxruntime's.
unsafe fn group(host: Host, graph: *const Graph, fused: *const GraphNode) -> Result<Group, Failure> {
    let unknown = || Failure::node("a group of nodes that the execution provider did not claim");
    let mut links = Vec::new();
    // SAFETY: promised.
    let border = unsafe {
        for pointer in host.nodes(graph)? {
            let node = Node::read(host, pointer)?.ok_or_else(unknown)?;
            let resolved = node.resolve().ok_or_else(unknown)?;
            links.push(Link { node, resolved });
        }
        Border { inputs: host.inputs(fused)?, outputs: host.outputs(fused)? }
    };
    match links.as_slice() {
        [] => Err(unknown()),
        [Link { node, resolved: Resolved::Scaled(plan) }] => {
            let zero_point = match node.inputs.get(2) {
                Some(Some(_)) => Some(border.input(node, 2).ok_or_else(unknown)?),
                _ => None,
            };
            let (x, scale) = (border.input(node, 0).ok_or_else(unknown)?, border.input(node, 1).ok_or_else(unknown)?);
            Ok(Group::Scaled { plan: *plan, x, scale, zero_point, y: border.output(node, 0) })
        }
        [Link { node, resolved: Resolved::Dynamic(operator, plan) }] => {
            let outputs = [0, 1, 2].map(|index| border.output(node, index));
            let x = border.input(node, 0).ok_or_else(unknown)?;
            Ok(Group::Dynamic { operator: *operator, plan: *plan, x, outputs })
        }
        _ => chain(&links, &border).ok_or_else(unknown),
    }
}

/// A chain of Casts, whose nodes come in any order.
fn chain(links: &[Link], border: &Border) -> Option<Group> {
    let written = |link: &Link| link.node.outputs.first().cloned().flatten().map(|value| value.name);
    let read = |link: &Link| link.node.inputs.first().cloned().flatten().map(|value| value.name);
    let is_first = |link: &&Link| !links.iter().any(|other| written(other) == read(link));
    let first = links.iter().find(is_first)?;
    let after = |link: &&Link| links.iter().find(|other| read(other).is_some() && read(other) == written(link));
    let mut steps = Vec::with_capacity(links.len());
    // No chain is longer than the group.
    for link in std::iter::successors(Some(first), after).take(links.len()) {
        let Resolved::Cast(plan) = link.resolved else { return None };
        steps.push(Step { plan, output: border.output(&link.node, 0) });
    }
    let input = border.input(&first.node, 0)?;
    (steps.len() == links.len()).then_some(Group::Casts { input, steps })
}

/// Compiles groups.
pub(crate) unsafe extern "system" fn compile(
    functions: *mut Ep,
    graphs: *mut *const Graph,
    fused: *mut *const GraphNode,
    count: usize,
    made: *mut *mut ComputeInfo,
    _: *mut *mut GraphNode,
) -> StatusPointer {
    // SAFETY: onnxruntime's promise: the provider is ours.
    let host = unsafe { provider(functions) }.host;
    host.status(|| {
        for index in 0..count {
            // SAFETY: onnxruntime's promise: there are as many graphs, fused nodes, and places for what is made.
            unsafe {
                let group = group(host, *graphs.add(index), *fused.add(index))?;
                let functions = ComputeInfo {
                    version: PROVIDER_VERSION,
                    CreateState: create_state,
                    Compute: compute,
                    ReleaseState: release_state,
                };
                made.add(index).write(Box::into_raw(Box::new(Compiled { functions, host, group })).cast());
            }
        }
        Ok(())
    })
}

/// A group has no state of its own besides what was compiled.
unsafe extern "system" fn create_state(
    _: *mut ComputeInfo,
    _: *mut ComputeContext,
    state: *mut *mut c_void,
) -> StatusPointer {
    // SAFETY: onnxruntime's promise.
    unsafe { state.write(ptr::null_mut()) };
    ptr::null_mut()
}

unsafe extern "system" fn release_state(_: *mut ComputeInfo, _: *mut c_void) {}

pub(crate) unsafe extern "system" fn release_compiled(_: *mut Ep, compiled: *mut *mut ComputeInfo, count: usize) {
    for index in 0..count {
        // SAFETY: onnxruntime's promise: there are as many, each from `compile` or null.
        unsafe {
            let one = *compiled.add(index);
            if !one.is_null() {
                drop(Box::from_raw(one.cast::<Compiled>()));
            }
        }
    }
}
