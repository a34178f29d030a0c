//! Control flow of one function: dominators, natural loops with their nesting, dominated regions.
//!
//! A backward branch alone is no loop: ptxas puts the retry of a barrier wait behind the function's end and jumps back
//! from there. A loop is a branch to an instruction that dominates it, and its body is what reaches the branch without
//! passing that instruction.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use petgraph::algo::dominators::simple_fast;
use petgraph::algo::is_cyclic_directed;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;

use crate::sass::{Instruction, SassFunction};

/// A natural loop. Instructions are named by their index in the function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NaturalLoop {
    /// The instruction every iteration starts with.
    pub header: usize,
    /// All instructions of the loop, inner loops included.
    pub body: BTreeSet<usize>,
    /// The innermost loop around it, as an index into [`Flow::loops`].
    pub parent: Option<usize>,
    /// 0 for an outermost loop.
    pub depth: u32,
}

/// The control flow of one function.
#[derive(Debug, Clone)]
pub struct Flow {
    spans: DominatorSpans,
    /// Loops by header address; a loop stands before those inside it when they start later.
    pub loops: Vec<NaturalLoop>,
    /// A cycle exists that no loop header dominates; its instructions are in no loop of the list.
    pub is_irreducible: bool,
    /// Branches whose target only the run knows; nothing is assumed to follow them.
    pub indirect_branches: u32,
}

impl Flow {
    /// Analyses a function.
    #[must_use]
    pub fn of(function: &SassFunction) -> Self {
        let instructions = &function.instructions;
        let indirect = instructions
            .iter()
            .filter(|instruction| is_indirect(instruction))
            .count();
        let mut graph = graph_of(instructions);
        let spans = DominatorSpans::of(&graph);
        let back_edges = back_edges(&graph, &spans);
        let loops = loops_of(&graph, &back_edges);
        graph.retain_edges(|graph, edge| {
            graph.edge_endpoints(edge).is_some_and(|(from, to)| {
                spans.is_reachable(from.index()) && !back_edges.contains(&(from.index(), to.index()))
            })
        });
        Self {
            spans,
            loops,
            is_irreducible: is_cyclic_directed(&graph),
            indirect_branches: u32::try_from(indirect).unwrap_or(u32::MAX),
        }
    }

    /// Whether the instruction can be reached from the function's start.
    #[must_use]
    pub fn is_reachable(&self, instruction: usize) -> bool {
        self.spans.is_reachable(instruction)
    }

    /// Whether every path from the function's start to `instruction` passes `dominator`.
    #[must_use]
    pub fn dominates(&self, dominator: usize, instruction: usize) -> bool {
        self.spans.dominates(dominator, instruction)
    }
}

/// The dominator tree as nested spans of a walk through it, so that dominance is one comparison.
#[derive(Debug, Clone, Default)]
struct DominatorSpans(Vec<Option<(u32, u32)>>);

impl DominatorSpans {
    fn of(graph: &DiGraph<(), ()>) -> Self {
        let mut spans = vec![None; graph.node_count()];
        if spans.is_empty() {
            return Self(spans);
        }
        let dominators = simple_fast(graph, NodeIndex::new(0));
        let mut children = vec![Vec::new(); spans.len()];
        for node in graph.node_indices() {
            let parent = dominators
                .immediate_dominator(node)
                .and_then(|parent| children.get_mut(parent.index()));
            parent.into_iter().for_each(|list| list.push(node.index()));
        }
        let mut clock = 0;
        let mut pending = vec![(0, false)];
        while let Some((node, is_done)) = pending.pop() {
            let Some(span) = spans.get_mut(node) else { continue };
            clock += 1;
            match span {
                Some((_, end)) if is_done => *end = clock,
                _ => {
                    *span = Some((clock, clock));
                    pending.push((node, true));
                    pending.extend(children.get(node).into_iter().flatten().map(|child| (*child, false)));
                }
            }
        }
        Self(spans)
    }

