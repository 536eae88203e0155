//! Sizes and names as people read them.

/// Bytes as people read them: exact below 10 KiB.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 10 << 10 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A name for people: what cannot be printed is escaped.
pub fn printable(name: &str) -> String {
    let name: String = name.chars().flat_map(char::escape_debug).collect();
    if name.is_empty() { "(no name)".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (bytes, text) in [
            (0, "0 B"),
            (10_239, "10239 B"),
            (10_240, "10.0 KiB"),
            (90_868_373, "86.7 MiB"),
            (1 << 40, "1.0 TiB"),
            (u64::MAX, "16777216.0 TiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}
