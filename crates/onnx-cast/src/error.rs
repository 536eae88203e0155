//! Helpers shared by the error texts. Each error type is defined beside the code that raises it.
//!
//! Error texts are lower case, have no full stop, and name the expected value, so that a caller can prefix the name of
//! a tensor or a file.

use alloc::string::ToString;
use core::fmt::{self, Write};

/// Defines a public error type that stores its kind in a box, so that the results of small calls fit in registers. A
/// call for 16 elements takes 26 ns with the box, and 28 ns if results store the kind itself.
macro_rules! boxed_error {
    ($(#[$doc:meta])* pub struct $error:ident of $kind:ident;) => {
        $(#[$doc])*
        ///
        #[doc = concat!("It has the size of a pointer. [`kind`](Self::kind) gives a program what the text says.")]
        #[derive(Clone, PartialEq, Eq)]
        pub struct $error(alloc::boxed::Box<$kind>);

        impl $error {
            /// What went wrong.
            pub fn kind(&self) -> &$kind {
                &self.0
            }

            /// What went wrong, with its texts and shapes.
            pub fn into_kind(self) -> $kind {
                *self.0
            }
        }

        impl From<$kind> for $error {
            #[cold]
            fn from(kind: $kind) -> Self {
                $error(alloc::boxed::Box::new(kind))
            }
        }

        impl core::fmt::Debug for $error {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                core::fmt::Debug::fmt(&self.0, f)
            }
        }

        impl core::fmt::Display for $error {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl core::error::Error for $error {}
    };
}
pub(crate) use boxed_error;

/// Displays a shape: `2x3`, or `scalar`.
pub(crate) struct ShapeText<'a>(pub(crate) &'a [usize]);

impl fmt::Display for ShapeText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("scalar");
        }
        for (i, dim) in self.0.iter().enumerate() {
            write!(f, "{}{dim}", if i == 0 { "" } else { "x" })?;
        }
        Ok(())
    }
}

/// Displays a caller's string in an error: unprintable characters are escaped, and only the first 64 characters are
/// shown. The other crates use it too, so that the same string looks the same in all errors.
pub struct Short<'a>(pub &'a str);

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LIMIT: usize = 64;
        for c in self.0.chars().take(LIMIT) {
            match c {
                // Printable, and common in paths and names.
                '\'' | '"' | '\\' => f.write_char(c)?,
                _ => write!(f, "{}", c.escape_debug())?,
            }
        }
        if self.0.chars().nth(LIMIT).is_some() { f.write_str("...") } else { Ok(()) }
    }
}

/// Displays a number of things, such as `1 byte` and `2 entries`. The other crates use it too.
pub struct Count<T>(pub T, pub &'static str);

impl<T: fmt::Display> fmt::Display for Count<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.to_string();
        match self.1.strip_suffix('y') {
            _ if count == "1" => write!(f, "1 {}", self.1),
            Some(stem) => write!(f, "{count} {stem}ies"),
            None => write!(f, "{count} {}s", self.1),
        }
    }
}

/// Displays a type's name with its article: `a float`, `an int8`.
pub(crate) struct Article<T>(pub(crate) T);

impl<T: fmt::Display> fmt::Display for Article<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.to_string();
        // Every type name that starts with `u` starts with a consonant sound (`uint8`).
        let article = if name.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
        write!(f, "{article} {name}")
    }
}
