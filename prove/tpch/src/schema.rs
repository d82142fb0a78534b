//! The eight tables and their indexes.
//!
//! Columns and types are those of clause 1.4: money and quantities are `numeric(15,2)`, fixed texts `char`, others
//! `varchar`, identifiers four-byte integers; no column may be NULL. The indexes are those of OSDL's DBT-3, from
//! which much of the literature on PostgreSQL and TPC-H takes its numbers: primary keys, columns of foreign keys,
//! the order's and the shipment's date, and the pair of part and supplier. Foreign keys are not declared: they do
//! not affect queries, and inserts would measure their triggers.

/// One of the eight tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Table {
    LineItem,
    Orders,
    PartSupp,
    Customer,
    Part,
    Supplier,
    Nation,
    Region,
}

/// An index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index {
    /// Its name.
    pub name: &'static str,
    /// The columns, as in `CREATE INDEX`.
    pub columns: &'static str,
    /// Whether it is the table's primary key.
    pub primary: bool,
}

const fn key(name: &'static str, columns: &'static str) -> Index {
    Index { name, columns, primary: true }
}

const fn index(name: &'static str, columns: &'static str) -> Index {
    Index { name, columns, primary: false }
}

impl Table {
    /// All tables, the slowest to load first.
    pub const ALL: [Table; 8] = [
        Table::LineItem,
        Table::Orders,
        Table::PartSupp,
        Table::Customer,
        Table::Part,
        Table::Supplier,
        Table::Nation,
        Table::Region,
    ];

    /// Its name in the database.
    pub fn name(self) -> &'static str {
        match self {
            Table::LineItem => "lineitem",
            Table::Orders => "orders",
            Table::PartSupp => "partsupp",
            Table::Customer => "customer",
            Table::Part => "part",
            Table::Supplier => "supplier",
            Table::Nation => "nation",
            Table::Region => "region",
        }
    }

    /// Its columns and their types.
    pub fn columns(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Table::LineItem => &[
                ("l_orderkey", "integer"),
                ("l_partkey", "integer"),
                ("l_suppkey", "integer"),
                ("l_linenumber", "integer"),
                ("l_quantity", "numeric(15,2)"),
                ("l_extendedprice", "numeric(15,2)"),
                ("l_discount", "numeric(15,2)"),
                ("l_tax", "numeric(15,2)"),
                ("l_returnflag", "char(1)"),
                ("l_linestatus", "char(1)"),
                ("l_shipdate", "date"),
                ("l_commitdate", "date"),
                ("l_receiptdate", "date"),
                ("l_shipinstruct", "char(25)"),
                ("l_shipmode", "char(10)"),
                ("l_comment", "varchar(44)"),
            ],
            Table::Orders => &[
                ("o_orderkey", "integer"),
                ("o_custkey", "integer"),
                ("o_orderstatus", "char(1)"),
                ("o_totalprice", "numeric(15,2)"),
                ("o_orderdate", "date"),
                ("o_orderpriority", "char(15)"),
                ("o_clerk", "char(15)"),
                ("o_shippriority", "integer"),
                ("o_comment", "varchar(79)"),
            ],
            Table::PartSupp => &[
                ("ps_partkey", "integer"),
                ("ps_suppkey", "integer"),
                ("ps_availqty", "integer"),
                ("ps_supplycost", "numeric(15,2)"),
                ("ps_comment", "varchar(199)"),
            ],
            Table::Customer => &[
                ("c_custkey", "integer"),
                ("c_name", "varchar(25)"),
                ("c_address", "varchar(40)"),
                ("c_nationkey", "integer"),
                ("c_phone", "char(15)"),
                ("c_acctbal", "numeric(15,2)"),
                ("c_mktsegment", "char(10)"),
                ("c_comment", "varchar(117)"),
            ],
            Table::Part => &[
                ("p_partkey", "integer"),
                ("p_name", "varchar(55)"),
                ("p_mfgr", "char(25)"),
                ("p_brand", "char(10)"),
                ("p_type", "varchar(25)"),
                ("p_size", "integer"),
                ("p_container", "char(10)"),
                ("p_retailprice", "numeric(15,2)"),
                ("p_comment", "varchar(23)"),
            ],
            Table::Supplier => &[
                ("s_suppkey", "integer"),
                ("s_name", "char(25)"),
                ("s_address", "varchar(40)"),
                ("s_nationkey", "integer"),
                ("s_phone", "char(15)"),
                ("s_acctbal", "numeric(15,2)"),
                ("s_comment", "varchar(101)"),
            ],
            Table::Nation => &[
                ("n_nationkey", "integer"),
                ("n_name", "char(25)"),
                ("n_regionkey", "integer"),
                ("n_comment", "varchar(152)"),
            ],
            Table::Region => {
                &[("r_regionkey", "integer"), ("r_name", "char(25)"), ("r_comment", "varchar(152)")]
            }
        }
    }

    /// Its indexes, the primary key first.
    pub fn indexes(self) -> &'static [Index] {
        match self {
            Table::LineItem => {
                const {
                    &[
                        key("lineitem_pkey", "l_orderkey, l_linenumber"),
                        index("lineitem_partkey_suppkey", "l_partkey, l_suppkey"),
                        index("lineitem_shipdate", "l_shipdate"),
                        index("lineitem_suppkey", "l_suppkey"),
                    ]
                }
            }
            Table::Orders => {
                const {
                    &[
                        key("orders_pkey", "o_orderkey"),
                        index("orders_custkey", "o_custkey"),
                        index("orders_orderdate", "o_orderdate"),
                    ]
                }
            }
            Table::PartSupp => {
                const { &[key("partsupp_pkey", "ps_partkey, ps_suppkey"), index("partsupp_suppkey", "ps_suppkey")] }
            }
            Table::Customer => {
                const { &[key("customer_pkey", "c_custkey"), index("customer_nationkey", "c_nationkey")] }
            }
            Table::Part => const { &[key("part_pkey", "p_partkey")] },
            Table::Supplier => {
                const { &[key("supplier_pkey", "s_suppkey"), index("supplier_nationkey", "s_nationkey")] }
            }
            Table::Nation => {
                const { &[key("nation_pkey", "n_nationkey"), index("nation_regionkey", "n_regionkey")] }
            }
            Table::Region => const { &[key("region_pkey", "r_regionkey")] },
        }
    }

    /// The statement that makes it, without indexes.
    pub fn create(self) -> String {
        let columns: Vec<String> =
            self.columns().iter().map(|(name, kind)| format!("{name} {kind} NOT NULL")).collect();
        format!("CREATE TABLE {} ({})", self.name(), columns.join(", "))
    }
}

