//! Which variables become narrow: the assignment that keeps every pin and needs the fewest Casts; of those that need as
//! few, the one with the most that is narrow.
//!
//! That is a minimum cut. A value that is float and read narrow anywhere needs one Cast, however many read it, and a
//! value that is narrow and read as float likewise: one node of the network for each value and direction.

use super::cut::{INFINITE, Network};
use super::norms::{self, Norm};
use super::pins::{Pins, Reason, Variable};
use super::variables::{Reading, Variables, WIDE};
use std::collections::BTreeMap;

/// The types of the variables.
#[derive(Debug)]
pub(crate) struct Assignment {
    /// By variable, of those that stand for others.
    low: Vec<bool>,
    pub(crate) pins: Pins,
    /// The layer normalizations of plain operators, by body.
    pub(crate) norms: Vec<Vec<Norm>>,
}

/// A value that is read, perhaps at other types than its own.
struct ReadValue {
    own: Variable,
    readers: Vec<Variable>,
    /// What a Cast of it costs.
    cost: u64,
}

impl Assignment {
    pub(crate) fn of(variables: &Variables<'_, '_, '_>) -> Assignment {
        let mut pins = variables.pins.by_root(|variable| variables.root(variable));
        pins.wide(variables.root(WIDE), Reason::Fixed);
        let mut pinned: Vec<_> = pins.iter().map(|(variable, pin)| (variable, pin.low)).collect();
        pinned.sort_unstable();
        let mut readers: BTreeMap<(usize, usize), Vec<Variable>> = BTreeMap::new();
        for Reading { body, value, variable, .. } in &variables.readings {
            if !variables.constants[*body].contains(value) {
                readers.entry((*body, *value)).or_default().push(variables.root(*variable));
            }
        }
        let norms: Vec<_> = variables.typing.bodies.iter().map(|body| norms::find(&body.flow)).collect();
        // A scale of another type than what is normalized costs a copy.
        let all = norms.iter().enumerate().flat_map(|(body, norms)| norms.iter().map(move |norm| (body, norm)));
        let tied = all.filter_map(|(body, norm)| {
            let known = readers.get(&(body, norm.input)).map_or(&[][..], Vec::as_slice);
            let (own, readers) = norm.tied(variables, body, &pins, known)?;
            Some(ReadValue { own, readers, cost: variables.cost(body, norm.input) })
        });
        let tied: Vec<_> = tied.collect();
        let values = readers.into_iter().filter_map(|((body, value), readers)| {
            let own = variables.root(variables.values[body][value]?);
            Some(ReadValue { own, readers, cost: variables.cost(body, value) })
        });
        let low = cheapest(variables.len(), &pinned, values.chain(tied));
        Assignment { low, pins, norms }
    }

    /// Whether a variable becomes narrow.
    pub(crate) fn is_low(&self, variables: &Variables<'_, '_, '_>, variable: Variable) -> bool {
        self.low[variables.root(variable)]
    }
}

/// By variable: whether it becomes narrow. `pinned` ones are decided.
fn cheapest(count: usize, pinned: &[(Variable, bool)], values: impl Iterator<Item = ReadValue>) -> Vec<bool> {
    let mut network = Network::new(count);
    let (source, sink) = (network.node(), network.node());
    for &(variable, low) in pinned {
        let (from, to) = if low { (variable, sink) } else { (source, variable) };
        network.edge(from, to, INFINITE);
    }
    for ReadValue { own, mut readers, cost } in values {
        readers.sort_unstable();
        readers.dedup();
        readers.retain(|&reader| reader != own);
        if let [reader] = readers[..] {
            network.edge(own, reader, cost);
            network.edge(reader, own, cost);
        } else if !readers.is_empty() {
            let (down, up) = (network.node(), network.node());
            network.edge(own, down, cost);
            network.edge(up, own, cost);
            for reader in readers {
                network.edge(down, reader, INFINITE);
                network.edge(reader, up, INFINITE);
            }
        }
    }
    let wide = network.cut(source, sink);
    wide[..count].iter().map(|wide| !wide).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::generators::Rng;

    /// The Casts of an assignment.
    fn casts(low: &dyn Fn(Variable) -> bool, values: &[(Variable, Vec<Variable>, u64)]) -> u64 {
        let cast = |(own, readers, _): &&(Variable, Vec<Variable>, u64)| {
            readers.iter().any(|&reader| low(reader) != low(*own))
        };
        values.iter().filter(cast).map(|(.., cost)| cost).sum()
    }

    /// Against every assignment of random graphs.
    #[test]
    fn no_assignment_has_fewer_casts() {
        let mut random = Rng::new(19);
        for _ in 0..2000 {
            let count = 2 + random.below(15) as usize;
            let mut variable = || random.below(count as u64) as usize;
            let values: Vec<_> = (0..count + 2)
                .map(|index| {
                    let readers = (0..1 + index % 4).map(|_| variable()).collect::<Vec<_>>();
                    (variable(), readers, if index % 5 == 0 { 8 } else { 1 })
                })
                .collect();
            let pinned = [(0, false), (1, true), (variable(), false)];
            let pinned = if pinned[2].0 == 1 { &pinned[..2] } else { &pinned[..] };
            let given = values.iter().map(|(own, readers, cost)| ReadValue {
                own: *own,
                readers: readers.clone(),
                cost: *cost,
            });
            let low = cheapest(count, pinned, given);
            assert!(pinned.iter().all(|&(variable, want)| low[variable] == want));
            let cost = casts(&|variable| low[variable], &values);
            let narrow = low.iter().filter(|&&low| low).count();
            for other in 0..1_u32 << count {
                let is_low = |variable: Variable| other >> variable & 1 == 1;
                if pinned.iter().all(|&(variable, want)| is_low(variable) == want) {
                    let others = casts(&is_low, &values);
                    let fewer = others < cost || (others == cost && other.count_ones() as usize > narrow);
                    assert!(!fewer, "{values:?} {low:?} {other:b}");
                }
            }
        }
    }
}
