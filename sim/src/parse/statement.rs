//! Body grammar: scopes, register declarations, labels, instructions, operands (PTX ISA 4.3, 6).

use super::ast::{AddressBase, InstAst, Modifier, Operand, OperandKind, RegDecl, Stmt, VarSpace};
use super::error::{PtxError, PtxResult};
use super::{Parser, Tok};

/// Deepest nesting of `{...}` vectors in an operand.
const MAX_VECTOR_DEPTH: u32 = 3;
/// Largest register family `%r<n>`.
const MAX_FAMILY: u32 = 1 << 16;

impl Parser {
    /// Statements up to the `}` that closes the entry.
    pub(super) fn body(&mut self) -> PtxResult<Vec<Stmt>> {
        let mut out = Vec::new();
        let mut depth = 0u32;
        loop {
            let pos = self.pos();
            match self.peek().clone() {
                Tok::Punct('}') => {
                    self.at += 1;
                    if depth == 0 {
                        return Ok(out);
                    }
                    depth -= 1;
                    out.push(Stmt::Close);
                }
                Tok::Punct('{') => {
                    self.at += 1;
                    depth += 1;
                    out.push(Stmt::Open);
                }
                Tok::Punct(';') => self.at += 1,
                Tok::Dot(word) => {
                    self.at += 1;
                    self.body_directive(&word, &mut out)?;
                }
                Tok::Ident(name) if *self.peek_at(1) == Tok::Punct(':') => {
                    self.at += 2;
                    out.push(Stmt::Label(name, pos));
                }
                Tok::Ident(_) | Tok::Punct('@') => out.push(Stmt::Inst(self.instruction()?)),
                _ => return Err(self.unexpected("a statement")),
            }
        }
    }

    fn body_directive(&mut self, word: &str, out: &mut Vec<Stmt>) -> PtxResult<()> {
        match word {
            "reg" => out.push(Stmt::Reg(self.registers()?)),
            "shared" => out.push(Stmt::Var(self.var(VarSpace::Shared)?)),
            "local" => out.push(Stmt::Var(self.var(VarSpace::Local)?)),
            "loc" => self.loc(),
            "file" => self.file(),
            "pragma" => self.pragma()?,
            other => {
                self.at -= 1;
                return Err(PtxError::new(
                    self.pos(),
                    format!("unknown directive `.{other}` in a body"),
                ));
            }
        }
        Ok(())
    }

    /// `.loc file line column [, function_name label, inlined_at ...]`: ends with the line's tokens.
    fn loc(&mut self) {
        if let (Tok::Int(file), Tok::Int(line)) = (self.peek(), self.peek_at(1)) {
            let (file, line) = (*file, *line);
            self.lines.loc(self.pos().line, file, line);
        }
        let line = self.tokens.get(self.at.saturating_sub(1)).map_or(0, |t| t.pos.line);
        while self.pos().line == line && *self.peek() != Tok::End && !matches!(self.peek(), Tok::Punct('}')) {
            let ends = *self.peek() == Tok::Punct(';');
            self.at += 1;
            if ends {
                break;
            }
        }
    }

    fn registers(&mut self) -> PtxResult<Vec<RegDecl>> {
        let ty = self.dot("a register type")?;
        if matches!(ty.as_str(), "v2" | "v4") {
            return Err(PtxError::new(
                self.pos(),
                "vector registers are not simulated; declare scalars",
            ));
        }
        let mut out = Vec::new();
        loop {
            let pos = self.pos();
            let name = self.ident("a register name")?;
            let mut family = None;
            if self.eat('<') {
                let count = self.int32("a register count")?;
                if count > MAX_FAMILY {
                    return Err(PtxError::new(
                        pos,
                        format!("{count} registers in one family; {MAX_FAMILY} are allowed"),
                    ));
                }
                family = Some(count);
                self.expect('>')?;
            }
            out.push(RegDecl {
                ty: ty.clone(),
                name,
                family,
                pos,
            });
            if !self.eat(',') {
                break;
            }
        }
        self.expect(';')?;
        Ok(out)
    }

