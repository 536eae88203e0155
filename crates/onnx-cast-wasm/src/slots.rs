//! The buffers that bytes come and go in. They keep their memory from call to call, so that a loop of calls allocates
//! once.

use std::cell::RefCell;

/// How many slots there are.
pub const COUNT: usize = 8;
/// A request, and the elements of a cast.
pub const INPUT: usize = 0;
/// An answer, the results of a cast, and the text of an error.
pub const OUTPUT: usize = 1;
/// The first of the slots for tensors that go with a request.
pub const TENSORS: usize = 2;

thread_local! {
    static SLOTS: RefCell<[Vec<u8>; COUNT]> = const { RefCell::new([const { Vec::new() }; COUNT]) };
}

/// Gives a slot a length, and returns the address of its bytes; 0 where there is no such slot, or no memory.
pub fn reserve(slot: usize, len: usize) -> usize {
    SLOTS.with_borrow_mut(|slots| {
        let Some(bytes) = slots.get_mut(slot) else { return 0 };
        if bytes.try_reserve(len.saturating_sub(bytes.len())).is_err() {
            return 0;
        }
        bytes.resize(len, 0);
        bytes.as_mut_ptr() as usize
    })
}

/// The address of a slot's bytes.
pub fn address(slot: usize) -> usize {
    SLOTS.with_borrow(|slots| slots.get(slot).map_or(0, |bytes| bytes.as_ptr() as usize))
}

/// The length of a slot.
pub fn len(slot: usize) -> usize {
    SLOTS.with_borrow(|slots| slots.get(slot).map_or(0, Vec::len))
}

/// Takes the bytes out of a slot, which is then empty.
pub fn take(slot: usize) -> Vec<u8> {
    SLOTS.with_borrow_mut(|slots| slots.get_mut(slot).map(std::mem::take).unwrap_or_default())
}

/// Fills a slot.
pub fn put(slot: usize, bytes: Vec<u8>) {
    SLOTS.with_borrow_mut(|slots| {
        if let Some(held) = slots.get_mut(slot) {
            *held = bytes;
        }
    });
}

/// Gives all memory back.
pub fn clear() {
    SLOTS.with_borrow_mut(|slots| slots.fill_with(Vec::new));
}

/// Runs with the bytes of two slots, the second of which is written.
#[cfg(feature = "values")]
pub(crate) fn with_pair<R>(run: impl FnOnce(&[u8], &mut Vec<u8>) -> R) -> R {
    SLOTS.with_borrow_mut(|[input, output, ..]| run(input, output))
}
