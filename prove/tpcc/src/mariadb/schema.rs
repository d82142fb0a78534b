//! The nine tables in InnoDB, whole or partitioned by warehouse; and as Spider's tables over several servers.

use crate::schema::Table;
use serde::{Deserialize, Serialize};

/// Layout of the tables of warehouses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Layout {
    /// Each table in one piece.
    #[default]
    Whole,
    /// Partitioned by hash of the warehouse: warehouse w is in partition w mod N.
    Hash {
        /// Number of partitions.
        parts: u32,
    },
    /// Each in parts of neighbouring warehouses.
    Range {
        /// Number of partitions.
        parts: u32,
    },
    /// Over several servers behind a head, by hash of the warehouse: Spider.
    Shards {
        /// Number of servers.
        servers: u32,
    },
}

impl Layout {
    /// Number of servers besides the head that hold warehouses; 0: a single server.
    pub fn servers(self) -> u32 {
        match self {
            Layout::Shards { servers } => servers,
            _ => 0,
        }
    }

    /// The layout in words.
    pub fn in_words(self) -> String {
        match self {
            Layout::Whole => "whole tables".into(),
            Layout::Hash { parts } => format!("{parts} parts by hash"),
            Layout::Range { parts } => format!("{parts} parts by range"),
            Layout::Shards { servers } => format!("{servers} servers"),
        }
    }
}

/// Name of the Spider server (`CREATE SERVER` on the head) with part `number` of the warehouses; from 1.
pub fn server_name(number: u32) -> String {
    format!("hardmeter_tpcc_{number}")
}

/// Names compare byte by byte, as in PostgreSQL's C locale; every character of TPC-C is one byte.
const CHARACTERS: &str = "DEFAULT CHARSET = latin1 COLLATE = latin1_bin";

/// Creates the table in InnoDB in this layout, with its primary key: InnoDB stores rows in key order, so adding the
/// key later would write every row twice.
pub(super) fn create(table: Table, layout: Layout, warehouses: u32) -> String {
    let mut sql = format!("{} ENGINE = InnoDB {CHARACTERS}", with_columns(table));
    if let Some(column) = table.warehouse_column() {
        sql += &partitions(column, layout, warehouses);
    }
    sql
}

/// Creates the table on the head; its rows are on the servers.
pub(super) fn create_on_head(table: Table, servers: u32) -> String {
    let Some(column) = table.warehouse_column() else { return create(table, Layout::Whole, 0) };
    let parts: Vec<String> = (0..servers)
        .map(|part| format!("PARTITION part{part} COMMENT = 'srv \"{}\"'", server_name(part + 1)))
        .collect();
    // Spider plans by the head's indexes: they must equal those of the servers' tables.
    let indexes: String = table
        .indexes()
        .iter()
        .map(|(name, columns)| format!(",\n                 KEY {name} ({columns})"))
        .collect();
    let columns = with_columns(table);
    let columns = columns.strip_suffix(')').unwrap_or(&columns);
    format!(
        "{columns}{indexes}) ENGINE = SPIDER {CHARACTERS} COMMENT = 'wrapper \"mysql\", table \"{table}\"' \
         PARTITION BY HASH ({column}) ({})",
        parts.join(", ")
    )
}

fn with_columns(table: Table) -> String {
    let columns = table.columns().replace("timestamp", "datetime").replace("numeric", "decimal");
    match table.key() {
        Some(key) => {
            format!("CREATE TABLE IF NOT EXISTS {table} ({columns},\n                 PRIMARY KEY ({key}))")
        }
        None => format!("CREATE TABLE IF NOT EXISTS {table} ({columns})"),
    }
}

fn partitions(column: &str, layout: Layout, warehouses: u32) -> String {
    match layout {
        Layout::Whole | Layout::Shards { .. } => String::new(),
        Layout::Hash { parts } => format!(" PARTITION BY HASH ({column}) PARTITIONS {parts}"),
        Layout::Range { parts } => {
            let bound = |part: u32| (u64::from(warehouses) * u64::from(part)).div_ceil(u64::from(parts)) + 1;
            let each = (1..=parts).map(|part| match part {
                // The last partition is open-ended: warehouses may be added.
                _ if part == parts => format!("PARTITION part{part} VALUES LESS THAN MAXVALUE"),
                _ => format!("PARTITION part{part} VALUES LESS THAN ({})", bound(part)),
            });
            format!(" PARTITION BY RANGE ({column}) ({})", each.collect::<Vec<_>>().join(", "))
        }
    }
}

/// The statements that create the secondary indexes, with name and table. Run after the load: in the order of
/// names, rows would be inserted at random places.
pub(super) fn further_indexes() -> Vec<(Table, &'static str, String)> {
    let of = |table: Table| {
        table.indexes().iter().map(move |(name, columns)| {
            (table, *name, format!("ALTER TABLE {table} ADD INDEX {name} ({columns})"))
        })
    };
    Table::ALL.into_iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_keys_are_mariadbs() {
        let sql = create(Table::District, Layout::Whole, 4);
        assert!(sql.contains("d_tax decimal(4,4) NOT NULL") && !sql.contains("PARTITION"), "{sql}");
        assert!(sql.contains("PRIMARY KEY (d_w_id, d_id))"), "{sql}");
        assert!(create(Table::Orders, Layout::Whole, 4).contains("o_entry_d datetime NOT NULL"));
        assert!(!create(Table::History, Layout::Whole, 4).contains("KEY"));
        assert_eq!(further_indexes().len(), 2);
    }

    #[test]
    fn ranges_cover_all_warehouses_evenly() {
        let sql = create(Table::Stock, Layout::Range { parts: 3 }, 10);
        // Ten over three: 1 to 4, 5 to 7, 8 to 10.
        let parts = "(PARTITION part1 VALUES LESS THAN (5), PARTITION part2 VALUES LESS THAN (8), \
                     PARTITION part3 VALUES LESS THAN MAXVALUE)";
        assert!(sql.ends_with(parts), "{sql}");
        assert!(create(Table::Stock, Layout::Hash { parts: 2 }, 10).ends_with("HASH (s_w_id) PARTITIONS 2"));
        assert!(!create(Table::Item, Layout::Hash { parts: 2 }, 10).contains("PARTITION"));
    }

    #[test]
    fn the_head_keeps_items_and_names_a_server_for_each_part() {
        let sql = create_on_head(Table::Orders, 2);
        assert!(
            sql.contains("KEY orders_by_customer (o_w_id, o_d_id, o_c_id, o_id)) ENGINE = SPIDER"),
            "{sql}"
        );
        assert!(sql.contains("PARTITION part1 COMMENT = 'srv \"hardmeter_tpcc_2\"'"), "{sql}");
        assert!(create_on_head(Table::Item, 2).contains("ENGINE = InnoDB"));
    }
}
