//! Products and sums that are rounded once: by the standard library, or without it by the crate `libm`.

/// `a * b + c`, rounded once.
pub(super) trait Fused {
    /// With `self` as `a`.
    fn fused(self, b: Self, c: Self) -> Self;
}

macro_rules! fused {
    ($($float:ty, $software:ident;)*) => {$(
        impl Fused for $float {
            #[inline(always)]
            fn fused(self, b: $float, c: $float) -> $float {
                #[cfg(feature = "std")]
                return self.mul_add(b, c);
                #[cfg(not(feature = "std"))]
                return libm::$software(self, b, c);
            }
        }
    )*};
}
fused! {
    f32, fmaf;
    f64, fma;
}
