//! A group of servers: a head, and the data nodes over which its tables are distributed.
//!
//! Each is a normal server in its own folder, so that it can be inspected, stopped and killed alone. They belong
//! together by name: `DIR` is the head's, `DIR-1`, `DIR-2` etc. are the data nodes'.

use crate::folders::ServerFolder;
use std::ffi::OsString;

/// The folder of the server with this number, from 1, behind the head in `folder`.
pub fn shard_folder(folder: &ServerFolder, number: u32) -> ServerFolder {
    let mut name = OsString::from(folder.path().file_name().unwrap_or_default());
    name.push(format!("-{number}"));
    ServerFolder::new(folder.path().with_file_name(name))
}

/// The folders behind a head in which servers were made.
pub fn shard_folders(folder: &ServerFolder) -> Vec<ServerFolder> {
    (1..).map(|number| shard_folder(folder, number)).take_while(|shard| shard.state().exists()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn shards_lie_beside_their_head_and_are_counted_without_a_gap() {
        let temporary = tempfile::tempdir().unwrap();
        let head = ServerFolder::new(temporary.path().join("tpcc"));
        assert_eq!(shard_folder(&head, 3).path(), temporary.path().join("tpcc-3"));
        for number in [1, 2, 4] {
            let shard = shard_folder(&head, number);
            fs::create_dir(shard.path()).unwrap();
            fs::write(shard.state(), "{}").unwrap();
        }
        let found: Vec<_> = shard_folders(&head).iter().map(|shard| shard.path().to_owned()).collect();
        assert_eq!(found, [temporary.path().join("tpcc-1"), temporary.path().join("tpcc-2")]);
    }
}
