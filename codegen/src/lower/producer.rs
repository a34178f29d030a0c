//! The producer is the consumer's program with everything but loads left out.
//!
//! It fills slots in exactly the order in which consumers acquire them, so a ring shared by several tiles cannot deadlock.

use crate::role::Stmt;

/// Keeps loops, variables and loads; acquires become fills.
#[must_use]
pub fn project(consumer: &[Stmt]) -> Vec<Stmt> {
    consumer.iter().filter_map(statement).collect()
}

fn statement(stmt: &Stmt) -> Option<Stmt> {
    match stmt {
        Stmt::Set { .. } => Some(stmt.clone()),
        Stmt::Acquire { ring, load, .. } => Some(Stmt::Fill {
            ring: *ring,
            load: load.clone(),
        }),
        Stmt::Loop { name, count, body, .. } => {
            let body = project(body);
            body.iter().any(has_fill).then(|| Stmt::Loop {
                name: name.clone(),
                count: count.clone(),
                unroll: 1,
                body,
            })
        }
        _ => None,
    }
}

fn has_fill(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::Fill { .. } => true,
        Stmt::Loop { body, .. } => body.iter().any(has_fill),
        _ => false,
    }
}
