//! A minimum cut: which of the nodes of a network are on the side of the source, so that what crosses costs least.
//! Dinic's algorithm, without recursion, as networks may be long chains.

use std::collections::VecDeque;

/// A capacity that no cut may take.
pub(crate) const INFINITE: u64 = u64::MAX / 4;

#[derive(Debug)]
pub(crate) struct Network {
    /// By node: its first edge; each edge tells the next of its node.
    first: Vec<usize>,
    edges: Vec<Edge>,
}

#[derive(Debug)]
struct Edge {
    to: usize,
    /// What is left of its capacity. The edge back stands beside it, at the number with the other last bit.
    left: u64,
    next: usize,
}

const NONE: usize = usize::MAX;

impl Network {
    pub(crate) fn new(nodes: usize) -> Self {
        Network { first: vec![NONE; nodes], edges: Vec::new() }
    }

    /// Another node.
    pub(crate) fn node(&mut self) -> usize {
        self.first.push(NONE);
        self.first.len() - 1
    }

    pub(crate) fn edge(&mut self, from: usize, to: usize, capacity: u64) {
        for (from, to, left) in [(from, to, capacity), (to, from, 0)] {
            self.edges.push(Edge { to, left, next: self.first[from] });
            self.first[from] = self.edges.len() - 1;
        }
    }

    /// The nodes on the side of the source in the cut of least cost that has the fewest of them there.
    pub(crate) fn cut(mut self, source: usize, sink: usize) -> Vec<bool> {
        loop {
            let levels = self.levels(source);
            if levels[sink] == NONE {
                return levels.into_iter().map(|level| level != NONE).collect();
            }
            self.block(source, sink, &levels);
        }
    }

    /// By node: its distance from the source over edges with capacity left.
    fn levels(&self, source: usize) -> Vec<usize> {
        let mut levels = vec![NONE; self.first.len()];
        levels[source] = 0;
        let mut queue = VecDeque::from([source]);
        while let Some(node) = queue.pop_front() {
            let mut edge = self.first[node];
            while edge != NONE {
                let Edge { to, left, next } = self.edges[edge];
                if left > 0 && levels[to] == NONE {
                    levels[to] = levels[node] + 1;
                    queue.push_back(to);
                }
                edge = next;
            }
        }
        levels
    }

    /// Sends as much as fits along shortest paths.
    fn block(&mut self, source: usize, sink: usize, levels: &[usize]) {
        // By node: the first of its edges that is not yet known to lead nowhere.
        let mut current = self.first.clone();
        let (mut path, mut node): (Vec<usize>, _) = (Vec::new(), source);
        loop {
            if node == sink {
                let least = path.iter().map(|&edge| self.edges[edge].left).min().unwrap_or(0);
                for &edge in &path {
                    self.edges[edge].left -= least;
                    self.edges[edge ^ 1].left += least;
                }
                // On from where the path is full.
                let full = path.iter().position(|&edge| self.edges[edge].left == 0).unwrap_or(0);
                node = path.get(full).map_or(source, |&edge| self.edges[edge ^ 1].to);
                path.truncate(full);
                continue;
            }
            let edge = current[node];
            if edge != NONE {
                let Edge { to, left, next } = self.edges[edge];
                if left > 0 && levels[to] == levels[node] + 1 {
                    path.push(edge);
                    node = to;
                } else {
                    current[node] = next;
                }
            } else if let Some(edge) = path.pop() {
                node = self.edges[edge ^ 1].to;
                current[node] = self.edges[edge].next;
            } else {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_cut_with_the_fewest_nodes() {
        // Two edges of cost 1 in a row: the first is cut.
        let mut network = Network::new(4);
        network.edge(0, 1, 1);
        network.edge(1, 2, 5);
        network.edge(2, 3, 1);
        assert_eq!(network.cut(0, 3), [true, false, false, false]);
        // Two paths, one of which borrows from the other.
        let mut network = Network::new(4);
        for (from, to) in [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)] {
            network.edge(from, to, 1);
        }
        assert_eq!(network.cut(0, 3), [true, false, false, false]);
    }

    #[test]
    fn long_chains_take_no_stack_and_no_time() {
        let nodes = 200_000;
        let mut network = Network::new(nodes);
        (1..nodes).for_each(|node| network.edge(node - 1, node, if node == nodes / 2 { 1 } else { 2 }));
        let side = network.cut(0, nodes - 1);
        assert_eq!(side.iter().filter(|&&source| source).count(), nodes / 2);
    }

    /// Against every subset, on random networks.
    #[test]
    fn no_cut_is_cheaper() {
        let mut random = testkit::generators::Rng::new(7);
        for _ in 0..500 {
            let nodes = 3 + random.below(6) as usize;
            let edges: Vec<_> = (0..nodes * 2)
                .map(|_| {
                    let mut below = |limit: usize| random.below(limit as u64) as usize;
                    (below(nodes), below(nodes), below(4) as u64)
                })
                .filter(|(from, to, _)| from != to)
                .collect();
            let cost_of = |side: &dyn Fn(usize) -> bool| -> u64 {
                edges.iter().filter(|(from, to, _)| side(*from) && !side(*to)).map(|(.., capacity)| capacity).sum()
            };
            let mut network = Network::new(nodes);
            edges.iter().for_each(|&(from, to, capacity)| network.edge(from, to, capacity));
            let side = network.cut(0, nodes - 1);
            let cost = cost_of(&|node| side[node]);
            for subset in 0..1_usize << nodes {
                if subset & 1 == 1 && subset >> (nodes - 1) == 0 {
                    assert!(cost_of(&|node| subset >> node & 1 == 1) >= cost, "{edges:?}");
                }
            }
        }
    }
}
