//! The walker against the direct cast, on all 2^32 values of the 32-bit types: that results do come in runs, as the
//! walker takes for granted, and that the two quick ways of the oracle agree everywhere.
//!
//! Some minutes a source type: `cargo run --release -p testkit --bin whole-walk`. It panics at the first difference.

use testkit::{Direct, Rules, Ty, Walker};

fn walk(from: Ty) {
    const PIECE: usize = 1 << 14;
    let (mut expected, mut direct_results) = (vec![0; PIECE], vec![0; PIECE]);
    let mut compared = 0u64;
    for to in Ty::NUMERIC {
        for rules in Rules::distinct(from, to) {
            let mut walker = Walker::new(from, to, &rules);
            let Some(runs) = walker.run_count() else { continue };
            let direct = Direct::new(from, to, &rules);
            for first in (0..=from.mask()).step_by(PIECE) {
                walker.fill(first, &mut expected);
                direct.cast_range(first, &mut direct_results);
                assert!(expected == direct_results, "{} {first:#x}.. to {} {rules:?}", from.name(), to.name());
                compared += PIECE as u64;
            }
            println!("{} to {} {rules:?}: {runs} runs", from.name(), to.name());
        }
    }
    println!("{}: {compared} results compared", from.name());
}

fn main() {
    [Ty::Float, Ty::Int32, Ty::Uint32].into_iter().for_each(walk);
}
