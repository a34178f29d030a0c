//! Q, K and V of the attention families. A row here is one (batch, position, head): `head_dim` elements.

use super::hash::{Purpose, Stream};
use super::{Family, Operand, alternate, by_rows, encode_finite};
use crate::dtype::Dtype;
use crate::problem::{AttentionForward, MAX_HEAD_DIM};

/// Steepest ramp of `growing-max` per key: 6 nats over 64 keys is 8.7 binary units, above the threshold of 8 at which
/// lazy rescaling acts.
const RAMP_NATS_PER_KEY: f32 = 6.0 / 64.0;

/// Span of the whole ramp: beyond it the f32 error of the logits themselves would show in the output.
const RAMP_MAX_NATS: f32 = 512.0;

/// How many times its key a query of `late-spike` is.
const SPIKE_GAIN: f32 = 4.0;

/// How many times its key a query of `one-hot` is; exact in both dtypes.
const ONE_HOT_GAIN: f32 = 8.0;

/// Largest logit of `near-overflow` in binary units. Real kernels compute `exp2(fma(score, scale, -max·scale))`, whose
/// product on the right is rounded: the weight of the maximum itself is off by half an ulp of this number. At these limits
/// that is a third of the dtype's ε; much above them a right kernel could not be told from a wrong one.
const fn near_overflow_log2(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F16 => 8192.0,
        Dtype::Bf16 => 65536.0,
    }
}

/// Largest |Q·K| of `near-overflow`: as the logit limit allows, and for f16 never above 0.9 of its end.
fn near_overflow_dot(p: &AttentionForward) -> f64 {
    let by_logit = near_overflow_log2(p.dtype) / (p.default_scale() * std::f64::consts::LOG2_E);
    match p.dtype {
        Dtype::F16 => by_logit.min(0.9 * 65504.0),
        Dtype::Bf16 => by_logit,
    }
}

/// Largest |V| of `near-overflow`: 2^100 for bf16, so that the f32 sum over 2^27 unscaled keys still ends below 2^128.
fn near_overflow_v(dtype: Dtype) -> f32 {
    match dtype {
        Dtype::F16 => 60000.0,
        Dtype::Bf16 => libm::exp2f(100.0),
    }
}

/// Size of Q and K of `tiny`: for f16 every fourth value or so is subnormal (below 2^-14).
fn tiny_qk(dtype: Dtype) -> f32 {
    libm::exp2f(match dtype {
        Dtype::F16 => -13.0,
        Dtype::Bf16 => -60.0,
    })
}

/// Size of V of `tiny`: small values of f16 are subnormal, the outputs just not, so that they keep full precision.
fn tiny_v(dtype: Dtype) -> f32 {
    libm::exp2f(match dtype {
        Dtype::F16 => -13.0,
        Dtype::Bf16 => -110.0,
    })
}

/// One row of Q, K or V.
#[derive(Clone, Copy)]
struct Row {
    /// Flat index of its first element in the tensor.
    base: u64,
    batch: u64,
    position: u64,
    kv_head: u64,
}

pub(super) struct Rows<'a> {
    p: &'a AttentionForward,
    family: Family,
    q: Stream,
    k: Stream,
    v: Stream,
    sign: Stream,
    pick: Stream,
    gain: Stream,
}

impl<'a> Rows<'a> {
    pub(super) const fn new(p: &'a AttentionForward, family: Family, seed: u64) -> Self {
        Self {
            p,
            family,
            q: Stream::new(seed, Purpose::Q),
            k: Stream::new(seed, Purpose::K),
            v: Stream::new(seed, Purpose::V),
            sign: Stream::new(seed, Purpose::Sign),
            pick: Stream::new(seed, Purpose::Pick),
            gain: Stream::new(seed, Purpose::Gain),
        }
    }

    /// The caller has checked the range and the operand.
    pub(super) fn fill(&self, operand: Operand, start: u64, out: &mut [u16]) {
        let p = self.p;
        let (len, heads) = match operand {
            Operand::Q => (p.q_len, p.heads),
            _ => (p.kv_len, p.kv_heads),
        };
        let group = u64::from(heads / p.kv_heads.max(1)).max(1);
        let mut buffers = [[0.0; MAX_HEAD_DIM as usize]; 2];
        by_rows(p.head_dim, start, out, |index, first, part| {
            let (outer, head) = (index / u64::from(heads), index % u64::from(heads));
            let (batch, position) = (outer / u64::from(len), outer % u64::from(len));
            let row = Row {
                base: index * u64::from(p.head_dim),
                batch,
                position,
                kv_head: head / group,
            };
            let target = if matches!(operand, Operand::Q) {
                self.target(&row)
            } else {
                None
            };
            // `head_dim` was checked, so a row fits.
            let [noise, spike] = buffers.each_mut().map(|b| &mut b[..part.len()]);
            self.noise(operand, (&row, target), u64::from(first), [noise, spike]);
            let numbers = noise.iter().zip(spike.iter());
            for ((d, bits), (noise, spike)) in (u64::from(first)..).zip(part).zip(numbers) {
                let value = match operand {
                    Operand::Q => self.q_value(&row, target, d, [*noise, *spike]),
                    Operand::K => self.k_value(&row, d, *noise),
                    _ => self.v_value(&row, d, *noise),
                };
                *bits = encode_finite(p.dtype, value);
            }
        });
    }

