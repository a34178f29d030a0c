//! `bench --peers`: hands our kernels and the problems to the script that times them beside cuDNN, FlashAttention and cuBLAS.
//!
//! The script launches our cubins from the launch facts, checks every contestant, and times all in the same windows.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use oracle::Problem;
use serde_json::Value;

use crate::answer::Answer;
use crate::contest::{Contest, Entry};
use crate::device::DeviceName;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::program::{self, AssemblerArgs};
use crate::{answer, files};

/// Peers to time beside our kernels.
#[derive(clap::Args, Clone, Debug)]
pub struct PeerArgs {
    /// Time these beside ours, comma-separated: cudnn, fa2, fa4, cublas. Needs Python with torch.
    #[arg(long, value_name = "LIST")]
    pub peers: Option<String>,
    /// The script that times peers.
    #[arg(long, value_name = "FILE", default_value = "benches/peers/peers.py")]
    peers_script: PathBuf,
    /// The Python that runs it.
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: OsString,
}

/// The peers that the script knows.
const KNOWN: [&str; 4] = ["cudnn", "fa2", "fa4", "cublas"];

/// Refuses what the script could not time, before any work on a device.
///
/// # Errors
/// Peers on the simulator, an unknown peer, or a problem without peers.
pub fn check(args: &PeerArgs, device: DeviceName, contests: &[Contest]) -> Result<(), Failure> {
    let Some(names) = &args.peers else { return Ok(()) };
    let refuse = |fact: &str, allowed: String| {
        Err(Failure::refused("the peers were refused").reason("--peers", names.as_str(), fact, allowed))
    };
    if device == DeviceName::Sim {
        return refuse(
            "peers are timed on a GPU, nothing is on the simulator",
            "--device cuda:N, or no --peers".into(),
        );
    }
    if names.split(',').any(|name| !KNOWN.contains(&name)) {
        return refuse(
            "the script knows no other peers",
            format!("{}, with commas between", KNOWN.join(", ")),
        );
    }
    contests
        .iter()
        .try_for_each(|contest| conditions(&contest.problem).map(drop))
}

/// How the script is to time, and where its records go.
pub struct Order<'a> {
    pub protocol: &'static str,
    pub out: Option<&'a Path>,
    /// The device the script is to see.
    pub ordinal: u32,
}

/// Times every contest by the script.
///
/// # Errors
/// No script or Python, a kernel that does not assemble, or what the script calls wrong.
pub fn run(
    args: &PeerArgs,
    contests: &[Contest],
    assembler: &AssemblerArgs,
    order: &Order<'_>,
) -> Result<Answer, Failure> {
    let names = args.peers.as_deref().unwrap_or_default();
    if !args.peers_script.is_file() {
        let fact = format!("{} is not a file", args.peers_script.display());
        return Err(Failure::refused("the script that times peers is not here").reason(
            "--peers-script",
            args.peers_script.display().to_string(),
            fact,
            "benches/peers/peers.py of the project's checkout",
        ));
    }
    let scratch = tempfile::tempdir().map_err(|e| Failure::refused(format!("no scratch folder: {e}")))?;
    let mut command = Command::new(&args.python);
    command
        .arg(&args.peers_script)
        .args(["--peers", names, "--protocol", order.protocol]);
    for (name, folder) in export(contests, assembler, scratch.path())? {
        let mut ours = OsString::from(format!("{name}="));
        ours.push(folder);
        command.arg("--ours").arg(ours);
    }
    command
        .arg("--cases")
        .args(contests.iter().map(|c| c.problem.to_string()));
    let records = scratch.path().join("records.jsonl");
    command.arg("--out").arg(&records).stdout(Stdio::piped());
    command.env("CUDA_VISIBLE_DEVICES", visible(order.ordinal));
    let output = command.output();
    let output = output.map_err(|e| Failure::refused(format!("cannot run {}: {e}", args.python.display())))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = std::fs::read_to_string(&records).unwrap_or_default();
    if let Some(path) = order.out {
        files::write("--out", path, lines.as_bytes())?;
        answer::note(&format!("wrote {}", path.display()));
    }
    let summaries = summaries(&lines);
    if summaries.is_empty() {
        return Err(failed(&args.python, &output));
    }
    Ok(Answer::text(text)
        .field("peers", names)
        .field("summaries", summaries)
        .failed(exit(output.status.code())))
}

/// The one device for a child: ours by number, which counts among those that we see.
fn visible(ordinal: u32) -> String {
    let seen = std::env::var("CUDA_VISIBLE_DEVICES").unwrap_or_default();
    let nth = usize::try_from(ordinal).ok().and_then(|n| seen.split(',').nth(n));
    nth.map(str::trim)
        .filter(|name| !name.is_empty())
        .map_or_else(|| ordinal.to_string(), str::to_owned)
}

