//! The target that the variable FUZZ_TARGET names: one program is built and linked, not one for each target.
#![no_main]

use fuzz_targets::{TARGETS, Target};
use std::sync::LazyLock;

static CHOSEN: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("FUZZ_TARGET is `{name}` (want {})", names.join(", "))).1
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| CHOSEN(data));
