//! Checks of an image before the driver sees it.
//!
//! `cuModuleLoadDataEx` takes no length: it trusts the headers. A cut-off file would make it read past the
//! end, so every table and section of the ELF file is checked to lie inside the bytes at hand.

/// `EM_CUDA` of the ELF specification's machine list.
const EM_CUDA: u16 = 190;
/// A section without bytes in the file.
const SHT_NOBITS: u32 = 8;
const ELF_HEADER_BYTES: u64 = 64;
/// Little-endian magic of a fat binary.
const FATBIN_MAGIC: [u8; 4] = [0x50, 0xed, 0x55, 0xba];

/// Why an image was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageRefusal {
    /// Not an ELF file.
    #[error("a cubin is a 64-bit little-endian ELF file; these {len_bytes} bytes are {found}")]
    NotElf {
        /// What it looks like.
        found: &'static str,
        /// Its size.
        len_bytes: u64,
    },
    /// An ELF file for another machine.
    #[error("the ELF file is for machine {machine}; a cubin has {EM_CUDA} (EM_CUDA)")]
    NotCuda {
        /// `e_machine`.
        machine: u16,
    },
    /// The file ends too early.
    #[error("the cubin is cut off: {what} ends at byte {end} of {len_bytes}")]
    Truncated {
        /// The part that does not fit.
        what: &'static str,
        /// Where it would end.
        end: u64,
        /// The file's size.
        len_bytes: u64,
    },
    /// PTX text with a NUL inside.
    #[error("the PTX text has a NUL at byte {at}; the driver would stop reading there")]
    PtxNul {
        /// Its position.
        at: usize,
    },
    /// A kernel name with a NUL inside.
    #[error("the kernel name {name:?} has a NUL inside")]
    NameNul {
        /// The name.
        name: String,
    },
}

/// Checks that `image` is a whole cubin.
pub(crate) fn check_cubin(image: &[u8]) -> Result<(), ImageRefusal> {
    let file = File(image);
    if !image.starts_with(&[0x7f, b'E', b'L', b'F', 2, 1]) {
        return Err(ImageRefusal::NotElf {
            found: looks_like(image),
            len_bytes: file.len(),
        });
    }
    file.within("the ELF header", 0, ELF_HEADER_BYTES)?;
    let machine = file.u16(0x12);
    if machine != EM_CUDA {
        return Err(ImageRefusal::NotCuda { machine });
    }
    file.check_program_headers()?;
    file.check_sections()
}

fn looks_like(image: &[u8]) -> &'static str {
    let head = &image[..image.len().min(4096)];
    if image.is_empty() {
        "empty"
    } else if image.starts_with(&FATBIN_MAGIC) {
        "a fat binary: hand over the cubin inside"
    } else if std::str::from_utf8(head).is_ok_and(|text| text.contains(".version")) {
        "PTX text: assemble it first, or use the driver's JIT"
    } else {
        "something else"
    }
}

struct File<'a>(&'a [u8]);

