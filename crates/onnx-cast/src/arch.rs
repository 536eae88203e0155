//! The backends, best first, and the choice among them. Adding one is one file and one line here.
//!
//! The unit tests of this crate have the portable backend, and lanes in plain Rust for the algorithms. They test the
//! specification; the tests in `tests/` compare the backends. Compiling the vector kernels a second time takes minutes.

use alloc::borrow::ToOwned;
use alloc::string::String;
#[cfg(all(simd = "aarch64", not(test)))]
mod aarch64;
#[cfg(any(simd, all(test, optimized), miri))]
#[cfg_attr(any(test, miri), allow(unused_macros, unused_imports, reason = "those of other instruction sets"))]
mod generic;
#[cfg(any(all(test, optimized), miri))]
mod plain;
#[cfg_attr(all(simd = "wasm32", target_os = "unknown"), allow(dead_code, reason = "its scalar casts are used"))]
mod portable;
#[cfg(all(simd = "wasm32", not(test)))]
mod wasm32;
#[cfg(all(simd = "x86_64", not(test)))]
mod x86_64;

use crate::element::DataType;
use crate::error::Short;
use crate::kernel::KernelTable;
use crate::kernel::algorithm::Algorithm;
use core::fmt;

struct Row {
    name: &'static str,
    is_available: fn() -> bool,
    table: &'static KernelTable,
}

static BACKENDS: &[Row] = &[
    // First, so that what asks for the best runs the algorithms.
    #[cfg(any(all(test, optimized), miri))]
    Row { name: "plain64", is_available: || true, table: &plain::MANY },
    #[cfg(any(all(test, optimized), miri))]
    Row { name: "plain16", is_available: || true, table: &plain::FEW },
    #[cfg(all(simd = "x86_64", not(test)))]
    Row { name: "avx512", is_available: x86_64::avx512::is_available, table: &x86_64::avx512::TABLE },
    #[cfg(all(simd = "x86_64", not(test)))]
    Row { name: "avx2", is_available: x86_64::avx2::is_available, table: &x86_64::avx2::TABLE },
    #[cfg(all(simd = "aarch64", not(test)))]
    Row { name: "neon", is_available: aarch64::neon::is_available, table: &aarch64::neon::TABLE },
    #[cfg(all(simd = "wasm32", not(test)))]
    Row { name: "simd128", is_available: wasm32::simd128::is_available, table: &wasm32::simd128::TABLE },
    // A module for browsers comes in two kinds, of which one has no vectors: the other need not carry these kernels.
    #[cfg(any(not(all(simd = "wasm32", target_os = "unknown")), test))]
    Row { name: "portable", is_available: || true, table: &portable::TABLE },
];

/// The environment variable that forces a backend by name.
pub const VARIABLE: &str = "ONNX_CAST_ISA";

/// A set of kernels for one instruction set. All give the same bits; they differ in speed.
///
/// ```
/// use onnx_cast::{Cast, CastOptions, DataType, Tensor};
/// use onnx_cast::backend::Backend;
///
/// let floats = Tensor::from_slice(vec![2], &[0.1f32, -3.0])?;
/// let portable = CastOptions::new().backend(Backend::by_name("portable")?);
/// let slow = Cast::new(DataType::Float16, &portable)?.run(&floats.view())?;
/// let fast = Cast::new(DataType::Float16, &CastOptions::new())?.run(&floats.view())?;
/// assert_eq!(slow, fast);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Backend(&'static Row);

impl Backend {
    /// The backend of this name.
    ///
    /// # Errors
    /// Fails if there is no such backend, or if this machine cannot run it.
    pub fn by_name(name: &str) -> Result<Backend, UnknownBackend> {
        available()
            .find(|backend| backend.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| UnknownBackend { name: name.to_owned() })
    }

    /// The backend that the environment variable [`VARIABLE`] names, or the fastest that this machine can run.
    /// The choice is made once. Without the feature `std` no variable is read.
    #[inline]
    pub fn best() -> Backend {
        #[cfg(feature = "std")]
        {
            use std::sync::LazyLock;
            static BEST: LazyLock<Backend> = LazyLock::new(|| {
                // A library has nowhere to complain to about a variable, and every backend gives the same bits, so an
                // unknown name leaves the choice as it was.
                let forced = std::env::var(VARIABLE).ok().and_then(|name| Backend::by_name(&name).ok());
                forced.unwrap_or_else(fastest)
            });
            *BEST
        }
        #[cfg(not(feature = "std"))]
        fastest()
    }

    /// Its name: `portable`.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// The algorithm by which this backend casts one type to another; `None` if either type is not numeric.
    ///
    /// ```
    /// use onnx_cast::DataType;
    /// use onnx_cast::backend::{Algorithm, Backend};
    ///
    /// let algorithm = Backend::best().algorithm(DataType::Float, DataType::Float8E4M3FN);
    /// assert_eq!(algorithm, Some(Algorithm::Fused));
    /// ```
    pub fn algorithm(self, from: DataType, to: DataType) -> Option<Algorithm> {
        Algorithm::of(from, to, self.table().capabilities)
    }

    #[inline]
    pub(crate) fn table(self) -> &'static KernelTable {
        self.0.table
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Backend({})", self.name())
    }
}

impl PartialEq for Backend {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Backend {}

/// The backends that this machine can run, fastest first.
///
/// ```
/// use onnx_cast::backend;
///
/// let names: Vec<&str> = backend::available().map(|backend| backend.name()).collect();
/// assert_eq!(names.last(), Some(&"portable"));
/// ```
pub fn available() -> impl Iterator<Item = Backend> {
    BACKENDS.iter().filter(|row| (row.is_available)()).map(Backend)
}

/// The first of those that this machine can run.
fn fastest() -> Backend {
    available().next().unwrap_or(Backend(&BACKENDS[BACKENDS.len() - 1]))
}

/// A backend that this machine does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownBackend {
    /// The name, as given.
    pub name: String,
}

impl fmt::Display for UnknownBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no backend `{}` on this machine (want one of", Short(&self.name))?;
        for backend in available() {
            write!(f, " {}", backend.name())?;
        }
        f.write_str(")")
    }
}

impl core::error::Error for UnknownBackend {}
