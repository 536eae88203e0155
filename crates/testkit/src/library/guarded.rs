//! Memory between unmapped pages: a read or write past either end faults.
#![allow(unsafe_code)]

pub use platform::Guarded;

#[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
mod platform {
    use std::ffi::{c_int, c_long, c_void};
    use std::ptr;

    // From the C library, which std already links; `off_t` is a long. The constants are the same on every Linux
    // processor.
    unsafe extern "C" {
        fn mmap(
            address: *mut c_void,
            len: usize,
            protection: c_int,
            flags: c_int,
            file: c_int,
            at: c_long,
        ) -> *mut c_void;
        fn mprotect(address: *mut c_void, len: usize, protection: c_int) -> c_int;
        fn munmap(address: *mut c_void, len: usize) -> c_int;
    }
    const NONE: c_int = 0;
    const READ_WRITE: c_int = 1 | 2;
    const PRIVATE_ANONYMOUS: c_int = 0x02 | 0x20;

    /// A multiple of every page size that Linux uses.
    const GUARD: usize = 1 << 16;

    /// Zeroed bytes beside guards.
    pub struct Guarded {
        base: *mut u8,
        len: usize,
    }

    impl Guarded {
        /// `len` bytes, a multiple of 64 KiB, between two inaccessible regions.
        pub fn new(len: usize) -> Self {
            assert!(len.is_multiple_of(GUARD), "a multiple of the page size");
            // SAFETY: a new mapping at an address that the system chooses overlaps no other.
            let base = unsafe { mmap(ptr::null_mut(), len + 2 * GUARD, NONE, PRIVATE_ANONYMOUS, -1, 0) };
            assert_ne!(base as isize, -1, "no memory to map");
            let base = base.cast::<u8>();
            // SAFETY: this is the middle of the new mapping, to which there are no references yet.
            let result = unsafe { mprotect(base.add(GUARD).cast(), len, READ_WRITE) };
            assert_eq!(result, 0, "the middle cannot be opened");
            Guarded { base, len }
        }

        /// The bytes between the guards.
        pub fn bytes(&mut self) -> &mut [u8] {
            // SAFETY: the middle of the mapping is readable, writable and zeroed by the system. The borrow is that of
            // `self`.
            unsafe { std::slice::from_raw_parts_mut(self.base.add(GUARD), self.len) }
        }
    }

    impl Drop for Guarded {
        fn drop(&mut self) {
            // SAFETY: this is the complete mapping that `new` made; no borrow of it outlives `self`.
            unsafe { munmap(self.base.cast(), self.len + 2 * GUARD) };
        }
    }
}

/// WebAssembly has no page protection, but an access past the end of its memory traps. So the bytes are placed at the
/// end of memory, which guards their end. That holds only for the last value: a later one is placed after them.
#[cfg(target_family = "wasm")]
mod platform {
    use std::arch::wasm32::{memory_grow, memory_size};
    use std::sync::atomic::{AtomicUsize, Ordering};

    const PAGE: usize = 1 << 16;

    /// The end address of the last value.
    static LAST: AtomicUsize = AtomicUsize::new(0);

    /// Zeroed bytes beside guards.
    pub struct Guarded {
        base: *mut u8,
        len: usize,
    }

    impl Guarded {
        /// `len` bytes, a multiple of 64 KiB, at the end of memory.
        pub fn new(len: usize) -> Self {
            assert!(len.is_multiple_of(PAGE), "a multiple of the page size");
            // The allocator keeps freed memory. With enough of it, it does not grow the memory after these bytes.
            drop(std::hint::black_box(vec![1u8; 16 << 20]));
            let page = memory_grow::<0>(len / PAGE);
            assert_ne!(page, usize::MAX, "no memory to grow");
            LAST.store(page * PAGE + len, Ordering::Relaxed);
            Guarded { base: std::ptr::with_exposed_provenance_mut(page * PAGE), len }
        }

        /// The bytes between the guards.
        pub fn bytes(&mut self) -> &mut [u8] {
            // SAFETY: `new` added these zeroed bytes to the memory, and there are no other references to them. The
            // borrow is that of `self`.
            unsafe { std::slice::from_raw_parts_mut(self.base, self.len) }
        }
    }

    impl Drop for Guarded {
        fn drop(&mut self) {
            let end = self.base.addr() + self.len;
            if LAST.load(Ordering::Relaxed) == end {
                assert_eq!(memory_size::<0>() * PAGE, end, "the memory grew: these bytes were not guarded to the last");
            }
        }
    }
}

#[cfg(not(any(all(target_os = "linux", target_env = "gnu", not(miri)), target_family = "wasm")))]
mod platform {
    /// Without guards, on systems whose calls for them are not declared here.
    pub struct Guarded(Vec<u8>);

    impl Guarded {
        /// `len` bytes.
        pub fn new(len: usize) -> Self {
            Guarded(vec![0; len])
        }

        /// The bytes between the guards.
        pub fn bytes(&mut self) -> &mut [u8] {
            &mut self.0
        }
    }
}
