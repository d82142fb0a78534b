//! The load that a timer sample waited for, and its data address.
//!
//! ```text
//!   pid, ip ──AddressSpaces──> image, offset ──FDEs──> function ──decode──> load before ip
//!   registers ──undo, copies, redo──────────────────────────────────────> its address
//! ```
//!
//! Control flow and the ways to a register's value are generic over the instruction set ([`machine`]): x86-64 is
//! decoded by iced-x86, AArch64 by tables of its own.
//!
//! Symbols are not needed: stripped programs keep their unwind information. Code is read from the program's file;
//! the profiled process is not accessed.

mod arm;
mod blame;
mod function;
mod machine;
mod values;
mod x86;

/// Pseudo-random numbers (xorshift), the same in each run.
#[cfg(test)]
fn random_numbers() -> impl FnMut() -> u64 {
    let mut state = 88_172_645_463_325_252u64;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

pub use blame::NoBlame;
pub use machine::NoAddress;

use crate::address_spaces::{AddressSpaces, ImageId, ImageKind};
use crate::image::bytes::ImageBytes;
use crate::image::locate::Locator;
use crate::image::{Image, ImageAddress};
use blame::Blamed;
use function::Function;
use hardmeter_samples::model::{Architecture, CpuMode, Landing, Pid, Record, Registers, VirtualAddress};
use machine::Machine;
use rustc_hash::FxHashMap;
use std::rc::Rc;
use std::sync::Arc;

/// A load that was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StalledLoad {
    /// The load itself, in the address space of its process.
    pub instruction: VirtualAddress,
    /// The address that it loads from.
    pub address: Result<VirtualAddress, NoAddress>,
}

/// A decoded function of one of the instruction sets.
enum Code {
    X86(Function<x86::X86>),
    Arm(Function<arm::Arm>),
}

/// Finds the loads that timer samples waited for. Add mappings and forks in order; query between them.
pub struct StallFinder {
    /// The machine that the registers are of. Code of other machines is not searched.
    machine: Option<Architecture>,
    spaces: AddressSpaces,
    locator: Locator,
    images: FxHashMap<ImageId, Option<Rc<Image>>>,
    functions: FxHashMap<(ImageId, u64), Rc<Code>>,
}

impl StallFinder {
    /// A finder without processes, for samples of this machine.
    pub fn new() -> StallFinder {
        StallFinder::of(Architecture::HOST)
    }

    /// A finder for samples of a machine; `None` finds no load.
    pub fn of(machine: Option<Architecture>) -> StallFinder {
        StallFinder {
            machine,
            spaces: AddressSpaces::default(),
            locator: Locator::default(),
            images: FxHashMap::default(),
            functions: FxHashMap::default(),
        }
    }

    /// Processes a mapping, name, fork or exit.
    pub fn observe(&mut self, record: &Record<'_>) {
        self.spaces.observe(record);
    }

    /// Opens the files of all mapped code, while the process still has the right to do so.
    pub fn open_images(&mut self) {
        for id in self.spaces.executable_images() {
            self.image(id);
        }
    }

    /// The load that a user-mode sample waited for; `Ok(None)` if there is none.
    ///
    /// # Errors
    /// The reason why the load is unknown.
    pub fn find(
        &mut self,
        pid: Pid,
        ip: VirtualAddress,
        registers: &Registers<'_>,
        landing: Landing,
    ) -> Result<Option<StalledLoad>, NoBlame> {
        let mapped = self.spaces.resolve(pid, ip, CpuMode::User).ok_or(NoBlame::NoCode)?;
        let image = self.image(mapped.image).ok_or(NoBlame::NoCode)?;
        let address = image.address_of(mapped.offset, true).ok_or(NoBlame::NoCode)?;
        let function = self.function(mapped.image, &image, address).ok_or(NoBlame::NoFunction)?;
        let bias = ip.0.wrapping_sub(address.0);
        let found = match &*function {
            Code::X86(function) => blame_at(function, address, registers, bias, landing)?,
            Code::Arm(function) => blame_at(function, address, registers, bias, landing)?,
        };
        Ok(found.map(|blamed| StalledLoad {
            instruction: VirtualAddress(blamed.load.wrapping_add(bias)),
            address: blamed.address.map(VirtualAddress),
        }))
    }

    fn image(&mut self, id: ImageId) -> Option<Rc<Image>> {
        if let Some(image) = self.images.get(&id) {
            return image.clone();
        }
        let image = self.load(id).map(Rc::new);
        self.images.insert(id, image.clone());
        image
    }

    /// The image's code; `None` if it has none for this processor.
    fn load(&self, id: ImageId) -> Option<Image> {
        let description = self.spaces.image(id);
        let bytes = match description.kind {
            ImageKind::File => {
                self.locator.image_file(description, description.build_id.as_ref()).ok()?.bytes
            }
            ImageKind::Vdso => Arc::new(ImageBytes::Owned(crate::vdso::bytes().ok()?)),
            _ => return None,
        };
        let image = Image::load_code(bytes).ok()?;
        (self.machine.is_some() && architecture(&image) == self.machine).then_some(image)
    }

    fn function(&mut self, id: ImageId, image: &Image, address: ImageAddress) -> Option<Rc<Code>> {
        let range = image.unwind.find(address.0)?;
        if let Some(function) = self.functions.get(&(id, range.start)) {
            return Some(Rc::clone(function));
        }
        let bytes = image.bytes_at(ImageAddress(range.start)..ImageAddress(range.end));
        let word = |at: u64| {
            let bytes = image.bytes_at(ImageAddress(at)..ImageAddress(at.saturating_add(4)));
            Some(i32::from_le_bytes(bytes.try_into().ok()?))
        };
        let function = Rc::new(match architecture(image)? {
            Architecture::X86_64 => Code::X86(Function::decode(bytes, range.start, &word)),
            Architecture::Aarch64 => Code::Arm(Function::decode(bytes, range.start, &word)),
        });
        self.functions.insert((id, range.start), Rc::clone(&function));
        Some(function)
    }
}

impl Default for StallFinder {
    fn default() -> StallFinder {
        StallFinder::new()
    }
}

/// The architecture of an image's code, if it is one that is decoded here.
fn architecture(image: &Image) -> Option<Architecture> {
    match image.architecture {
        object::Architecture::X86_64 => Some(Architecture::X86_64),
        object::Architecture::Aarch64 => Some(Architecture::Aarch64),
        _ => None,
    }
}

fn blame_at<M: Machine>(
    function: &Function<M>,
    address: ImageAddress,
    registers: &Registers<'_>,
    bias: u64,
    landing: Landing,
) -> Result<Option<Blamed>, NoBlame> {
    let position = function.position(address.0).ok_or(NoBlame::NoFunction)?;
    blame::blame(function, position, registers, bias, landing)
}
