//! Requests, which may get further fields: none can be written as a literal elsewhere, so each field has a setter.

/// A struct whose every field has a setter of the same name.
#[doc(hidden)]
#[macro_export]
macro_rules! request {
    ($(#[$about:meta])* pub struct $name:ident { $($(#[$doc:meta])* pub $field:ident: $kind:ty,)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$doc])* pub $field: $kind,)*
        }

        impl $name {
            $(
                #[doc = concat!("With [`", stringify!($name), "::", stringify!($field), "`].")]
                pub fn $field(mut self, $field: $kind) -> Self {
                    self.$field = $field;
                    self
                }
            )*
        }
    };
}
