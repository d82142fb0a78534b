/*
 * AdaptiveJoin, planning: a pass over the finished plan that replaces nested loops by it.
 *
 * Two kinds of inner plans can be replaced by a hash table:
 *
 *     Index Scan with conditions that compare integers of the table with integers of the outer row:
 *     the keys; the hash table is built from a scan of the whole table, for which a plan is made
 *
 *     Materialize, and the join's own condition has such a comparison; the hash table is built from
 *     what is materialized
 *
 * Other conditions of an index scan on a row and the outer row (l2.suppkey <> l1.suppkey) are
 * checked for rows of the hash table with equal keys, when they are found.
 *
 * Building from the table reads rows that core would never have read, so expressions over them must
 * not be able to fail. Materialized rows must have been read to their end.
 */
#include "adaptive_join.h"

#include "access/genam.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "access/tableam.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"
#include "storage/bufmgr.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "costs.h"
#include "costs_in_force.h"
#include "doors.h"
#include "node_names.h"
#include "plan_tree.h"
#include "qual.h"
#include "settings.h"

static const CustomScanMethods plan_methods = {.CustomName = ADAPTIVE_JOIN_NAME,
                                               .CreateCustomScanState = adaptive_join_create_state};

void adaptive_join_register(void) { RegisterCustomScanMethods(&plan_methods); }

/* Findings about one nested loop. */
typedef struct Candidate {
  NestLoop *join;
  Plan *build; /* NULL: built from the inner plan's own rows */
  List *outer_keys, *inner_keys, *outer_types, *inner_types;
  Bitmapset *needed; /* used attributes of the index scan's row */
  List *behind;      /* Var: columns that the hash table's row has after the index scan's */
  List *hash_quals, *shown_quals;
  double build_rows;
  double build_ns;
} Candidate;

/* ---- keys ---- */

static bool is_integer_equality(Oid operator_oid) {
  switch (get_opcode(operator_oid)) {
    case F_INT2EQ:
    case F_INT4EQ:
    case F_INT8EQ:
    case F_INT24EQ:
    case F_INT28EQ:
    case F_INT42EQ:
    case F_INT48EQ:
    case F_INT82EQ:
    case F_INT84EQ:
    case F_DATE_EQ: return true;
    default: return false;
  }
}

/* The two operands of an equality of integers. */
static bool match_equality(Node *clause, Node **left, Node **right) {
  OpExpr *op = (OpExpr *)clause;
  if (!IsA(clause, OpExpr) || list_length(op->args) != 2 || !is_integer_equality(op->opno))
    return false;
  *left = linitial(op->args);
  *right = lsecond(op->args);
  return true;
}

static const Var *var_of(const Node *node, int varno) {
  const Var *var = (const Var *)node;
  bool fits = IsA(node, Var) && var->varno == varno && var->varattno > 0 && var->varlevelsup == 0 &&
              is_adaptive_key_type(var->vartype);
  return fits ? var : NULL;
}

static bool is_exec_param(const Node *node) {
  return IsA(node, Param) && ((const Param *)node)->paramkind == PARAM_EXEC;
}

/* The outer column whose value the nested loop passes by this parameter. */
static Var *passed_by(const NestLoop *join, const Node *node) {
  ListCell *cell;
  if (!is_exec_param(node)) return NULL;
  foreach (cell, join->nestParams) {
    const NestLoopParam *param = lfirst(cell);
    if (param->paramno == ((const Param *)node)->paramid) return param->paramval;
  }
  return NULL;
}

static const Var *outer_of(const NestLoop *join, const Node *node) {
  const Var *passed = passed_by(join, node);
  return passed ? var_of((const Node *)passed, OUTER_VAR) : NULL;
}

static void add_key(Candidate *candidate, const Var *outer, AttrNumber inner, Oid inner_type) {
  candidate->outer_keys = lappend_int(candidate->outer_keys, outer->varattno);
  candidate->outer_types = lappend_oid(candidate->outer_types, outer->vartype);
  candidate->inner_keys = lappend_int(candidate->inner_keys, inner);
  candidate->inner_types = lappend_oid(candidate->inner_types, inner_type);
}

