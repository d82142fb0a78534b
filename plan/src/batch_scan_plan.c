/*
 * BatchScan, planning: when a heap table can be read in batches, and what that costs.
 *
 * The plan node's custom_exprs are the predicates that run on batches, its qual those that run on
 * rows. custom_private is empty: everything else follows from the plan node.
 */
#include "batch_scan.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "costs.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "parser/parsetree.h"
#include "qual.h"
#include "utils/rel.h"

#include "batch_scan_exec.h"
#include "cached_scan.h"
#include "column_cache.h"
#include "doors.h"
#include "node_names.h"
#include "reasons.h"
#include "refusal.h"
#include "settings.h"

/* With fewer pages a batch has nothing to amortize; ccopt.force accepts any table. */
#define FEWEST_PAGES 4

static Plan *make_batch_scan(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist,
                             List *clauses, List *custom_plans);

static const CustomPathMethods path_methods = {.CustomName = BATCH_SCAN_NAME,
                                               .PlanCustomPath = make_batch_scan};
static const CustomScanMethods plan_methods = {.CustomName = BATCH_SCAN_NAME,
                                               .CreateCustomScanState = batch_scan_create_state};

void batch_scan_register(void) {
  RegisterCustomScanMethods(&plan_methods);
  batch_source_register(&batch_scan_exec_methods);
}

/* ---- deciding ---- */

static const char *table_refusal(PlannerInfo *root, RelOptInfo *rel, const RangeTblEntry *rte) {
  const char *reason = statement_refusal(root);

  if (reason) return reason;
  if (rel->reloptkind != RELOPT_BASEREL && rel->reloptkind != RELOPT_OTHER_MEMBER_REL)
    return "not a table";
  if (rel->rtekind != RTE_RELATION || rte->rtekind != RTE_RELATION) return "not a table";
  if (rte->inh) return "the parent of partitions or children";
  if (rte->relkind != RELKIND_RELATION && rte->relkind != RELKIND_MATVIEW) return "not a table";
  if (rte->tablesample) return "TABLESAMPLE";
  if (!bms_is_empty(rel->lateral_relids)) return "lateral references";
  if (!ccopt_force && rel->pages < FEWEST_PAGES) return "a table of a few pages";
  return NULL;
}

static const char *access_method_refusal(const RangeTblEntry *rte) {
  /* The planner holds a lock on it. */
  Relation relation = table_open(rte->relid, NoLock);
  bool heap = relation->rd_tableam == GetHeapamTableAmRoutine();
  table_close(relation, NoLock);
  return heap ? NULL : "a table of another access method than heap";
}

/* Attributes that the query needs, with the offset of pull_varattnos(). */
static Bitmapset *needed_attributes(const RelOptInfo *rel) {
  Bitmapset *attributes = NULL;
  ListCell *cell;

  pull_varattnos((Node *)rel->reltarget->exprs, rel->relid, &attributes);
  foreach (cell, rel->baserestrictinfo)
    pull_varattnos((Node *)lfirst_node(RestrictInfo, cell)->clause, rel->relid, &attributes);
  return attributes;
}

static const char *attribute_refusal(const Bitmapset *attributes) {
  int first = bms_next_member(attributes, -1);
  if (first < 0) return NULL;
  if (first + FirstLowInvalidHeapAttributeNumber < 0) return "system columns";
  if (first + FirstLowInvalidHeapAttributeNumber == 0) return "a whole-row reference";
  return NULL;
}

static const char *clause_refusal(const RelOptInfo *rel) {
  ListCell *cell;
  foreach (cell, rel->baserestrictinfo) {
    RestrictInfo *restriction = lfirst(cell);
    /* Row-level security must be checked before any other condition is evaluated. */
    if (restriction->security_level > 0) return "row-level security or a security barrier";
    if (contain_volatile_functions((Node *)restriction->clause)) return "a volatile function";
  }
  return NULL;
}

/* ---- costs ---- */

typedef struct Decimals {
  Bitmapset *attributes;
  int number_quals, text_quals;
} Decimals;

static bool count_leaves(Node *node, Decimals *count) {
  if (node == NULL) return false;
  if (IsA(node, Var)) {
    Var *var = (Var *)node;
    int scale;
    ColumnKind kind = column_kind(var->vartype, var->vartypmod, var->varcollid, &scale);
    if (kind == COLUMN_TEXT || kind == COLUMN_BPCHAR)
      count->text_quals++;
    else
      count->number_quals++;
    if (kind == COLUMN_DECIMAL)
      count->attributes = bms_add_member(count->attributes, var->varattno);
    return false;
  }
  return expression_tree_walker(node, count_leaves, count);
}

static ScanWork work_of(const Bitmapset *attributes, List *vector_quals) {
  Decimals count = {NULL, 0, 0};
  ScanWork work = {0};
  int last = -1;

  for (int member = -1; (member = bms_next_member(attributes, member)) >= 0;) last = member;
  if (last >= 0) work.walked = last + FirstLowInvalidHeapAttributeNumber;
  count_leaves((Node *)vector_quals, &count);
  work.number_quals = count.number_quals;
  work.text_quals = count.text_quals;
  work.decimals = bms_num_members(count.attributes);
  return work;
}

/* ---- paths ---- */

static double cached_share(const RelOptInfo *rel, const RangeTblEntry *rte,
                           const Bitmapset *attributes) {
  Relation relation;
  double share;

  if (column_cache_off_reason() != NULL) return 0;
  relation = table_open(rte->relid, NoLock);
  share = cached_scan_share(relation, rel->pages, attributes);
  table_close(relation, NoLock);
  return share;
}

