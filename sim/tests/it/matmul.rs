//! wgmma and mma.sync against a plain product: every layout, both majors, N from 8 to 256.

use warpwright_sim::FindingKind;

use super::kernel::{Outcome, Run};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    None,
    B32,
    B64,
    B128,
}

const MODES: [Mode; 4] = [Mode::None, Mode::B32, Mode::B64, Mode::B128];
const K: usize = 16;

/// An operand layout of the test's own making: where an element lies, and the descriptor fields.
#[derive(Clone, Copy, Debug)]
struct Layout {
    mode: Mode,
    mn_major: bool,
}

impl Layout {
    fn row_bytes(self) -> usize {
        match self.mode {
            Mode::None => 16,
            Mode::B32 => 32,
            Mode::B64 => 64,
            Mode::B128 => 128,
        }
    }

    /// (leading, stride) byte offsets.
    fn offsets(self) -> (usize, usize) {
        let row = self.row_bytes();
        match (self.mode, self.mn_major) {
            (Mode::None, _) => (128, 256),
            (_, false) => (16, 8 * row),
            (_, true) => (16 * row, 8 * row),
        }
    }

    fn place(self, mn: usize, k: usize) -> usize {
        let row = self.row_bytes();
        let linear = match (self.mode, self.mn_major) {
            (Mode::None, false) => mn / 8 * 256 + k / 8 * 128 + mn % 8 * 16 + k % 8 * 2,
            (Mode::None, true) => mn / 8 * 256 + k / 8 * 128 + k % 8 * 16 + mn % 8 * 2,
            (_, false) => mn * row + k * 2,
            (_, true) => mn / (row / 2) * 16 * row + k * row + mn % (row / 2) * 2,
        };
        let exchange = match self.mode {
            Mode::None => 0,
            Mode::B32 => linear >> 7 & 1,
            Mode::B64 => linear >> 7 & 3,
            Mode::B128 => linear >> 7 & 7,
        };
        linear ^ exchange << 4
    }

    /// The upper 32 bits and the leading offset of the descriptor.
    fn descriptor(self) -> u64 {
        let (leading, stride) = self.offsets();
        let mode: u64 = match self.mode {
            Mode::None => 0,
            Mode::B128 => 1,
            Mode::B64 => 2,
            Mode::B32 => 3,
        };
        (leading as u64 >> 4) << 16 | (stride as u64 >> 4) << 32 | mode << 62
    }
}

const B_AT: usize = 32_768;

fn a_value(m: usize, k: usize) -> f32 {
    ((m * 7 + k * 3) % 13) as f32 - 6.0
}

fn b_value(k: usize, n: usize) -> f32 {
    ((k * 5 + n * 11) % 17) as f32 * 0.25 - 2.0
}

fn bits(bf16: bool, x: f32) -> u16 {
    if bf16 {
        half::bf16::from_f32(x).to_bits()
    } else {
        half::f16::from_f32(x).to_bits()
    }
}

struct Case {
    n: usize,
    a: Layout,
    b: Layout,
    bf16: bool,
    from_regs: bool,
    seed: u64,
}

/// Copies 64 KiB of input to shared memory, word by word.
const COPY: &str = "shl.b32 %r1,%lane,2; COPY: add.u32 %r2,%smem,%r1; cvt.u64.u32 %d0,%r1; add.u64 %d0,%in,%d0;\n\
    ld.global.u32 %r3,[%d0]; st.shared.u32 [%r2],%r3; add.u32 %r1,%r1,512; setp.lt.u32 %p0,%r1,65536; @%p0 bra COPY;";

fn list(prefix: &str, count: usize) -> String {
    (0..count)
        .map(|i| format!("%{prefix}{i}"))
        .collect::<Vec<_>>()
        .join(",")
}

fn run(case: &Case) -> Outcome {
    run_again(case, "", 0)
}

