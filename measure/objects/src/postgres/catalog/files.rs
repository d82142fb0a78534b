//! Blocks of a relation, newest first: from the shared buffers, otherwise from the data folder's files, read
//! only.

use crate::bytes::{array_at, u32_at};
use crate::postgres::attach::Server;
use crate::postgres::shared::buffers::Tag;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Object numbers that are the same in all servers.
pub(crate) mod oid {
    pub const DEFAULT_SPACE: u32 = 1663;
    pub const GLOBAL_SPACE: u32 = 1664;
    pub const PG_CLASS: u32 = 1259;
    pub const PG_ATTRIBUTE: u32 = 1249;
    pub const PG_DATABASE: u32 = 1262;
    pub const PG_NAMESPACE: u32 = 2615;
}

/// Limit of a catalog's file, even with a million tables; a damaged one might be longer.
const MOST_BLOCKS: u32 = 131_072;

/// The block in each buffer, at one moment.
pub(crate) struct Files<'a> {
    server: &'a Server,
    buffers: HashMap<Tag, u32>,
}

impl<'a> Files<'a> {
    /// With the content of the buffers.
    pub fn new(server: &'a Server, tags: &[Option<Tag>]) -> Files<'a> {
        let buffers =
            tags.iter().enumerate().filter_map(|(buffer, tag)| Some(((*tag)?, buffer as u32))).collect();
        Files { server, buffers }
    }

    /// The file of a relation's main fork; the `segment`th of it.
    fn path(&self, space: u32, database: u32, file: u32, segment: u32) -> PathBuf {
        let folder = match space {
            oid::GLOBAL_SPACE => self.server.data.join("global"),
            oid::DEFAULT_SPACE => self.server.data.join(format!("base/{database}")),
            _ => {
                let link = self.server.data.join(format!("pg_tblspc/{space}"));
                // It contains a folder for each version that ever used it: PG_15_202209061.
                let own = format!("PG_{}_", self.server.layout.major);
                let inner = std::fs::read_dir(&link).into_iter().flatten().flatten();
                let version = inner.map(|entry| entry.path()).find(|path| {
                    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&own))
                });
                version.unwrap_or(link).join(database.to_string())
            }
        };
        folder.join(if segment == 0 { file.to_string() } else { format!("{file}.{segment}") })
    }

    /// Calls a function for each block of a relation. Unreadable blocks are left out.
    pub fn each_block(&self, space: u32, database: u32, file: u32, mut with: impl FnMut(&[u8])) {
        let size = self.server.layout.block_size;
        let per_file = self.server.layout.segment_blocks;
        let mut open: Option<(u32, File)> = None;
        let mut bytes = vec![0; size as usize];
        // Recently added blocks may only be in the buffers.
        let last = self
            .buffers
            .keys()
            .filter(|tag| (tag.space, tag.database, tag.file, tag.fork) == (space, database, file, 0));
        let mut count = last.map(|tag| tag.block + 1).max().unwrap_or(0);
        for segment in 0.. {
            let Ok(data) = std::fs::metadata(self.path(space, database, file, segment)) else { break };
            count = count.max(segment * per_file + (data.len() / size) as u32);
            if data.len() < u64::from(per_file) * size || segment > MOST_BLOCKS / per_file {
                break;
            }
        }
        for block in 0..count.min(MOST_BLOCKS) {
            let tag = Tag { space, database, file, fork: 0, block };
            if self.read_buffer(&tag, &mut bytes) {
                with(&bytes);
                continue;
            }
            let segment = block / per_file;
            if open.as_ref().is_none_or(|(number, _)| *number != segment) {
                open = File::open(self.path(space, database, file, segment)).ok().map(|file| (segment, file));
            }
            if let Some((_, file)) = &open {
                if file.read_exact_at(&mut bytes, u64::from(block % per_file) * size).is_ok() {
                    with(&bytes);
                }
            }
        }
    }

    /// A block from its buffer, if it is still there after reading.
    fn read_buffer(&self, tag: &Tag, into: &mut [u8]) -> bool {
        let Some(buffer) = self.buffers.get(tag) else { return false };
        let (buffers, memory) = (&self.server.buffers, &self.server.memory);
        memory.read(buffers.block(*buffer), into).is_ok()
            && buffers.tags_of(memory, &[*buffer]).first() == Some(&Some(*tag))
    }

    /// The relations whose files are in a map instead of in `pg_class`: object number to file.
    pub fn relation_map(&self, database: Option<u32>) -> io::Result<HashMap<u32, u32>> {
        let folder = database.map_or("global".to_string(), |database| format!("base/{database}"));
        let mut bytes = Vec::new();
        File::open(self.server.data.join(folder).join("pg_filenode.map"))?
            .take(4096)
            .read_to_end(&mut bytes)?;
        parse_map(&bytes)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "pg_filenode.map is malformed"))
    }
}

/// `RelMapFile`: a magic number, a count, and pairs.
fn parse_map(bytes: &[u8]) -> Option<HashMap<u32, u32>> {
    const MAGIC: u32 = 0x0059_2717;
    /// 62 until PG15, 64 since.
    const MOST: u32 = 64;
    if u32_at(bytes, 0)? != MAGIC {
        return None;
    }
    let count = u32_at(bytes, 4).filter(|count| *count <= MOST)?;
    let pair = |index: u32| -> Option<(u32, u32)> {
        let pair: [u8; 8] = array_at(bytes, 8 + index as usize * 8)?;
        Some((u32_at(&pair, 0)?, u32_at(&pair, 4)?))
    };
    (0..count).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relation_map_made_by_hand() {
        let words = [0x0059_2717u32, 2, 1259, 16390, 1249, 1249, 0, 0];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(parse_map(&bytes), Some(HashMap::from([(1259, 16390), (1249, 1249)])));
        assert_eq!(parse_map(&bytes[..20]), None, "cut off");
        assert_eq!(parse_map(&[0xff; 512]), None);
    }
}
