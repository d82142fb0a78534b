//! The nine tables (clause 1.3), their keys, and the table that records the load.

use std::fmt::Display;

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // each is the table of that name
pub enum Table {
    Item,
    Warehouse,
    Stock,
    District,
    Customer,
    History,
    Orders,
    NewOrder,
    OrderLine,
}

/// Layout of the tables of warehouses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Layout {
    /// Number of partitions of each table, by warehouse; 0: not partitioned.
    pub partitions: u32,
    /// Partitioning method.
    pub by: PartitionBy,
    /// Whether Citus spreads the tables over its nodes, by warehouse.
    pub distributed: bool,
    /// Fill factor of pages in percent; `None`: the server's default. The rest is for updated rows.
    pub fill: Option<u8>,
}

/// Partitioning method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartitionBy {
    /// By hash: neighbouring warehouses are in different partitions.
    #[default]
    Hash,
    /// By range: neighbouring warehouses are together.
    Range,
}

impl Layout {
    /// The warehouses of a partition. The last range is open-ended, so that every warehouse has one.
    fn bound(self, number: u32, warehouses: u32) -> String {
        match self.by {
            PartitionBy::Hash => format!("WITH (MODULUS {}, REMAINDER {number})", self.partitions),
            PartitionBy::Range => {
                // As even as possible: partition n begins after n equal shares.
                let edge = |number: u32| {
                    let before = u64::from(warehouses) * u64::from(number) / u64::from(self.partitions);
                    (before + 1).to_string()
                };
                let from = if number == 0 { "MINVALUE".into() } else { edge(number) };
                let to = if number + 1 == self.partitions { "MAXVALUE".into() } else { edge(number + 1) };
                format!("FROM ({from}) TO ({to})")
            }
        }
    }
}

impl Display for PartitionBy {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            PartitionBy::Hash => "hash",
            PartitionBy::Range => "range",
        })
    }
}

impl Table {
    /// All of them, in an order in which they can be loaded.
    pub const ALL: [Table; 9] = [
        Table::Item,
        Table::Warehouse,
        Table::Stock,
        Table::District,
        Table::Customer,
        Table::History,
        Table::Orders,
        Table::NewOrder,
        Table::OrderLine,
    ];