    /// The normal numbers of a part of a row, where its family uses them: its own, and those of the key that a query of
    /// `late-spike` is built from.
    fn noise(&self, operand: Operand, (row, target): (&Row, Option<Row>), first: u64, [noise, spike]: [&mut [f32]; 2]) {
        match (operand, self.family) {
            (_, Family::NearOverflow) | (Operand::K, Family::OneHot) => {}
            (Operand::Q, Family::OneHot) if target.is_some() => {}
            (Operand::Q, Family::LateSpike) => {
                self.q.normals(row.base + first, 1, noise);
                if let Some(key) = target {
                    self.k.normals(key.base + first, 1, spike);
                }
            }
            (Operand::K, Family::ConstantRows) => self.k.normals(self.channel(row, first), 1, noise),
            (Operand::Q, _) => self.q.normals(row.base + first, 1, noise),
            (Operand::K, _) => self.k.normals(row.base + first, 1, noise),
            _ => self.v.normals(row.base + first, 1, noise),
        }
    }

    /// The key row that a query row of a matching family is built from; `None` for a row that sees no key.
    fn target(&self, q: &Row) -> Option<Row> {
        // `position` is below the u32 q_len.
        let visible = self.p.visible_kv(q.position as u32);
        let key = match self.family {
            Family::OneHot | Family::NearOverflow => self.pick.below(q.base, visible)?,
            Family::LateSpike if q.position.is_multiple_of(2) => visible.checked_sub(1)?,
            Family::LateSpike => visible.min(1).checked_sub(1)?,
            _ => return None,
        };
        let outer = q.batch * u64::from(self.p.kv_len) + u64::from(key);
        let base = (outer * u64::from(self.p.kv_heads) + q.kv_head) * u64::from(self.p.head_dim);
        Some(Row {
            base,
            batch: q.batch,
            position: u64::from(key),
            kv_head: q.kv_head,
        })
    }

    fn q_value(&self, row: &Row, target: Option<Row>, d: u64, [noise, spike]: [f32; 2]) -> f32 {
        match self.family {
            Family::Normal | Family::ConstantRows => noise,
            Family::GrowingMax => alternate(row.position) * self.channel_sign(row, d) + 0.5 * noise,
            Family::LateSpike if target.is_some() => SPIKE_GAIN * spike + 0.5 * noise,
            Family::LateSpike => noise,
            Family::OneHot => target.map_or(noise, |key| ONE_HOT_GAIN * self.sign.sign(key.base + d)),
            Family::Alternating => alternate(d) * (1.0 + 0.25 * noise),
            Family::NearOverflow => self.near_overflow_qk() * target.map_or(0.0, |key| self.sign.sign(key.base + d)),
            Family::Tiny => tiny_qk(self.p.dtype) * noise,
        }
    }

    fn k_value(&self, row: &Row, d: u64, noise: f32) -> f32 {
        match self.family {
            Family::Normal | Family::LateSpike | Family::ConstantRows => noise,
            Family::GrowingMax => self.ramp(row) * self.channel_sign(row, d) + 0.5 * noise,
            Family::OneHot => self.sign.sign(row.base + d),
            Family::Alternating => 1.0 + 0.25 * noise,
            Family::NearOverflow => self.near_overflow_qk() * self.sign.sign(row.base + d),
            Family::Tiny => tiny_qk(self.p.dtype) * noise,
        }
    }

    fn v_value(&self, row: &Row, d: u64, noise: f32) -> f32 {
        match self.family {
            Family::Normal | Family::GrowingMax | Family::LateSpike | Family::OneHot => noise,
            Family::ConstantRows => self.channel_gain(row, d) + 0.5 * noise,
            Family::Alternating => alternate(row.position) * self.pair_sign(row, d) * (1.0 + 0.25 * noise),
            Family::NearOverflow => near_overflow_v(self.p.dtype) * (2.0 * self.v.uniform(row.base + d) - 1.0),
            Family::Tiny => tiny_v(self.p.dtype) * (self.channel_gain(row, d) + 0.25 * noise),
        }
    }

    /// A number per (key head, channel), the same at every position and in every batch.
    fn channel(&self, row: &Row, d: u64) -> u64 {
        row.kv_head * u64::from(self.p.head_dim) + d
    }

    fn channel_sign(&self, row: &Row, d: u64) -> f32 {
        self.sign.sign(self.channel(row, d))
    }

    /// A sign per pair of neighbouring keys and channel. With one sign for all channels the rounding of the weights would
    /// shift a whole row by one random number, and the largest row error of a right kernel would be luck.
    fn pair_sign(&self, row: &Row, d: u64) -> f32 {
        let pairs = (row.batch << 32) | (row.position / 2);
        let channels = u64::from(self.p.kv_heads) * u64::from(self.p.head_dim);
        self.sign
            .sign(pairs.wrapping_mul(channels).wrapping_add(self.channel(row, d)))
    }

    /// Between 1 and 2.
    fn channel_gain(&self, row: &Row, d: u64) -> f32 {
        1.0 + self.gain.uniform(self.channel(row, d))
    }

    /// Size along the sign pattern of a key of `growing-max`: a query of size 1 along it sees `sqrt(head_dim)` times
    /// this as its logit.
    fn ramp(&self, row: &Row) -> f32 {
        let kv_len = self.p.kv_len as f32;
        let nats_per_key = RAMP_NATS_PER_KEY.min(RAMP_MAX_NATS / kv_len);
        nats_per_key * (row.position as f32 - 0.5 * kv_len) / (self.p.head_dim as f32).sqrt()
    }

    fn near_overflow_qk(&self) -> f32 {
        (near_overflow_dot(self.p) / f64::from(self.p.head_dim)).sqrt() as f32
    }
}
