//! The workload of these commands.

use crate::commands::place::Workload;

pub(super) const TPCC: Workload = Workload { name: "tpcc", title: "TPC-C" };