/// The product, its stores, and behind `before` the same product `more` times.
fn run_again(case: &Case, before: &str, more: usize) -> Outcome {
    let mut image = vec![0u8; 65_536];
    for k in 0..K {
        for m in 0..64 {
            let at = if case.from_regs {
                (m * K + k) * 2
            } else {
                case.a.place(m, k)
            };
            image[at..at + 2].copy_from_slice(&bits(case.bf16, a_value(m, k)).to_le_bytes());
        }
        for n in 0..case.n {
            let at = B_AT + case.b.place(n, k);
            image[at..at + 2].copy_from_slice(&bits(case.bf16, b_value(k, n)).to_le_bytes());
        }
    }
    let ty = if case.bf16 { "bf16" } else { "f16" };
    let regs = case.n / 2;
    let trans_b = u32::from(case.b.mn_major);
    let (load_a, a, tail) = if case.from_regs {
        // Fragment register r: row g + 8 (r & 1), columns 8 (r >> 1) + 2 q.
        let mut text = String::from(
            "shr.u32 %r4,%lane,5; and.b32 %r5,%lane,31; shr.u32 %r6,%r5,2; and.b32 %r7,%r5,3; mad.lo.u32 %r6,%r4,16,%r6;\n",
        );
        for r in 0..4 {
            text += &format!(
                "add.u32 %r8,%r6,{}; mul.lo.u32 %r8,%r8,32; mad.lo.u32 %r8,%r7,4,%r8; add.u32 %r8,%r8,%smem; \
                 ld.shared.u32 %r{},[%r8+{}];\n",
                8 * (r & 1),
                20 + r,
                16 * (r >> 1)
            );
        }
        (text, "{%r20,%r21,%r22,%r23}".to_owned(), format!("1,-1,{trans_b}"))
    } else {
        (
            String::new(),
            "%d1".to_owned(),
            format!("1,-1,{},{trans_b}", u32::from(case.a.mn_major)),
        )
    };
    let zero: String = (0..regs).map(|i| format!("mov.f32 %f{i},0f3F800000;\n")).collect();
    let store: String = (0..regs)
        .map(|i| format!("st.global.f32 [%d4+{}],%f{i};\n", i * 512))
        .collect();
    let product = format!(
        "wgmma.mma_async.sync.aligned.m64n{}k16.f32.{ty}.{ty} {{{}}},{a},%d2,%p1,{tail};\n\
         wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n",
        case.n,
        list("f", regs),
    );
    let again = format!("{before}{product}").repeat(more);
    let body = format!(
        "{COPY}\nfence.proxy.async.shared::cta; bar.sync 0;\n{load_a}{zero}\
         shr.u32 %r9,%smem,4; cvt.u64.u32 %d1,%r9; or.b64 %d1,%d1,{}; cvt.u64.u32 %d2,%r9; add.u64 %d2,%d2,{};\n\
         or.b64 %d2,%d2,{}; setp.ne.u32 %p1,1,0; wgmma.fence.sync.aligned;\n{product}\
         mul.wide.u32 %d4,%lane,4; add.u64 %d4,%out,%d4;\n{store}{again}",
        case.a.descriptor(),
        B_AT / 16,
        case.b.descriptor(),
    );
    Run {
        threads: 128,
        seed: case.seed,
        ..Run::default()
    }
    .body(&body, &image, regs * 512)
}

fn check(case: &Case) {
    let words = run(case).words();
    for (index, word) in words.iter().enumerate() {
        let (i, thread) = (index / 128, index % 128);
        let (warp, lane) = (thread / 32, thread % 32);
        let row = 16 * warp + lane / 4 + 8 * (i >> 1 & 1);
        let col = 8 * (i >> 2) + 2 * (lane % 4) + (i & 1);
        // imm-scale-b is -1 and the accumulator starts at 1.
        let product: f32 = (0..K).map(|k| a_value(row, k) * b_value(k, col)).sum();
        assert_eq!(
            f32::from_bits(*word),
            1.0 - product,
            "n {} a {:?} b {:?} ({row}, {col})",
            case.n,
            case.a,
            case.b
        );
    }
}

#[test]
fn wgmma_from_every_layout() {
    for (index, mode_a) in MODES.into_iter().enumerate() {
        for mode_b in MODES {
            for majors in 0..4 {
                let a = Layout {
                    mode: mode_a,
                    mn_major: majors & 1 != 0,
                };
                let b = Layout {
                    mode: mode_b,
                    mn_major: majors & 2 != 0,
                };
                check(&Case {
                    n: 64,
                    a,
                    b,
                    bf16: index % 2 == 0,
                    from_regs: false,
                    seed: index as u64,
                });
            }
        }
    }
}

/// PTX ISA, `wgmma.fence`: it orders any access to the registers, so also the reads before a product writes them again.
#[test]
fn an_accumulator_that_was_read_needs_a_fence_before_the_next_product() {
    let case = Case {
        n: 64,
        bf16: true,
        from_regs: false,
        a: Layout {
            mode: MODES[0],
            mn_major: false,
        },
        b: Layout {
            mode: MODES[0],
            mn_major: false,
        },
        seed: 1,
    };
    assert_eq!(run_again(&case, "wgmma.fence.sync.aligned;\n", 1).findings(), []);
    let found = run_again(&case, "", 1).findings();
    assert!(!found.is_empty());
    for finding in found {
        assert!(
            matches!(finding.kind, FindingKind::MissingWgmmaFence { touched: "read", .. }),
            "{finding}"
        );
    }
    // Products alone follow one another without.
    assert_eq!(run_again(&case, "wgmma.fence.sync.aligned;\n", 3).findings(), []);
}

#[test]
fn wgmma_of_every_width() {
    for n in (8..=256).step_by(8) {
        for mn_major in [false, true] {
            let layout = Layout {
                mode: Mode::B128,
                mn_major,
            };
            check(&Case {
                n,
                a: layout,
                b: layout,
                bf16: true,
                from_regs: n % 16 == 0,
                seed: n as u64,
            });
        }
    }
}

