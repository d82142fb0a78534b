//! Executor nodes: the kind of plan node whose state is in a chunk.
//!
//! The first word of each node is the number of its type. A small number alone is weak evidence, so a state
//! is accepted only if it points to a plan node of the matching type (`SeqScanState` to `SeqScan`), and a
//! plan node only if its costs are valid. Of other nodes, only those of executors are accepted, not those of
//! parsers and planners.

use super::super::layout::{Layout, Missing};
use super::contexts::Readable;
use crate::bytes::{array_at, u32_at, u64_at};
use hardmeter_samples::model::VirtualAddress;
use std::collections::HashMap;

/// Nodes that live while a query is executed, in addition to the states of plan nodes.
const MADE_BY_EXECUTORS: [&str; 14] = [
    "EState",
    "ExprContext",
    "ExprState",
    "IndexInfo",
    "JunkFilter",
    "MergeActionState",
    "OnConflictSetState",
    "PlannedStmt",
    "ProjectionInfo",
    "ResultRelInfo",
    "ReturnSetInfo",
    "SubPlanState",
    "TupleTableSlot",
    "WindowFuncExprState",
];

/// A recognised node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    /// "plan node" (the state of one while it runs), "plan", or "node".
    pub(super) class: &'static str,
    /// Its name in EXPLAIN: "Seq Scan"; other nodes by their type: "TupleTableSlot".
    pub(super) name: String,
    /// Its number in the plan.
    pub(super) number: Option<u32>,
}

/// The numbers of node types of a version, and offsets in plan nodes.
#[derive(Clone, Debug)]
pub(super) struct NodeTypes {
    names: HashMap<u32, String>,
    numbers: HashMap<String, u32>,
    state_plan: usize,
    state_size: u64,
    plan_size: usize,
    plan_costs: usize,
    plan_number: usize,
    /// Sizes of other nodes, if known: a shorter chunk is not one.
    sizes: HashMap<u32, u64>,
}

impl NodeTypes {
    pub(super) fn of(layout: &Layout) -> Result<NodeTypes, Missing> {
        let tags = layout.node_tags.iter().filter(|(name, number)| *number != 0 && !name.is_empty());
        let names: HashMap<u32, String> = tags.map(|(name, number)| (*number, name.clone())).collect();
        let numbers: HashMap<String, u32> =
            names.iter().map(|(number, name)| (name.clone(), *number)).collect();
        let known = ["EState", "ExprContext", "TupleTableSlot", "PlanState", "Plan"];
        let size = |name: &&str| Some((*numbers.get(*name)?, layout.structures.get(*name)?.size));
        Ok(NodeTypes {
            sizes: known.iter().filter_map(size).collect(),
            state_plan: layout.offset("PlanState", "plan")? as usize,
            state_size: layout.structure("PlanState")?.size,
            plan_size: layout.structure("Plan")?.size as usize,
            plan_costs: layout.offset("Plan", "startup_cost")? as usize,
            plan_number: layout.offset("Plan", "plan_node_id")? as usize,
            names,
            numbers,
        })
    }

    /// Number of bytes of a chunk to examine.
    pub(super) fn prefix(&self) -> usize {
        self.plan_size.max(self.state_plan + 8)
    }

    /// The node type of a chunk with this size and beginning.
    pub(super) fn recognise(&self, memory: &dyn Readable, bytes: &[u8], size: u64) -> Option<Node> {
        let tag = u32_at(bytes, 0)?;
        let name = self.names.get(&tag)?;
        if let Some(plan_name) = name.strip_suffix("State") {
            if let Some(plan_tag) = self.numbers.get(plan_name) {
                if size < self.state_size {
                    return None;
                }
                let plan = VirtualAddress(u64_at(bytes, self.state_plan)?);
                let plan = memory.whole(plan, self.plan_size)?;
                let number = self.plan(&plan).filter(|_| u32_at(&plan, 0) == Some(*plan_tag))?;
                return Some(Node { class: "plan node", name: spelled(plan_name), number: Some(number) });
            }
        }
        if self.numbers.contains_key(&format!("{name}State")) {
            let number = self.plan(bytes).filter(|_| size >= self.plan_size as u64)?;
            return Some(Node { class: "plan", name: spelled(name), number: Some(number) });
        }
        if !MADE_BY_EXECUTORS.contains(&name.as_str()) {
            return None;
        }
        if self.sizes.get(&tag).is_some_and(|least| size < *least) {
            return None;
        }
        Some(Node { class: "node", name: name.clone(), number: None })
    }

