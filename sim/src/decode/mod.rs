//! Statements to a flat list of decoded instructions.
//!
//! One PTX statement becomes one [`Inst`]; program counters are indices into the list. Adding an
//! instruction touches [`op::Op`], one decoder here and one handler under `exec`.

mod address;
mod bulk;
mod control;
mod convert;
pub(crate) mod cx;
mod float;
mod function;
mod integer;
mod matrix;
mod memory;
pub(crate) mod op;
mod operand;
mod scope;
mod special;
mod sync;
pub(crate) mod ty;
mod warp;

use std::sync::Arc;

use crate::parse::ast::{EntryAst, EntryLimits, InstAst, ModuleAst, RegDecl, Stmt, VarDecl, VarSpace};
use crate::parse::error::{PtxError, PtxResult};
use crate::parse::lines::Lines;
use cx::Cx;
use op::{Inst, Op, Together};
use scope::{Scopes, Symbol};
use ty::Ty;

/// First usable byte of a CTA's shared window: the driver keeps the first KiB on sm_90.
pub(crate) const SHARED_START: u32 = 1024;
/// Most 32-bit register slots of a kernel: what a simulated warp may hold.
const MAX_SLOTS: usize = 1 << 16;

/// A parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Param {
    pub name: String,
    pub offset: u32,
    pub bytes: u32,
}

/// A decoded kernel.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    pub name: String,
    pub code: Vec<Inst>,
    pub params: Vec<Param>,
    pub param_bytes: u32,
    pub limits: EntryLimits,
    /// Static shared bytes, before the dynamic part.
    pub static_smem_bytes: u32,
    pub reg_names: Vec<String>,
    pub pred_names: Vec<String>,
    /// Source lines behind the PTX lines.
    pub lines: Arc<Lines>,
}

/// Decodes every entry of a module.
pub(crate) fn decode(module: &ModuleAst) -> PtxResult<Vec<Kernel>> {
    module.entries.iter().map(|entry| kernel(module, entry)).collect()
}

fn kernel(module: &ModuleAst, entry: &EntryAst) -> PtxResult<Kernel> {
    let mut scopes = Scopes::new();
    let mut layout = SmemLayout::default();
    let body_vars = entry.body.iter().filter_map(|s| match s {
        Stmt::Var(var) => Some(var),
        _ => None,
    });
    for var in module.vars.iter().chain(body_vars) {
        layout.place(var)?;
    }
    let static_smem_bytes = layout.finish(&mut scopes);
    let (params, param_bytes) = place_params(entry, &mut scopes);
    first_pass(entry, &mut scopes)?;
    scopes.rewind();
    let code = second_pass(entry, &mut scopes)?;
    Ok(Kernel {
        name: entry.name.clone(),
        code,
        params,
        param_bytes,
        limits: entry.limits,
        static_smem_bytes,
        reg_names: scopes.reg_names,
        pred_names: scopes.pred_names,
        lines: Arc::clone(&module.lines),
    })
}

/// Static variables first, then the dynamic array (PTX ISA 5.1.6).
#[derive(Default)]
struct SmemLayout {
    placed: Vec<(String, u32)>,
    dynamic: Vec<(String, u32)>,
    at: u32,
}

impl SmemLayout {
    fn place(&mut self, var: &VarDecl) -> PtxResult<()> {
        if var.space != VarSpace::Shared {
            return Err(PtxError::new(
                var.pos,
                format!("`{}`: only .shared variables are simulated", var.name),
            ));
        }
        let align = u32::try_from(var.align_bytes).unwrap_or(1);
        let Some(elems) = var.elems else {
            self.dynamic.push((var.name.clone(), align));
            return Ok(());
        };
        let bytes = u32::try_from(elems.saturating_mul(var.elem_bytes)).unwrap_or(u32::MAX);
        let start = self.at.next_multiple_of(align);
        self.at = start.saturating_add(bytes);
        if self.at > 1 << 20 {
            return Err(PtxError::new(
                var.pos,
                format!("`{}` makes static shared memory larger than 1 MiB", var.name),
            ));
        }
        self.placed.push((var.name.clone(), start));
        Ok(())
    }

    fn finish(mut self, scopes: &mut Scopes) -> u32 {
        let align = self.dynamic.iter().map(|(_, a)| *a).max().unwrap_or(1);
        self.at = self.at.next_multiple_of(align);
        for (name, at) in self.placed {
            scopes.add(&name, Symbol::Shared(SHARED_START + at));
        }
        for (name, _) in self.dynamic {
            scopes.add(&name, Symbol::Shared(SHARED_START + self.at));
        }
        self.at
    }
}

fn place_params(entry: &EntryAst, scopes: &mut Scopes) -> (Vec<Param>, u32) {
    let mut at = 0u32;
    let mut params = Vec::new();
    for param in &entry.params {
        let offset = at.next_multiple_of((param.align_bytes as u32).max(1));
        let bytes = param.bytes as u32;
        scopes.add(&param.name, Symbol::Param { offset });
        params.push(Param {
            name: param.name.clone(),
            offset,
            bytes,
        });
        at = offset + bytes;
    }
    (params, at)
}

/// Declares labels, so that branches may jump forward.
fn first_pass(entry: &EntryAst, scopes: &mut Scopes) -> PtxResult<()> {
    let mut at = 0;
    for stmt in &entry.body {
        match stmt {
            Stmt::Open => scopes.open(),
            Stmt::Close => scopes.close(),
            Stmt::Label(name, pos) if !scopes.add_label(name, at) => {
                return Err(PtxError::new(
                    *pos,
                    format!("label `{name}` is defined twice in this scope"),
                ));
            }
            Stmt::Inst(_) => at += 1,
            _ => {}
        }
    }
    Ok(())
}

