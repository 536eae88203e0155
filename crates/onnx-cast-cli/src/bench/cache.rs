//! The size of the last cache, below which a copy partly stays there.

use std::fs;
use std::path::Path;

/// Bytes of the largest cache of the first processor; `None` where the system does not tell.
pub(super) fn last_cache_bytes() -> Option<u64> {
    let caches = fs::read_dir(Path::new("/sys/devices/system/cpu/cpu0/cache")).ok()?;
    let sizes = caches.flatten().filter_map(|cache| fs::read_to_string(cache.path().join("size")).ok());
    sizes.filter_map(|size| parse(&size)).max()
}

/// A size as Linux writes it: `32768K`.
fn parse(size: &str) -> Option<u64> {
    let size = size.trim();
    let (number, unit) = size.split_at(size.find(|c: char| !c.is_ascii_digit()).unwrap_or(size.len()));
    let unit: u64 = match unit {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn sizes_are_read_as_linux_writes_them() {
        let cases = [("32768K\n", Some(32 << 20)), ("1M", Some(1 << 20)), ("512", Some(512)), ("", None), ("4X", None)];
        for (text, want) in cases {
            assert_eq!(parse(text), want, "{text:?}");
        }
    }
}