impl Index {
    /// The statement that makes it on a table.
    pub fn create(self, table: Table) -> String {
        let unique = if self.primary { "UNIQUE " } else { "" };
        format!("CREATE {unique}INDEX {} ON {} ({})", self.name, table.name(), self.columns)
    }

    /// For a primary key, the statement that declares it. Separate from building the index, which may run
    /// concurrently with others of the table; this may not.
    pub fn declare(self, table: Table) -> Option<String> {
        self.primary
            .then(|| format!("ALTER TABLE {} ADD PRIMARY KEY USING INDEX {}", table.name(), self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_have_the_columns_of_the_specification() {
        let counts: Vec<usize> = Table::ALL.iter().map(|table| table.columns().len()).collect();
        assert_eq!(counts, [16, 9, 5, 8, 9, 7, 4, 3]);
        assert_eq!(
            Table::Region.create(),
            "CREATE TABLE region (r_regionkey integer NOT NULL, r_name char(25) NOT NULL, r_comment varchar(152) \
             NOT NULL)"
        );
    }

    #[test]
    fn every_table_has_one_primary_key_of_its_own_columns() {
        for table in Table::ALL {
            let keys: Vec<_> = table.indexes().iter().filter(|index| index.primary).collect();
            assert_eq!(keys.len(), 1, "{}", table.name());
            for index in table.indexes() {
                for column in index.columns.split(", ") {
                    assert!(table.columns().iter().any(|(name, _)| *name == column), "{column}");
                }
            }
        }
        let orders = Table::Orders.indexes()[0];
        assert_eq!(orders.create(Table::Orders), "CREATE UNIQUE INDEX orders_pkey ON orders (o_orderkey)");
        assert_eq!(
            orders.declare(Table::Orders).unwrap(),
            "ALTER TABLE orders ADD PRIMARY KEY USING INDEX orders_pkey"
        );
    }
}
