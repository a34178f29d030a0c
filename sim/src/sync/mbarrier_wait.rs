//! Waiting on mbarriers, and what a deadlock report says of them.

use crate::decode::op::{MbarWait, Space};
use crate::exec::machine::{Exec, Machine};
use crate::exec::warp::{Blocked, lanes};
use crate::fault::FindingKind;

impl Machine<'_> {
    /// `try_wait` and `test_wait`; gives why the group must stop, when it must.
    pub fn mbar_wait(&mut self, w: usize, wait: &MbarWait, exec: u32, may_suspend: bool) -> Exec<Option<Blocked>> {
        let addresses = self.addresses(w, &wait.addr, exec);
        let warp = &mut self.warps[w];
        let values = if wait.parity {
            warp.get(wait.value, exec).map(u64::from)
        } else {
            warp.get64(wait.value, exec)
        };
        let mut done = 0u32;
        let mut blocked = None;
        for lane in lanes(exec) {
            let (cta, index) = self.mbar(w, Space::SharedCta, addresses[lane], "mbarrier wait")?;
            self.mbar_check_init(w, (cta, index), false);
            let barrier = &self.ctas[cta].mbarriers[index];
            let complete = if wait.parity {
                barrier.phase & 1 != values[lane] & 1
            } else {
                barrier.phase > values[lane]
            };
            if !complete {
                blocked = Some(Blocked::Mbarrier {
                    cta,
                    index,
                    phase: barrier.phase,
                });
                continue;
            }
            done |= 1 << lane;
            if wait.acquire {
                self.warps[w].clocks.join(&barrier.done);
            }
        }
        if done == 0 && wait.suspends && may_suspend && blocked.is_some() {
            return Ok(blocked);
        }
        self.warps[w].put_pred(wait.d, exec, done);
        Ok(None)
    }

    /// Text about a barrier for the report of a deadlock.
    pub fn mbar_status(&self, cta: usize, index: usize, phase: u64) -> String {
        let barrier = &self.ctas[cta].mbarriers[index];
        format!(
            "{} to end phase {phase} (parity {}): open is phase {}, {} of {} arrivals are missing, {} bytes of {} \
             announced are missing",
            self.mbar_name(cta, index),
            phase & 1,
            barrier.phase,
            barrier.pending,
            barrier.count,
            barrier.tx,
            barrier.announced
        )
    }

    /// Barriers whose announced bytes can no longer arrive: a finding beside a deadlock.
    pub fn mbar_starved(&mut self) {
        for cta in 0..self.ctas.len() {
            for index in 0..self.ctas[cta].mbarriers.len() {
                let b = &self.ctas[cta].mbarriers[index];
                if b.live && b.pending == 0 && b.tx != 0 && b.in_flight == 0 {
                    let what = format!(
                        "phase {} announced {} bytes, and {} of them never arrive: every copy has completed",
                        b.phase, b.announced, b.tx
                    );
                    let mbarrier = self.mbar_name(cta, index);
                    self.find(FindingKind::ExpectTx { mbarrier, what });
                }
            }
        }
    }
}
