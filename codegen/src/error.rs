//! Why a kernel and schedule cannot be compiled.

use dsl::ir::Site;

/// A refusal: what was asked, what is true, what would be allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The schedule key that decides it; `kernel` when only the kernel's source can change it.
    pub key: String,
    pub asked: String,
    pub fact: String,
    pub allowed: String,
    /// The Rust line of the value it is about.
    pub site: Option<Box<Site>>,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}: asked for {}; {}; allowed: {}",
            self.key, self.asked, self.fact, self.allowed
        )?;
        match &self.site {
            Some(site) => write!(f, " ({site})"),
            None => Ok(()),
        }
    }
}

impl Refusal {
    /// Builds a refusal.
    pub fn new(
        key: impl Into<String>,
        asked: impl Into<String>,
        fact: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Self {
        Self {
            key: key.into(),
            asked: asked.into(),
            fact: fact.into(),
            allowed: allowed.into(),
            site: None,
        }
    }

    /// Names the Rust line it is about.
    #[must_use]
    pub fn at(mut self, site: &Site) -> Self {
        self.site = Some(Box::new(site.clone()));
        self
    }
}

/// Everything that can go wrong between a kernel and its PTX.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// The kernel breaks a rule of the tile IR.
    #[error("{0}")]
    Invalid(dsl::validate::ValidationErrors),
    /// The schedule, or the kernel under it, cannot be met by the hardware or by this compiler.
    #[error("refused ({} reason(s)){}", .0.len(), .0.iter().map(|r| format!("\n  {r}")).collect::<String>())]
    Refused(Vec<Refusal>),
    /// The checker found the lowered program unsafe: a fault of ours.
    #[error("the lowered program breaks a rule; this is a fault of the compiler{}", .0.iter().map(|r| format!("\n  {r}")).collect::<String>())]
    Unsafe(Vec<String>),
}

impl From<Refusal> for CompileError {
    fn from(r: Refusal) -> Self {
        Self::Refused(vec![r])
    }
}
