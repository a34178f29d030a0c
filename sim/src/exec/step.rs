//! One instruction of one group of lanes.

use super::machine::{Exec, Machine, Now};
use super::warp::{Blocked, lanes};
use crate::decode::op::{Fence, Inst, Op, Together};
use crate::exec::convert::logic;
use crate::fault::FindingKind;

/// What a step did to the warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Next,
    Blocked,
    /// The warp has no lanes left.
    Gone,
}

/// Whether the lanes that must act together are here.
enum Gathered {
    Yes,
    No,
}

impl Machine<'_> {
    /// Executes one instruction of warp `w`.
    pub fn step(&mut self, w: usize) -> Exec<Flow> {
        let Some(index) = self.select(w)? else {
            return Ok(Flow::Blocked);
        };
        let kernel = self.kernel;
        let group = &self.warps[w].groups[index];
        let (pc, mask) = (group.pc, group.mask);
        let inst = &kernel.code[pc as usize];
        self.now = Now {
            warp: w,
            line: inst.line,
            exec: mask,
            pc,
        };
        let exec = match inst.guard {
            None => mask,
            Some((slot, negated)) => self.warps[w].pred_reg(slot, negated, mask),
        };
        self.now.exec = exec;
        self.warps[w].exec = exec;
        self.warps[w].executed += 1;
        self.counts.warp_instructions += 1;
        self.counts.thread_instructions += u64::from(exec.count_ones());
        if exec == 0 {
            self.warps[w].groups[index].pc += 1;
            self.flush_notes();
            return Ok(Flow::Next);
        }
        if let Gathered::No = self.gather(w, inst, exec, mask)? {
            self.warps[w].groups[index].blocked = Blocked::Together;
            return Ok(Flow::Next);
        }
        let flow = self.control(w, index, inst, exec)?;
        self.flush_notes();
        Ok(flow)
    }

    /// Whether all lanes that must execute `inst` together are in `exec`.
    fn gather(&mut self, w: usize, inst: &Inst, exec: u32, mask: u32) -> Exec<Gathered> {
        let live = self.warps[w].live;
        let needed = match inst.together {
            Together::Free => return Ok(Gathered::Yes),
            Together::Aligned => live,
            Together::Members(members) => {
                let all = self.warps[w].get(members, exec);
                let members = all[super::access::first_lane(exec)];
                let odd = lanes(exec).find(|lane| all[*lane] != members || members >> lane & 1 == 0);
                if let Some(lane) = odd {
                    let what = format!("lane {lane} executes it and is not a member, or has another mask");
                    return Err(Box::new(FindingKind::MemberMask { mask: members, what }));
                }
                members & self.warps[w].started
            }
        };
        let missing = needed & !exec;
        if missing == 0 {
            return Ok(Gathered::Yes);
        }
        let skipped = missing & mask;
        let gone = missing & !live;
        if skipped == 0 && gone == 0 {
            return Ok(Gathered::No);
        }
        let why = if skipped != 0 {
            "skip it by their predicate"
        } else {
            "have exited"
        };
        let what = format!("lanes {:#010x} {why}", if skipped != 0 { skipped } else { gone });
        Err(Box::new(match inst.together {
            Together::Members(_) => FindingKind::MemberMask { mask: needed, what },
            _ => FindingKind::AlignedDivergence { what },
        }))
    }

    /// Control flow and blocking instructions; the rest goes to [`Machine::plain`].
    fn control(&mut self, w: usize, index: usize, inst: &Inst, exec: u32) -> Exec<Flow> {
        let blocked = match &inst.op {
            Op::Bra(target) => {
                self.branch(w, index, *target, exec);
                return Ok(Flow::Next);
            }
            Op::Exit => return self.exit_lanes(w, index, exec),
            Op::Trap => return Err(Box::new(FindingKind::Trap)),
            Op::Barrier(barrier) => {
                // A barrier is left, not tried again: the program counter moves on first.
                let blocked = self.barrier(w, barrier, exec)?;
                let group = self.split_off(w, index, exec);
                self.warps[w].groups[group].pc += 1;
                self.warps[w].groups[group].blocked = blocked;
                self.settle_parts(w)?;
                let ready = self.warps[w].groups.iter().any(|g| g.blocked == Blocked::Ready);
                return Ok(if ready { Flow::Next } else { Flow::Blocked });
            }
            Op::MbarWait(wait) => {
                let timed_out = std::mem::take(&mut self.warps[w].groups[index].timed_out);
                self.mbar_wait(w, wait, exec, !timed_out)?
            }
            Op::ClusterWait => self.cluster_wait(w, exec)?,
            Op::WgmmaWait { keep } => self.wgmma_wait(w, *keep)?,
            Op::SetMaxNreg { inc, regs } => self.set_max_nreg(w, *inc, *regs)?,
            _ => {
                self.plain(w, inst, exec)?;
                None
            }
        };
        match blocked {
            None => {
                self.warps[w].groups[index].pc += 1;
                Ok(Flow::Next)
            }
            Some(why) => {
                let group = self.split_off(w, index, exec);
                self.warps[w].groups[group].blocked = why;
                Ok(Flow::Blocked)
            }
        }
    }

    fn exit_lanes(&mut self, w: usize, index: usize, exec: u32) -> Exec<Flow> {
        let warp = &mut self.warps[w];
        warp.live &= !exec;
        warp.groups[index].mask &= !exec;
        if warp.groups[index].mask == 0 {
            warp.groups.swap_remove(index);
        } else {
            warp.groups[index].pc += 1;
        }
        // Lanes that waited for these must look again who is left.
        for group in warp.groups.iter_mut().filter(|g| g.blocked == Blocked::Together) {
            group.blocked = Blocked::Ready;
        }
        self.progress += 1;
        self.check_exit(w, exec);
        self.flush_notes();
        if self.warps[w].live == 0 {
            self.retire(w)?;
            return Ok(Flow::Gone);
        }
        self.settle_parts(w)?;
        Ok(Flow::Next)
    }

    /// Instructions that neither branch nor wait.
    fn plain(&mut self, w: usize, inst: &Inst, exec: u32) -> Exec {
        let warp = &mut self.warps[w];
        match &inst.op {
            Op::IntUn { f, bits, d, a } => warp.int_un(*f, *bits, *d, *a),
            Op::IntBin { f, ty, d, a, b } => warp.int_bin(*f, *ty, *d, [*a, *b]),
            Op::IntTri { f, ty, d, a, b, c } => warp.int_tri(*f, *ty, *d, [*a, *b, *c]),
            Op::Wide { ty, d, a, b, c } => warp.wide(*ty, *d, [*a, *b], *c),
            Op::F32Un { f, mode, d, a } => warp.f32_un(*f, *mode, *d, *a),
            Op::F32Bin { f, mode, d, a, b } => warp.f32_bin(*f, *mode, *d, [*a, *b]),
            Op::F32Fma { mode, d, a, b, c } => warp.f32_fma(*mode, *d, [*a, *b, *c]),
            Op::F64Un { f, d, a } => warp.f64_un(*f, *d, *a),
            Op::F64Bin { f, d, a, b } => warp.f64_bin(*f, *d, [*a, *b]),
            Op::F64Fma { d, a, b, c } => warp.f64_fma(*d, [*a, *b, *c]),
            Op::HalfUn { f, ty, d, a } => warp.half_un(*f, *ty, *d, *a),
            Op::HalfBin { f, ty, mode, d, a, b } => warp.half_bin(*f, *ty, *mode, (*d, *a, *b)),
            Op::HalfFma { ty, mode, d, a, b, c } => warp.half_fma(*ty, *mode, *d, [*a, *b, *c]),
            Op::MovPred { d, a } => {
                let value = warp.pred(*a, exec);
                warp.put_pred(*d, exec, value);
            }
            Op::PredBin { f, d, a, b } => {
                let value = logic(*f, warp.pred(*a, exec), warp.pred(*b, exec));
                warp.put_pred(*d, exec, value);
            }
            Op::Pack { d, part_bits, parts } => warp.pack(*d, *part_bits, parts),
            Op::Unpack { a, part_bits, parts } => warp.unpack(*a, *part_bits, parts),
            Op::Setp(setp) => warp.setp(setp),
            Op::Selp { bits, d, a, b, p } => warp.selp(*bits, *d, [*a, *b], *p),
            Op::Cvt(cvt) => warp.cvt(cvt),
            Op::CvtPack {
                ty,
                mode,
                zero_round,
                d,
                hi,
                lo,
            } => {
                warp.cvt_pack(*ty, *mode, *zero_round, (*d, *hi, *lo));
            }
            Op::Cvta { space, to_space, d, a } => warp.cvta(*space, *to_space, *d, *a),
            Op::Mapa { space_in, d, a, rank } => warp.mapa(*space_in, *d, *a, *rank),
            Op::Shfl { mode, d, p, a, b, c } => warp.shfl(*mode, (*d, *p), [*a, *b, *c]),
            Op::Vote { mode, d, a, members } => {
                let members = warp.get(*members, exec)[super::access::first_lane(exec)] & warp.started;
                warp.vote(*mode, *d, *a, members);
            }
            Op::Match { all, bits, d, p, a } => warp.matching(*all, *bits, (*d, *p), *a),
            Op::Elect { d, p, members } => {
                let members = warp.get(*members, exec)[super::access::first_lane(exec)];
                warp.elect(*d, *p, members);
            }
            Op::Redux { f, ty, d, a } => warp.redux(*f, *ty, *d, *a),
            Op::ActiveMask { d } => warp.put(*d, exec, &[exec; 32]),
            _ => return self.memory(w, inst, exec),
        }
        Ok(())
    }

    /// Instructions that touch memory or engines.
    fn memory(&mut self, w: usize, inst: &Inst, exec: u32) -> Exec {
        match &inst.op {
            Op::Ld(mem) => self.load(w, mem, exec),
            Op::St(mem) => self.store(w, mem, exec),
            Op::Atom(atom) => self.atom(w, atom, exec),
            Op::Fence(fence) => {
                self.fence(w, *fence, exec);
                Ok(())
            }
            Op::MbarInit { addr, count } => self.mbar_init(w, addr, *count, exec),
            Op::MbarInval { addr } => self.mbar_inval(w, addr, exec),
            Op::MbarExpectTx { space, addr, bytes } => {
                let bytes = self.warps[w].get(*bytes, exec)[super::access::first_lane(exec)];
                self.mbar_expect_tx(w, (*space, addr), u64::from(bytes), exec)
            }
            Op::MbarArrive(arrive) => self.mbar_arrive(w, arrive, exec),
            Op::ClusterArrive { release } => self.cluster_arrive(w, *release, exec),
            Op::Bulk(kind) => self.bulk(w, kind, exec),
            Op::BulkCommit => {
                self.bulk_commit(w, exec);
                Ok(())
            }
            Op::BulkWait { keep } => self.bulk_wait(w, *keep, exec),
            Op::CpAsync(copy) => self.cp_async(w, copy, exec),
            Op::CpAsyncWaitAll => self.cp_async_wait_all(w),
            Op::CpAsyncCommit => {
                self.cp_async_commit(w);
                Ok(())
            }
            Op::CpAsyncWait { keep } => {
                let done = self.warps[w].cp_committed.saturating_sub(*keep);
                self.cp_async_wait(w, done)
            }
            Op::CpAsyncMbarArrive { addr, noinc } => self.cp_async_arrive(w, addr, *noinc, exec),
            Op::Ldmatrix(load) => self.ldmatrix(w, load, exec),
            Op::Stmatrix(store) => self.stmatrix(w, store, exec),
            Op::Mma(mma) => {
                self.warps[w].mma(mma);
                Ok(())
            }
            Op::WgmmaFence => {
                self.warps[w].fence_epoch += 1;
                Ok(())
            }
            Op::WgmmaCommit => {
                self.wgmma_commit(w);
                Ok(())
            }
            Op::Wgmma(op) => self.wgmma_issue(w, op),
            Op::WarpSync => {
                self.warps[w].unfenced_lanes = 0;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn fence(&mut self, w: usize, fence: Fence, exec: u32) {
        if fence == Fence::Other {
            return;
        }
        self.fence_inits(w);
        if fence != Fence::ProxyAsync {
            return;
        }
        // A fence by some lanes says nothing about what the others wrote since the warp last met.
        let warp = &mut self.warps[w];
        if warp.unfenced_lanes & !exec == 0 {
            warp.clocks.proxy_fence();
            warp.tick();
            warp.unfenced_lanes = 0;
        }
    }
}
