//! Reads the layout of a server's structures from its small functions: the offset of a field is in the single
//! instruction that loads it. Only complete functions of known forms are read; any other form gives no
//! result.
//!
//! ```text
//!   thd_query_string:   lea 0x68(%rdi),%rax; ret                                 offset 0x68
//!   thd_get_thread_id:  mov 0x3f18(%rdi),%rax; ret                               offset 0x3f18
//!   _current_thd:       mov %fs:0x0,%rax; mov -0x68(%rax),%rax; ret              -0x68 from the thread pointer
//!                       mov %fs:0xffffffffffffff98,%rax; ret                     the same
//! ```

/// Code, read one instruction after the other.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    /// Takes these bytes, if they come next.
    fn take(&mut self, bytes: &[u8]) -> bool {
        let rest = self.0.strip_prefix(bytes);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// Takes a displacement of one byte or four, according to the `mod` bits of the preceding byte.
    fn displacement(&mut self, register_form: u8) -> Option<i64> {
        let (byte, rest) = self.0.split_first()?;
        if *byte == register_form | 0x40 {
            let (value, rest) = rest.split_first()?;
            self.0 = rest;
            return Some(i64::from(*value as i8));
        }
        if *byte == register_form | 0x80 {
            let (value, rest) = rest.split_first_chunk::<4>()?;
            self.0 = rest;
            return Some(i64::from(i32::from_le_bytes(*value)));
        }
        None
    }

    /// Skips what compilers put first: a landing pad, a frame pointer.
    fn prologue(&mut self) {
        self.take(&[0xf3, 0x0f, 0x1e, 0xfa]); // endbr64
        if self.take(&[0x55]) {
            self.take(&[0x48, 0x89, 0xe5]); // push %rbp; mov %rsp,%rbp
        }
    }

    /// True at the end of the function; the compiler may restore the frame pointer at several places.
    fn ends(&mut self) -> bool {
        self.take(&[0x5d]);
        self.take(&[0xc3])
    }
}

/// The offset of the field whose address or value a function returns: `&argument->field` or
/// `argument->field`.
pub(super) fn field_of_argument(code: &[u8]) -> Option<u64> {
    let mut reader = Reader(code);
    reader.prologue();
    // lea or mov, of eight bytes, from (%rdi) to %rax.
    if !reader.take(&[0x48, 0x8d]) && !reader.take(&[0x48, 0x8b]) {
        return None;
    }
    let offset = reader.displacement(0x07)?;
    (reader.ends() && offset >= 0).then_some(offset as u64)
}

/// The distance from the thread pointer of the thread-local variable that a function returns.
pub(super) fn thread_variable(code: &[u8]) -> Option<i64> {
    let mut reader = Reader(code);
    reader.prologue();
    while reader.take(&[0x66]) {} // padding of the linker
    if !reader.take(&[0x64, 0x48, 0x8b, 0x04, 0x25]) {
        return None;
    }
    let (distance, rest) = reader.0.split_first_chunk::<4>()?;
    let distance = i64::from(i32::from_le_bytes(*distance));
    reader.0 = rest;
    if distance != 0 {
        return reader.ends().then_some(distance);
    }
    reader.take(&[0x5d]);
    if !reader.take(&[0x48, 0x8b]) {
        return None;
    }
    let distance = reader.displacement(0x00)?;
    reader.ends().then_some(distance)
}

/// The offset of the memory root whose address is in a session: `thd_alloc` loads it and jumps to the
/// allocator.
pub(super) fn field_handed_on(code: &[u8]) -> Option<u64> {
    let mut reader = Reader(code);
    reader.take(&[0xf3, 0x0f, 0x1e, 0xfa]);
    if !reader.take(&[0x48, 0x8b]) {
        return None;
    }
    let offset = reader.displacement(0x3f)?;
    (reader.take(&[0xe9]) && offset >= 0).then_some(offset as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accessors_say_where_their_field_lies() {
        // lea 0x68(%rdi),%rax; ret, and the same after endbr64.
        assert_eq!(field_of_argument(&[0x48, 0x8d, 0x47, 0x68, 0xc3]), Some(0x68));
        assert_eq!(field_of_argument(&[0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x8d, 0x47, 0x68, 0xc3]), Some(0x68));
        // mov 0x3f18(%rdi),%rax; ret
        assert_eq!(field_of_argument(&[0x48, 0x8b, 0x87, 0x18, 0x3f, 0, 0, 0xc3]), Some(0x3f18));
        // mov 0x28(%rdi),%rdi; jmp
        assert_eq!(field_handed_on(&[0x48, 0x8b, 0x7f, 0x28, 0xe9, 1, 2, 3, 4]), Some(0x28));
        assert_eq!(field_handed_on(&[0x48, 0x8b, 0x7f, 0x28, 0xc3]), None, "no jump");
    }

    #[test]
    fn variables_of_threads_are_found_in_both_forms() {
        let long = [
            0x55, 0x48, 0x89, 0xe5, 0x66, 0x66, 0x66, 0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0, 0x5d, 0x48,
            0x8b, 0x40, 0x98, 0xc3,
        ];
        assert_eq!(thread_variable(&long), Some(-0x68));
        let short = [0x64, 0x48, 0x8b, 0x04, 0x25, 0x98, 0xff, 0xff, 0xff, 0xc3];
        assert_eq!(thread_variable(&short), Some(-0x68));
    }

    #[test]
    fn another_form_says_nothing_and_cut_code_does_no_harm() {
        assert_eq!(field_of_argument(&[0x48, 0x8d, 0x47, 0x68, 0x90]), None, "it goes on");
        assert_eq!(field_of_argument(&[0x48, 0x8d, 0x46, 0x68, 0xc3]), None, "of another argument");
        assert_eq!(thread_variable(&[0x48, 0x8b, 0x05, 1, 2, 3, 4, 0xc3]), None, "a global variable");
        let long = [0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0, 0x48, 0x8b, 0x80, 0x98, 0xff, 0xff, 0xff, 0xc3];
        assert_eq!(thread_variable(&long), Some(-0x68));
        for length in 0..long.len() {
            assert_eq!(thread_variable(&long[..length]), None);
            assert_eq!(field_of_argument(&long[..length]), None);
        }
    }
}