#[test]
fn wgmma_with_a_in_registers() {
    for mode in MODES {
        for bf16 in [false, true] {
            let b = Layout { mode, mn_major: true };
            check(&Case {
                n: 128,
                a: b,
                b,
                bf16,
                from_regs: true,
                seed: 9,
            });
        }
    }
}

#[test]
fn mma_sync_with_ldmatrix() {
    // A [16][16] row major at 0, B [8][16] (column major) at 512; rows of 32 bytes.
    let mut image = vec![0u8; 65_536];
    for k in 0..16 {
        for m in 0..16 {
            image[m * 32 + k * 2..m * 32 + k * 2 + 2].copy_from_slice(&bits(false, a_value(m, k)).to_le_bytes());
        }
        for n in 0..8 {
            let at = 512 + n * 32 + k * 2;
            image[at..at + 2].copy_from_slice(&bits(false, b_value(k, n)).to_le_bytes());
        }
    }
    let body = format!(
        "{}\nbar.sync 0;\nand.b32 %r4,%lane,15; shr.u32 %r5,%lane,4; mad.lo.u32 %r6,%r4,32,%smem; mad.lo.u32 %r6,%r5,16,%r6;\n\
         ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r10,%r11,%r12,%r13}},[%r6];\n\
         and.b32 %r4,%lane,7; shr.u32 %r5,%lane,3; and.b32 %r5,%r5,1; mad.lo.u32 %r6,%r4,32,%smem; mad.lo.u32 %r6,%r5,16,%r6;\n\
         ldmatrix.sync.aligned.m8n8.x2.shared.b16 {{%r14,%r15}},[%r6+512];\n\
         mov.f32 %f4,0f3F800000;\n\
         mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%f0,%f1,%f2,%f3}},{{%r10,%r11,%r12,%r13}},{{%r14,%r15}},{{%f4,%f4,%f4,%f4}};\n\
         mul.wide.u32 %d4,%lane,16; add.u64 %d4,%out,%d4; st.global.v4.f32 [%d4],{{%f0,%f1,%f2,%f3}};",
        COPY.replace("%r1,%r1,512", "%r1,%r1,128")
    );
    let words = Run::default().body(&body, &image, 512).words();
    for (index, word) in words.iter().enumerate() {
        let (lane, i) = (index / 4, index % 4);
        let (row, col) = (lane / 4 + 8 * (i >> 1), 2 * (lane % 4) + (i & 1));
        let wanted: f32 = 1.0 + (0..16).map(|k| a_value(row, k) * b_value(k, col)).sum::<f32>();
        assert_eq!(f32::from_bits(*word), wanted, "({row}, {col})");
    }
}

#[test]
fn stmatrix_and_ldmatrix_undo_each_other() {
    for (st, ld) in [("", ""), (".trans", ".trans")] {
        let body = format!(
            "mad.lo.u32 %r6,%lane,16,%smem; mov.u32 %r1,%lane; add.u32 %r2,%lane,100; add.u32 %r3,%lane,200; add.u32 %r4,%lane,300;\n\
             stmatrix.sync.aligned.m8n8.x4{st}.shared.b16 [%r6],{{%r1,%r2,%r3,%r4}}; bar.warp.sync -1;\n\
             ldmatrix.sync.aligned.m8n8.x4{ld}.shared.b16 {{%r10,%r11,%r12,%r13}},[%r6];\n\
             mul.wide.u32 %d4,%lane,16; add.u64 %d4,%out,%d4; st.global.v4.u32 [%d4],{{%r10,%r11,%r12,%r13}};"
        );
        let words = Run::default().body(&body, &[0; 4], 512).words();
        let wanted: Vec<u32> = (0..128).map(|i| i / 4 + i % 4 * 100).collect();
        assert_eq!(words, wanted);
    }
}

#[test]
fn stmatrix_places_rows_and_columns() {
    // Lane l holds elements (l / 4, 2 (l % 4)) and the next; transposed, they go to the mirrored place.
    for (mode, place) in [("", 0), (".trans", 1)] {
        let body = format!(
            "and.b32 %r5,%lane,7; mad.lo.u32 %r6,%r5,16,%smem; shl.b32 %r1,%lane,1; add.u32 %r2,%r1,1; shl.b32 %r2,%r2,16; or.b32 %r1,%r1,%r2;\n\
             stmatrix.sync.aligned.m8n8.x1{mode}.shared.b16 [%r6],{{%r1}}; bar.warp.sync -1;\n\
             mad.lo.u32 %r6,%lane,4,%smem; ld.shared.u32 %r0,[%r6]; mul.wide.u32 %d4,%lane,4; add.u64 %d4,%out,%d4; st.global.u32 [%d4],%r0;"
        );
        let words = Run::default().body(&body, &[0; 4], 128).words();
        for (index, word) in words.iter().enumerate() {
            for half in 0..2u32 {
                let (row, col) = (index / 4, 2 * (index % 4) + half as usize);
                let wanted = if place == 0 { row * 8 + col } else { col * 8 + row };
                assert_eq!(word >> (16 * half) & 0xffff, wanted as u32);
            }
        }
    }
}