fn second_pass(entry: &EntryAst, scopes: &mut Scopes) -> PtxResult<Vec<Inst>> {
    let mut code = Vec::new();
    for stmt in &entry.body {
        match stmt {
            Stmt::Open => scopes.open(),
            Stmt::Close => scopes.close(),
            Stmt::Reg(decls) => decls.iter().try_for_each(|decl| declare(decl, scopes))?,
            Stmt::Inst(inst) => code.push(instruction(inst, scopes)?),
            Stmt::Label(..) | Stmt::Var(_) => {}
        }
    }
    let line = code.last().map_or(entry.pos.line, |inst: &Inst| inst.line);
    code.push(Inst {
        op: Op::Exit,
        guard: None,
        together: Together::Free,
        line,
    });
    Ok(code)
}

fn declare(decl: &RegDecl, scopes: &mut Scopes) -> PtxResult<()> {
    let ty =
        Ty::parse(&decl.ty).ok_or_else(|| PtxError::new(decl.pos, format!("`.{}` is not a register type", decl.ty)))?;
    let wanted = decl.family.unwrap_or(1) as usize * ty.slots() as usize;
    if scopes.reg_names.len() + scopes.pred_names.len() + wanted > MAX_SLOTS {
        return Err(PtxError::new(
            decl.pos,
            format!("the kernel declares more than {MAX_SLOTS} registers"),
        ));
    }
    let symbol = match decl.family {
        None => Symbol::Reg {
            ty,
            slot: scopes.alloc(ty, &decl.name),
        },
        Some(count) => {
            let first = if ty == Ty::Pred {
                scopes.pred_names.len()
            } else {
                scopes.reg_names.len()
            } as u32;
            for index in 0..count {
                scopes.alloc(ty, &format!("{}{index}", decl.name));
            }
            Symbol::Family { ty, first, count }
        }
    };
    if scopes.add(&decl.name, symbol) {
        Ok(())
    } else {
        Err(PtxError::new(
            decl.pos,
            format!("`{}` is declared twice in this scope", decl.name),
        ))
    }
}

fn instruction(inst: &InstAst, scopes: &Scopes) -> PtxResult<Inst> {
    let mut cx = Cx::new(inst, scopes);
    let guard = cx.guard()?;
    let (op, together) = operation(&mut cx)?;
    Ok(Inst {
        op,
        guard,
        together,
        line: inst.pos.line,
    })
}

/// The registry: opcode to decoder.
fn operation(cx: &mut Cx) -> PtxResult<(Op, Together)> {
    let free = |op: PtxResult<Op>| op.map(|op| (op, Together::Free));
    match cx.inst.opcode.as_str() {
        "mov" => free(integer::mov(cx)),
        "add" | "sub" | "min" | "max" | "neg" | "abs" if is_float(cx) => free(float::arithmetic(cx)),
        "mul" | "fma" | "mad" | "div" if is_float(cx) => free(float::arithmetic(cx)),
        "ex2" | "lg2" | "rcp" | "sqrt" | "rsqrt" | "tanh" | "sin" | "cos" => free(float::function(cx)),
        "add" | "sub" | "min" | "max" | "div" | "rem" | "and" | "or" | "xor" | "shl" | "shr" => {
            free(integer::binary(cx))
        }
        "mul" | "mad" => free(integer::multiply(cx)),
        "not" | "neg" | "abs" | "popc" | "clz" | "brev" => free(integer::unary(cx)),
        "bfe" | "lop3" | "prmt" | "shf" => free(integer::ternary(cx)),
        "setp" => free(control::setp(cx)),
        "selp" => free(control::selp(cx)),
        "bra" => free(control::bra(cx)),
        "ret" | "exit" => free(control::exit(cx)),
        "trap" => free(cx.finish(0..=0).map(|()| Op::Trap)),
        "call" => Err(cx.error("`call` is not simulated: kernels must make no calls")),
        "cvt" => free(convert::cvt(cx)),
        "cvta" => free(convert::cvta(cx)),
        "mapa" => free(convert::mapa(cx)),
        "ld" | "ldu" => free(memory::load(cx)),
        "st" => free(memory::store(cx)),
        "atom" | "red" => free(memory::atom(cx)),
        "createpolicy" => free(memory::create_policy(cx)),
        "prefetch" | "prefetchu" | "applypriority" | "discard" => free(memory::prefetch(cx)),
        "shfl" => warp::shfl(cx),
        "vote" => warp::vote(cx),
        "match" => warp::matching(cx),
        "elect" => warp::elect(cx),
        "redux" => warp::redux(cx),
        "activemask" => free(warp::activemask(cx)),
        "bar" | "barrier" => sync::barrier(cx),
        "membar" | "fence" => free(sync::fence(cx)),
        "mbarrier" => free(sync::mbarrier(cx)),
        "setmaxnreg" => sync::setmaxnreg(cx),
        "griddepcontrol" => free(sync::griddepcontrol(cx)),
        "nanosleep" => free(sync::nanosleep(cx)),
        "cp" => free(bulk::copy(cx)),
        "ldmatrix" | "stmatrix" => matrix::ldst_matrix(cx),
        "mma" => matrix::mma(cx),
        "wgmma" => matrix::wgmma(cx),
        other => Err(cx.error(format!("unknown instruction `{other}`"))),
    }
}

fn is_float(cx: &Cx) -> bool {
    cx.inst.mods.iter().filter_map(|m| Ty::parse(&m.name)).any(Ty::is_float)
}
