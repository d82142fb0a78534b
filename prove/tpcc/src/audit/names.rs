//! Table names of other tools; the columns are those of the specification.

use crate::schema::Table;

/// The tool that loaded the tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tool {
    /// Hardmeter.
    #[default]
    Hardmeter,
    /// go-tpc.
    GoTpc,
    /// sysbench-tpcc, the first of its sets of tables.
    Sysbench,
    /// BenchBase, and OLTP-Bench before it.
    BenchBase,
    /// HammerDB.
    HammerDb,
    /// BenchmarkSQL 5 and 6.
    BenchmarkSql,
}

impl Tool {
    /// All of them.
    pub const ALL: [Tool; 6] =
        [Tool::Hardmeter, Tool::GoTpc, Tool::Sysbench, Tool::BenchBase, Tool::HammerDb, Tool::BenchmarkSql];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Tool::Hardmeter => "hardmeter",
            Tool::GoTpc => "go-tpc",
            Tool::Sysbench => "sysbench",
            Tool::BenchBase => "benchbase",
            Tool::HammerDb => "hammerdb",
            Tool::BenchmarkSql => "benchmarksql",
        }
    }

    /// Its name for a table.
    pub fn table(self, table: Table) -> String {
        let ours = table.name();
        match (self, table) {
            (Tool::Sysbench, Table::NewOrder) => "new_orders1".into(),
            (Tool::Sysbench, _) => format!("{ours}1"),
            (Tool::BenchBase, Table::Orders) => "oorder".into(),
            (Tool::BenchmarkSql, Table::Orders) => "bmsql_oorder".into(),
            (Tool::BenchmarkSql, _) => format!("bmsql_{ours}"),
            _ => ours.into(),
        }
    }

    /// A statement with the tool's table names in place of `{customer}` etc.
    pub(crate) fn fill(self, sql: &str) -> String {
        Table::ALL
            .into_iter()
            .fold(sql.to_owned(), |sql, table| sql.replace(&format!("{{{table}}}"), &self.table(table)))
    }
}

impl std::str::FromStr for Tool {
    type Err = String;

    fn from_str(text: &str) -> Result<Tool, String> {
        Tool::ALL
            .into_iter()
            .find(|tool| tool.name() == text)
            .ok_or_else(|| format!("valid are {}", Tool::ALL.map(Tool::name).join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_get_the_names_of_the_tool() {
        let sql = "SELECT FROM {orders} JOIN {new_order} ON o_id = no_o_id";
        assert_eq!(Tool::Hardmeter.fill(sql), "SELECT FROM orders JOIN new_order ON o_id = no_o_id");
        assert_eq!(Tool::Sysbench.fill(sql), "SELECT FROM orders1 JOIN new_orders1 ON o_id = no_o_id");
        assert_eq!(Tool::BenchBase.fill(sql), "SELECT FROM oorder JOIN new_order ON o_id = no_o_id");
        assert_eq!(Tool::BenchmarkSql.fill("{stock} {orders}"), "bmsql_stock bmsql_oorder");
        for tool in Tool::ALL {
            assert_eq!(tool.name().parse(), Ok(tool));
        }
    }
}
