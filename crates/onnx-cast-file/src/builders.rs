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

        impl $crate::__private::Field for $name {
            fn set(
                &mut self,
                _: &'static str,
                name: &str,
                value: &serde_json::Value,
            ) -> Option<Result<(), $crate::Wording>> {
                // Several parts may have the option: all of them take it.
                let mut found = None;
                $(
                    match $crate::__private::Field::set(&mut self.$field, stringify!($field), name, value) {
                        Some(Ok(())) => found = Some(Ok(())),
                        Some(Err(error)) => return Some(Err(error)),
                        None => {}
                    }
                )*
                found
            }

            fn names(&self, _: &'static str, names: &mut Vec<&'static str>) {
                $($crate::__private::Field::names(&self.$field, stringify!($field), names);)*
            }
        }
    };
}
