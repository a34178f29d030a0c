//! Registers and variables are written before they are read, on every path; a loop may run no trip at all.

use crate::role::Stmt;

use super::access;
use super::flat::Node;
use super::violation::{At, Rule, Sink};

/// What is certainly set at a point.
#[derive(Clone)]
struct Set {
    vars: Vec<bool>,
    tiles: Vec<bool>,
}

pub(super) fn check(sink: &mut Sink<'_, '_>) {
    let flat = sink.flat;
    let p = flat.program;
    let mut start = Set {
        vars: vec![false; p.vars.len()],
        tiles: vec![false; p.tiles.len()],
    };
    for axis in &p.grid.axes {
        access::vars(&axis.count, &mut |v| {
            sink.fail(
                Rule::VarUnset,
                At::Item(&axis.name),
                "a count of runtime sizes",
                format!("`{}`, which is set per block", p.vars[v.0 as usize]),
            );
        });
        start.vars[axis.var.0 as usize] = true;
    }
    for body in [&flat.producer, &flat.consumer] {
        walk(sink, body, &mut start.clone());
    }
}

fn walk(sink: &mut Sink<'_, '_>, body: &[Node], set: &mut Set) {
    for node in body {
        match node {
            Node::Leaf(site) => statement(sink, *site, set),
            Node::Loop { site, body, .. } | Node::Repair { site, body } => {
                statement(sink, *site, set);
                // The first trip sees least: what it sets may be missing after a loop without trips.
                walk(sink, body, &mut set.clone());
            }
        }
    }
}

fn statement(sink: &mut Sink<'_, '_>, site: u32, set: &mut Set) {
    let p = sink.flat.program;
    let stmt = sink.flat.sites[site as usize].stmt;
    access::exprs(stmt, &mut |e| {
        access::vars(e, &mut |v| {
            if !set.vars[v.0 as usize] {
                sink.fail(
                    Rule::VarUnset,
                    At::Site(site),
                    "variables that are set on every path",
                    format!("`{}` unset", p.vars[v.0 as usize]),
                );
            }
        })
    });
    access::reads(stmt, &mut |t| {
        if !set.tiles[t as usize] {
            sink.fail(
                Rule::TileUnset,
                At::Site(site),
                "register tiles that are written on every path",
                format!("`{}#{t}` unwritten", p.tiles[t as usize].name),
            );
        }
    });
    if let Some(t) = access::written(stmt) {
        set.tiles[t as usize] = true;
    }
    if let Stmt::Set { var, .. } = stmt {
        set.vars[var.0 as usize] = true;
    }
}