    fn span(&self, node: usize) -> Option<(u32, u32)> {
        self.0.get(node).copied().flatten()
    }

    fn is_reachable(&self, node: usize) -> bool {
        self.span(node).is_some()
    }

    fn dominates(&self, dominator: usize, node: usize) -> bool {
        matches!((self.span(dominator), self.span(node)), (Some(outer), Some(inner)) if outer.0 <= inner.0 && inner.1 <= outer.1)
    }
}

fn is_indirect(instruction: &Instruction) -> bool {
    matches!(instruction.base(), "BRX" | "BRXU" | "JMX" | "JMXU")
}

/// A branch every thread takes. `BRA.U UP0, target` and `BRA P1, target` carry their condition as an operand.
fn always_taken(instruction: &Instruction) -> bool {
    instruction.is_unconditional() && instruction.operands.len() <= 1
}

fn graph_of(instructions: &[Instruction]) -> DiGraph<(), ()> {
    let index_of: HashMap<u64, usize> = instructions
        .iter()
        .enumerate()
        .map(|(index, instruction)| (instruction.address, index))
        .collect();
    let mut graph = DiGraph::with_capacity(instructions.len(), instructions.len() * 2);
    for _ in instructions {
        graph.add_node(());
    }
    // The target of the latest BSSY per convergence register: where its BSYNC continues.
    let mut convergence: HashMap<&str, u64> = HashMap::new();
    for (index, instruction) in instructions.iter().enumerate() {
        if let ("BSSY", Some(register), Some(target)) =
            (instruction.base(), instruction.operands.first(), instruction.target)
        {
            convergence.insert(register, target);
        }
        let (jump, falls_through) = successors(instruction, &convergence);
        let next = Some(index + 1).filter(|next| falls_through && *next < instructions.len());
        let jump = jump.and_then(|target| index_of.get(&target).copied());
        for successor in next.into_iter().chain(jump) {
            graph.update_edge(NodeIndex::new(index), NodeIndex::new(successor), ());
        }
    }
    graph
}

/// Where an instruction may jump to, and whether the next one may follow it.
fn successors(instruction: &Instruction, convergence: &HashMap<&str, u64>) -> (Option<u64>, bool) {
    match instruction.base() {
        "EXIT" | "RET" | "KILL" => (None, !instruction.is_unconditional()),
        "BRX" | "BRXU" | "JMX" | "JMXU" => (None, !instruction.is_unconditional()),
        "BRA" | "JMP" => (instruction.target, !always_taken(instruction)),
        "BSYNC" => {
            let target = instruction
                .operands
                .first()
                .and_then(|register| convergence.get(register.as_str()));
            (target.copied(), target.is_none() || !instruction.is_unconditional())
        }
        _ => (None, true),
    }
}

/// Edges to an instruction that dominates their source.
fn back_edges(graph: &DiGraph<(), ()>, spans: &DominatorSpans) -> BTreeSet<(usize, usize)> {
    graph
        .edge_references()
        .map(|edge| (edge.source().index(), edge.target().index()))
        .filter(|(source, target)| spans.dominates(*target, *source))
        .collect()
}

/// One loop per header, with nesting.
fn loops_of(graph: &DiGraph<(), ()>, back_edges: &BTreeSet<(usize, usize)>) -> Vec<NaturalLoop> {
    let mut bodies: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (source, header) in back_edges {
        let body = bodies.entry(*header).or_insert_with(|| BTreeSet::from([*header]));
        grow_body(graph, body, *source);
    }
    let mut loops: Vec<NaturalLoop> = bodies
        .into_iter()
        .map(|(header, body)| NaturalLoop {
            header,
            body,
            parent: None,
            depth: 0,
        })
        .collect();
    let nesting: Vec<(Option<usize>, u32)> = (0..loops.len()).map(|inner| nesting_of(&loops, inner)).collect();
    for (natural_loop, (parent, depth)) in loops.iter_mut().zip(nesting) {
        (natural_loop.parent, natural_loop.depth) = (parent, depth);
    }
    loops
}

