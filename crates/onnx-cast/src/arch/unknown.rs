//! The error of choosing a backend by name.

use crate::error::shorten;
use std::fmt;

/// A backend that this machine does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownBackend {
    /// The name, as given.
    pub name: String,
}

impl fmt::Display for UnknownBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no backend `{}` on this machine (want one of", shorten(&self.name))?;
        for backend in super::available() {
            write!(f, " {}", backend.name())?;
        }
        f.write_str(")")
    }
}

impl std::error::Error for UnknownBackend {}