    fn instruction(&mut self) -> PtxResult<InstAst> {
        let mut guard = None;
        if self.eat('@') {
            let pos = self.pos();
            let negated = self.eat('!');
            guard = Some((self.ident("a predicate register")?, negated, pos));
        }
        let pos = self.pos();
        let opcode = self.ident("an instruction")?;
        let mut mods = Vec::new();
        while let Tok::Dot(name) = self.peek().clone() {
            mods.push(Modifier { name, pos: self.pos() });
            self.at += 1;
        }
        let mut operands = Vec::new();
        if !self.eat(';') {
            loop {
                operands.push(self.operand(0)?);
                if !self.eat(',') {
                    break;
                }
            }
            self.expect(';')?;
        }
        Ok(InstAst {
            guard,
            opcode,
            mods,
            operands,
            pos,
        })
    }

    fn operand(&mut self, depth: u32) -> PtxResult<Operand> {
        let pos = self.pos();
        let kind = match self.peek().clone() {
            Tok::Punct('{') => {
                self.at += 1;
                if depth >= MAX_VECTOR_DEPTH {
                    return Err(PtxError::new(pos, "vectors are nested too deeply"));
                }
                OperandKind::Vector(self.vector(depth + 1)?)
            }
            Tok::Punct('[') => {
                self.at += 1;
                self.address(depth + 1)?
            }
            Tok::Punct('!') => {
                self.at += 1;
                OperandKind::Not(self.ident("a predicate register")?)
            }
            Tok::Punct('-') => {
                self.at += 1;
                self.negative()?
            }
            Tok::Int(value) => {
                self.at += 1;
                OperandKind::Int(value)
            }
            Tok::F32(bits) => {
                self.at += 1;
                OperandKind::F32(bits)
            }
            Tok::F64(bits) => {
                self.at += 1;
                OperandKind::F64(bits)
            }
            Tok::Ident(_) => self.named()?,
            _ => return Err(self.unexpected("an operand")),
        };
        Ok(Operand { kind, pos })
    }

    fn negative(&mut self) -> PtxResult<OperandKind> {
        match self.peek().clone() {
            Tok::Int(value) => {
                self.at += 1;
                Ok(OperandKind::Int(value.wrapping_neg()))
            }
            Tok::F64(bits) => {
                self.at += 1;
                Ok(OperandKind::F64(bits ^ (1 << 63)))
            }
            _ => Err(self.unexpected("a number")),
        }
    }

    /// A register, `%tid.x`, `p|q`, or a variable with an offset.
    fn named(&mut self) -> PtxResult<OperandKind> {
        let mut name = self.ident("a name")?;
        if let Tok::Dot(component) = self.peek().clone() {
            self.at += 1;
            name.push('.');
            name.push_str(&component);
        }
        if self.eat('|') {
            let second = self.ident("a register")?;
            return Ok(OperandKind::Pair(name, second));
        }
        let offset = self.offset()?;
        Ok(OperandKind::Name { name, offset })
    }

    fn vector(&mut self, depth: u32) -> PtxResult<Vec<Operand>> {
        let mut out = Vec::new();
        loop {
            out.push(self.operand(depth)?);
            if !self.eat(',') {
                break;
            }
        }
        self.expect('}')?;
        Ok(out)
    }

    fn address(&mut self, depth: u32) -> PtxResult<OperandKind> {
        let base = match self.peek().clone() {
            Tok::Int(value) => {
                self.at += 1;
                AddressBase::Int(value)
            }
            _ => AddressBase::Name(self.ident("a register or variable")?),
        };
        let offset = self.offset()?;
        let mut coords = Vec::new();
        if self.eat(',') {
            self.expect('{')?;
            coords = self.vector(depth)?;
        }
        self.expect(']')?;
        Ok(OperandKind::Address { base, offset, coords })
    }

    fn offset(&mut self) -> PtxResult<i64> {
        let pos = self.pos();
        let mut negative = self.eat('-');
        if !negative && !self.eat('+') {
            return Ok(0);
        }
        if !negative {
            negative = self.eat('-');
        }
        let value =
            i64::try_from(self.int("an offset")?).map_err(|_| PtxError::new(pos, "the offset does not fit 63 bits"))?;
        Ok(if negative { -value } else { value })
    }
}
