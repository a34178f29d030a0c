//! Numbers every statement, so that the rest of the checker works on small integers.

use crate::role::{RoleProgram, Stmt};

/// A statement and where it stands.
pub(super) struct Site<'p> {
    pub stmt: &'p Stmt,
    pub producer: bool,
    pub loops: Vec<&'p str>,
    pub index: usize,
    /// Inside the body of a repair.
    pub repair: bool,
}

/// A body: statements by site, loops with a key that both roles share.
pub(super) enum Node {
    Leaf(u32),
    /// Run by some warps of a warpgroup and not by others.
    Repair {
        site: u32,
        body: Vec<Node>,
    },
    Loop {
        site: u32,
        key: u32,
        body: Vec<Node>,
    },
}

pub(super) struct Flat<'p> {
    pub program: &'p RoleProgram,
    pub sites: Vec<Site<'p>>,
    pub producer: Vec<Node>,
    pub consumer: Vec<Node>,
    /// Number of loop keys.
    pub keys: u32,
    /// Deepest nesting of loops.
    pub depth: usize,
}

/// Loops of both roles meet by name, and by order among loops of one name.
struct Numbering<'p> {
    sites: Vec<Site<'p>>,
    known: Vec<(&'p str, u32)>,
    seen: Vec<(&'p str, u32)>,
    depth: usize,
    repair: bool,
}

impl<'p> Flat<'p> {
    pub fn new(program: &'p RoleProgram) -> Self {
        let mut n = Numbering {
            sites: vec![],
            known: vec![],
            seen: vec![],
            depth: 0,
            repair: false,
        };
        let consumer = n.body(&program.consumer, false, &mut vec![]);
        n.seen.clear();
        let producer = n.body(&program.producer, true, &mut vec![]);
        let keys = small(n.known.len());
        Self {
            program,
            sites: n.sites,
            producer,
            consumer,
            keys,
            depth: n.depth,
        }
    }

    /// Every statement with its site.
    pub fn all(&self) -> impl Iterator<Item = (u32, &'p Stmt)> + '_ {
        (0u32..).zip(self.sites.iter().map(|s| s.stmt))
    }
}

impl<'p> Numbering<'p> {
    fn body(&mut self, stmts: &'p [Stmt], producer: bool, loops: &mut Vec<&'p str>) -> Vec<Node> {
        self.depth = self.depth.max(loops.len());
        let mut out = vec![];
        for (index, stmt) in stmts.iter().enumerate() {
            let site = small(self.sites.len());
            self.sites.push(Site {
                stmt,
                producer,
                loops: loops.clone(),
                index,
                repair: self.repair,
            });
            out.push(match stmt {
                Stmt::Loop { name, body, .. } => {
                    let key = self.key(name);
                    loops.push(name);
                    let body = self.body(body, producer, loops);
                    loops.pop();
                    Node::Loop { site, key, body }
                }
                Stmt::Repair { body, .. } => {
                    self.repair = true;
                    let body = self.body(body, producer, loops);
                    self.repair = false;
                    Node::Repair { site, body }
                }
                _ => Node::Leaf(site),
            });
        }
        out
    }

    fn key(&mut self, name: &'p str) -> u32 {
        let before = self.seen.iter().filter(|s| s.0 == name).count();
        let id = (name, small(before));
        self.seen.push(id);
        let at = self.known.iter().position(|k| *k == id).unwrap_or_else(|| {
            self.known.push(id);
            self.known.len() - 1
        });
        small(at)
    }
}

pub(super) fn small(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
