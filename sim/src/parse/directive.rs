//! Module-level grammar: version, target, variables, entries and their limits (PTX ISA 11).

use super::ast::{EntryAst, EntryLimits, ModuleAst, ParamDecl, VarDecl, VarSpace};
use super::error::{PtxError, PtxResult};
use super::{Parser, Tok};

/// Largest variable or parameter that is accepted, in bytes.
const MAX_VAR_BYTES: u64 = 1 << 30;

impl Parser {
    pub(super) fn module(&mut self) -> PtxResult<ModuleAst> {
        let mut module = ModuleAst::default();
        loop {
            let pos = self.pos();
            let name = match self.bump() {
                Tok::End => return Ok(module),
                Tok::Dot(name) => name,
                _ => {
                    self.at -= 1;
                    return Err(self.unexpected("a module directive such as `.entry`"));
                }
            };
            match name.as_str() {
                "version" => module.version = self.version()?,
                "target" => module.target = self.target()?,
                "address_size" => self.address_size()?,
                "visible" | "extern" | "weak" | "common" => {}
                "file" => self.file(),
                "pragma" => self.pragma()?,
                "shared" => module.vars.push(self.var(VarSpace::Shared)?),
                "global" => module.vars.push(self.var(VarSpace::Global)?),
                "const" => module.vars.push(self.var(VarSpace::Const)?),
                "entry" => {
                    self.lines.entry(pos.line);
                    let entry = self.entry()?;
                    module.entries.push(entry);
                }
                "func" => {
                    return Err(PtxError::new(
                        pos,
                        "`.func` is not simulated: kernels must make no calls",
                    ));
                }
                other => return Err(PtxError::new(pos, format!("unknown module directive `.{other}`"))),
            }
        }
    }

    /// `8.7` lexes as a float, `8` as an integer.
    fn version(&mut self) -> PtxResult<(u32, u32)> {
        match self.bump() {
            Tok::F64(bits) => {
                let value = f64::from_bits(bits);
                let major = value.trunc();
                Ok((major as u32, ((value - major) * 10.0).round() as u32))
            }
            Tok::Int(major) => Ok((u32::try_from(major).unwrap_or(u32::MAX), 0)),
            _ => {
                self.at = self.at.saturating_sub(1);
                Err(self.unexpected("a version such as 8.7"))
            }
        }
    }

    fn target(&mut self) -> PtxResult<String> {
        let target = self.ident("a target such as sm_90a")?;
        while self.eat(',') {
            self.ident("a target option")?;
        }
        Ok(target)
    }

    fn address_size(&mut self) -> PtxResult<()> {
        let pos = self.pos();
        match self.int("64")? {
            64 => Ok(()),
            bits => Err(PtxError::new(
                pos,
                format!("address size {bits} is not simulated; 64 is"),
            )),
        }
    }

    /// `.file number "name" [, timestamp, size]`.
    pub(super) fn file(&mut self) {
        if let (Tok::Int(number), Tok::Str(name)) = (self.peek().clone(), self.peek_at(1).clone()) {
            self.lines.file(number, &name);
        }
        while matches!(self.peek(), Tok::Int(_) | Tok::Str(_)) || *self.peek() == Tok::Punct(',') {
            self.at += 1;
        }
    }

    pub(super) fn pragma(&mut self) -> PtxResult<()> {
        while matches!(self.peek(), Tok::Str(_)) || *self.peek() == Tok::Punct(',') {
            self.at += 1;
        }
        self.expect(';')
    }

    /// After the state space: `.align n .type name[len];`
    pub(super) fn var(&mut self, space: VarSpace) -> PtxResult<VarDecl> {
        let (align, ty) = self.align_and_type()?;
        let pos = self.pos();
        let elem_bytes =
            type_bytes(&ty).ok_or_else(|| PtxError::new(pos, format!("`.{ty}` is not a variable type")))?;
        let name = self.ident("a variable name")?;
        let mut elems = Some(1);
        if self.eat('[') {
            elems = match self.peek() {
                Tok::Punct(']') => None,
                _ => Some(self.int("an array length")?),
            };
            self.expect(']')?;
        }
        self.expect(';')
            .map_err(|_| self.unexpected("`;` (initialised variables are not simulated)"))?;
        if elems.is_some_and(|n| n.saturating_mul(elem_bytes) > MAX_VAR_BYTES) {
            return Err(PtxError::new(
                pos,
                format!("`{name}` is larger than {MAX_VAR_BYTES} bytes"),
            ));
        }
        Ok(VarDecl {
            space,
            align_bytes: align.unwrap_or(elem_bytes),
            elem_bytes,
            elems,
            name,
            pos,
        })
    }

