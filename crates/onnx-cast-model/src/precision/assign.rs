//! Which variables become narrow: the assignment that keeps every pin and needs the fewest Casts; of those that need as
//! few, the one with the most that is narrow.
//!
//! That is a minimum cut. A value that is float and read narrow anywhere needs one Cast, however many read it, and a
//! value that is narrow and read as float likewise: one node of the network for each value and direction.

use super::cut::{INFINITE, Network};
use super::pins::Pins;
use super::variables::{Reading, Variable, Variables, WIDE};
use std::collections::BTreeMap;

/// The types of the variables.
#[derive(Debug)]
pub(crate) struct Assignment {
    /// By variable, of those that stand for others.
    low: Vec<bool>,
    pub(crate) pins: Pins,
}

impl Assignment {
    pub(crate) fn of(variables: &Variables<'_, '_, '_>) -> Assignment {
        let mut pins = variables.pins.by_root(|variable| variables.root(variable));
        pins.wide(variables.root(WIDE), super::pins::Reason::Fixed);
        let mut network = Network::new(variables.len());
        let (source, sink) = (network.node(), network.node());
        let mut pinned: Vec<_> = pins.iter().collect();
        pinned.sort_unstable_by_key(|(variable, _)| *variable);
        for (variable, pin) in pinned {
            let (from, to) = if pin.low { (variable, sink) } else { (source, variable) };
            network.edge(from, to, INFINITE);
        }
        let mut values: BTreeMap<(usize, usize), Vec<Variable>> = BTreeMap::new();
        for Reading { body, value, variable, .. } in &variables.readings {
            if !variables.constants[*body].contains(value) {
                values.entry((*body, *value)).or_default().push(variables.root(*variable));
            }
        }
        for ((body, value), mut readers) in values {
            let Some(own) = variables.values[body][value].map(|own| variables.root(own)) else { continue };
            readers.sort_unstable();
            readers.dedup();
            readers.retain(|&reader| reader != own);
            let cost = variables.cost(body, value);
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
        let (wide, _) = network.cut(source, sink);
        Assignment { low: wide.into_iter().map(|wide| !wide).collect(), pins }
    }

    /// Whether a variable becomes narrow.
    pub(crate) fn is_low(&self, variables: &Variables<'_, '_, '_>, variable: Variable) -> bool {
        self.low[variables.root(variable)]
    }
}
