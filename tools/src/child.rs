//! Runs one program in a child process with a deadline.
//!
//! The child gets a process group of its own, which is killed as a whole on expiry, and its output goes to files: a
//! grandchild that survives could hold a pipe open for ever, a file it cannot. The environment is cleared except for
//! `PATH`, so that the same input gives the same bytes on every machine.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// More output than this is cut: no diagnostic is worth the memory.
const OUTPUT_LIMIT_BYTES: u64 = 16 << 20;
/// The longest pause between two looks at the child.
const POLL_LIMIT: Duration = Duration::from_millis(5);

/// One run of a program.
#[derive(Debug, Clone)]
pub struct ChildRequest<'a> {
    /// The program's path.
    pub program: &'a Path,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Environment variables besides `PATH`.
    pub env: Vec<(&'static str, OsString)>,
    /// The folder it runs in; output files are written there too.
    pub folder: &'a Path,
    /// The time after which it is killed.
    pub deadline: Duration,
}

/// How a program ended.
#[derive(Debug, Clone)]
pub struct ChildOutput {
    /// Its exit status.
    pub status: ExitStatus,
    /// Standard output, not necessarily UTF-8 before the lossy conversion.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Why a program did not end by itself.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// The program could not be started.
    #[error("cannot start {}: {source}", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The program ran past its deadline and was killed with its process group.
    #[error("{} ran past its deadline of {deadline_ms} ms and was killed", program.display())]
    Deadline {
        /// The program.
        program: PathBuf,
        /// The deadline.
        deadline_ms: u128,
    },
    /// Waiting for the program or reading its output failed.
    #[error("cannot follow {}: {source}", program.display())]
    Follow {
        /// The program.
        program: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// Runs the program to its end or to the deadline.
///
/// # Errors
/// When the program cannot be started or followed, and when it was killed at the deadline.
pub fn run(request: &ChildRequest<'_>) -> Result<ChildOutput, ChildError> {
    let follow = |source| ChildError::Follow {
        program: request.program.to_owned(),
        source,
    };
    let stdout_path = request.folder.join("stdout.txt");
    let stderr_path = request.folder.join("stderr.txt");
    let stdout = File::create(&stdout_path).map_err(follow)?;
    let stderr = File::create(&stderr_path).map_err(follow)?;
    let mut command = Command::new(request.program);
    command.args(&request.args).current_dir(request.folder).env_clear();
    command.envs(request.env.iter().map(|(name, value)| (name, value)));
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr)
        .process_group(0);
    let mut child = spawn_when_writable_copies_are_gone(&mut command).map_err(|source| ChildError::Spawn {
        program: request.program.to_owned(),
        source,
    })?;
    let Some(status) = wait(&mut child, request.deadline).map_err(follow)? else {
        return Err(ChildError::Deadline {
            program: request.program.to_owned(),
            deadline_ms: request.deadline.as_millis(),
        });
    };
    let stdout = read_limited(&stdout_path).map_err(follow)?;
    let stderr = read_limited(&stderr_path).map_err(follow)?;
    Ok(ChildOutput { status, stdout, stderr })
}

/// Starts the program; waits a little when it is still open for writing.
///
/// A thread that forks while another writes an executable inherits the open file for a moment, and the kernel answers
/// "text file busy" until that copy is closed.
fn spawn_when_writable_copies_are_gone(command: &mut Command) -> io::Result<Child> {
    for _ in 0..40 {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(Duration::from_millis(5));
            }
            other => return other,
        }
    }
    command.spawn()
}

/// The exit status, or nothing when the deadline passed and the process group was killed.
fn wait(child: &mut Child, deadline: Duration) -> io::Result<Option<ExitStatus>> {
    let started = Instant::now();
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let elapsed = started.elapsed();
        if elapsed >= deadline {
            kill_group(child);
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(pause.min(deadline - elapsed));
        pause = (pause * 2).min(POLL_LIMIT);
    }
}

/// Kills the child and everything it started.
fn kill_group(child: &mut Child) {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    // The group may have ended by itself in the meantime, which is what we want; `kill` below covers a lost group.
    if let Some(group) = group {
        let _gone_already = kill_process_group(group, Signal::KILL);
    }
    let _gone_already = child.kill();
}

fn read_limited(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(OUTPUT_LIMIT_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, deadline: Duration) -> Result<ChildOutput, ChildError> {
        let folder = tempfile::tempdir().unwrap();
        run(&ChildRequest {
            program: Path::new("/bin/sh"),
            args: vec!["-c".into(), script.into()],
            env: Vec::new(),
            folder: folder.path(),
            deadline,
        })
    }

    #[test]
    fn output_and_status_are_kept_apart() {
        let output = shell("echo out; echo err >&2; exit 3", Duration::from_secs(10)).unwrap();
        assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("out\n", "err\n"));
        assert_eq!(output.status.code(), Some(3));
    }

    #[test]
    fn the_environment_does_not_reach_the_child() {
        let output = shell("env", Duration::from_secs(10)).unwrap();
        assert!(!output.stdout.contains("CARGO"), "{}", output.stdout);
    }

    #[test]
    fn a_grandchild_is_killed_with_the_group() {
        let folder = tempfile::tempdir().unwrap();
        let marker = folder.path().join("survived");
        let script = format!("(sleep 1; touch {}) & wait", marker.display());
        let started = Instant::now();
        let error = shell(&script, Duration::from_millis(100)).unwrap_err();
        assert!(
            matches!(error, ChildError::Deadline { deadline_ms: 100, .. }),
            "{error}"
        );
        assert!(started.elapsed() < Duration::from_millis(900));
        std::thread::sleep(Duration::from_millis(1500));
        assert!(!marker.exists());
    }
}