    fn align_and_type(&mut self) -> PtxResult<(Option<u64>, String)> {
        let mut align = None;
        loop {
            let pos = self.pos();
            let word = self.dot("a type such as `.b8`")?;
            match word.as_str() {
                "align" => {
                    let bytes = self.int("an alignment")?;
                    if !bytes.is_power_of_two() || bytes > 1 << 16 {
                        return Err(PtxError::new(
                            pos,
                            format!("alignment {bytes} is not a power of two up to 65536"),
                        ));
                    }
                    align = Some(bytes);
                }
                // `.param .u64 .ptr .global .align 16 name`: hints about what the pointer points to.
                "ptr" | "global" | "const" | "local" => {}
                _ => return Ok((align, word)),
            }
        }
    }

    fn entry(&mut self) -> PtxResult<EntryAst> {
        let pos = self.pos();
        let name = self.ident("an entry name")?;
        let mut params = Vec::new();
        if self.eat('(') && !self.eat(')') {
            loop {
                params.push(self.param()?);
                if !self.eat(',') {
                    break;
                }
            }
            self.expect(')')?;
        }
        let limits = self.limits()?;
        self.expect('{')?;
        let body = self.body()?;
        Ok(EntryAst {
            name,
            params,
            limits,
            body,
            pos,
        })
    }

    fn param(&mut self) -> PtxResult<ParamDecl> {
        if !self.eat_dot("param") {
            return Err(self.unexpected("`.param`"));
        }
        let (align, ty) = self.align_and_type()?;
        let pos = self.pos();
        let elem = type_bytes(&ty).ok_or_else(|| PtxError::new(pos, format!("`.{ty}` is not a parameter type")))?;
        // `.ptr .global .align 16` may follow the type.
        let mut pointee = false;
        while let Tok::Dot(word) = self.peek() {
            let is_align = word == "align";
            if !is_align && !matches!(word.as_str(), "ptr" | "global" | "shared" | "const" | "local") {
                return Err(self.unexpected("a parameter name"));
            }
            pointee = true;
            self.at += 1;
            if is_align {
                self.int("an alignment")?;
            }
        }
        let _ = pointee;
        let name = self.ident("a parameter name")?;
        let mut elems = 1;
        if self.eat('[') {
            elems = self.int("an array length")?;
            self.expect(']')?;
        }
        let bytes = elem.saturating_mul(elems);
        if bytes > 32764 {
            return Err(PtxError::new(
                pos,
                format!("parameter `{name}` has {bytes} bytes; 32764 are allowed in all"),
            ));
        }
        Ok(ParamDecl {
            name,
            align_bytes: align.unwrap_or(elem),
            bytes,
        })
    }

    fn limits(&mut self) -> PtxResult<EntryLimits> {
        let mut limits = EntryLimits::default();
        while let Tok::Dot(word) = self.peek().clone() {
            let pos = self.pos();
            self.at += 1;
            match word.as_str() {
                "maxntid" => limits.max_ntid = Some(self.triple()?),
                "reqntid" => limits.req_ntid = Some(self.triple()?),
                "minnctapersm" => limits.min_ctas_per_sm = Some(self.int32("a CTA count")?),
                "maxnctapersm" => {
                    self.int32("a CTA count")?;
                }
                "maxnreg" => limits.max_nreg = Some(self.int32("a register count")?),
                "reqnctapercluster" => limits.req_cluster = Some(self.triple()?),
                "explicitcluster" | "blocksareclusters" => {}
                "maxclusterrank" => {
                    self.int32("a cluster rank")?;
                }
                "pragma" => self.pragma()?,
                other => return Err(PtxError::new(pos, format!("unknown entry directive `.{other}`"))),
            }
        }
        Ok(limits)
    }

    fn triple(&mut self) -> PtxResult<[u32; 3]> {
        let mut out = [1; 3];
        for (index, slot) in out.iter_mut().enumerate() {
            if index > 0 && !self.eat(',') {
                break;
            }
            *slot = self.int32("a thread or CTA count")?;
        }
        Ok(out)
    }
}

/// Bytes of a fundamental type.
pub(crate) fn type_bytes(ty: &str) -> Option<u64> {
    Some(match ty {
        "b8" | "u8" | "s8" => 1,
        "b16" | "u16" | "s16" | "f16" | "bf16" => 2,
        "b32" | "u32" | "s32" | "f32" | "f16x2" | "bf16x2" => 4,
        "b64" | "u64" | "s64" | "f64" => 8,
        "b128" => 16,
        _ => return None,
    })
}