impl File<'_> {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn bytes<const N: usize>(&self, at: u64) -> [u8; N] {
        // Callers check the range first; zeros stand in for anything outside.
        let start = usize::try_from(at).unwrap_or(usize::MAX);
        let end = start.saturating_add(N);
        let found = self.0.get(start..end).and_then(|b| b.try_into().ok());
        found.unwrap_or([0; N])
    }

    fn u16(&self, at: u64) -> u16 {
        u16::from_le_bytes(self.bytes(at))
    }

    fn u32(&self, at: u64) -> u32 {
        u32::from_le_bytes(self.bytes(at))
    }

    fn u64(&self, at: u64) -> u64 {
        u64::from_le_bytes(self.bytes(at))
    }

    fn within(&self, what: &'static str, start: u64, size: u64) -> Result<(), ImageRefusal> {
        let end = start.saturating_add(size);
        if end <= self.len() {
            return Ok(());
        }
        Err(ImageRefusal::Truncated {
            what,
            end,
            len_bytes: self.len(),
        })
    }

    /// Offsets of the entries of a header table, all inside the file.
    fn table(
        &self,
        what: &'static str,
        offset: u64,
        (entry_bytes, least_bytes, count): (u16, u16, u16),
    ) -> Result<impl Iterator<Item = u64>, ImageRefusal> {
        let entry_bytes = u64::from(entry_bytes.max(least_bytes));
        if count > 0 {
            self.within(what, offset, entry_bytes * u64::from(count))?;
        }
        Ok((0..u64::from(count)).map(move |i| offset + i * entry_bytes))
    }

    fn check_program_headers(&self) -> Result<(), ImageRefusal> {
        let shape = (self.u16(0x36), 56, self.u16(0x38));
        for header in self.table("the program header table", self.u64(0x20), shape)? {
            self.within("a segment", self.u64(header + 0x08), self.u64(header + 0x20))?;
        }
        Ok(())
    }

    fn check_sections(&self) -> Result<(), ImageRefusal> {
        let shape = (self.u16(0x3a), 64, self.u16(0x3c));
        for header in self.table("the section header table", self.u64(0x28), shape)? {
            if self.u32(header + 0x04) != SHT_NOBITS {
                self.within("a section", self.u64(header + 0x18), self.u64(header + 0x20))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An ELF header, one section header and one section of 8 bytes.
    fn small_cubin() -> Vec<u8> {
        let mut file = vec![0_u8; 64 + 64 + 8];
        file[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1]);
        file[0x12..0x14].copy_from_slice(&EM_CUDA.to_le_bytes());
        file[0x28..0x30].copy_from_slice(&64_u64.to_le_bytes());
        file[0x3a..0x3c].copy_from_slice(&64_u16.to_le_bytes());
        file[0x3c..0x3e].copy_from_slice(&1_u16.to_le_bytes());
        file[64 + 0x18..64 + 0x20].copy_from_slice(&128_u64.to_le_bytes());
        file[64 + 0x20..64 + 0x28].copy_from_slice(&8_u64.to_le_bytes());
        file
    }

    fn refusal(image: &[u8]) -> String {
        check_cubin(image).err().map(|e| e.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_whole_file_passes_and_every_cut_is_refused() {
        let file = small_cubin();
        assert_eq!(check_cubin(&file), Ok(()));
        for len in 0..file.len() {
            assert!(check_cubin(&file[..len]).is_err(), "cut to {len}");
        }
        assert!(refusal(&file[..130]).contains("a section ends at byte 136 of 130"));
        assert!(refusal(&file[..100]).contains("section header table"));
    }

    #[test]
    fn an_assemblers_cubin_passes_and_its_cuts_do_not() {
        let file = include_bytes!("../tests/data/kernels.sm_90.cubin");
        assert_eq!(check_cubin(file), Ok(()));
        for len in (0..file.len()).step_by(97) {
            assert!(check_cubin(&file[..len]).is_err(), "cut to {len}");
        }
    }

    #[test]
    fn other_kinds_of_file_are_named() {
        assert!(refusal(b"").contains("empty"));
        assert!(refusal(b"// text\n.version 8.7\n").contains("PTX text"));
        assert!(refusal(&[0x50, 0xed, 0x55, 0xba, 1]).contains("fat binary"));
        let mut other = small_cubin();
        other[0x12] = 62;
        assert!(refusal(&other).contains("machine 62"));
    }

    #[test]
    fn offsets_that_overflow_are_refused() {
        let mut file = small_cubin();
        file[64 + 0x18..64 + 0x20].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(refusal(&file).contains("a section"));
        let mut file = small_cubin();
        file[0x28..0x30].copy_from_slice(&(u64::MAX - 8).to_le_bytes());
        assert!(refusal(&file).contains("section header table"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(tail in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut file = small_cubin();
            file[0x20..0x20 + tail.len().min(100)].copy_from_slice(&tail[..tail.len().min(100)]);
            let _ = check_cubin(&file);
            let _ = check_cubin(&tail);
        }
    }
}