static bool has_exec_param(Node *node, void *context) {
  if (node == NULL) return false;
  if (is_exec_param(node)) return true;
  return expression_tree_walker(node, has_exec_param, context);
}

/* ---- an index scan ---- */

/* True if a clause can be evaluated for every row of the table. */
static bool holds_for_all_rows(Node *clause) {
  return !has_exec_param(clause, NULL) && vector_qual_refusal(clause) == NULL;
}

static bool is_plain_list(const List *target_list, Index relation) {
  ListCell *cell;
  foreach (cell, target_list) {
    const Var *var = (const Var *)((TargetEntry *)lfirst(cell))->expr;
    if (!IsA(var, Var) || var->varno != (int)relation || var->varattno <= 0) return false;
  }
  return true;
}

/* The inner row's columns that the join uses: core lets index scans return all columns of a row. */
static Bitmapset *needed_columns(const NestLoop *join) {
  Bitmapset *attributes = NULL, *needed = NULL;
  pull_varattnos((Node *)join->join.plan.targetlist, INNER_VAR, &attributes);
  pull_varattnos((Node *)join->join.plan.qual, INNER_VAR, &attributes);
  pull_varattnos((Node *)join->join.joinqual, INNER_VAR, &attributes);
  for (int member = -1; (member = bms_next_member(attributes, member)) >= 0;)
    needed = bms_add_member(needed, member + FirstLowInvalidHeapAttributeNumber);
  return needed;
}

static List *index_scan_columns(const Candidate *candidate) {
  return candidate->join->join.plan.righttree->targetlist;
}

/*
 * The position of a table's column in the hash table's row: that of the index scan, or one after
 * them.
 */
static AttrNumber built_column(Candidate *candidate, Var *var) {
  ListCell *cell;
  foreach (cell, index_scan_columns(candidate)) {
    const TargetEntry *entry = lfirst(cell);
    if (((const Var *)entry->expr)->varattno != var->varattno) continue;
    candidate->needed = bms_add_member(candidate->needed, entry->resno);
    return entry->resno;
  }
  foreach (cell, candidate->behind)
    if (((const Var *)lfirst(cell))->varattno == var->varattno)
      return list_length(index_scan_columns(candidate)) + foreach_current_index(cell) + 1;
  candidate->behind = lappend(candidate->behind, var);
  return list_length(index_scan_columns(candidate)) + list_length(candidate->behind);
}

/*
 * A scan of the whole table that returns the index scan's columns, with NULL for unused attributes,
 * followed by the further columns that keys and conditions need: a BatchScan as its own planning
 * makes one (batch_scan_plan.c), with predicates in custom_exprs and an empty custom_private.
 */
static Plan *make_build_scan(const Candidate *candidate, List *quals) {
  const IndexScan *inner = (const IndexScan *)candidate->join->join.plan.righttree;
  CustomScan *scan = makeNode(CustomScan);
  Plan *plan = &scan->scan.plan;
  ListCell *cell;

  plan->startup_cost = 0;
  plan->total_cost = 0;
  plan->plan_width = inner->scan.plan.plan_width + 8 * list_length(candidate->behind);
  plan->targetlist = copyObject(inner->scan.plan.targetlist);
  foreach (cell, plan->targetlist) {
    TargetEntry *entry = lfirst(cell);
    const Var *var = (const Var *)entry->expr;
    if (bms_is_member(entry->resno, candidate->needed)) continue;
    entry->expr = (Expr *)makeNullConst(var->vartype, var->vartypmod, var->varcollid);
  }
  foreach (cell, candidate->behind) {
    TargetEntry *entry =
        makeTargetEntry(copyObject(lfirst(cell)), list_length(plan->targetlist) + 1, NULL, false);
    plan->targetlist = lappend(plan->targetlist, entry);
  }
  scan->scan.scanrelid = inner->scan.scanrelid;
  scan->flags = CUSTOMPATH_SUPPORT_PROJECTION;
  scan->custom_exprs = copyObject(quals);
  scan->methods = GetCustomScanMethods(BATCH_SCAN_NAME, false);
  return plan;
}

