//! What the assembler said: every line kept verbatim, with a severity, a code and a class.
//!
//! Only the class decides anything. Codes C7508 to C7516 say that wgmma instructions were serialised or that `setmaxnreg`
//! was ignored; the kernel would run, but not as its schedule says, so the class is a refusal. Other builds print the same
//! sentences under C7503 to C7507, so the sentence counts as well as the number. C7517 and C7519 say that the assembler
//! put in a wait or an arrive that was missing: a remark.

use std::fmt;

use serde::Serialize;

/// How loud a line is, in the assembler's own terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// `info`.
    Info,
    /// `warning`.
    Warning,
    /// `error`.
    Error,
    /// `fatal`.
    Fatal,
}

/// What a line means for the candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiagnosticClass {
    /// The text is refused.
    Rejection,
    /// wgmma instructions were serialised: a refusal.
    WgmmaSerialised,
    /// `setmaxnreg` was ignored: a refusal.
    SetmaxnregIgnored,
    /// A `wgmma.wait_group` or `wgmma.fence` was put in: a remark.
    SyncInjected,
    /// Registers, spills, shared memory.
    Statistics,
    /// Anything else.
    Note,
}

impl DiagnosticClass {
    /// Whether a candidate with such a line must not be judged any further.
    #[must_use]
    pub const fn is_refusal(self) -> bool {
        matches!(self, Self::Rejection | Self::WgmmaSerialised | Self::SetmaxnregIgnored)
    }
}

/// One diagnostic, with its continuation lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// How loud it is.
    pub severity: Severity,
    /// `7511` of `(C7511)`.
    pub code: Option<u16>,
    /// The PTX line it names, from 1. The assembler's "line 0" is nothing.
    pub ptx_line: Option<u32>,
    /// What it means.
    pub class: DiagnosticClass,
    /// The lines as printed.
    pub text: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What the output said, apart from what differs from run to run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parsed {
    /// The diagnostics in the order printed, without the compile-time line.
    pub diagnostics: Vec<Diagnostic>,
    /// The compile time the assembler reports.
    pub compile_time_ms: Option<f64>,
}

/// Reads the assembler's standard error.
///
/// The line `Compile time = 285.382 ms` differs between runs of the same input, so it becomes a number of its own.
#[must_use]
pub fn parse(output: &str) -> Parsed {
    let mut parsed = Parsed::default();
    for line in output.lines().filter(|line| !line.trim().is_empty()) {
        if let Some(time_ms) = compile_time_ms(line) {
            parsed.compile_time_ms = Some(time_ms);
        } else if let Some(diagnostic) = parse_line(line) {
            parsed.diagnostics.push(diagnostic);
        } else if let Some(last) = parsed.diagnostics.last_mut() {
            last.text.push('\n');
            last.text.push_str(line);
        } else {
            parsed.diagnostics.push(unmarked(line));
        }
    }
    parsed
}

/// A line before any diagnostic, such as a loader's complaint.
fn unmarked(line: &str) -> Diagnostic {
    let (severity, code, ptx_line) = (Severity::Info, None, None);
    Diagnostic {
        severity,
        code,
        ptx_line,
        class: DiagnosticClass::Note,
        text: line.to_owned(),
    }
}

/// `ptxas info    : text` or `ptxas kernel.ptx, line 7; error   : text`.
fn parse_line(line: &str) -> Option<Diagnostic> {
    let rest = line.strip_prefix("ptxas ")?;
    let (head, message) = rest.split_once(':')?;
    let severity = match head.trim_end().rsplit(' ').next()? {
        "info" => Severity::Info,
        "warning" => Severity::Warning,
        "error" => Severity::Error,
        "fatal" => Severity::Fatal,
        _ => return None,
    };
    let message = message.trim_start();
    let code = code_of(message);
    let ptx_line = number_after(head, ", line ").or_else(|| line_in_message(message));
    let class = classify(severity, code, message);
    Some(Diagnostic {
        severity,
        code,
        ptx_line,
        class,
        text: line.to_owned(),
    })
}

fn code_of(message: &str) -> Option<u16> {
    let (code, _) = message.strip_prefix("(C")?.split_once(')')?;
    code.parse().ok()
}

