//! Compiles a kernel, runs its PTX on the simulator, and compares every output with the interpreter.

use std::collections::BTreeMap;

use dsl::Kernel;
use dsl::interp::{Bindings, Interpreter, Precision, TensorData, Tensors};
use dsl::schedule::Schedule;
use half::{bf16, f16};
use sim::{Arg, Buffer, Device, DeviceConfig, ElemType, LaunchConfig, Module, Swizzle, TensorMapSpec};
use testkit::examples::Example;
use warpwright_codegen::launch::Param;
use warpwright_codegen::{CompileError, Compiled, compile, target};

/// A schedule from TOML text.
pub fn schedule(text: &str) -> Schedule {
    dsl::schedule::text::parse(text).unwrap_or_else(|e| panic!("{e}"))
}

/// One kernel, schedule and set of inputs.
pub struct Case {
    kernel: Kernel,
    compiled: Compiled,
    runtime: BTreeMap<String, i64>,
    scalars: BTreeMap<String, f64>,
    inputs: Tensors,
    outputs: Vec<(String, Vec<usize>)>,
}

impl Case {
    pub fn new(kernel: &Kernel, schedule: &Schedule) -> Self {
        Self::legal(kernel, schedule).unwrap_or_else(|e| panic!("{e}"))
    }

    /// As `new`; a refused schedule is a value.
    pub fn legal(kernel: &Kernel, schedule: &Schedule) -> Result<Self, CompileError> {
        let compiled = compile(kernel, schedule, &target::SM_90A)?;
        Ok(Self {
            kernel: kernel.clone(),
            compiled,
            runtime: BTreeMap::new(),
            scalars: BTreeMap::new(),
            inputs: Tensors::new(),
            outputs: vec![],
        })
    }

    pub fn runtime(mut self, name: &str, value: i64) -> Self {
        self.runtime.insert(name.into(), value);
        self
    }

    pub fn scalar(mut self, name: &str, value: f64) -> Self {
        self.scalars.insert(name.into(), value);
        self
    }

    /// Noise of about the given spread, the same on every run.
    pub fn input(mut self, name: &str, dims: &[usize], spread: f64) -> Self {
        let tensor = self.kernel.tensors.iter().find(|t| t.name == name).unwrap();
        let data = testkit::noise(name, dims.iter().product(), spread);
        self.inputs
            .insert(name.into(), TensorData::dense(tensor.dtype, dims, data).unwrap());
        self
    }

    pub fn output(mut self, name: &str, dims: &[usize]) -> Self {
        self.outputs.push((name.into(), dims.to_vec()));
        self
    }

    /// The bound kernel and every decision.
    pub fn scheduled(&self) -> &warpwright_codegen::plan::Scheduled {
        &self.compiled.scheduled
    }

    /// The case of an example.
    pub fn example(example: &Example) -> Self {
        let mut case = Self::new(&example.kernel, &schedule(&example.schedule));
        for (name, value) in &example.runtime {
            case = case.runtime(name, *value);
        }
        for (name, value) in &example.scalars {
            case = case.scalar(name, *value);
        }
        for input in &example.inputs {
            case = case.input(input.name, &input.dims, input.spread);
        }
        let outputs = example.outputs.iter();
        outputs.fold(case, |case, (name, dims)| case.output(name, dims))
    }

    /// Runs both and compares: `‖simulated - interpreted‖ <= tolerance * ‖interpreted‖`, no findings, nothing unwritten.
    pub fn check(self, label: &str, tolerance: f64) {
        self.check_seeds(label, tolerance, 2);
    }

    /// As `check`, under the given number of simulator seeds.
    pub fn check_seeds(&self, label: &str, tolerance: f64, seeds: u64) {
        let wanted = self.interpret();
        for seed in 0..seeds {
            let got = self.simulate(seed);
            for (name, values) in &got {
                let (mut error, mut norm) = (0.0, 0.0);
                for (a, b) in values.iter().zip(wanted[name].data()) {
                    if a == b {
                        norm += if b.is_finite() { b * b } else { 0.0 };
                        continue;
                    }
                    error += (a - b) * (a - b);
                    norm += b * b;
                }
                let ratio = if error == 0.0 { 0.0 } else { (error / norm).sqrt() };
                // No 16-bit rounding lies between the scores and their log-sum-exp.
                let tolerance = if name == "lse" { tolerance.min(2e-5) } else { tolerance };
                println!("{label} {name} seed {seed}: relative error {ratio:.2e}");
                assert!(
                    ratio <= tolerance,
                    "{label}: `{name}` is off by {ratio:.2e} (seed {seed})"
                );
            }
        }
    }

    fn interpret(&self) -> Tensors {
        let mut bindings = Bindings::new();
        for (name, value) in &self.compiled.scheduled.schedule.tiles {
            bindings = bindings.tile(name, *value);
        }
        for (name, value) in &self.runtime {
            bindings = bindings.runtime(name, *value);
        }
        for (name, value) in &self.scalars {
            bindings = bindings.scalar(name, *value);
        }
        Interpreter::new(Precision::F64)
            .run(&self.kernel, &bindings, &self.inputs)
            .unwrap_or_else(|e| panic!("{e}"))
    }

