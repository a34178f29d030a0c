//! mbarrier objects (PTX ISA 9.7.13.15): phases, pending arrivals, transaction bytes.

use crate::decode::SHARED_START;
use crate::decode::op::{Addr, Arrive, Space, Src};
use crate::exec::access::{Need, Place};
use crate::exec::machine::{Exec, Machine};
use crate::exec::warp::lanes;
use crate::fault::FindingKind;
use crate::hb::shadow::{CELL_BYTES, MBARRIER, UNINIT};
use crate::hb::{Actor, Clocks};

/// Largest arrival count (PTX ISA 9.7.13.15.4).
const MAX_COUNT: u64 = (1 << 20) - 1;
const MBARRIER_BYTES: usize = 8;

/// One barrier object.
#[derive(Clone, Debug)]
pub(crate) struct Mbarrier {
    /// Offset in the CTA's shared bytes.
    pub at: usize,
    pub live: bool,
    pub count: u64,
    pub pending: u64,
    /// Bytes announced and not yet arrived.
    pub tx: i64,
    /// Index of the open phase.
    pub phase: u64,
    pub actor: u32,
    /// Bytes announced in the open phase, and copies in flight.
    pub announced: u64,
    pub in_flight: u32,
    gathering: Clocks,
    /// What everyone knew who took part in the closed phases.
    pub done: Clocks,
    init_actor: u32,
    init_epoch: u32,
    init_line: u32,
    init_fenced: bool,
}

impl Mbarrier {
    /// Closes the phase when nothing is missing; says whether it did.
    fn settle(&mut self) -> bool {
        if self.pending != 0 || self.tx != 0 {
            return false;
        }
        let gathered = std::mem::take(&mut self.gathering);
        self.done.join(&gathered);
        self.phase += 1;
        self.done
            .raise_both(self.actor, u32::try_from(self.phase).unwrap_or(u32::MAX));
        self.pending = self.count;
        self.announced = 0;
        true
    }

    /// Epoch of copies that complete on the open phase.
    pub fn epoch(&self) -> u32 {
        u32::try_from(self.phase + 1).unwrap_or(u32::MAX)
    }
}

