//! The walker against the direct cast, on all 2^32 values of the 32-bit types: that results do come in runs, as the
//! walker takes for granted, and that the two quick ways of the oracle agree everywhere.
//!
//! Some minutes a source type: `cargo test --release -p testkit --test whole_walk -- --ignored --nocapture`.

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

#[test]
#[ignore = "minutes"]
fn float() {
    walk(Ty::Float);
}

#[test]
#[ignore = "minutes"]
fn int32() {
    walk(Ty::Int32);
}

#[test]
#[ignore = "minutes"]
fn uint32() {
    walk(Ty::Uint32);
}