/* Estimates the time to read a table into the hash table, from the cost of a batch scan. */
static void price_table(Candidate *candidate, Relation relation) {
  const CostConstants *constants = cost_constants();
  double pages = RelationGetNumberOfBlocks(relation);
  /* Never analyzed: use the number of rows that core would assume. */
  double rows = relation->rd_rel->reltuples >= 0 ? relation->rd_rel->reltuples : pages * 50;

  candidate->build_rows = rows;
  candidate->build_ns =
      pages * constants->batch_page +
      rows * (constants->batch_row + constants->batch_emit +
              constants->batch_attribute * RelationGetNumberOfAttributes(relation));
}

/*
 * The index's own predicate as a predicate of the table: core removes conditions that it implies
 * from the scan.
 */
static List *index_predicate(const IndexScan *inner) {
  Relation index = index_open(inner->indexid, NoLock); /* the planner holds the lock */
  List *predicate = RelationGetIndexPredicate(index);
  index_close(index, NoLock);
  ChangeVarNodes((Node *)predicate, 1, (int)inner->scan.scanrelid, 0);
  return predicate;
}

/* ---- conditions on inner and outer row ---- */

static bool is_bare(Node *node) {
  while (IsA(node, RelabelType)) node = (Node *)((RelabelType *)node)->arg;
  return IsA(node, Var) || IsA(node, Const) || IsA(node, Param);
}

static bool are_bare(List *operands) {
  ListCell *cell;
  foreach (cell, operands)
    if (!is_bare(lfirst(cell))) return false;
  return true;
}

static bool computes_operands(Node *node, void *context) {
  if (node == NULL) return false;
  if (IsA(node, OpExpr)) return !are_bare(((OpExpr *)node)->args);
  if (IsA(node, ScalarArrayOpExpr)) return !are_bare(((ScalarArrayOpExpr *)node)->args);
  return expression_tree_walker(node, computes_operands, context);
}

typedef struct Crossing {
  Candidate *candidate;
  bool shown; /* for EXPLAIN: columns of the inner table stay unchanged */
} Crossing;

/* Turns a condition of the inner plan into one of the join. */
static Node *cross(Node *node, void *argument) {
  Crossing *crossing = argument;
  Var *var;

  if (node == NULL) return NULL;
  var = passed_by(crossing->candidate->join, node);
  if (var) return (Node *)copyObject(var);
  if (!IsA(node, Var) || crossing->shown) return expression_tree_mutator(node, cross, argument);
  var = copyObject((Var *)node);
  var->varattno = built_column(crossing->candidate, (Var *)node);
  var->varno = INNER_VAR;
  return (Node *)var;
}

/*
 * Adds a condition that compares with the outer row. It must not be able to fail either: among rows
 * with equal keys core checks only those before the first match, and the hash table may return
 * another one first.
 */
static bool add_crossing(Candidate *candidate, Node *clause) {
  Crossing executed = {candidate, false}, shown = {candidate, true};

  if (vector_qual_refusal(clause) != NULL || computes_operands(clause, NULL)) return false;
  candidate->hash_quals = lappend(candidate->hash_quals, cross(clause, &executed));
  candidate->shown_quals = lappend(candidate->shown_quals, cross(clause, &shown));
  return true;
}

/* ---- matching ---- */

