//! A device of the tests' own: it computes with the oracle's plain algorithm, keeps its own clock, and misbehaves on
//! demand.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use codegen::launch::{LaunchFacts, Param};
use driver::LaunchSpec;
use oracle::Problem;
use oracle::reference::{AttentionData, SoftmaxData, every_row, forward_plain, softmax_plain};
use warpwright_runner::case::{Case, Layout, Role};
use warpwright_runner::device::{Device, DeviceError, DeviceFacts, FaultClass, Image, LaunchTimes, Reading, Timing};
use warpwright_runner::launch::Arg;

/// What is wrong with the kernel, from which launch on (the first is 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mischief {
    None,
    /// One output element is off.
    WrongValue,
    /// Nothing is written.
    WritesNothing,
    /// One input element is written.
    WritesInput,
    /// One element between rows is written.
    WritesGap,
    /// The scratch is left changed.
    DirtyScratch,
    OutOfBounds,
    Hang,
    Fault,
    Race,
    OutOfMemory,
    BadImage,
    /// The lowest bit of one output differs from launch to launch.
    NotRepeatable,
}

pub struct Fake {
    case: Case,
    mischief: Mischief,
    from_launch: u32,
    /// Virtual time of one launch.
    pub launch_us: Cell<f64>,
    memory: RefCell<BTreeMap<u64, Vec<u8>>>,
    next_address: Cell<u64>,
    launches: Cell<u32>,
    clock_us: Cell<f64>,
    facts: DeviceFacts,
    breach: Cell<bool>,
}

pub struct FakeBound {
    args: Vec<(Param, Arg)>,
}

impl Fake {
    pub fn new(case: &Case, mischief: Mischief, from_launch: u32) -> Self {
        Self {
            case: case.clone(),
            mischief,
            from_launch,
            launch_us: Cell::new(100.0),
            memory: RefCell::default(),
            next_address: Cell::new(1 << 20),
            launches: Cell::new(0),
            clock_us: Cell::new(0.0),
            facts: DeviceFacts {
                name: "fake".into(),
                simulated: true,
                compute_capability: (9, 0),
                multiprocessors: 3,
                l2_bytes: 4096,
                driver_version: None,
                api_version: None,
                peak: Some(oracle::flops::Machine {
                    flops_per_s: 1e12,
                    bytes_per_s: 1e12,
                }),
            },
            breach: Cell::new(false),
        }
    }

    pub fn launches(&self) -> u32 {
        self.launches.get()
    }

    fn acts(&self, mischief: Mischief) -> bool {
        self.mischief == mischief && self.launches.get() >= self.from_launch
    }

    fn address_of(bound: &FakeBound, name: &str) -> u64 {
        let found = bound.args.iter().find_map(|(param, arg)| match (param, arg) {
            (Param::TensorMap { tensor, .. }, Arg::TensorMap(spec)) if tensor == name => Some(spec.base),
            (Param::Pointer { tensor, .. }, Arg::Address(address)) if tensor == name => Some(*address),
            _ => None,
        });
        found.unwrap_or_else(|| panic!("no argument for {name}"))
    }

    fn input(&self, bound: &FakeBound, name: &str, layout: &Layout) -> Vec<u16> {
        let memory = self.memory.borrow();
        let bytes = &memory[&Self::address_of(bound, name)];
        let strided: Vec<u16> = bytes
            .chunks_exact(2)
            .map(|b| u16::from_ne_bytes([b[0], b[1]]))
            .collect();
        layout.gather(&strided, |_| false).0
    }

