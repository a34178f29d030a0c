//! Refused text: what the errors say; and that no text makes the parser panic or hang.

use warpwright_sim::Module;

use super::attention::{CAUSAL, FULL};
use super::kernel::{Run, module};

#[track_caller]
fn refused(body: &str, message: &str) {
    let error = Module::parse(&module(body)).unwrap_err();
    assert!(error.to_string().contains(message), "{error}");
    assert_eq!(error.pos.line, 9, "{error}");
}

#[test]
fn errors_name_what_is_not_understood() {
    let nl = "\n";
    refused(&format!("{nl}foo.u32 %r0,%r1;"), "unknown instruction `foo`");
    refused(
        &format!("{nl}add.whoops.u32 %r0,%r1,%r2;"),
        "unknown modifier `.whoops` of `add`",
    );
    refused(&format!("{nl}add.u32 %r0,%r1;"), "`add` has 2 operands");
    refused(
        &format!("{nl}add.u64 %d0,%d1,%r2;"),
        "`%r2` is .b32; `add` wants a .u64 register here",
    );
    refused(&format!("{nl}add.f32 %f0,%f1,%zz;"), "`%zz` is not declared here");
    refused(&format!("{nl}bra NOWHERE;"), "label `NOWHERE` is not defined");
    refused(&format!("{nl}call foo;"), "`call` is not simulated");
    refused(
        &format!("{nl}setmaxnreg.inc.sync.aligned.u32 100;"),
        "a multiple of 8 from 24 to 256",
    );
    refused(&format!("{nl}add.rz.f32 %f0,%f1,%f2;"), "`.rn` only");
    refused(
        &format!("{nl}{{ .reg .b32 t; }} mov.u32 %r0,t;"),
        "`t` is not declared here",
    );
    refused(&format!("{nl}mov.u32 %r0,%r64;"), "`%r64` is not declared here");
}

#[test]
fn scopes_shadow_and_labels_are_local() {
    let text = module(
        "{ .reg .b32 t; mov.u32 t,1; { .reg .b64 t; mov.u64 t,2; } L: mov.u32 %r0,t; }\n\
         { .reg .b32 t; mov.u32 t,3; setp.eq.u32 %p0,t,3; @%p0 bra L; L: }",
    );
    Module::parse(&text).unwrap();
}

#[test]
fn directives_and_comments_are_read() {
    let text = ".version 8.0 /* block */\n.target sm_90a, debug\n.address_size 64\n.file 1 \"a.rs\"\n\
        .shared .align 8 .b8 box[64];\n\
        .visible .entry k(.param .u64 .ptr .global .align 16 p, .param .align 64 .b8 m[128])\n\
        .reqntid 32, 1, 1 .maxnreg 64 {\n.loc 1 3 4\n.pragma \"nounroll\";\n.reg .b32 %r<4>; // line\n\
        mov.u32 %r0, box+8; ret; }";
    let parsed = Module::parse(text).unwrap();
    assert_eq!(parsed.params("k").unwrap(), vec![("p", 8), ("m", 128)]);
    assert_eq!((parsed.version(), parsed.target()), ((8, 0), "sm_90a"));
}

/// Cuts, swaps and overwrites pieces of good text: any result is fine, a panic or a hang is not.
#[test]
fn mangled_text_never_panics() {
    let mut state = 0x1234_5678_9abc_def1u64;
    let mut random = move |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % limit as u64) as usize
    };
    let noise = [
        "{", "}", "[", "]", ",", ";", ".", "@", "!", "%", "0x", "-", "<", "\"", "/*", "é", "_", "|", "::", "9e9",
    ];
    let mut accepted = 0;
    for round in 0..400 {
        let source = if round % 2 == 0 { FULL.text } else { CAUSAL.text };
        // The head and a window, so that each round is quick.
        let start = 1500 + random(source.len() - 4000);
        let mut text: Vec<char> = source[..1500]
            .chars()
            .chain(source[start..start + 1500].chars())
            .collect();
        for _ in 0..1 + random(6) {
            let at = random(text.len() - 8);
            match random(3) {
                0 => drop(text.drain(at..at + 1 + random(6))),
                1 => text.splice(at..at, noise[random(noise.len())].chars()).for_each(drop),
                _ => text.swap(at, at + 1 + random(6)),
            }
        }
        accepted += usize::from(Module::parse(&text.into_iter().collect::<String>()).is_ok());
    }
    assert!(accepted < 400);
}

#[test]
fn findings_name_the_source_line_that_the_text_gives() {
    let body = "add.u32 %r1,%r0,1;\n.loc 1 54 9\nadd.u32 %r3,%r2,1;\nadd.u32 %r5,%r4,1;\n\
        .loc 2 7 1\nadd.u32 %r7,%r6,1;\n.loc 1 60 1\nadd.u32 %r9,%r8,1;";
    let text = module(body).replace(".extern", ".file 1 \"mine/src/k.rs\"\n.extern");
    let outcome = Run::default().text(&text, &[], 4, |_, _, _| Vec::new());
    let found = outcome.findings();
    let sources: Vec<_> = found.iter().map(|f| f.site.source.as_deref()).collect();
    let (first, last) = (Some("mine/src/k.rs:54"), Some("mine/src/k.rs:60"));
    // Nothing before the first `.loc`, and nothing for a file without a name.
    assert_eq!(sources, [None, first, first, None, last]);
    assert!(
        found[1].to_string().contains("(mine/src/k.rs:54), CTA (0, 0, 0)"),
        "{}",
        found[1]
    );
}

#[test]
fn a_deadlock_names_the_source_lines_of_its_waits() {
    // The second warp leaves without coming to the barrier.
    let body = "setp.lt.u32 %p0,%lane,32;\n.loc 1 8 1\n@%p0 barrier.sync 1, 64;";
    let text = module(body).replace(".extern", ".file 1 \"mine/src/k.rs\"\n.extern");
    let run = Run {
        threads: 64,
        ..Run::default()
    };
    let outcome = run.text(&text, &[], 4, |_, _, _| Vec::new());
    let found: Vec<String> = outcome.findings().iter().map(ToString::to_string).collect();
    assert!(
        found.iter().any(|f| f.contains("(mine/src/k.rs:8) waits for")),
        "{found:#?}"
    );
}