static const char *match_index_scan(Candidate *candidate, const PlannedStmt *statement) {
  const IndexScan *inner = (const IndexScan *)candidate->join->join.plan.righttree;
  const RangeTblEntry *entry = rt_fetch(inner->scan.scanrelid, statement->rtable);
  List *quals = NIL;
  Relation relation;
  bool heap;
  ListCell *cell;

  if (inner->indexorderby != NIL) return "the index orders by distance";
  if (!is_plain_list(inner->scan.plan.targetlist, inner->scan.scanrelid))
    return "the index scan computes";
  candidate->needed = needed_columns(candidate->join);
  foreach (cell, inner->indexqualorig) {
    Node *clause = lfirst(cell), *left, *right;
    const Var *own = NULL, *outer = NULL;
    if (match_equality(clause, &left, &right)) {
      own = var_of(left, inner->scan.scanrelid);
      outer = outer_of(candidate->join, own ? right : left);
      if (!own) own = var_of(right, inner->scan.scanrelid);
    }
    if (own && outer)
      add_key(candidate, outer, built_column(candidate, (Var *)own), own->vartype);
    else if (holds_for_all_rows(clause))
      quals = lappend(quals, clause);
    else if (!add_crossing(candidate, clause))
      return "a condition of the index can fail";
  }
  foreach (cell, inner->scan.plan.qual) {
    if (holds_for_all_rows(lfirst(cell)))
      quals = lappend(quals, lfirst(cell));
    else if (!add_crossing(candidate, lfirst(cell)))
      return "a condition of the inner table can fail";
  }
  if (candidate->outer_keys == NIL) return "no equality of integers";
  foreach (cell, index_predicate(inner)) {
    if (!holds_for_all_rows(lfirst(cell))) return "the condition of the index can fail";
    quals = lappend(quals, lfirst(cell));
  }

  relation = table_open(entry->relid, NoLock); /* the planner holds the lock */
  heap = relation->rd_tableam == GetHeapamTableAmRoutine();
  if (heap) price_table(candidate, relation);
  table_close(relation, NoLock);
  if (!heap) return "a table of another access method than heap";
  candidate->build = make_build_scan(candidate, quals);
  candidate->build->plan_rows = candidate->build_rows;
  return NULL;
}

/* ---- materialized rows ---- */

static const char *match_material(Candidate *candidate) {
  const NestLoop *join = candidate->join;
  const Plan *inner = join->join.plan.righttree;
  ListCell *cell;

  if (join->nestParams != NIL) return "the inner side depends on the outer row";
  foreach (cell, join->join.joinqual) {
    Node *left, *right;
    const Var *outer, *own;
    if (!match_equality(lfirst(cell), &left, &right)) continue;
    outer = var_of(left, OUTER_VAR);
    own = var_of(outer ? right : left, INNER_VAR);
    if (!outer) outer = var_of(right, OUTER_VAR);
    if (outer && own) add_key(candidate, outer, own->varattno, own->vartype);
  }
  if (candidate->outer_keys == NIL) return "no equality of integers";
  candidate->build_rows = inner->plan_rows;
  candidate->build_ns = inner->plan_rows * cost_constants()->batch_emit;
  return NULL;
}

/* ---- deciding ---- */

static const char *inner_refusal(Candidate *candidate, const PlannedStmt *statement) {
  const Plan *inner = candidate->join->join.plan.righttree;
  Bitmapset *foreign = bms_copy(inner->extParam);
  ListCell *cell;

  foreach (cell, candidate->join->nestParams)
    foreign = bms_del_member(foreign, ((NestLoopParam *)lfirst(cell))->paramno);
  if (!bms_is_empty(foreign)) return "the inner side depends on more than the outer row";
  if (inner->initPlan != NIL) return "the inner side has an initplan";
  if (IsA(inner, IndexScan)) return match_index_scan(candidate, statement);
  if (IsA(inner, Material)) return match_material(candidate);
  return "the inner side is neither an index scan nor materialized";
}

static const char *refusal(Candidate *candidate, const PlannedStmt *statement) {
  const char *reason;
  switch (candidate->join->join.jointype) {
    case JOIN_INNER:
    case JOIN_LEFT:
    case JOIN_SEMI:
    case JOIN_ANTI: break;
    default: return "a kind of join that a nested loop does not do";
  }
  reason = inner_refusal(candidate, statement);
  if (!reason && list_length(candidate->outer_keys) > ADAPTIVE_MAX_KEYS) reason = "too many keys";
  return reason;
}

/* ---- the node ---- */

/* With an exponent: workers get the plan as text, in which a whole number would be an Integer. */
static Node *number(double value) { return (Node *)makeFloat(psprintf("%.6e", value)); }

