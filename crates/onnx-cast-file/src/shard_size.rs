//! The size limit for the files of a checkpoint.

use crate::text::Short;
use std::fmt;
use std::str::FromStr;

/// Max size of each file of a checkpoint. As in transformers, only the bytes of the tensors count, not the header.
///
/// The string form is a number with a unit, such as `5GB`, `500MB` or `1.5GiB`. A number without a unit is in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ShardSize(u64);

/// Units, and their sizes in bytes.
const UNITS: [(&str, u64); 8] = [
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
];

impl ShardSize {
    /// Creates a size of this many bytes; `None` if it is 0.
    pub fn new(bytes: u64) -> Option<ShardSize> {
        (bytes > 0).then_some(ShardSize(bytes))
    }

    /// Returns the size in bytes.
    pub fn bytes(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ShardSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = UNITS.iter().take(4).rev().find(|(_, bytes)| self.0.is_multiple_of(*bytes));
        match whole {
            Some((unit, bytes)) => write!(f, "{}{}", self.0 / bytes, unit.to_uppercase()),
            None => write!(f, "{}", self.0),
        }
    }
}

impl FromStr for ShardSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{}` is not a size (want a number of KB, MB, GB, KiB, MiB or GiB, as 5GB)", Short(text));
        let lower = text.trim().to_ascii_lowercase();
        let unit = UNITS.iter().find_map(|(unit, bytes)| Some((lower.strip_suffix(unit)?, *bytes)));
        let (number, unit) = unit.unwrap_or((&lower, 1));
        let number = number.trim_end();
        if !number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
            return Err(wrong());
        }
        // Integers are parsed exactly, without a detour through f64.
        let bytes = match number.parse::<u64>() {
            Ok(number) => number.checked_mul(unit),
            Err(_) => number.parse::<f64>().ok().map(|number| (number * unit as f64) as u64),
        };
        let bytes = bytes.ok_or_else(wrong)?;
        ShardSize::new(bytes).ok_or_else(|| format!("`{}` holds no tensor (want 1 byte or more)", Short(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_as_people_write_them() {
        for (text, bytes) in [
            ("5GB", 5_000_000_000),
            ("500 mb", 500_000_000),
            ("1.5GiB", 3 << 29),
            ("2KiB", 2048),
            ("0.5kb", 500),
            ("1TB", 1_000_000_000_000),
            ("4096", 4096),
        ] {
            assert_eq!(text.parse::<ShardSize>().map(ShardSize::bytes), Ok(bytes), "{text}");
        }
        for text in ["", "GB", "5 G", "-5GB", "1e3MB", "infGB", "nan", "1.2.3GB", "5GBs", "99999999TB"] {
            let error = text.parse::<ShardSize>().expect_err(text);
            assert!(error.contains("is not a size (want a number of KB,"), "{error}");
        }
        for text in ["0", "0GB", "0.0001KB"] {
            assert_eq!(text.parse::<ShardSize>(), Err(format!("`{text}` holds no tensor (want 1 byte or more)")));
        }
        assert_eq!("5GB".parse::<ShardSize>().expect("a size").to_string(), "5GB");
        assert_eq!("1500MB".parse::<ShardSize>().expect("a size").to_string(), "1500MB");
        assert_eq!("2KiB".parse::<ShardSize>().expect("a size").to_string(), "2048");
    }
}
