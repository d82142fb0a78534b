//! The location of a probe's argument, as in its note: `8@%rdi`, `-4@60(%rax)`, `8@-144(%rbp)`.
//!
//! The size is in bytes, negative for signed values; the location is an operand in the GNU assembler's syntax. Only
//! those that the kernel's fetch language supports are accepted: a register, or memory relative to one.

use hardmeter_samples::model::Register;

/// An argument that the kernel can fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Argument {
    /// Its size in bytes: 1, 2, 4 or 8.
    pub size: u8,
    /// Whether it is signed.
    pub signed: bool,
    /// Its location.
    pub place: Place,
}

/// The location of an argument at its probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In a register.
    Register(Register),
    /// In memory, at this offset from the address in a register.
    Memory {
        /// The register.
        base: Register,
        /// The distance.
        displacement: i64,
    },
}

impl Argument {
    /// Parses one argument of a note. `None` for an operand that the kernel cannot fetch: a constant, an indexed or
    /// a program-relative address.
    pub fn parse(text: &str) -> Option<Argument> {
        let (size, operand) = text.split_once('@')?;
        let size: i8 = size.parse().ok()?;
        if !matches!(size.unsigned_abs(), 1 | 2 | 4 | 8) {
            return None;
        }
        let place = match operand.split_once('(') {
            None => Place::Register(register(operand.strip_prefix('%')?)?),
            Some((displacement, rest)) => Place::Memory {
                base: register(rest.strip_suffix(')')?.strip_prefix('%')?)?,
                displacement: if displacement.is_empty() { 0 } else { displacement.parse().ok()? },
            },
        };
        Some(Argument { size: size.unsigned_abs(), signed: size < 0, place })
    }

    /// The argument in the kernel's fetch language (Documentation/trace/uprobetracer.rst), without its type.
    pub fn fetch(&self) -> String {
        match self.place {
            Place::Register(register) => format!("%{}", kernel_name(register)),
            Place::Memory { base, displacement } => format!("{displacement:+}(%{})", kernel_name(base)),
        }
    }
}

/// A register by any of its widths' names.
fn register(name: &str) -> Option<Register> {
    Register::GENERAL.into_iter().filter(|known| !matches!(known, Register::Rip | Register::Rflags)).find(
        |known| {
            let short = kernel_name(*known);
            match short.strip_prefix('r') {
                // r8, r8d, r8w, r8b
                Some(_) => {
                    name.strip_prefix(short).is_some_and(|width| matches!(width, "" | "d" | "w" | "b"))
                }
                None => {
                    let wide = name.strip_prefix(['r', 'e']).unwrap_or(name);
                    // si, di, bp and sp have sil, dil...; ax, bx, cx and dx have al, bl...
                    wide == short
                        || name
                            .strip_suffix('l')
                            .is_some_and(|low| low == short || short.strip_suffix('x') == Some(low))
                }
            }
        },
    )
}

/// The kernel's name of a register: `di` for `rdi`, and `r8` for `r8`.
fn kernel_name(register: Register) -> &'static str {
    let name = register.name();
    match name.strip_prefix('r') {
        Some(short) if !short.starts_with(|first: char| first.is_ascii_digit()) => short,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fetch(text: &str) -> Option<String> {
        Argument::parse(text).map(|argument| argument.fetch())
    }

    #[test]
    fn operands_of_debians_postgres_become_the_kernels_words() {
        assert_eq!(fetch("8@%rdi").as_deref(), Some("%di"));
        assert_eq!(fetch("8@%rbx").as_deref(), Some("%bx"));
        assert_eq!(fetch("4@%ebx").as_deref(), Some("%bx"));
        assert_eq!(fetch("4@60(%rax)").as_deref(), Some("+60(%ax)"));
        assert_eq!(fetch("8@-144(%rbp)").as_deref(), Some("-144(%bp)"));
        assert_eq!(fetch("8@(%r12)").as_deref(), Some("+0(%r12)"));
        assert_eq!(fetch("-4@%r8d").as_deref(), Some("%r8"));
        assert_eq!(fetch("1@%sil").as_deref(), Some("%si"));
        assert_eq!(fetch("1@%al").as_deref(), Some("%ax"));
        let signed = Argument::parse("-4@%eax").expect("a register");
        assert_eq!((signed.size, signed.signed, signed.place), (4, true, Place::Register(Register::Rax)));
    }

    #[test]
    fn what_the_kernel_cannot_fetch_is_no_argument() {
        for text in
            ["8@$5", "8@foo(%rip)", "8@8(%rax,%rbx,4)", "8@%xmm0", "%rdi", "3@%rdi", "8@", "", "8@%", "8@%l"]
        {
            assert_eq!(fetch(text), None, "{text}");
        }
    }
}
