//! Which assembler options a schedule may name.
//!
//! Options come from candidates, so they are a list of what is allowed, one token each: no option may name a file to read
//! or write, change the target, or switch to another kind of output. Options that weaken diagnostics (`--disable-warnings`)
//! are left out as well.

/// Options that take no value.
const FLAGS: [&str; 5] = [
    "--generate-line-info",
    "-lineinfo",
    "--override-directive-values",
    "--warn-on-spills",
    "--warn-on-local-memory-usage",
];

/// Options that take a value, written `--name=value`, with what the value may be.
const VALUED: [(&str, Value); 9] = [
    ("--register-usage-level", Value::Range(0, 10)),
    ("--maxrregcount", Value::Range(16, 255)),
    ("--minnctapersm", Value::Range(1, 32)),
    ("--allow-expensive-optimizations", Value::OneOf(&["true", "false"])),
    ("--fmad", Value::OneOf(&["true", "false"])),
    ("--Ofast-compile", Value::OneOf(&["0", "min", "mid", "max"])),
    ("--def-load-cache", Value::OneOf(&["ca", "cg", "cs", "lu", "cv"])),
    ("--def-store-cache", Value::OneOf(&["wb", "cg", "cs", "wt"])),
    ("--split-compile", Value::Range(1, 64)),
];

/// What the value of an option may be.
#[derive(Debug, Clone, Copy)]
enum Value {
    /// A whole number, both ends included.
    Range(u32, u32),
    /// One of these words.
    OneOf(&'static [&'static str]),
}

impl Value {
    fn allows(self, text: &str) -> bool {
        match self {
            Self::Range(low, high) => {
                text.bytes().all(|byte| byte.is_ascii_digit())
                    && text.parse::<u32>().is_ok_and(|value| (low..=high).contains(&value))
            }
            Self::OneOf(words) => words.contains(&text),
        }
    }

    fn describe(self) -> String {
        match self {
            Self::Range(low, high) => format!("{low}..={high}"),
            Self::OneOf(words) => words.join("|"),
        }
    }
}

/// An option that is not on the list, or whose value is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("ptxas option '{asked}' is not allowed: {reason}; allowed: {allowed}")]
pub struct OptionError {
    /// The option as asked for.
    pub asked: String,
    /// What is wrong with it.
    pub reason: String,
    /// The whole list.
    pub allowed: String,
}

/// Checks one option.
///
/// # Errors
/// When it is not on the list or has a value outside its range.
pub fn check(option: &str) -> Result<(), OptionError> {
    let refuse = |reason: String| OptionError {
        asked: option.to_owned(),
        reason,
        allowed: describe_allowed(),
    };
    if FLAGS.contains(&option) {
        return Ok(());
    }
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    match VALUED.iter().find(|(known, _)| *known == name) {
        None => Err(refuse("no such option on the list".to_owned())),
        Some((_, allowed)) if allowed.allows(value) => Ok(()),
        Some((_, allowed)) => Err(refuse(format!("'{value}' is not {}", allowed.describe()))),
    }
}

fn describe_allowed() -> String {
    let valued = VALUED
        .iter()
        .map(|(name, value)| format!("{name}={}", value.describe()));
    FLAGS
        .iter()
        .map(|flag| (*flag).to_owned())
        .chain(valued)
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_options_pass() {
        for option in [
            "-lineinfo",
            "--register-usage-level=0",
            "--register-usage-level=10",
            "--fmad=false",
        ] {
            assert_eq!(check(option), Ok(()));
        }
    }

    #[test]
    fn files_other_targets_and_stray_inputs_are_refused() {
        for option in [
            "-o=x",
            "--output-file=x",
            "--options-file=x",
            "--apply-controls=x",
            "-arch=sm_80",
            "x.ptx",
            "",
            "-w",
        ] {
            assert!(check(option).is_err(), "{option}");
        }
    }

    #[test]
    fn the_refusal_names_the_range() {
        let error = check("--register-usage-level=11").unwrap_err().to_string();
        assert!(error.contains("0..=10"), "{error}");
        for option in [
            "--register-usage-level",
            "--register-usage-level=",
            "--register-usage-level=+1",
            "--fmad=yes",
        ] {
            assert!(check(option).is_err(), "{option}");
        }
    }
}