    /// The number of a plan node; `None` if the bytes are not a plan node.
    fn plan(&self, bytes: &[u8]) -> Option<u32> {
        /// Upper bound of the number of nodes in a plan.
        const NUMBER_AT_MOST: u32 = 100_000;
        let cost = |at: usize| array_at(bytes, at).map(f64::from_le_bytes);
        let (start, total) = (cost(self.plan_costs)?, cost(self.plan_costs + 8)?);
        let is_cost = start >= 0.0 && total >= start && total.is_finite();
        u32_at(bytes, self.plan_number).filter(|number| is_cost && *number < NUMBER_AT_MOST)
    }
}

/// `IndexOnlyScan` in EXPLAIN's form: "Index Only Scan".
pub(super) fn spelled(name: &str) -> String {
    let special = match name {
        "NestLoop" => "Nested Loop",
        "Agg" => "Aggregate",
        "Material" => "Materialize",
        "CteScan" => "CTE Scan",
        "BitmapAnd" | "BitmapOr" | "LockRows" | "ModifyTable" | "ProjectSet" | "WindowAgg" | "SetOp" => name,
        _ => "",
    };
    if !special.is_empty() {
        return special.to_owned();
    }
    let mut words = String::new();
    let mut before = ' ';
    for letter in name.chars() {
        if letter.is_uppercase() && before.is_lowercase() {
            words.push(' ');
        }
        words.push(letter);
        before = letter;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plan node at address 1000, and no other memory.
    struct OnePlan(Vec<u8>);

    impl Readable for OnePlan {
        fn fill(&self, at: VirtualAddress, into: &mut [u8]) -> usize {
            if at.0 != 1000 || into.len() > self.0.len() {
                return 0;
            }
            into.copy_from_slice(&self.0[..into.len()]);
            into.len()
        }
    }

    fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
        bytes[at..at + value.len()].copy_from_slice(value);
    }

    /// In PostgreSQL 15: `Plan` has costs at 8 and 16 and its number at 40, `PlanState` its plan at 8.
    #[test]
    fn a_state_must_point_to_its_plan_and_a_plan_must_have_costs() {
        let layout = Layout::of(15).expect("known");
        let types = NodeTypes::of(&layout).expect("whole");
        let tag = |name: &str| types.numbers[name].to_le_bytes();
        let mut plan = vec![0; 104];
        put(&mut plan, 0, &tag("SeqScan"));
        put(&mut plan, 8, &1.5f64.to_le_bytes());
        put(&mut plan, 16, &20.0f64.to_le_bytes());
        put(&mut plan, 40, &3u32.to_le_bytes());
        let memory = OnePlan(plan.clone());
        let found = types.recognise(&memory, &plan, 128);
        assert_eq!(found, Some(Node { class: "plan", name: "Seq Scan".into(), number: Some(3) }));
        let mut state = vec![0; 256];
        put(&mut state, 0, &tag("SeqScanState"));
        put(&mut state, 8, &1000u64.to_le_bytes());
        let found = types.recognise(&memory, &state, 256);
        assert_eq!(found, Some(Node { class: "plan node", name: "Seq Scan".into(), number: Some(3) }));
        // Another type's plan, no plan, a chunk too short, invalid costs.
        put(&mut state, 0, &tag("IndexScanState"));
        assert_eq!(types.recognise(&memory, &state, 256), None);
        put(&mut state, 0, &tag("SeqScanState"));
        assert_eq!(types.recognise(&memory, &state, 64), None);
        put(&mut state, 8, &2000u64.to_le_bytes());
        assert_eq!(types.recognise(&memory, &state, 256), None);
        put(&mut plan, 16, &1.0f64.to_le_bytes());
        assert_eq!(types.recognise(&memory, &plan, 128), None);
        // A number that happens to be a parser's node, and an executor's node that does not fit.
        let word = |name| [tag(name).as_slice(), &[0; 12]].concat();
        assert_eq!(types.recognise(&memory, &word("NullIfExpr"), 16), None);
        assert_eq!(types.recognise(&memory, &word("TupleTableSlot"), 16), None);
        let slot = types.recognise(&memory, &word("TupleTableSlot"), 128).expect("a node");
        assert_eq!((slot.class, slot.name.as_str()), ("node", "TupleTableSlot"));
    }

    #[test]
    fn nodes_are_spelled_as_by_explain() {
        let names =
            ["SeqScan", "IndexOnlyScan", "BitmapHeapScan", "HashJoin", "NestLoop", "BitmapAnd", "Agg"];
        let spelled = names.map(spelled);
        let expected = [
            "Seq Scan",
            "Index Only Scan",
            "Bitmap Heap Scan",
            "Hash Join",
            "Nested Loop",
            "BitmapAnd",
            "Aggregate",
        ];
        assert_eq!(spelled, expected);
    }
}
