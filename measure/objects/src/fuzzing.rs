//! Entry points of the fuzz targets in `fuzz/`: bytes as they are read from a server's memory.

/// Names each part of a page of PostgreSQL and of InnoDB.
pub fn name_page(bytes: &[u8]) {
    crate::postgres::name_parts(bytes);
    crate::mariadb::name_parts(bytes);
}

/// Walks memory contexts, blocks and chunks; the first byte chooses the major version.
pub fn walk_contexts(bytes: &[u8]) {
    crate::postgres::walk_contexts(bytes);
}
