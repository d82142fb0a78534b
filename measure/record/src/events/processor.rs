//! The processor's microarchitecture, to the extent that events depend on it.

use serde::Serialize;

/// Families of processors with one set of memory events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Microarchitecture {
    /// Intel Ivy Bridge: MEM_LOAD_UOPS_RETIRED, the first with L1_MISS and L2_MISS.
    IvyBridge,
    /// Intel Haswell and Broadwell.
    Haswell,
    /// Intel Skylake to Tiger Lake and Ice Lake servers: MEM_LOAD_RETIRED, FRONTEND_RETIRED.
    Skylake,
    /// Intel Alder Lake's and Sapphire Rapids' big cores, and their successors.
    GoldenCove,
    /// AMD Zen 1 and 2: IBS without a latency filter.
    Zen,
    /// AMD Zen 3 and later.
    Zen3,
    /// 64-bit Arm.
    Arm,
    /// Any other: generic events only.
    Other,
}

/// The processor that Hardmeter runs on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Processor {
    /// The vendor's name for it.
    pub name: String,
    /// Its family of events.
    pub architecture: Microarchitecture,
    /// Whether it is virtual (the CPUID hypervisor bit).
    pub virtual_machine: bool,
}

impl Processor {
    /// The processor of this machine.
    pub fn this_machine() -> Processor {
        Processor::parse(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
    }

    /// Reads `/proc/cpuinfo`.
    pub fn parse(cpuinfo: &str) -> Processor {
        let field = |name: &str| {
            cpuinfo.lines().find_map(|line| {
                let (key, value) = line.split_once(':')?;
                (key.trim() == name).then(|| value.trim())
            })
        };
        let numeric = |name: &str| field(name).and_then(|value| value.parse::<u32>().ok());
        let architecture = match (field("vendor_id"), numeric("cpu family"), numeric("model")) {
            (Some("GenuineIntel"), Some(6), Some(model)) => intel(model),
            (Some("AuthenticAMD"), Some(family), _) if family >= 0x19 => Microarchitecture::Zen3,
            (Some("AuthenticAMD"), Some(0x17), _) => Microarchitecture::Zen,
            _ if field("CPU implementer").is_some() => Microarchitecture::Arm,
            _ => Microarchitecture::Other,
        };
        Processor {
            name: field("model name").unwrap_or("unknown processor").to_string(),
            architecture,
            virtual_machine: field("flags")
                .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
        }
    }
}

/// Model numbers of family 6, as in the kernel's `asm/intel-family.h`.
fn intel(model: u32) -> Microarchitecture {
    match model {
        58 | 62 => Microarchitecture::IvyBridge,
        60 | 63 | 69 | 70 | 61 | 71 | 79 | 86 => Microarchitecture::Haswell,
        78 | 94 | 85 | 142 | 158 | 165 | 166 | 102 | 125 | 126 | 106 | 108 | 167 | 140 | 141 => {
            Microarchitecture::Skylake
        }
        151 | 154 | 183 | 186 | 191 | 143 | 207 | 173 | 174 | 170 | 172 => Microarchitecture::GoldenCove,
        _ => Microarchitecture::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_known_by_their_numbers() {
        let of = |text: &str| Processor::parse(text).architecture;
        let intel =
            |model: u32| of(&format!("vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: {model}\n"));
        assert_eq!(intel(85), Microarchitecture::Skylake); // Xeon Gold 6126
        assert_eq!(intel(143), Microarchitecture::GoldenCove); // Sapphire Rapids
        assert_eq!(intel(63), Microarchitecture::Haswell);
        assert_eq!(intel(28), Microarchitecture::Other); // the first Atom
        assert_eq!(of("vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t: 1\n"), Microarchitecture::Zen3);
        assert_eq!(of("CPU implementer\t: 0x41\n"), Microarchitecture::Arm);
        assert_eq!(of(""), Microarchitecture::Other);
    }

    #[test]
    fn a_virtual_machine_says_so() {
        let processor = Processor::parse("model name : QEMU\nflags : fpu hypervisor lahf_lm\n");
        assert!(processor.virtual_machine);
        assert_eq!(processor.name, "QEMU");
        assert!(!Processor::parse("flags : fpu\n").virtual_machine);
    }
}