    /// Writes elements of `unit` bytes to their places, leaving gaps alone.
    fn output(&self, bound: &FakeBound, name: &str, values: &[Vec<u8>], layout: &Layout) {
        let mut memory = self.memory.borrow_mut();
        let bytes = memory.get_mut(&Self::address_of(bound, name)).unwrap();
        let unit = values[0].len();
        let places: Vec<usize> = layout
            .gather(&(0..layout.span_elems() as usize).collect::<Vec<_>>(), |_| false)
            .0;
        for (place, value) in places.iter().zip(values) {
            bytes[place * unit..][..unit].copy_from_slice(value);
        }
        if self.acts(Mischief::WritesGap) && unit == 2 {
            let gap = (0..layout.span_elems() as usize).find(|i| !places.contains(i)).unwrap();
            bytes[gap * unit] = 0;
        }
    }

    fn compute(&self, bound: &FakeBound) -> (Vec<u16>, Option<Vec<f32>>) {
        let inputs: Vec<Vec<u16>> = self
            .case
            .tensors()
            .iter()
            .filter(|t| matches!(t.role, Role::Input(_)))
            .map(|t| self.input(bound, &t.name, &t.layout))
            .collect();
        match self.case.problem() {
            Problem::Softmax(p) => {
                let rows: Vec<u32> = (0..p.m).collect();
                let data = SoftmaxData::new(*p, &inputs[0]).unwrap();
                (softmax_plain(&data, &rows).unwrap().values, None)
            }
            Problem::Forward(p) => {
                let rows: Vec<_> = every_row(p).collect();
                let data =
                    AttentionData::new(*p, p.default_scale_log2(), [&inputs[0], &inputs[1], &inputs[2]]).unwrap();
                let plain = forward_plain(&data, &rows).unwrap();
                let (d, mut o) = (p.head_dim as usize, vec![0; p.q_elems() as usize]);
                for (row, values) in rows.iter().zip(plain.values.chunks(d)) {
                    let at = (row.batch * p.q_len + row.row) * p.heads + row.head;
                    o[at as usize * d..][..d].copy_from_slice(values);
                }
                // Rows come by batch, head, row: the order of LSE.
                (o, plain.lse)
            }
            Problem::Gemm(_) => panic!("the fake knows no GEMM"),
        }
    }

    fn run(&self, bound: &FakeBound) {
        let (mut values, lse) = self.compute(bound);
        if self.acts(Mischief::WrongValue) {
            values[0] ^= 0x0100;
        }
        if self.acts(Mischief::NotRepeatable) {
            // The smallest output, so that the row's error stays within the gate; all are positive.
            let smallest = (0..values.len()).min_by_key(|i| values[*i]).unwrap();
            values[smallest] ^= (self.launches.get() & 1) as u16;
        }
        let outputs: Vec<_> = self.case.tensors().iter().filter(|t| t.role == Role::Output).collect();
        let bytes: Vec<Vec<u8>> = values.iter().map(|v| v.to_ne_bytes().to_vec()).collect();
        self.output(bound, &outputs[0].name, &bytes, &outputs[0].layout);
        if let Some(lse) = lse {
            let bytes: Vec<Vec<u8>> = lse.iter().map(|v| v.to_ne_bytes().to_vec()).collect();
            self.output(bound, &outputs[1].name, &bytes, &outputs[1].layout);
        }
        if self.acts(Mischief::WritesInput) {
            let address = Self::address_of(bound, &self.case.tensors()[0].name);
            self.memory.borrow_mut().get_mut(&address).unwrap()[0] = 0x33;
        }
        if self.acts(Mischief::DirtyScratch) {
            for (param, arg) in &bound.args {
                if let (Param::Scratch { .. }, Arg::Scratch(address)) = (param, arg) {
                    self.memory.borrow_mut().get_mut(address).unwrap()[0] = 9;
                }
            }
        }
    }
}

fn fail(class: FaultClass, message: &str) -> DeviceError {
    DeviceError::new(class, message)
}

impl Device for Fake {
    type Buffer = u64;
    type Kernel = LaunchFacts;
    type Bound = FakeBound;

    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn needs_cubin(&self) -> bool {
        false
    }

    fn load(&self, _: &Image<'_>, facts: &LaunchFacts) -> Result<LaunchFacts, DeviceError> {
        if self.mischief == Mischief::BadImage {
            return Err(fail(FaultClass::Load, "not an image"));
        }
        Ok(facts.clone())
    }

