//! A flash kernel of the tests' own, with another block width, traversal and exponential form than the plain one, and
//! with faults that can be planted in it.

use warpwright_oracle::inputs::{Family, Inputs, Operand};
use warpwright_oracle::norms::{ErrorReport, judge_attention};
use warpwright_oracle::reference::{AttentionData, RowsOutput, RowsReference, every_row, forward_f64, forward_plain};
use warpwright_oracle::{AttentionForward, Dtype, Problem};

/// What is wrong with the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    AccumulateInDtype,
    SumInDtype,
    ScoresInF16,
    MissingMask,
    CausalSeesOneMore,
    CausalSeesOneLess,
    OutputNotRescaled,
    NothingRescaled,
    RescaleIgnoresSmallSteps,
    DropFirstBlock,
    DropMiddleBlock,
    DropLastBlock,
    DropLastKey,
    CountsPaddingKeys,
    WrongKeyHead,
    SwapsTwoValues,
    FlushesSubnormals,
    MissingScale,
    LseInBase2,
    BlindRowsGetMean,
    Zeros,
    Constant,
    StaleRows,
    UnwrittenRow,
    OneNan,
}

/// How a right kernel may differ from the plain one.
#[derive(Clone, Copy)]
pub struct Style {
    pub block: usize,
    pub reverse: bool,
}

pub struct Case {
    pub p: AttentionForward,
    pub q: Vec<u16>,
    pub k: Vec<u16>,
    pub v: Vec<u16>,
}

pub struct Output {
    pub o: Vec<u16>,
    pub lse: Vec<f32>,
}

impl Case {
    pub fn new(text: &str, family: Family, seed: u64) -> Self {
        let Problem::Forward(p) = text.parse().unwrap() else {
            panic!("{text} is no attention")
        };
        let inputs = Inputs::new(p, family, seed).unwrap();
        let [q, k, v] = [Operand::Q, Operand::K, Operand::V].map(|operand| inputs.generate(operand).unwrap());
        Self { p, q, k, v }
    }

    pub fn data(&self) -> AttentionData<'_> {
        AttentionData::new(self.p, self.p.default_scale_log2(), [&self.q, &self.k, &self.v]).unwrap()
    }

    /// The true and the plain result of every row.
    pub fn measure(&self) -> (RowsReference, RowsOutput) {
        let (data, rows) = (self.data(), every_row(&self.p).collect::<Vec<_>>());
        (forward_f64(&data, &rows).unwrap(), forward_plain(&data, &rows).unwrap())
    }

    pub fn judge(&self, (truth, plain): &(RowsReference, RowsOutput), output: &Output) -> ErrorReport {
        judge_attention(&self.p, truth, plain, (&output.o, &output.lse)).unwrap()
    }

    pub fn run(&self, style: Style, fault: Fault) -> Output {
        let p = &self.p;
        let mut output = Output {
            o: vec![0xffff; self.q.len()],
            lse: vec![f32::NAN; p.lse_elems() as usize],
        };
        let loaded = [&self.q, &self.k, &self.v].map(|tensor| self.load(fault, tensor));
        for row in every_row(p) {
            let (o, lse) = self.row(
                style,
                fault,
                &loaded,
                [row.batch, row.head, row.row].map(|x| x as usize),
            );
            let at = (row.batch * p.q_len + row.row) * p.heads + row.head;
            let d = p.head_dim as usize;
            output.o[at as usize * d..][..d].copy_from_slice(&o);
            output.lse[((row.batch * p.heads + row.head) * p.q_len + row.row) as usize] = lse;
        }
        self.spoil(fault, &mut output);
        output
    }

    /// Faults of the store.
    fn spoil(&self, fault: Fault, output: &mut Output) {
        let d = self.p.head_dim as usize;
        let row_elems = d * self.p.heads as usize;
        match fault {
            Fault::Zeros => output.o.fill(0),
            Fault::Constant => output.o.fill(self.p.dtype.encode(0.01)),
            // The first 4 positions again in place of the last 4.
            Fault::StaleRows => {
                let last = output.o.len() - 4 * row_elems;
                output.o.copy_within(..4 * row_elems, last);
            }
            Fault::UnwrittenRow => output.o[3 * d..4 * d].fill(0xffff),
            Fault::OneNan => output.o[7] = self.p.dtype.encode(f32::NAN),
            _ => {}
        }
    }

    /// How many keys the kernel believes the row sees.
    fn visible(&self, fault: Fault, row: usize) -> usize {
        let (right, kv) = (self.p.visible_kv(row as u32) as usize, self.p.kv_len as usize);
        match fault {
            Fault::MissingMask => kv,
            Fault::CausalSeesOneMore => (right + 1).min(kv),
            Fault::CausalSeesOneLess if right > 1 && right < kv => right - 1,
            Fault::DropLastKey if right > 1 => right - 1,
            Fault::BlindRowsGetMean if right == 0 => kv,
            _ => right,
        }
    }

    fn load(&self, fault: Fault, tensor: &[u16]) -> Vec<f32> {
        let smallest = match self.p.dtype {
            Dtype::F16 => 2.0_f32.powi(-14),
            Dtype::Bf16 => f32::MIN_POSITIVE,
        };
        let flush = |x: f32| {
            if fault == Fault::FlushesSubnormals && x.abs() < smallest {
                0.0
            } else {
                x
            }
        };
        tensor.iter().map(|&bits| flush(self.p.dtype.decode(bits))).collect()
    }

    fn row(&self, style: Style, fault: Fault, [q, k, v]: &[Vec<f32>; 3], row: [usize; 3]) -> (Vec<u16>, f32) {
        let (p, [batch, head, row]) = (&self.p, row);
        let width = p.head_dim as usize;
        let q = slice(q, (batch * p.q_len as usize + row) * p.heads as usize + head, width);
        let group = if fault == Fault::WrongKeyHead {
            1
        } else {
            p.group() as usize
        };
        let kv_head = head / group % p.kv_heads as usize;
        let key_row = |j: usize| (batch * p.kv_len as usize + j) * p.kv_heads as usize + kv_head;
        let visible = self.visible(fault, row);
        let scale = if fault == Fault::MissingScale {
            std::f32::consts::LOG2_E
        } else {
            p.default_scale_log2()
        };
        let mut fold = Fold {
            fault,
            dtype: p.dtype,
            scale,
            o: vec![0.0; width],
            max: f32::NEG_INFINITY,
            sum: 0.0,
        };
        for block in blocks(style, fault, visible) {
            let scores = block.clone().map(|j| {
                let dot = q
                    .iter()
                    .zip(slice(k, key_row(j), width))
                    .fold(0.0_f32, |acc, (a, b)| a.mul_add(*b, acc));
                if fault == Fault::ScoresInF16 {
                    Dtype::F16.round(dot)
                } else {
                    dot
                }
            });
            let scores = scores.collect::<Vec<_>>();
            let padding = style.block - block.len();
            let value_of = |j: usize| {
                if fault == Fault::SwapsTwoValues && j ^ 1 < visible {
                    j ^ 1
                } else {
                    j
                }
            };
            let values = block.map(|j| slice(v, key_row(value_of(j)), width)).collect::<Vec<_>>();
            fold.absorb(&scores, &values, padding);
        }
        if visible == 0 {
            return (vec![0; width], f32::NEG_INFINITY);
        }
        fold.finish()
    }
}

