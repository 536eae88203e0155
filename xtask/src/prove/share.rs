//! Pieces of work shared out among threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Calls `work` for each piece below `pieces`, on several threads, each of which has a state of its own. The pieces are
/// taken in order; at the first error no more are. Of several errors the one of the lowest piece is given.
pub(super) fn share<S, E: Send>(
    threads: usize,
    pieces: u64,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, u64) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let next = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let first: Mutex<Option<(u64, E)>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut state = state();
                while !stop.load(Ordering::Relaxed) {
                    let piece = next.fetch_add(1, Ordering::Relaxed);
                    if piece >= pieces {
                        break;
                    }
                    if let Err(error) = work(&mut state, piece) {
                        stop.store(true, Ordering::Relaxed);
                        let mut first = first.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                        if first.as_ref().is_none_or(|(earlier, _)| piece < *earlier) {
                            *first = Some((piece, error));
                        }
                    }
                }
            });
        }
    });
    match first.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_done_once() {
        let done: Vec<AtomicU64> = (0..1000).map(|_| AtomicU64::new(0)).collect();
        let result: Result<(), ()> = share(
            3,
            1000,
            || (),
            |(), piece| {
                done[piece as usize].fetch_add(1, Ordering::Relaxed);
                Ok(())
            },
        );
        assert_eq!(result, Ok(()));
        assert!(done.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    }

    #[test]
    fn the_first_error_is_given_and_ends_the_work() {
        for threads in [1, 4] {
            let result = share(threads, u64::MAX, || (), |(), piece| if piece >= 100 { Err(piece) } else { Ok(()) });
            assert_eq!(result, Err(100), "{threads} threads");
        }
    }
}