    /// Its name in the database. ORDER and NEW-ORDER are not valid names in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Table::Item => "item",
            Table::Warehouse => "warehouse",
            Table::Stock => "stock",
            Table::District => "district",
            Table::Customer => "customer",
            Table::History => "history",
            Table::Orders => "orders",
            Table::NewOrder => "new_order",
            Table::OrderLine => "order_line",
        }
    }

    /// Rows per warehouse in the initial population; for ITEM, all rows. Order lines: on average.
    pub fn rows(self) -> u64 {
        match self {
            Table::Warehouse => 1,
            Table::Item | Table::Stock => 100_000,
            Table::District => 10,
            Table::Customer | Table::History | Table::Orders => 30_000,
            Table::NewOrder => 9_000,
            Table::OrderLine => 300_000,
        }
    }

    /// Number of columns.
    pub fn column_count(self) -> i16 {
        self.columns().lines().filter(|line| !line.trim().is_empty()).count() as i16
    }

    /// Its columns and types in CREATE TABLE's syntax.
    pub(crate) fn columns(self) -> &'static str {
        match self {
            Table::Item => {
                "i_id integer NOT NULL,
                 i_im_id integer NOT NULL,
                 i_name varchar(24) NOT NULL,
                 i_price numeric(5,2) NOT NULL,
                 i_data varchar(50) NOT NULL"
            }
            Table::Warehouse => {
                "w_id integer NOT NULL,
                 w_name varchar(10) NOT NULL,
                 w_street_1 varchar(20) NOT NULL,
                 w_street_2 varchar(20) NOT NULL,
                 w_city varchar(20) NOT NULL,
                 w_state char(2) NOT NULL,
                 w_zip char(9) NOT NULL,
                 w_tax numeric(4,4) NOT NULL,
                 w_ytd numeric(12,2) NOT NULL"
            }
            Table::Stock => {
                "s_i_id integer NOT NULL,
                 s_w_id integer NOT NULL,
                 s_quantity integer NOT NULL,
                 s_dist_01 char(24) NOT NULL,
                 s_dist_02 char(24) NOT NULL,
                 s_dist_03 char(24) NOT NULL,
                 s_dist_04 char(24) NOT NULL,
                 s_dist_05 char(24) NOT NULL,
                 s_dist_06 char(24) NOT NULL,
                 s_dist_07 char(24) NOT NULL,
                 s_dist_08 char(24) NOT NULL,
                 s_dist_09 char(24) NOT NULL,
                 s_dist_10 char(24) NOT NULL,
                 s_ytd integer NOT NULL,
                 s_order_cnt integer NOT NULL,
                 s_remote_cnt integer NOT NULL,
                 s_data varchar(50) NOT NULL"
            }
            Table::District => {
                "d_id integer NOT NULL,
                 d_w_id integer NOT NULL,
                 d_name varchar(10) NOT NULL,
                 d_street_1 varchar(20) NOT NULL,
                 d_street_2 varchar(20) NOT NULL,
                 d_city varchar(20) NOT NULL,
                 d_state char(2) NOT NULL,
                 d_zip char(9) NOT NULL,
                 d_tax numeric(4,4) NOT NULL,
                 d_ytd numeric(12,2) NOT NULL,
                 d_next_o_id integer NOT NULL"
            }
            Table::Customer => {
                "c_id integer NOT NULL,
                 c_d_id integer NOT NULL,
                 c_w_id integer NOT NULL,
                 c_first varchar(16) NOT NULL,
                 c_middle char(2) NOT NULL,
                 c_last varchar(16) NOT NULL,
                 c_street_1 varchar(20) NOT NULL,
                 c_street_2 varchar(20) NOT NULL,
                 c_city varchar(20) NOT NULL,
                 c_state char(2) NOT NULL,
                 c_zip char(9) NOT NULL,
                 c_phone char(16) NOT NULL,
                 c_since timestamp NOT NULL,
                 c_credit char(2) NOT NULL,
                 c_credit_lim numeric(12,2) NOT NULL,
                 c_discount numeric(4,4) NOT NULL,
                 c_balance numeric(12,2) NOT NULL,
                 c_ytd_payment numeric(12,2) NOT NULL,
                 c_payment_cnt integer NOT NULL,
                 c_delivery_cnt integer NOT NULL,
                 c_data varchar(500) NOT NULL"
            }
            Table::History => {
                "h_c_id integer NOT NULL,
                 h_c_d_id integer NOT NULL,
                 h_c_w_id integer NOT NULL,
                 h_d_id integer NOT NULL,
                 h_w_id integer NOT NULL,
                 h_date timestamp NOT NULL,
                 h_amount numeric(6,2) NOT NULL,
                 h_data varchar(24) NOT NULL"
            }
            Table::Orders => {
                "o_id integer NOT NULL,
                 o_d_id integer NOT NULL,
                 o_w_id integer NOT NULL,
                 o_c_id integer NOT NULL,
                 o_entry_d timestamp NOT NULL,
                 o_carrier_id integer,
                 o_ol_cnt integer NOT NULL,
                 o_all_local integer NOT NULL"
            }
            Table::NewOrder => {
                "no_o_id integer NOT NULL,
                 no_d_id integer NOT NULL,
                 no_w_id integer NOT NULL"
            }
            Table::OrderLine => {
                "ol_o_id integer NOT NULL,
                 ol_d_id integer NOT NULL,
                 ol_w_id integer NOT NULL,
                 ol_number integer NOT NULL,
                 ol_i_id integer NOT NULL,
                 ol_supply_w_id integer NOT NULL,
                 ol_delivery_d timestamp,
                 ol_quantity integer NOT NULL,
                 ol_amount numeric(6,2) NOT NULL,
                 ol_dist_info char(24) NOT NULL"
            }
        }
    }

    /// The column with the row's warehouse; `None` for ITEM.
    pub fn warehouse_column(self) -> Option<&'static str> {
        match self {
            Table::Item => None,
            Table::Warehouse => Some("w_id"),
            Table::Stock => Some("s_w_id"),
            Table::District => Some("d_w_id"),
            Table::Customer => Some("c_w_id"),
            Table::History => Some("h_w_id"),
            Table::Orders => Some("o_w_id"),
            Table::NewOrder => Some("no_w_id"),
            Table::OrderLine => Some("ol_w_id"),
        }
    }

    /// The primary key; HISTORY has none (clause 1.3).
    pub fn key(self) -> Option<&'static str> {
        match self {
            Table::Item => Some("i_id"),
            Table::Warehouse => Some("w_id"),
            Table::Stock => Some("s_w_id, s_i_id"),
            Table::District => Some("d_w_id, d_id"),
            Table::Customer => Some("c_w_id, c_d_id, c_id"),
            Table::History => None,
            Table::Orders => Some("o_w_id, o_d_id, o_id"),
            Table::NewOrder => Some("no_w_id, no_d_id, no_o_id"),
            Table::OrderLine => Some("ol_w_id, ol_d_id, ol_o_id, ol_number"),
        }
    }

    /// Secondary indexes: name, columns. Look-ups of customers by name, and of a customer's last order.
    pub fn indexes(self) -> &'static [(&'static str, &'static str)] {
        match self {
            // C_ID makes the order of equal C_FIRSTs one, and the index all that a look-up by name reads.
            Table::Customer => &[("customer_by_name", "c_w_id, c_d_id, c_last, c_first, c_id")],
            Table::Orders => &[("orders_by_customer", "o_w_id, o_d_id, o_c_id, o_id")],
            _ => &[],
        }
    }

    /// The statements that create it for this number of warehouses, without keys.
    pub fn create(self, layout: Layout, warehouses: u32) -> Vec<String> {
        let (name, columns) = (self.name(), self.columns());
        let fill = layout.fill.map_or_else(String::new, |percent| format!(" WITH (fillfactor = {percent})"));
        let mut statements = match self.warehouse_column() {
            Some(column) if layout.partitions > 0 => {
                let whole = format!("CREATE TABLE {name} ({columns}) PARTITION BY {} ({column})", layout.by);
                let parts = (0..layout.partitions).map(|number| {
                    let bound = layout.bound(number, warehouses);
                    format!("CREATE TABLE {name}_{number} PARTITION OF {name} FOR VALUES {bound}{fill}")
                });
                std::iter::once(whole).chain(parts).collect()
            }
            _ => vec![format!("CREATE TABLE {name} ({columns}){fill}")],
        };
        if layout.distributed {
            statements.push(self.distribute());
        }
        statements
    }

    /// The statement that distributes it with Citus: the rows of a warehouse are on one node, those of ITEM on
    /// every node.
    fn distribute(self) -> String {
        match self.warehouse_column() {
            None => format!("SELECT create_reference_table('{self}')"),
            // The first of them founds the group that the others join.
            Some(column) if self == Table::Warehouse => {
                format!("SELECT create_distributed_table('{self}', '{column}', colocate_with => 'none')")
            }
            Some(column) => {
                format!("SELECT create_distributed_table('{self}', '{column}', colocate_with => 'warehouse')")
            }
        }
    }

    /// The statements that make its keys and indexes, each with what it makes.
    pub fn keys(self) -> Vec<(String, String)> {
        let name = self.name();
        let primary = self.key().map(|columns| {
            (format!("the primary key of {name}"), format!("ALTER TABLE {name} ADD PRIMARY KEY ({columns})"))
        });
        let others = self.indexes().iter().map(|(index, columns)| {
            (format!("the index {index}"), format!("CREATE INDEX {index} ON {name} ({columns})"))
        });
        primary.into_iter().chain(others).collect()
    }
}