/* In the order of AdaptivePrivate. */
static List *private_of(const Candidate *candidate) {
  const NestLoop *join = candidate->join;
  const CostConstants *constants = cost_constants();
  /* Probes are not prefetched, but a wanted row was often used a short time before. */
  double kilobytes = candidate->build_rows * (join->join.plan.righttree->plan_width + 64) / 1024;
  int size = 0;
  List *list = list_make5(makeInteger(join->join.jointype), makeInteger(join->join.inner_unique),
                          makeInteger(ccopt_force), join->join.joinqual, join->join.plan.qual);

  while (size < (int)lengthof(constants->probe_plain) - 1 && kilobytes > (128 << size)) size++;
  list = lappend(list, candidate->hash_quals);
  list = lappend(list, candidate->shown_quals);
  list = lappend(list, join->nestParams);
  list = lappend(list, candidate->outer_keys);
  list = lappend(list, candidate->inner_keys);
  list = lappend(list, list_concat_copy(candidate->outer_types, candidate->inner_types));
  list = lappend(list, number(join->join.plan.lefttree->plan_rows));
  list = lappend(list, number(candidate->build_rows));
  /* Copying a row and linking it into its bucket: about two cache misses. */
  list = lappend(
      list, number(candidate->build_ns + candidate->build_rows * 2 * constants->probe_plain[size]));
  list = lappend(list, number(constants->batch_emit + constants->probe_plain[size]));
  list = lappend(list, number(constants->margin));
  Assert(list_length(list) == ADAPTIVE_LENGTH);
  return list;
}

static void put_adaptive(Plan **link, const Candidate *candidate, bool in_workers, int *last_id) {
  const Plan *join = &candidate->join->join.plan;
  CustomScan *scan = makeNode(CustomScan);
  Plan *plan = &scan->scan.plan;

  plan->startup_cost = join->startup_cost;
  plan->total_cost = join->total_cost;
  plan->plan_rows = join->plan_rows;
  plan->plan_width = join->plan_width;
  plan->parallel_safe = join->parallel_safe;
  /* Core then gives it memory that all processes share. */
  plan->parallel_aware = in_workers && candidate->build != NULL;
  plan->plan_node_id = join->plan_node_id;
  plan->targetlist = plan_identity_list(join->targetlist, INDEX_VAR);
  plan->lefttree = join->lefttree;
  plan->righttree = join->righttree;
  plan->initPlan = join->initPlan;
  plan->extParam = bms_copy(join->extParam);
  plan->allParam = bms_copy(join->allParam);
  scan->custom_scan_tlist = copyObject(join->targetlist);
  scan->custom_private = private_of(candidate);
  scan->methods = &plan_methods;
  if (candidate->build) {
    candidate->build->plan_node_id = ++*last_id;
    scan->custom_plans = list_make1(candidate->build);
  }
  *link = plan;
}

/* ---- the pass ---- */

typedef struct Pass {
  PlannedStmt *statement;
  bool in_workers; /* below a Gather */
  int last_id;
} Pass;

static void visit(Plan *parent, Plan **link, ChildRole role, void *argument) {
  Pass *pass = argument;
  const bool above = pass->in_workers;
  Candidate candidate = {.join = (NestLoop *)*link};

  pass->in_workers |= IsA(*link, Gather) || IsA(*link, GatherMerge);
  plan_for_each_child(*link, visit, pass);
  pass->in_workers = above;
  if (!IsA(*link, NestLoop)) return;
  if (refusal(&candidate, pass->statement) == NULL)
    put_adaptive(link, &candidate, above, &pass->last_id);
}

void adaptive_joins_insert(PlannedStmt *plan, int cursor_options) {
  Pass pass = {.statement = plan};
  ListCell *cell;

  /* What forbids a buffer also forbids reading a table before it is requested. */
  if (read_ahead_refusal(plan, cursor_options) != NULL) return;
  pass.last_id = statement_last_id(plan);
  visit(NULL, &plan->planTree, CHILD_OUTER, &pass);
  foreach (cell, plan->subplans)
    if (lfirst(cell)) visit(NULL, (Plan **)&lfirst(cell), CHILD_OUTER, &pass);
}