impl Machine<'_> {
    /// Name of a barrier for messages.
    pub fn mbar_name(&self, cta: usize, index: usize) -> String {
        let c = &self.ctas[cta];
        let address = SHARED_START + c.mbarriers[index].at as u32;
        let [x, y, z] = c.id;
        format!("mbarrier at shared {address:#x} of CTA ({x}, {y}, {z})")
    }

    fn mbar_place(&self, w: usize, space: Space, address: u64) -> Exec<(usize, usize)> {
        let need = Need {
            what: "mbarrier operation",
            bytes: 8,
            align: 8,
        };
        match self.place(w, space, address, need)? {
            Place::Shared(cta, at) => Ok((cta, at)),
            _ => Err(Box::new(FindingKind::Illegal {
                what: "an mbarrier must lie in shared memory".to_owned(),
            })),
        }
    }

    /// The live barrier at an address.
    pub fn mbar(&self, w: usize, space: Space, address: u64, what: &str) -> Exec<(usize, usize)> {
        let (cta, at) = self.mbar_place(w, space, address)?;
        let found = self.ctas[cta].mbarriers.iter().position(|m| m.at == at && m.live);
        found.map(|index| (cta, index)).ok_or_else(|| {
            Box::new(FindingKind::NoMbarrier {
                what: what.to_owned(),
                address: address as u32,
            })
        })
    }

    /// Each executing lane initialises the barrier at its address.
    pub fn mbar_init(&mut self, w: usize, addr: &Addr, count: Src, exec: u32) -> Exec {
        let addresses = self.addresses(w, addr, exec);
        let counts = self.warps[w].get(count, exec);
        for lane in lanes(exec) {
            self.mbar_init_one(w, addresses[lane], u64::from(counts[lane]))?;
        }
        self.progress += 1;
        Ok(())
    }

    fn mbar_init_one(&mut self, w: usize, address: u64, count: u64) -> Exec {
        let (cta, at) = self.mbar_place(w, Space::SharedCta, address)?;
        let bad = |what: String| {
            Err(Box::new(FindingKind::BadMbarrierInit {
                address: address as u32,
                what,
            }))
        };
        if !(1..=MAX_COUNT).contains(&count) {
            return bad(format!("count {count}: 1 to {MAX_COUNT} is allowed"));
        }
        if self.ctas[cta].mbarriers.iter().any(|m| m.live && m.at == at) {
            return bad("it is initialised already; mbarrier.inval must come first".to_owned());
        }
        let (rank, cluster) = (self.ctas[cta].rank, self.ctas[cta].cluster);
        let actor = self.clusters[cluster].hb.actor(Actor::Mbarrier {
            rank,
            address: SHARED_START + at as u32,
        });
        let warp = &self.warps[w];
        let barrier = Mbarrier {
            at,
            live: true,
            count,
            pending: count,
            tx: 0,
            phase: 0,
            actor,
            announced: 0,
            in_flight: 0,
            gathering: Clocks::default(),
            done: Clocks::default(),
            init_actor: warp.actor,
            init_epoch: warp.epoch(),
            init_line: self.now.line,
            init_fenced: false,
        };
        self.ctas[cta].mbarriers.push(barrier);
        self.mark_cells(cta, at, MBARRIER);
        Ok(())
    }

    fn mark_cells(&mut self, cta: usize, at: usize, state: u32) {
        let first = at / CELL_BYTES as usize;
        self.ctas[cta].shadow[first..first + MBARRIER_BYTES / CELL_BYTES as usize].fill(state);
    }

    pub fn mbar_inval(&mut self, w: usize, addr: &Addr, exec: u32) -> Exec {
        let address = self.address(w, addr, exec);
        let (cta, index) = self.mbar(w, Space::SharedCta, address, "mbarrier.inval")?;
        let barrier = &mut self.ctas[cta].mbarriers[index];
        barrier.live = false;
        let at = barrier.at;
        self.mark_cells(cta, at, UNINIT);
        Ok(())
    }

    /// `fence.mbarrier_init` and `fence.proxy.async`: this warp's inits become visible to the async
    /// proxy and to the cluster.
    pub fn fence_inits(&mut self, w: usize) {
        let (actor, cta) = (self.warps[w].actor, self.warps[w].cta);
        for barrier in &mut self.ctas[cta].mbarriers {
            if barrier.init_actor == actor {
                barrier.init_fenced = true;
            }
        }
    }

    /// Checks that a use is ordered after the init.
    pub fn mbar_check_init(&mut self, w: usize, (cta, index): (usize, usize), needs_fence: bool) {
        let barrier = &self.ctas[cta].mbarriers[index];
        let seen = self.warps[w].clocks.seen.get(barrier.init_actor) >= barrier.init_epoch;
        let fenced = barrier.init_fenced || !needs_fence;
        if seen && fenced {
            return;
        }
        let need = if seen {
            "fence.mbarrier_init.release.cluster by the initialising thread, before the barrier that publishes it"
        } else {
            "a barrier such as bar.sync between init and use"
        };
        let init_line = barrier.init_line;
        let user = format!("warp {}", self.warps[w].env.warp);
        let mbarrier = self.mbar_name(cta, index);
        self.find(FindingKind::MbarrierInitUnordered {
            mbarrier,
            user,
            init_line,
            need,
        });
    }

    pub fn mbar_expect_tx(&mut self, w: usize, target: (Space, &Addr), bytes: u64, exec: u32) -> Exec {
        let addresses = self.addresses(w, target.1, exec);
        for lane in lanes(exec) {
            let (cta, index) = self.mbar(w, target.0, addresses[lane], "expect_tx")?;
            let barrier = &mut self.ctas[cta].mbarriers[index];
            barrier.tx += bytes as i64;
            barrier.announced += bytes;
        }
        self.progress += 1;
        Ok(())
    }

    /// Each executing lane arrives.
    pub fn mbar_arrive(&mut self, w: usize, arrive: &Arrive, exec: u32) -> Exec {
        let addresses = self.addresses(w, &arrive.addr, exec);
        let warp = &mut self.warps[w];
        let counts = warp.get(arrive.count, exec);
        let expect = arrive.expect_tx.map(|src| warp.get(src, exec));
        let mut states = [0u64; 32];
        let mut first = None;
        for lane in lanes(exec) {
            let what = "mbarrier.arrive";
            let (cta, index) = self.mbar(w, arrive.space, addresses[lane], what)?;
            self.mbar_check_init(w, (cta, index), cta != self.warps[w].cta);
            let barrier = &mut self.ctas[cta].mbarriers[index];
            states[lane] = barrier.phase;
            let (at, phase, pending) = *first.get_or_insert(((cta, index), barrier.phase, barrier.pending));
            let spills = at == (cta, index) && phase != barrier.phase;
            let count = barrier.count;
            if spills {
                let mbarrier = self.mbar_name(cta, index);
                let arrivals = u64::from(exec.count_ones());
                self.find(FindingKind::OverArrival {
                    mbarrier,
                    arrivals,
                    pending,
                    phase,
                    count,
                });
            }
            let barrier = &mut self.ctas[cta].mbarriers[index];
            if let Some(expect) = &expect {
                barrier.tx += i64::from(expect[lane]);
                barrier.announced += u64::from(expect[lane]);
            }
            if arrive.drop {
                barrier.count = barrier.count.saturating_sub(u64::from(counts[lane]));
            }
            self.mbar_arrivals(w, (cta, index), u64::from(counts[lane]), arrive.release)?;
        }
        if arrive.release {
            self.warps[w].tick();
        }
        if let Some(d) = arrive.d {
            self.warps[w].put64(d, exec, &states);
        }
        Ok(())
    }

    /// Counts arrivals and closes the phase when it is full.
    pub fn mbar_arrivals(&mut self, w: usize, (cta, index): (usize, usize), count: u64, release: bool) -> Exec {
        let clocks = self.warps[w].clocks.clone();
        let barrier = &mut self.ctas[cta].mbarriers[index];
        if count > barrier.pending {
            let (pending, phase, total) = (barrier.pending, barrier.phase, barrier.count);
            let mbarrier = self.mbar_name(cta, index);
            return Err(Box::new(FindingKind::OverArrival {
                mbarrier,
                arrivals: count,
                pending,
                phase,
                count: total,
            }));
        }
        barrier.pending -= count;
        if release {
            barrier.gathering.join(&clocks);
        }
        barrier.settle();
        self.progress += 1;
        Ok(())
    }

    /// Bytes of a copy arrive; `phase` was open when the copy was issued.
    pub fn mbar_complete_tx(&mut self, (cta, index): (usize, usize), bytes: u64, phase: u64) {
        let barrier = &mut self.ctas[cta].mbarriers[index];
        barrier.in_flight = barrier.in_flight.saturating_sub(1);
        barrier.tx -= bytes as i64;
        let open = barrier.phase;
        barrier.settle();
        self.progress += 1;
        if open != phase {
            let mbarrier = self.mbar_name(cta, index);
            let what = format!(
                "{bytes} bytes of a copy issued in phase {phase} arrive in phase {open}: phase {phase} closed without \
                 waiting for them, so expect_tx announced fewer bytes than were copied"
            );
            self.find(FindingKind::ExpectTx { mbarrier, what });
        }
    }
}
