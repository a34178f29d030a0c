//! Runs the steps of a check one after the other, shows their output as it comes, and remembers which failed.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// What the steps so far have said.
#[derive(Debug, Default)]
pub struct Steps {
    /// The names of the steps that failed.
    pub failed: Vec<String>,
}

impl Steps {
    /// Runs a command in `root` and returns what it wrote to both streams.
    ///
    /// The streams are joined into one pipe by reading both to the end, standard error on a thread of its own.
    pub fn command(&mut self, name: &str, root: &Path, command: &mut Command) -> String {
        let started = Instant::now();
        println!("== {name}");
        command
            .current_dir(root)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let (output, is_success) = match command.spawn() {
            Ok(mut child) => {
                let stderr = child.stderr.take();
                let reader = std::thread::spawn(move || stderr.map(tee).unwrap_or_default());
                let mut output = child.stdout.take().map(tee).unwrap_or_default();
                output.push_str(&reader.join().unwrap_or_default());
                (output, child.wait().is_ok_and(|status| status.success()))
            }
            Err(error) => (format!("cannot start {command:?}: {error}\n"), false),
        };
        if output.starts_with("cannot start") {
            print!("{output}");
        }
        println!(
            "== {name}: {} ({:.1} s)",
            verdict(is_success),
            started.elapsed().as_secs_f64()
        );
        self.note(name, is_success);
        output
    }

    /// Runs a check of our own.
    pub fn check(&mut self, name: &str, check: impl FnOnce() -> anyhow::Result<()>) {
        println!("== {name}");
        let result = check();
        if let Err(error) = &result {
            println!("{error:#}");
        }
        println!("== {name}: {}", verdict(result.is_ok()));
        self.note(name, result.is_ok());
    }

    fn note(&mut self, name: &str, is_success: bool) {
        if !is_success {
            self.failed.push(name.to_owned());
        }
    }
}

fn verdict(is_success: bool) -> &'static str {
    if is_success { "ok" } else { "FAILED" }
}

/// Passes a stream on line by line and keeps it.
fn tee(stream: impl std::io::Read) -> String {
    let mut kept = String::new();
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    while reader
        .read_until(b'\n', &mut line)
        .is_ok_and(|count_bytes| count_bytes > 0)
    {
        let mut stdout = std::io::stdout().lock();
        // Whoever reads us may have gone; the step still has to run to its end.
        let _closed = stdout.write_all(&line);
        kept.push_str(&String::from_utf8_lossy(&line));
        line.clear();
    }
    kept
}