/// The carried state of the online softmax.
struct Fold {
    fault: Fault,
    dtype: Dtype,
    scale: f32,
    o: Vec<f32>,
    max: f32,
    sum: f32,
}

impl Fold {
    fn absorb(&mut self, scores: &[f32], values: &[&[f32]], padding: usize) {
        let old = self.max;
        self.max = scores.iter().copied().fold(old, f32::max);
        // The form of real kernels: one fused multiply-add per score.
        let scaled_max = self.max * self.scale;
        self.rescale(old, (old * self.scale - scaled_max).exp2());
        for (score, v) in scores.iter().zip(values) {
            let weight = score.mul_add(self.scale, -scaled_max).exp2();
            self.sum += weight;
            for (x, v) in self.o.iter_mut().zip(*v) {
                *x = self.dtype.round(weight).mul_add(*v, *x);
                if self.fault == Fault::AccumulateInDtype {
                    *x = self.dtype.round(*x);
                }
            }
            if self.fault == Fault::SumInDtype {
                self.sum = self.dtype.round(self.sum);
            }
        }
        if self.fault == Fault::CountsPaddingKeys {
            self.sum += padding as f32 * (-scaled_max).exp2();
        }
    }

    fn rescale(&mut self, old: f32, step: f32) {
        let small = self.fault == Fault::RescaleIgnoresSmallSteps && step > 0.5;
        let keep_o = small || matches!(self.fault, Fault::OutputNotRescaled | Fault::NothingRescaled);
        let keep_sum = small || self.fault == Fault::NothingRescaled;
        if old > f32::NEG_INFINITY {
            self.o.iter_mut().for_each(|x| *x *= if keep_o { 1.0 } else { step });
            self.sum *= if keep_sum { 1.0 } else { step };
        }
    }

    fn finish(self) -> (Vec<u16>, f32) {
        let lse_base2 = self.max * self.scale + self.sum.log2();
        let natural = if self.fault == Fault::LseInBase2 {
            1.0
        } else {
            std::f32::consts::LN_2
        };
        (
            self.o.iter().map(|x| self.dtype.encode(x / self.sum)).collect(),
            lse_base2 * natural,
        )
    }
}

fn slice(tensor: &[f32], row: usize, width: usize) -> &[f32] {
    &tensor[row * width..][..width]
}

/// The blocks of keys in the order visited.
fn blocks(style: Style, fault: Fault, visible: usize) -> Vec<std::ops::Range<usize>> {
    let starts = (0..visible).step_by(style.block);
    let mut blocks = starts
        .map(|start| start..(start + style.block).min(visible))
        .collect::<Vec<_>>();
    if blocks.len() > 1 {
        match fault {
            Fault::DropFirstBlock => drop(blocks.remove(0)),
            Fault::DropMiddleBlock => drop(blocks.remove(blocks.len() / 2)),
            Fault::DropLastBlock => drop(blocks.pop()),
            _ => {}
        }
    }
    if style.reverse {
        blocks.reverse();
    }
    blocks
}
