//! The backends for x86-64.

/// Whether this machine has all of these features.
macro_rules! detected {
    ($($feature:tt),*) => { true $(&& is_x86_feature_detected!($feature))* };
}

pub(crate) mod avx2;
pub(crate) mod avx512;
