//! Exit codes: one meaning each, the same for every command.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use serde::Serialize;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exit {
    /// Done as asked.
    Done,
    /// The input was refused: arguments, problem, schedule, or a file.
    Refused,
    /// No cubin: the assembler is missing, refused the PTX, or did not assemble it as written.
    NotAssembled,
    /// No device to run on.
    NoDevice,
    /// The kernel ran and its result is wrong.
    WrongResult,
    /// The kernel hung, or the device reported a fault.
    DeviceFault,
    /// The answer could not be written to standard output.
    AnswerLost,
    /// A bug of warpwright.
    Bug,
}

/// The list for `--help`.
pub const HELP: &str = "\
Exit codes:
   0  done
   2  the input was refused
   3  not assembled
   4  no device
   5  wrong result
   6  hang or device fault
  70  a bug of warpwright
  74  the answer could not be written to standard output";

impl Exit {
    /// Every way to end.
    #[cfg(test)]
    pub const ALL: [Self; 8] = [
        Self::Done,
        Self::Refused,
        Self::NotAssembled,
        Self::NoDevice,
        Self::WrongResult,
        Self::DeviceFault,
        Self::Bug,
        Self::AnswerLost,
    ];

    /// The number the shell sees.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Refused => 2,
            Self::NotAssembled => 3,
            Self::NoDevice => 4,
            Self::WrongResult => 5,
            Self::DeviceFault => 6,
            // EX_SOFTWARE of sysexits.h.
            Self::Bug => 70,
            // EX_IOERR of sysexits.h.
            Self::AnswerLost => 74,
        }
    }
}

impl Exit {
    /// Ends the process.
    ///
    /// After a hang or a fault of a device the CUDA library's own exit handlers would wait for the kernel. Replacing the
    /// process by a shell that ends with the same code runs none of them, and closes the device.
    pub fn leave(self) -> ExitCode {
        if self == Self::DeviceFault {
            // Comes back only when there is no shell; then the normal way is the only one.
            let _no_shell = Command::new("/bin/sh")
                .arg("-c")
                .arg(format!("exit {}", self.code()))
                .exec();
        }
        self.into()
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_and_in_the_help() {
        let mut codes: Vec<u8> = Exit::ALL.iter().map(|exit| exit.code()).collect();
        for code in &codes {
            let line = format!("{code:>4}  ");
            assert!(HELP.lines().any(|l| l.starts_with(&line)), "{code} is not in the help");
        }
        codes.dedup();
        assert_eq!(codes.len(), Exit::ALL.len());
    }
}
