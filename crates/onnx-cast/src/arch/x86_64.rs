//! The backends for x86-64.

/// Whether this machine has all of these features. Only the standard library can ask it: without, the features count
/// that the build enables.
#[cfg(feature = "std")]
macro_rules! detected {
    ($($feature:tt),*) => { true $(&& is_x86_feature_detected!($feature))* };
}
#[cfg(not(feature = "std"))]
macro_rules! detected {
    ($($feature:tt),*) => { true $(&& cfg!(target_feature = $feature))* };
}

pub(crate) mod avx2;
pub(crate) mod avx512;