    fn simulate(&self, seed: u64) -> BTreeMap<String, Vec<f64>> {
        let mut device = Device::new(DeviceConfig {
            seed,
            sm_count: 3,
            ..Default::default()
        });
        let mut buffers: BTreeMap<String, (Buffer, Vec<usize>)> = BTreeMap::new();
        for (name, t) in &self.inputs {
            buffers.insert(name.clone(), (device.upload(&bytes(t)), t.dims().to_vec()));
        }
        for (name, dims) in &self.outputs {
            let bytes = self.dtype(name).bytes() as usize;
            let buffer = device.alloc(bytes * dims.iter().product::<usize>());
            device.declare_output(buffer.address).unwrap();
            buffers.insert(name.clone(), (buffer, dims.clone()));
        }
        let args: Vec<Arg> = self
            .compiled
            .launch
            .params
            .iter()
            .map(|p| self.arg(p, &buffers, &mut device))
            .collect();
        let launch = &self.compiled.launch;
        let blocks = if launch.grid.kind == "blocks" {
            self.blocks()
        } else {
            self.blocks().min(3)
        };
        let grid = u32::try_from(blocks).unwrap();
        let module = Module::parse(&self.compiled.ptx.0).unwrap_or_else(|e| panic!("{e}"));
        let config = LaunchConfig::linear(grid, launch.block[0], launch.shared_bytes);
        let report = device
            .launch(&module, &launch.entry, config, &args)
            .unwrap_or_else(|f| panic!("{f}"));
        assert!(
            report.findings.is_empty(),
            "{:#?}",
            report.findings.iter().map(ToString::to_string).collect::<Vec<_>>()
        );
        let mut out = BTreeMap::new();
        for (name, _) in &self.outputs {
            let buffer = buffers[name].0;
            assert!(
                device.unwritten(buffer).unwrap().is_empty(),
                "`{name}` has unwritten elements"
            );
            let raw = device.read(buffer).unwrap();
            let values = match self.dtype(name) {
                dsl::DType::F32 => raw
                    .chunks(4)
                    .map(|b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]])))
                    .collect(),
                dsl::DType::F16 => raw
                    .chunks(2)
                    .map(|b| f16::from_le_bytes([b[0], b[1]]).to_f64())
                    .collect(),
                dsl::DType::Bf16 => raw
                    .chunks(2)
                    .map(|b| bf16::from_le_bytes([b[0], b[1]]).to_f64())
                    .collect(),
            };
            out.insert(name.clone(), values);
        }
        out
    }

    fn dtype(&self, tensor: &str) -> dsl::DType {
        self.kernel.tensors.iter().find(|t| t.name == tensor).unwrap().dtype
    }

    fn blocks(&self) -> i64 {
        let kernel = &self.compiled.scheduled.kernel;
        let mut leaf = |ix: &dsl::Ix| {
            if let dsl::Ix::Runtime(r) = ix {
                self.runtime.get(&kernel.runtime[r.0 as usize]).copied()
            } else {
                None
            }
        };
        kernel.grid.iter().map(|a| a.count.eval(&mut leaf).unwrap()).product()
    }

    fn arg(&self, p: &Param, buffers: &BTreeMap<String, (Buffer, Vec<usize>)>, device: &mut Device) -> Arg {
        match p {
            Param::TensorMap { tensor, r#box, .. } => {
                let (buffer, dims) = &buffers[tensor];
                let mut strides: Vec<u64> = vec![];
                for i in 1..dims.len() {
                    strides.push(2 * dims[i..].iter().product::<usize>() as u64);
                }
                strides.reverse();
                let spec = TensorMapSpec {
                    elem: match self.dtype(tensor) {
                        dsl::DType::F16 => ElemType::F16,
                        _ => ElemType::Bf16,
                    },
                    address: buffer.address,
                    dims: dims.iter().rev().map(|d| *d as u64).collect(),
                    strides_bytes: strides,
                    box_dims: r#box.iter().rev().copied().collect(),
                    swizzle: Swizzle::B128,
                };
                device.tensor_map(spec).unwrap_or_else(|e| panic!("{e}"))
            }
            Param::Pointer { tensor, .. } => Arg::Buffer(buffers[tensor].0),
            Param::Stride { tensor, dim, .. } => {
                Arg::U64(buffers[tensor].1[*dim as usize + 1..].iter().product::<usize>() as u64)
            }
            Param::Size { name } => Arg::U32(u32::try_from(self.runtime[name]).unwrap()),
            Param::Scalar { name, .. } => Arg::F32(self.scalars[name] as f32),
            Param::Stamps { cta_bytes, .. } => Arg::Buffer(device.upload(&vec![0; *cta_bytes as usize])),
            Param::Scratch { bytes, .. } => Arg::Buffer(device.upload(&vec![0; *bytes as usize])),
        }
    }
}

fn bytes(t: &TensorData) -> Vec<u8> {
    match t.dtype() {
        dsl::DType::F32 => t.data().iter().flat_map(|x| (*x as f32).to_le_bytes()).collect(),
        dsl::DType::F16 => t.data().iter().flat_map(|x| f16::from_f64(*x).to_le_bytes()).collect(),
        dsl::DType::Bf16 => t.data().iter().flat_map(|x| bf16::from_f64(*x).to_le_bytes()).collect(),
    }
}