static Path *scan_path(PlannerInfo *root, RelOptInfo *rel, bool emits_rows, int workers) {
  RangeTblEntry *rte = planner_rt_fetch(rel->relid, root);
  const char *reason = table_refusal(root, rel, rte);
  Bitmapset *attributes = NULL;
  List *vector_quals = NIL, *row_quals = NIL;
  double divisor = process_divisor(workers);
  ScanWork work;
  CustomPath *path;
  ListCell *cell;

  if (!reason) attributes = needed_attributes(rel);
  if (!reason) reason = attribute_refusal(attributes);
  if (!reason) reason = clause_refusal(rel);
  if (!reason) reason = access_method_refusal(rte);
  if (reason) {
    note_refusal(root, rel, BATCH_SCAN_NAME, reason);
    return NULL;
  }

  foreach (cell, rel->baserestrictinfo) {
    RestrictInfo *restriction = lfirst(cell);
    /* Core checks these once, above the scan. */
    if (restriction->pseudoconstant) continue;
    if (vector_qual_refusal((Node *)restriction->clause) == NULL)
      vector_quals = lappend(vector_quals, restriction->clause);
    else
      row_quals = lappend(row_quals, restriction);
  }
  work = work_of(attributes, vector_quals);
  work.cached = cached_share(rel, rte, attributes);

  path = makeNode(CustomPath);
  path->path.pathtype = T_CustomScan;
  path->path.parent = rel;
  path->path.pathtarget = rel->reltarget;
  path->path.rows = workers > 0 ? clamp_row_est(rel->rows / divisor) : rel->rows;
  path->path.parallel_safe = rel->consider_parallel;
  path->path.parallel_aware = workers > 0;
  path->path.parallel_workers = workers;
  path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
  path->methods = &path_methods;
  cost_batch_scan(root, rel, &work, row_quals, emits_rows, divisor, &path->path.startup_cost,
                  &path->path.total_cost);
  set_disabled_nodes(&path->path, enable_seqscan || ccopt_force ? 0 : 1);
  if (ccopt_force) path->path.startup_cost = path->path.total_cost = 0;
  return &path->path;
}

Path *batch_scan_path(PlannerInfo *root, RelOptInfo *rel, bool emits_rows) {
  return scan_path(root, rel, emits_rows, 0);
}

Path *batch_scan_partial_path(PlannerInfo *root, RelOptInfo *rel, bool emits_rows) {
  int workers;

  if (!rel->consider_parallel || rel->rtekind != RTE_RELATION || !bms_is_empty(rel->lateral_relids))
    return NULL;
  workers = compute_parallel_worker(rel, rel->pages, -1, max_parallel_workers_per_gather);
  return workers > 0 ? scan_path(root, rel, emits_rows, workers) : NULL;
}

/*
 * True if an existing path already costs less than reading the table's pages, which a BatchScan
 * always does (costs.h): for example a look-up by index. Checked first, because such statements are
 * short.
 */
static bool is_beaten(const RelOptInfo *rel) {
  /* Pages in the column cache cost next to nothing; but a look-up of a few rows is cheaper still. */
  Cost pages = rel->pages * seq_page_cost * (column_cache_off_reason() == NULL ? 0.05 : 1);
  ListCell *cell;
  foreach (cell, rel->pathlist) {
    const Path *path = lfirst(cell);
    if (path->param_info == NULL && path->total_cost < pages) return true;
  }
  return false;
}

void batch_scan_add_paths(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte) {
  Path *path;

  if (rte->rtekind != RTE_RELATION || rte->inh || IS_DUMMY_REL(rel)) return;
  if (!ccopt_force && is_beaten(rel)) {
    note_refusal(root, rel, BATCH_SCAN_NAME, "an index is cheaper than the table's pages");
    return;
  }
  path = batch_scan_path(root, rel, true);
  if (path) add_path(rel, path);
  path = path ? batch_scan_partial_path(root, rel, true) : NULL;
  if (path) add_partial_path(rel, path);
}

/* ---- plan ---- */

/* Cheap predicates first, in core's order; the sort is stable. */
static int compare_cost(const ListCell *a, const ListCell *b) {
  QualCost first, second;
  cost_qual_eval_node(&first, lfirst(a), NULL);
  cost_qual_eval_node(&second, lfirst(b), NULL);
  return first.per_tuple < second.per_tuple ? -1 : first.per_tuple > second.per_tuple;
}

/* Predicates that keep few rows first; the executor moves expensive ones behind cheap ones. */
static int compare_selectivity(const ListCell *a, const ListCell *b) {
  Selectivity first = ((const RestrictInfo *)lfirst(a))->norm_selec;
  Selectivity second = ((const RestrictInfo *)lfirst(b))->norm_selec;
  return first < second ? -1 : first > second;
}

static Plan *make_batch_scan(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist,
                             List *clauses, List *custom_plans) {
  CustomScan *scan = makeNode(CustomScan);
  List *vector_quals = NIL, *row_quals = NIL;
  ListCell *cell;

  foreach (cell, clauses) {
    RestrictInfo *restriction = lfirst_node(RestrictInfo, cell);
    if (restriction->pseudoconstant) continue;
    if (vector_qual_refusal((Node *)restriction->clause) == NULL)
      vector_quals = lappend(vector_quals, restriction);
    else
      row_quals = lappend(row_quals, restriction->clause);
  }
  list_sort(vector_quals, compare_selectivity);
  list_sort(row_quals, compare_cost);

  scan->scan.plan.targetlist = tlist;
  scan->scan.plan.qual = row_quals;
  scan->scan.scanrelid = rel->relid;
  scan->flags = best_path->flags;
  scan->custom_exprs = get_actual_clauses(vector_quals);
  scan->methods = &plan_methods;
  return &scan->scan.plan;
}
