//! `serde`: element newtypes as the integer of their bit pattern, so that every format preserves NaN and -0.
//! `bit_pattern_type!` calls this macro.

macro_rules! by_bits {
    ($ty:ident, $bits:ident) => {
        impl ::serde::Serialize for $ty {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                ::serde::Serialize::serialize(&self.to_bits(), serializer)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $ty {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let bits = <$bits as ::serde::Deserialize>::deserialize(deserializer)?;
                let element = $ty::from_bits(bits);
                let found = ::serde::de::Unexpected::Unsigned(bits.into());
                let wrong = || ::serde::de::Error::invalid_value(found, &concat!("the bits of ", stringify!($ty)));
                (element.to_bits() == bits).then_some(element).ok_or_else(wrong)
            }
        }
    };
}
pub(super) use by_bits;
