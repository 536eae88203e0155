//! The provider of a session: the onnxruntime that it works for, and which nodes it is to take.

use super::abi::Ep;
use super::host::Host;
use super::node::Node;
use super::probe::Probe;
use super::stock::{self, Release};
use std::str::FromStr;

/// The provider of a session; onnxruntime hands the address of the first field back.
#[repr(C)]
pub(crate) struct Provider {
    pub(crate) functions: Ep,
    pub(crate) host: Host,
    pub(crate) release: Release,
    pub(crate) claim: Claim,
    /// Asks onnxruntime itself which nodes it runs, where the tables do not know its release.
    pub(crate) probe: Option<&'static Probe>,
}

impl Provider {
    /// Whether this onnxruntime runs a node itself.
    pub(crate) fn is_run(&self, node: &Node) -> bool {
        let answer = self.probe.and_then(|probe| probe.runs(node));
        answer.unwrap_or_else(|| stock::runs(self.release, node))
    }
}

/// The provider of a session.
///
/// # Safety
/// The pointer is to the functions of a [`Provider`] that is not released during `'a`.
pub(crate) unsafe fn provider<'a>(functions: *const Ep) -> &'a Provider {
    // SAFETY: promised.
    unsafe { &*functions.cast::<Provider>() }
}

/// Which nodes the provider takes, of those that the library supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Those that this onnxruntime cannot run.
    #[default]
    Missing,
    /// Also those of which it gets some values wrong.
    Inexact,
    /// All.
    All,
}

/// A text that names no [`Claim`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnknownClaim(String);

impl std::fmt::Display for UnknownClaim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "option `claim` is `{}` (want `missing`, `inexact` or `all`)", self.0)
    }
}

impl FromStr for Claim {
    type Err = UnknownClaim;

    fn from_str(text: &str) -> Result<Claim, UnknownClaim> {
        match text {
            "missing" => Ok(Claim::Missing),
            "inexact" => Ok(Claim::Inexact),
            "all" => Ok(Claim::All),
            _ => Err(UnknownClaim(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_words() {
        assert_eq!(
            ["missing", "inexact", "all"].map(|word| word.parse().ok()),
            [Some(Claim::Missing), Some(Claim::Inexact), Some(Claim::All)]
        );
        let error = "All".parse::<Claim>().map_err(|error| error.to_string());
        assert_eq!(error, Err("option `claim` is `All` (want `missing`, `inexact` or `all`)".to_owned()));
    }
}