impl Display for Table {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The table that records a load and its finished warehouses: C-Load is needed to choose C-Run (clause 2.1.6.1),
/// the rest to continue an interrupted load.
pub const LOAD_TABLE: &str = "hardmeter_tpcc";

/// The statement that makes [`LOAD_TABLE`]: a row for each part that is there, part 0 being ITEM.
pub const CREATE_LOAD_TABLE: &str =
    "CREATE TABLE hardmeter_tpcc (part integer PRIMARY KEY, order_lines bigint NOT NULL)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_as_many_columns_as_the_specification_says() {
        let counts = Table::ALL.map(Table::column_count);
        assert_eq!(counts, [5, 9, 17, 11, 21, 8, 8, 3, 10]);
    }

    #[test]
    fn partitions_cover_all_remainders_and_item_has_none() {
        let layout = Layout { partitions: 3, fill: Some(90), ..Layout::default() };
        let statements = Table::Stock.create(layout, 10);
        assert_eq!(statements.len(), 4);
        assert!(statements[0].ends_with("PARTITION BY hash (s_w_id)"));
        assert!(statements[3].ends_with("(MODULUS 3, REMAINDER 2) WITH (fillfactor = 90)"));
        assert_eq!(Table::Item.create(layout, 10).len(), 1);
        for table in Table::ALL {
            if let (Some(column), Some(key)) = (table.warehouse_column(), table.key()) {
                assert!(key.starts_with(column), "a key of a partitioned table must have {column}");
            }
        }
    }

    #[test]
    fn ranges_are_even_and_leave_no_warehouse_out() {
        let layout = Layout { partitions: 3, by: PartitionBy::Range, ..Layout::default() };
        let bounds = |warehouses| (0..3).map(|part| layout.bound(part, warehouses)).collect::<Vec<_>>();
        assert_eq!(bounds(10), ["FROM (MINVALUE) TO (4)", "FROM (4) TO (7)", "FROM (7) TO (MAXVALUE)"]);
        assert!(Table::Orders.create(layout, 10)[0].ends_with("PARTITION BY range (o_w_id)"));
        let one = Layout { partitions: 1, ..layout };
        assert_eq!(one.bound(0, 5), "FROM (MINVALUE) TO (MAXVALUE)");
    }

    #[test]
    fn citus_keeps_a_warehouse_together_and_items_everywhere() {
        let layout = Layout { distributed: true, ..Layout::default() };
        let last = |table: Table| table.create(layout, 10).pop().unwrap();
        assert_eq!(last(Table::Item), "SELECT create_reference_table('item')");
        assert_eq!(
            last(Table::Warehouse),
            "SELECT create_distributed_table('warehouse', 'w_id', colocate_with => 'none')"
        );
        assert_eq!(
            last(Table::OrderLine),
            "SELECT create_distributed_table('order_line', 'ol_w_id', colocate_with => 'warehouse')"
        );
        // A table can only join those of one that is distributed before it.
        let place = |table| Table::ALL.iter().position(|one| *one == table);
        assert!(Table::ALL.iter().all(|one| place(*one) >= place(Table::Warehouse) || *one == Table::Item));
    }
}
