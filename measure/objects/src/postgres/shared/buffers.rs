//! The shared buffers: the relation and block that each holds.
//!
//! ```text
//!   BufferDescriptors  [tag 20 B | buf_id | state | ...] 64 bytes each
//!   BufferBlocks       [8192 bytes]                      one for each descriptor
//! ```

use crate::bytes::u32_at;
use crate::process_memory::ProcessMemory;
use hardmeter_samples::model::VirtualAddress;

/// Bytes of a tag.
pub(crate) const TAG_LENGTH: usize = 20;

/// Bytes of a descriptor up to the end of its state.
const HEAD: usize = 28;

/// The five numbers that identify a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Tag {
    /// Its table space.
    pub space: u32,
    /// Its database; 0 for shared objects.
    pub database: u32,
    /// The number of its file.
    pub file: u32,
    /// Its fork.
    pub fork: u32,
    /// Its number within the fork.
    pub block: u32,
}

impl Tag {
    /// From the first bytes of a descriptor.
    pub fn parse(bytes: &[u8]) -> Option<Tag> {
        let word = |index: usize| u32_at(bytes, index * 4);
        Some(Tag { space: word(0)?, database: word(1)?, file: word(2)?, fork: word(3)?, block: word(4)? })
    }

    /// The tag's bytes in memory.
    pub fn bytes(&self) -> [u8; TAG_LENGTH] {
        let mut bytes = [0; TAG_LENGTH];
        let words = [self.space, self.database, self.file, self.fork, self.block];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// True if it can be a tag: there are four forks, and files have numbers.
    pub fn is_plausible(&self) -> bool {
        self.fork < 4 && self.file != 0 && self.space != 0 && self.block != u32::MAX
    }

    /// "main block 5".
    pub fn place(&self) -> String {
        let fork = match self.fork {
            0 => "main",
            1 => "fsm",
            2 => "vm",
            _ => "init",
        };
        format!("{fork} block {}", self.block)
    }
}

/// The places of descriptors and blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Buffers {
    /// First block.
    pub blocks: VirtualAddress,
    /// First descriptor.
    pub descriptors: VirtualAddress,
    /// The number of each.
    pub count: u32,
    /// Bytes of a block.
    pub block_size: u64,
    /// Bytes from one descriptor to the next.
    pub stride: u64,
    /// The bit of a descriptor's state that marks a valid tag.
    pub tag_valid: u32,
}

impl Buffers {
    /// The buffer whose block contains an address.
    pub fn of_block(&self, address: VirtualAddress) -> Option<u32> {
        self.within(self.blocks, self.block_size, address)
    }

    /// The buffer whose descriptor contains an address.
    pub fn of_descriptor(&self, address: VirtualAddress) -> Option<u32> {
        self.within(self.descriptors, self.stride, address)
    }

    fn within(&self, base: VirtualAddress, stride: u64, address: VirtualAddress) -> Option<u32> {
        let number = address.0.checked_sub(base.0)? / stride;
        (number < u64::from(self.count)).then_some(number as u32)
    }

    /// First byte of a buffer's block.
    pub fn block(&self, buffer: u32) -> VirtualAddress {
        VirtualAddress(self.blocks.0 + u64::from(buffer) * self.block_size)
    }

    /// First byte of a buffer's descriptor.
    pub fn descriptor(&self, buffer: u32) -> VirtualAddress {
        VirtualAddress(self.descriptors.0 + u64::from(buffer) * self.stride)
    }

    /// The block in each of some buffers; `None` for an empty buffer.
    pub fn tags_of(&self, memory: &ProcessMemory, buffers: &[u32]) -> Vec<Option<Tag>> {
        let at: Vec<VirtualAddress> = buffers.iter().map(|buffer| self.descriptor(*buffer)).collect();
        let (bytes, _) = memory.read_pieces(&at, HEAD);
        bytes.chunks_exact(HEAD).map(|head| self.tag_in(head)).collect()
    }

    /// The block in each buffer; `None` if the memory cannot be read.
    pub fn all_tags(&self, memory: &ProcessMemory) -> Option<Vec<Option<Tag>>> {
        /// Descriptors read at a time.
        const AT_ONCE: u32 = 16_384;
        let mut tags = Vec::with_capacity(self.count as usize);
        let mut first = 0;
        while first < self.count {
            let count = AT_ONCE.min(self.count - first);
            let mut bytes = vec![0; (u64::from(count) * self.stride) as usize];
            memory.read(self.descriptor(first), &mut bytes).ok()?;
            tags.extend(bytes.chunks_exact(self.stride as usize).map(|descriptor| self.tag_in(descriptor)));
            first += count;
        }
        Some(tags)
    }

    fn tag_in(&self, descriptor: &[u8]) -> Option<Tag> {
        let state = u32_at(descriptor, 24)?;
        let tag = Tag::parse(descriptor)?;
        (state & self.tag_valid != 0 && tag.is_plausible()).then_some(tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_read_from_a_valid_descriptor_only() {
        let buffers = Buffers {
            blocks: VirtualAddress(0x10_0000),
            descriptors: VirtualAddress(0x8000),
            count: 3,
            block_size: 8192,
            stride: 64,
            tag_valid: 1 << 25,
        };
        let tag = Tag { space: 1663, database: 5, file: 16384, fork: 0, block: 7 };
        let mut descriptor = [0; 64];
        descriptor[..20].copy_from_slice(&tag.bytes());
        assert_eq!(buffers.tag_in(&descriptor), None);
        descriptor[24..28].copy_from_slice(&(1u32 << 25 | 3).to_le_bytes());
        assert_eq!(buffers.tag_in(&descriptor), Some(tag));
        descriptor[12] = 9;
        assert_eq!(buffers.tag_in(&descriptor), None, "there is no fork 9");
        assert_eq!(buffers.tag_in(&descriptor[..20]), None);
        assert_eq!(tag.place(), "main block 7");

        assert_eq!(buffers.of_block(VirtualAddress(0x10_0000 + 8192)), Some(1));
        assert_eq!(buffers.of_block(VirtualAddress(0x10_0000 + 3 * 8192)), None);
        assert_eq!(buffers.of_block(VirtualAddress(0xf_ffff)), None);
        assert_eq!(buffers.of_descriptor(VirtualAddress(0x8000 + 191)), Some(2));
    }
}