/// `around line 377 by compiler`, `in line 622`, `at line 377`.
fn line_in_message(message: &str) -> Option<u32> {
    ["around line ", "in line ", "at line "]
        .into_iter()
        .find_map(|lead| number_after(message, lead))
}

fn number_after(text: &str, lead: &str) -> Option<u32> {
    let (_, tail) = text.split_once(lead)?;
    let digits = tail.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok().filter(|line| *line > 0)
}

fn compile_time_ms(line: &str) -> Option<f64> {
    let (_, tail) = line.strip_prefix("ptxas info")?.split_once("Compile time = ")?;
    tail.strip_suffix(" ms")?.parse().ok()
}

fn classify(severity: Severity, code: Option<u16>, message: &str) -> DiagnosticClass {
    if severity >= Severity::Error {
        return DiagnosticClass::Rejection;
    }
    if message.contains("'setmaxnreg' ignored") || code == Some(7508) {
        return DiagnosticClass::SetmaxnregIgnored;
    }
    if message.contains("wgmma.mma_async instructions are serialized") {
        return DiagnosticClass::WgmmaSerialised;
    }
    match code {
        Some(7509..=7516) => DiagnosticClass::WgmmaSerialised,
        Some(7517 | 7519) => DiagnosticClass::SyncInjected,
        _ if is_statistics(message) => DiagnosticClass::Statistics,
        _ => DiagnosticClass::Note,
    }
}

fn is_statistics(message: &str) -> bool {
    ["Used ", "Function properties for ", "Compiling entry function "]
        .iter()
        .any(|lead| message.starts_with(lead))
        || message
            .split_once(' ')
            .is_some_and(|(count, tail)| count.parse::<u64>().is_ok() && tail.starts_with("bytes gmem"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_codes_and_remark_codes_are_told_apart() {
        let output = "\
ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register resources for the wgmma pipeline in the function 'attn' in line 622
ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.
ptxas info    : (C7505) Potential Performance Loss: 'setmaxnreg' ignored to allow debugging.
ptxas info    : (C7519) warpgroup.arrive is injected in around line 377 by compiler to allow use of registers in GMMA in function 'attn'
ptxas info    : (C7516) a sentence no release has printed so far
ptxas warning :  .debug_info section not found
";
        let parsed = parse(output).diagnostics;
        let classes: Vec<_> = parsed.iter().map(|diagnostic| diagnostic.class).collect();
        use DiagnosticClass::{Note, SetmaxnregIgnored, SyncInjected, WgmmaSerialised};
        assert_eq!(
            classes,
            [
                WgmmaSerialised,
                SetmaxnregIgnored,
                SetmaxnregIgnored,
                SyncInjected,
                WgmmaSerialised,
                Note
            ]
        );
        assert_eq!(parsed[0].ptx_line, Some(622));
        assert_eq!(parsed[3].ptx_line, Some(377));
        assert!(parsed[0].class.is_refusal() && !parsed[3].class.is_refusal());
    }

    #[test]
    fn errors_keep_their_line_and_text() {
        let parsed = parse("ptxas kernel.ptx, line 7; error   : Unknown symbol '%zz'\n").diagnostics;
        assert_eq!(parsed.len(), 1);
        assert_eq!((parsed[0].severity, parsed[0].ptx_line), (Severity::Error, Some(7)));
        assert_eq!(
            parsed[0].text,
            "ptxas kernel.ptx, line 7; error   : Unknown symbol '%zz'"
        );
    }

    #[test]
    fn continuation_lines_stay_with_their_diagnostic_and_times_go_apart() {
        let output = "\
ptxas info    : Function properties for attn
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Compile time = 285.382 ms
";
        let parsed = parse(output);
        assert_eq!(parsed.diagnostics.len(), 1);
        assert!(parsed.diagnostics[0].text.ends_with("0 bytes spill loads"));
        assert_eq!(parsed.compile_time_ms, Some(285.382));
    }

    #[test]
    fn line_zero_is_no_line() {
        let text =
            "ptxas info    : (C7514) wgmma.mma_async instructions are serialized in the function 'k' in line 0\n";
        assert_eq!(parse(text).diagnostics[0].ptx_line, None);
    }

    #[test]
    fn foreign_output_is_kept() {
        let parsed = parse("sh: not found\nmore\n").diagnostics;
        assert_eq!(parsed[0].text, "sh: not found\nmore");
    }
}
