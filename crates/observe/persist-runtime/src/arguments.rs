//! Arguments of functions that take any number of them.

/// A `va_list`'s element on x86-64.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct List {
    registers: u32,
    vectors: u32,
    stack: usize,
    saved: usize,
}

impl List {
    /// A list of pointers.
    pub fn of(pointers: &[usize]) -> List {
        // All registers are used up.
        List { registers: 48, vectors: 176, stack: pointers.as_ptr() as usize, saved: 0 }
    }

    /// The next argument that is a word.
    ///
    /// # Safety
    /// There is one.
    pub unsafe fn next_word(&mut self) -> usize {
        let at = if self.registers < 48 {
            self.registers += 8;
            self.saved + self.registers as usize - 8
        } else {
            self.stack += 8;
            self.stack - 8
        };
        // SAFETY: as the list says.
        unsafe { (at as *const usize).read() }
    }

    /// Passes over an argument that is a `double`.
    ///
    /// # Safety
    /// There is one.
    pub unsafe fn skip_double(&mut self) -> usize {
        if self.vectors < 176 {
            self.vectors += 16;
        } else {
            self.stack += 8;
        }
        0
    }

    /// Passes over an argument that is a `long double`.
    ///
    /// # Safety
    /// There is one.
    pub unsafe fn skip_long_double(&mut self) -> usize {
        self.stack = self.stack.next_multiple_of(16) + 16;
        0
    }
}
