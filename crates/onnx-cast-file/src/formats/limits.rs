//! What a file may claim: limits, and a name that is taken.

/// What the format itself allows.
pub(crate) const MAX_HEADER: u64 = 100_000_000;

/// More dimensions than any tensor has; bounds what a hostile file can make an error text hold.
pub(crate) const MAX_RANK: usize = 255;

pub(crate) const METADATA: &str = "__metadata__";
