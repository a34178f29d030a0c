//! What a command has to say, and the only place that writes to standard output and standard error.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::files;

/// The answer of a command: text (or bytes) for reading, fields for the JSON form.
#[derive(Debug, Default)]
pub struct Answer {
    body: Vec<u8>,
    is_binary: bool,
    fields: Map<String, Value>,
    out: Option<PathBuf>,
    /// The first failure of a part, when the command went on.
    failed: Option<Exit>,
}

impl Answer {
    /// An answer in text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            body: text.into().into_bytes(),
            ..Self::default()
        }
    }

    /// An answer in bytes that no terminal can show.
    pub fn bytes(bytes: Vec<u8>) -> Self {
        Self {
            body: bytes,
            is_binary: true,
            ..Self::default()
        }
    }

    /// Adds a field to the JSON form.
    pub fn field(mut self, key: &str, value: impl serde::Serialize) -> Self {
        self.fields
            .insert(key.to_owned(), serde_json::to_value(value).unwrap_or(Value::Null));
        self
    }

    /// Sends the body to a file.
    pub fn out(mut self, path: Option<PathBuf>) -> Self {
        self.out = path;
        self
    }

    /// Marks an answer of which a part failed.
    pub fn failed(mut self, exit: Option<Exit>) -> Self {
        self.failed = exit;
        self
    }

    /// Writes the answer and says how the process ends.
    pub fn deliver(self, command: &str, as_json: bool) -> Exit {
        let exit = self.failed.unwrap_or(Exit::Done);
        match self.write(command, as_json) {
            Ok(()) => exit,
            // Standard output is lost: there is nowhere to put a second answer, and what failed first tells more.
            Err(Undelivered::Lost(lost)) => lost.report(exit),
            Err(Undelivered::Refused(failure)) => failure.deliver(command, as_json),
        }
    }

    fn write(mut self, command: &str, as_json: bool) -> Result<(), Undelivered> {
        if let Some(path) = &self.out {
            files::write("--out", path, &self.body)?;
            note(&format!("wrote {} ({} bytes)", path.display(), self.body.len()));
            self.fields.insert("out".into(), path.display().to_string().into());
        }
        if as_json {
            self.fields.insert("ok".into(), self.failed.is_none().into());
            self.fields
                .insert("exit_code".into(), self.failed.unwrap_or(Exit::Done).code().into());
            self.fields.insert("command".into(), command.into());
            print(format!("{:#}\n", Value::Object(self.fields)).as_bytes())?;
        } else if self.out.is_none() {
            if self.is_binary && io::stdout().is_terminal() {
                let allowed = "`--out FILE`, or standard output that is a file or a pipe";
                return Err(Failure::refused("machine code is not shown on a terminal")
                    .reason("--out", "none", "the result is binary", allowed)
                    .into());
            }
            print(&self.body)?;
        }
        Ok(())
    }
}

/// Why an answer did not reach its reader.
enum Undelivered {
    Refused(Failure),
    Lost(Lost),
}

impl From<Failure> for Undelivered {
    fn from(failure: Failure) -> Self {
        Self::Refused(failure)
    }
}

impl From<Lost> for Undelivered {
    fn from(lost: Lost) -> Self {
        Self::Lost(lost)
    }
}

/// Standard output did not take everything.
#[derive(Debug)]
pub struct Lost(io::Error);

impl Lost {
    /// Whether a failed write to standard output is one.
    pub fn of(written: io::Result<()>) -> Result<(), Self> {
        written.map_err(Self)
    }

    /// Says so and ends as the command would have, but never well. A reader that went away (`| head`) knows; only the
    /// code tells.
    pub fn report(self, otherwise: Exit) -> Exit {
        if self.0.kind() != ErrorKind::BrokenPipe {
            note(&format!("error: cannot write to standard output: {}", self.0));
        }
        match otherwise {
            Exit::Done => Exit::AnswerLost,
            failed => failed,
        }
    }
}

/// Writes to standard output.
pub fn print(bytes: &[u8]) -> Result<(), Lost> {
    let mut stdout = io::stdout().lock();
    Lost::of(stdout.write_all(bytes).and_then(|()| stdout.flush()))
}

/// Writes one remark to standard error. Names in it may come from anywhere: what could steer a terminal is left out.
pub fn note(text: &str) {
    let text = text.replace(|c: char| c.is_control() && !matches!(c, '\n' | '\t'), "\u{fffd}");
    let _closed = writeln!(io::stderr().lock(), "{text}");
}
