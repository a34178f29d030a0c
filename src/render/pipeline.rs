//! What each role does per block and per trip, in order of issue.

use codegen::role::print::{expr, statement};
use codegen::role::{GlobalAt, HandleId, OperandA, RingId, RoleProgram, Stmt};
use serde::Serialize;

/// One event, or a loop with its events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// 0 for once per block, 1 inside a loop, and so on.
    pub depth: usize,
    pub text: String,
}

/// The events of the producer warp and of one consumer warpgroup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pipeline {
    pub producer: Vec<Event>,
    pub consumer: Vec<Event>,
}

/// Reads the events off a program.
#[must_use]
pub fn of(program: &RoleProgram) -> Pipeline {
    let events = |body: &[Stmt]| {
        let mut reader = Reader {
            program,
            events: vec![],
            computed: vec![],
        };
        reader.block(body, 0);
        reader.events
    };
    Pipeline {
        producer: events(&program.producer),
        consumer: events(&program.consumer),
    }
}

/// Writes events down, indented by their depth.
#[must_use]
pub fn text(events: &[Event]) -> String {
    events
        .iter()
        .map(|e| format!("  {:indent$}{}\n", "", e.text, indent = 2 * e.depth))
        .collect()
}

struct Reader<'p> {
    program: &'p RoleProgram,
    events: Vec<Event>,
    /// Register tiles computed since the last event: they are told as one.
    computed: Vec<String>,
}

impl Reader<'_> {
    fn block(&mut self, body: &[Stmt], depth: usize) {
        for stmt in body {
            if let Stmt::Calc { dst, .. } = stmt {
                let name = self.tile(dst.0);
                if self.computed.last() != Some(&name) {
                    self.computed.push(name);
                }
                continue;
            }
            let Some((text, inner)) = self.event(stmt) else {
                continue;
            };
            self.flush(depth);
            self.events.push(Event { depth, text });
            if let Some(inner) = inner {
                self.block(inner, depth + 1);
            }
        }
        self.flush(depth);
    }

    fn flush(&mut self, depth: usize) {
        if !self.computed.is_empty() {
            let text = format!("compute {}", self.computed.join(", "));
            self.computed.clear();
            self.events.push(Event { depth, text });
        }
    }

    /// The words for a statement, and the body that follows; nothing for notes and index arithmetic.
    fn event<'s>(&self, stmt: &'s Stmt) -> Option<(String, Option<&'s [Stmt]>)> {
        let text = match stmt {
            Stmt::Loop {
                name,
                count,
                unroll,
                body,
            } => {
                let unrolled = if *unroll > 1 {
                    format!(", unrolled by {unroll}")
                } else {
                    String::new()
                };
                let text = format!("loop {name}: {} trips{unrolled}", expr(self.program, count));
                return Some((text, Some(body)));
            }
            Stmt::Repair { limit, body, .. } => {
                return Some((format!("repair where a sum is not at most {limit}"), Some(body)));
            }
            Stmt::Fill { ring, load } => format!("fill {}: wait for a free slot, load {}", self.ring(*ring), load.name),
            Stmt::Acquire { load, .. } => format!("wait for {}", load.name),
            Stmt::Release { handle, .. } => format!("release the slot of {}", self.handle(*handle)),
            Stmt::Fence => "fence registers".to_owned(),
            Stmt::Issue(dot) => {
                let a = match &dot.a {
                    OperandA::Shared(_) => "shared",
                    OperandA::Regs(_) => "registers",
                };
                let sum = if dot.accumulate { "+=" } else { "=" };
                let narrow = dot
                    .narrow
                    .as_ref()
                    .map_or(String::new(), |n| format!(", or {} columns", n.cols));
                format!(
                    "issue {} ({} {sum}, {}x{}x{} {}, A in {a}{narrow})",
                    dot.name,
                    self.tile(dot.acc.0),
                    dot.rows,
                    dot.cols,
                    dot.depth,
                    dot.dtype
                )
            }
            Stmt::Wait { pending } => format!("wait until at most {pending} dot(s) are in flight"),
            Stmt::WarpDot { .. } => statement(self.program, stmt),
            Stmt::ReadShared { dst, handle, .. } => {
                format!("read {} from the slot of {}", self.tile(dst.0), self.handle(*handle))
            }
            Stmt::ReadGlobal { dst, at } => format!("read {} from {}", self.tile(dst.0), self.pointer(at)),
            Stmt::StagingFree => "wait until the staging buffer is free".to_owned(),
            Stmt::StagedVisible => "make the staged tile visible to the tensor core".to_owned(),
            Stmt::ConsumersMeet => "all consumer warpgroups meet".to_owned(),
            Stmt::Stage { src, .. } => format!("stage {}", self.tile(src.0)),
            Stmt::StoreStaged { name, .. } => format!("store {name}"),
            Stmt::WriteGlobal { src, at } => format!("write {} to {}", self.tile(src.0), self.pointer(at)),
            Stmt::TurnWait => "wait for the turn".to_owned(),
            Stmt::TurnPass => "pass the turn".to_owned(),
            Stmt::Note(_) | Stmt::Set { .. } | Stmt::Calc { .. } => return None,
        };
        Some((text, None))
    }

    fn tile(&self, id: u32) -> String {
        self.program
            .tiles
            .get(id as usize)
            .map_or_else(|| format!("?{id}"), |t| t.name.clone())
    }

    fn ring(&self, id: RingId) -> &str {
        self.program.rings.get(id.0 as usize).map_or("?", |r| &r.name)
    }

    fn handle(&self, id: HandleId) -> &str {
        self.program.handles.get(id.0 as usize).map_or("?", |(name, _)| name)
    }

    fn pointer(&self, at: &GlobalAt) -> &str {
        let pointer = self.program.pointers.get(at.pointer as usize);
        pointer
            .and_then(|p| self.program.tensors.get(p.tensor as usize))
            .map_or("?", |t| &t.name)
    }
}
