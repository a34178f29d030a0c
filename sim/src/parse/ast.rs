//! What the parser hands to the decoder: PTX statements with names still unresolved.

use std::sync::Arc;

use super::error::Pos;
use super::lines::Lines;

/// A parsed module.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModuleAst {
    pub version: (u32, u32),
    pub target: String,
    pub vars: Vec<VarDecl>,
    pub entries: Vec<EntryAst>,
    /// What `.file` and `.loc` say.
    pub lines: Arc<Lines>,
}

/// State space of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VarSpace {
    Shared,
    Global,
    Const,
    Local,
}

/// `.shared .align 16 .b8 name[128];`
#[derive(Clone, Debug)]
pub(crate) struct VarDecl {
    pub space: VarSpace,
    pub align_bytes: u64,
    pub elem_bytes: u64,
    /// `None` for `name[]`: dynamic shared memory.
    pub elems: Option<u64>,
    pub name: String,
    pub pos: Pos,
}

/// A kernel parameter.
#[derive(Clone, Debug)]
pub(crate) struct ParamDecl {
    pub name: String,
    pub align_bytes: u64,
    pub bytes: u64,
}

/// Launch-shape directives of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EntryLimits {
    pub max_ntid: Option<[u32; 3]>,
    pub req_ntid: Option<[u32; 3]>,
    pub min_ctas_per_sm: Option<u32>,
    pub max_nreg: Option<u32>,
    pub req_cluster: Option<[u32; 3]>,
}

/// `.entry`.
#[derive(Clone, Debug)]
pub(crate) struct EntryAst {
    pub name: String,
    pub params: Vec<ParamDecl>,
    pub limits: EntryLimits,
    pub body: Vec<Stmt>,
    pub pos: Pos,
}

/// A statement of a body.
#[derive(Clone, Debug)]
pub(crate) enum Stmt {
    Open,
    Close,
    Reg(Vec<RegDecl>),
    Var(VarDecl),
    Label(String, Pos),
    Inst(InstAst),
}

/// `.reg .b32 %r<64>` (`family` is `Some(64)`) or `.reg .b32 t`.
#[derive(Clone, Debug)]
pub(crate) struct RegDecl {
    pub ty: String,
    pub name: String,
    pub family: Option<u32>,
    pub pos: Pos,
}

/// A modifier of an opcode.
#[derive(Clone, Debug)]
pub(crate) struct Modifier {
    pub name: String,
    pub pos: Pos,
}

/// An instruction.
#[derive(Clone, Debug)]
pub(crate) struct InstAst {
    /// Guard predicate name and whether it is negated.
    pub guard: Option<(String, bool, Pos)>,
    pub opcode: String,
    pub mods: Vec<Modifier>,
    pub operands: Vec<Operand>,
    pub pos: Pos,
}

/// An operand and its place.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    pub kind: OperandKind,
    pub pos: Pos,
}

/// Operand forms.
#[derive(Clone, Debug)]
pub(crate) enum OperandKind {
    /// A register, label, variable or `_`; `offset` for `name+imm`.
    Name {
        name: String,
        offset: i64,
    },
    /// `!p`
    Not(String),
    Int(u64),
    F32(u32),
    F64(u64),
    /// `{a, b}`
    Vector(Vec<Operand>),
    /// `[base + offset, {c0, c1}]`
    Address {
        base: AddressBase,
        offset: i64,
        coords: Vec<Operand>,
    },
    /// `p|q`
    Pair(String, String),
}

/// The base of an address operand.
#[derive(Clone, Debug)]
pub(crate) enum AddressBase {
    Name(String),
    Int(u64),
}