/// One folder per schedule name, with a kernel for each problem in it; names and folders.
fn export(contests: &[Contest], assembler: &AssemblerArgs, folder: &Path) -> Result<Vec<(String, PathBuf)>, Failure> {
    let mut ours: Vec<(String, PathBuf)> = vec![];
    for (number, contest) in contests.iter().enumerate() {
        for entry in &contest.entries {
            let home = match ours.iter().find(|o| o.0 == entry.name) {
                Some(known) => known.1.clone(),
                None => folder.join(ours.len().to_string()),
            };
            write_kernel(contest, entry, assembler, &home.join(number.to_string()))?;
            if !ours.iter().any(|o| o.0 == entry.name) {
                ours.push((entry.name.clone(), home));
            }
        }
    }
    Ok(ours)
}

fn write_kernel(contest: &Contest, entry: &Entry, assembler: &AssemblerArgs, folder: &Path) -> Result<(), Failure> {
    let compiled = program::compile(&entry.subject)?;
    let assembled = program::assemble(&entry.subject, &compiled, assembler)?;
    let io = |e: std::io::Error| Failure::refused(format!("cannot write the kernels for the script: {e}"));
    std::fs::create_dir_all(folder).map_err(io)?;
    let facts = serde_json::to_vec(&compiled.launch).map_err(|e| Failure::bug(e.to_string()))?;
    let when = conditions(&contest.problem)?.to_string();
    for (name, bytes) in [
        ("launch.json", &facts[..]),
        ("kernel.cubin", &assembled.cubin),
        ("when.json", when.as_bytes()),
    ] {
        std::fs::write(folder.join(name), bytes).map_err(io)?;
    }
    Ok(())
}

/// The fields of one problem, which are those of the script: the kernel is for it alone.
fn conditions(problem: &Problem) -> Result<Value, Failure> {
    let (kind, fields) = match problem {
        Problem::Forward(forward) => ("fwd", serde_json::to_value(forward)),
        Problem::Gemm(gemm) => ("gemm", serde_json::to_value(gemm)),
        Problem::Softmax(_) => {
            let fact = "the script has no peer for it";
            return Err(Failure::refused("there are no peers for this problem").reason(
                "--problem",
                problem.to_string(),
                fact,
                "fwd, gemm",
            ));
        }
    };
    let mut fields = fields.map_err(|e| Failure::bug(e.to_string()))?;
    fields["kind"] = kind.into();
    Ok(fields)
}

fn summaries(lines: &str) -> Vec<Value> {
    lines
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|record| record["record"] == "summary")
        .collect()
}

/// What a script that timed nothing said last.
fn failed(python: &OsString, output: &Output) -> Failure {
    let tail = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(8)..].join("\n")
    };
    Failure::refused("the script of the peers timed nothing").help(format!(
        "{} said: {}\n{}",
        python.display(),
        tail(&output.stdout),
        tail(&output.stderr)
    ))
}

/// What the script's exit status says (benches/peers/README.md).
fn exit(status: Option<i32>) -> Option<Exit> {
    match status {
        Some(0) => None,
        Some(9) => Some(Exit::DeviceFault),
        _ => Some(Exit::WrongResult),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a shell script in the place of the Python one, without kernels of ours.
    fn with_script(text: &str) -> Result<Answer, Failure> {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("peers.sh");
        std::fs::write(&script, text).unwrap();
        let args = PeerArgs {
            peers: Some("cudnn".into()),
            peers_script: script,
            python: "sh".into(),
        };
        let assembler = AssemblerArgs {
            ptxas: None,
            offline: true,
        };
        let order = Order {
            protocol: "burst",
            out: None,
            ordinal: 0,
        };
        run(&args, &[], &assembler, &order)
    }

    /// The last argument is the file for the records.
    const RECORD: &str =
        "for last; do :; done; echo '{\"record\": \"summary\", \"tflops\": 1.5}' > \"$last\"; echo table; ";

    #[test]
    fn the_status_of_the_script_is_ours() {
        assert!(with_script(&format!("{RECORD} exit 0")).is_ok());
        assert_eq!(exit(Some(0)), None);
        assert_eq!(exit(Some(9)), Some(Exit::DeviceFault));
        assert_eq!(exit(Some(1)), Some(Exit::WrongResult));
    }

    #[test]
    fn a_script_that_timed_nothing_is_no_result() {
        assert!(with_script("echo no torch >&2; exit 1").is_err());
        assert!(with_script("exit 0").is_err());
    }

    #[test]
    fn conditions_are_the_fields_of_the_problem() {
        let problem = "fwd bf16 b2 s4096x1024 h32/8 d128 causal".parse::<Problem>().unwrap();
        let fields = conditions(&problem).unwrap();
        assert_eq!(fields["kind"], "fwd");
        assert_eq!(fields["kv_len"], 1024);
        assert_eq!(fields["mask"], "causal");
        assert_eq!(fields["dtype"], "bf16");
        assert!(conditions(&"softmax bf16 m64 n64".parse().unwrap()).is_err());
    }
}