/// Adds what reaches `source` without passing what is in the body already.
fn grow_body(graph: &DiGraph<(), ()>, body: &mut BTreeSet<usize>, source: usize) {
    let mut pending = vec![source];
    while let Some(instruction) = pending.pop() {
        if body.insert(instruction) {
            let before = graph.neighbors_directed(NodeIndex::new(instruction), petgraph::Direction::Incoming);
            pending.extend(before.map(NodeIndex::index));
        }
    }
}

/// The smallest loop around a loop, and how many there are.
fn nesting_of(loops: &[NaturalLoop], inner: usize) -> (Option<usize>, u32) {
    let Some(header) = loops.get(inner).map(|natural_loop| natural_loop.header) else {
        return (None, 0);
    };
    let around: Vec<(usize, usize)> = loops
        .iter()
        .enumerate()
        .filter(|(index, outer)| *index != inner && outer.body.contains(&header))
        .map(|(index, outer)| (outer.body.len(), index))
        .collect();
    let depth = u32::try_from(around.len()).unwrap_or(u32::MAX);
    (around.into_iter().min().map(|(_, index)| index), depth)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sass::parse::parse;

    fn flow_of(lines: &[&str]) -> Flow {
        let mut text = "Function : k\n".to_owned();
        for (index, line) in lines.iter().enumerate() {
            text.push_str(&format!("/*{:04x}*/ {line} ;\n", index * 16));
        }
        Flow::of(&parse(&text).unwrap()[0])
    }

    #[test]
    fn nested_loops_know_their_parent() {
        let flow = flow_of(&["MOV R0, RZ", "NOP", "NOP", "@P0 BRA 0x20", "@P1 BRA 0x10", "EXIT"]);
        let shape: Vec<_> = flow
            .loops
            .iter()
            .map(|l| (l.header, l.body.len(), l.parent, l.depth))
            .collect();
        assert_eq!(shape, [(1, 4, None, 0), (2, 2, Some(0), 1)]);
        assert!(!flow.is_irreducible);
    }

    #[test]
    fn a_retry_behind_the_end_is_one_small_loop_and_its_return_none() {
        // 0: wait; 1: miss -> 4; 2: work; 3: exit; 4: wait; 5: again -> 4; 6: back -> 2
        let flow = flow_of(&[
            "SYNCS P0",
            "@!P0 BRA 0x40",
            "NOP",
            "EXIT",
            "SYNCS P0",
            "@!P0 BRA 0x40",
            "BRA 0x20",
        ]);
        let shape: Vec<_> = flow.loops.iter().map(|l| (l.header, l.body.len())).collect();
        assert_eq!(shape, [(4, 2)]);
        assert!(flow.dominates(0, 6) && !flow.dominates(4, 2));
    }

    #[test]
    fn unreachable_padding_is_no_loop() {
        let flow = flow_of(&["EXIT", "BRA 0x10", "NOP"]);
        assert!(flow.loops.is_empty() && !flow.is_reachable(1) && !flow.is_irreducible);
    }

    #[test]
    fn a_loop_entered_in_two_places_is_reported_as_irreducible() {
        let flow = flow_of(&["@P0 BRA 0x20", "NOP", "@P1 BRA 0x10", "EXIT"]);
        assert!(flow.loops.is_empty() && flow.is_irreducible);
    }

    #[test]
    fn convergence_continues_where_its_opening_says() {
        let flow = flow_of(&["BSSY B0, 0x40", "@P0 BRA 0x30", "NOP", "BSYNC B0", "EXIT"]);
        assert!(flow.is_reachable(4) && flow.loops.is_empty());
    }

    #[test]
    fn conditions_written_as_operands_fall_through() {
        let flow = flow_of(&["BRA.U !UP0, 0x20", "NOP", "EXIT"]);
        assert!(flow.is_reachable(1));
    }
}
