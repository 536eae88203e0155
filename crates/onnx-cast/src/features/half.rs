//! `half`: its 16-bit floats have the same bits as this crate's.

use crate::element::{BFloat16, Float16};

macro_rules! same_bits {
    ($($ours:ident $theirs:ident;)*) => {$(
        impl From<half::$theirs> for $ours {
            fn from(value: half::$theirs) -> Self {
                $ours::from_bits(value.to_bits())
            }
        }

        impl From<$ours> for half::$theirs {
            fn from(value: $ours) -> Self {
                half::$theirs::from_bits(value.to_bits())
            }
        }
    )*};
}
same_bits! {
    Float16 f16;
    BFloat16 bf16;
}