    fn alloc(&self, len_bytes: u64) -> Result<u64, DeviceError> {
        if self.mischief == Mischief::OutOfMemory {
            return Err(fail(FaultClass::OutOfMemory, "asked for more than there is"));
        }
        let address = self.next_address.get();
        self.next_address
            .set((address + len_bytes).next_multiple_of(1024) + 1024);
        self.memory.borrow_mut().insert(address, vec![0x5a; len_bytes as usize]);
        Ok(address)
    }

    fn address(&self, buffer: &u64) -> u64 {
        *buffer
    }

    fn write(&self, buffer: &u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let mut memory = self.memory.borrow_mut();
        assert_eq!(memory[buffer].len(), bytes.len());
        memory.insert(*buffer, bytes.to_vec());
        Ok(())
    }

    fn fill(&self, buffer: &u64, byte: u8) -> Result<(), DeviceError> {
        self.memory.borrow_mut().get_mut(buffer).unwrap().fill(byte);
        Ok(())
    }

    fn read(&self, buffer: &u64) -> Result<Vec<u8>, DeviceError> {
        Ok(self.memory.borrow()[buffer].clone())
    }

    fn check_bounds(&self, _: &u64) -> Result<(), DeviceError> {
        if self.breach.get() {
            return Err(fail(FaultClass::OutOfBounds, "written just after the end"));
        }
        Ok(())
    }

    fn bind(&self, kernel: &LaunchFacts, spec: &LaunchSpec, args: &[Arg]) -> Result<FakeBound, DeviceError> {
        assert!(spec.grid[0] >= 1);
        Ok(FakeBound {
            args: kernel.params.iter().cloned().zip(args.iter().cloned()).collect(),
        })
    }

    fn launch(&self, bound: &FakeBound) -> Result<(), DeviceError> {
        if self.acts(Mischief::Fault) {
            return Err(fail(FaultClass::Fault, "an illegal address"));
        }
        if self.acts(Mischief::Race) {
            return Err(fail(FaultClass::Race, "two accesses without order"));
        }
        if !self.acts(Mischief::WritesNothing) {
            self.run(bound);
        }
        if self.acts(Mischief::OutOfBounds) {
            self.breach.set(true);
        }
        self.launches.set(self.launches.get() + 1);
        Ok(())
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        if self.acts(Mischief::Hang) {
            return Err(fail(FaultClass::Hang, "did not finish"));
        }
        Ok(())
    }
}

impl Timing for Fake {
    type Monitor = f64;

    fn time_launches(&self, launches: &[&FakeBound], first: usize, count: usize) -> Result<LaunchTimes, DeviceError> {
        let mut times = LaunchTimes::default();
        for i in 0..count {
            let bound = launches[(first + i) % launches.len()];
            self.launch(bound)?;
            let us = self.launch_us.get();
            self.clock_us.set(self.clock_us.get() + us);
            times.launch_us.push(us);
        }
        self.synchronize()?;
        times.issue_us = count as f64;
        Ok(times)
    }

    fn now_us(&self) -> u64 {
        self.clock_us.get() as u64
    }

    fn pause(&self, idle_us: u64) {
        self.clock_us.set(self.clock_us.get() + idle_us as f64);
    }

    fn start_monitor(&self, interval_us: u64) -> Option<f64> {
        Some(interval_us as f64)
    }

    fn stop_monitor(&self, interval_us: f64) -> Vec<Reading> {
        let count = (self.clock_us.get() / interval_us) as u64;
        let reading = |i: u64| Reading {
            at_us: (i as f64 * interval_us) as u64,
            sm_clock_mhz: Some(1500 + (i % 3) as u32),
            throttle_reasons: Some(vec!["sw_power_cap".into()]),
            ..Reading::default()
        };
        (0..count).map(reading).collect()
    }
}
