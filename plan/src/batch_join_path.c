/*
 * BatchHashJoin, planning: which joins, with which children, at which cost.
 */
#include "batch_join.h"

#include "costs.h"

#include <math.h>

#include "access/transam.h"
#include "catalog/pg_operator_d.h"
#include "catalog/pg_type.h"
#include "doors.h"
#include "miscadmin.h"
#include "node_names.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "reasons.h"
#include "refusal.h"
#include "settings.h"
#include "utils/lsyscache.h"

static const CustomPathMethods batch_join_path_methods = {.CustomName = BATCH_JOIN_NAME,
                                                          .PlanCustomPath = batch_join_make_plan};

typedef struct BatchJoinPath {
  CustomPath custom;
  Cost batch_startup, batch_total; /* cost if the parent takes batches */
} BatchJoinPath;

/* A join's clauses, sorted by their use here. */
typedef struct JoinClauses {
  List *hash;       /* equate the keys */
  List *hash_infos; /* their RestrictInfos */
  List *quals;      /* further conditions of a match */
  List *others;     /* on rows that an outer join has extended with NULL */
} JoinClauses;

/* ---- clauses ---- */

static Node *without_relabel(Node *node) {
  while (node && IsA(node, RelabelType)) node = (Node *)((RelabelType *)node)->arg;
  return node;
}

void batch_join_clause_sides(const OpExpr *clause, Node **left, Node **right) {
  *left = without_relabel(linitial(clause->args));
  *right = without_relabel(lsecond(clause->args));
}

int batch_join_find_column(const List *columns, const Node *column) {
  ListCell *cell;

  foreach (cell, columns) {
    const Node *other = lfirst(cell);

    if (IsA(other, TargetEntry)) other = (const Node *)((const TargetEntry *)other)->expr;
    if (nodeTag(other) != nodeTag(column)) continue;
    if (IsA(column, Var)) {
      const Var *one = (const Var *)column, *two = (const Var *)other;
      if (one->varno == two->varno && one->varattno == two->varattno &&
          one->varlevelsup == two->varlevelsup)
        return foreach_current_index(cell);
    } else if (IsA(column, PlaceHolderVar)) {
      if (((const PlaceHolderVar *)column)->phid == ((const PlaceHolderVar *)other)->phid)
        return foreach_current_index(cell);
    } else if (equal(column, other)) {
      return foreach_current_index(cell);
    }
  }
  return -1;
}

static bool is_plain_integer(Oid type) {
  return type == INT2OID || type == INT4OID || type == INT8OID;
}

/* True if this operator calls two columns equal exactly when their numbers or bytes are equal. */
static bool comparable(const OpExpr *clause, Node *left, Node *right) {
  Oid left_type = exprType(left), right_type = exprType(right);
  Oid left_input, right_input;
  int left_scale, right_scale;
  ColumnKind kind = column_kind(left_type, exprTypmod(left), exprCollation(left), &left_scale);

  if (kind != column_kind(right_type, exprTypmod(right), exprCollation(right), &right_scale))
    return false;
  op_input_types(clause->opno, &left_input, &right_input);
  switch (kind) {
    case COLUMN_INTEGER:
      /* A relabelled integer (int4 as oid) has another number. */
      if (left_type != left_input || right_type != right_input) return false;
      return left_type == right_type ||
             (is_plain_integer(left_type) && is_plain_integer(right_type));
    case COLUMN_DECIMAL:
      return left_scale == right_scale && left_input == NUMERICOID && right_input == NUMERICOID;
    case COLUMN_TEXT:
      return left_input == TEXTOID && right_input == TEXTOID &&
             get_collation_isdeterministic(clause->inputcollid);
    case COLUMN_BPCHAR:
      return left_input == BPCHAROID && right_input == BPCHAROID &&
             get_collation_isdeterministic(clause->inputcollid);
    default: return false;
  }
}

/* True if the clause equates an expression of one side with one of the other, so that core's
 * hash join could use it. */
static bool equates_sides(const RestrictInfo *clause, const RelOptInfo *outer,
                          const RelOptInfo *inner) {
  if (!clause->can_join || !OidIsValid(clause->hashjoinoperator)) return false;
  return (bms_is_subset(clause->left_relids, outer->relids) &&
          bms_is_subset(clause->right_relids, inner->relids)) ||
         (bms_is_subset(clause->right_relids, outer->relids) &&
          bms_is_subset(clause->left_relids, inner->relids));
}

/* True if BatchHashJoin can use the clause. */
static bool is_hash_clause(const RestrictInfo *clause, const RelOptInfo *outer,
                           const RelOptInfo *inner) {
  const OpExpr *equality = (const OpExpr *)clause->clause;
  Node *left, *right;

  if (!IsA(equality, OpExpr) || equality->opno >= FirstUnpinnedObjectId) return false;
  batch_join_clause_sides(equality, &left, &right);
  if (!comparable(equality, left, right)) return false;
  return (batch_join_find_column(outer->reltarget->exprs, left) >= 0 &&
          batch_join_find_column(inner->reltarget->exprs, right) >= 0) ||
         (batch_join_find_column(outer->reltarget->exprs, right) >= 0 &&
          batch_join_find_column(inner->reltarget->exprs, left) >= 0);
}

static const char *sort_clauses(const RelOptInfo *joinrel, const RelOptInfo *outer,
                                const RelOptInfo *inner, bool is_outer_join, List *restrictions,
                                JoinClauses *clauses) {
  bool missed = false;
  ListCell *cell;

  foreach (cell, restrictions) {
    RestrictInfo *clause = lfirst_node(RestrictInfo, cell);

    if (clause->pseudoconstant) return "a condition without columns decides about the whole join";
    if (clause->security_level > 0) return "a security barrier orders its conditions";
    if (contain_volatile_functions((Node *)clause)) return "a condition is volatile";
    if (is_outer_join && RINFO_IS_PUSHED_DOWN(clause, joinrel->relids)) {
      clauses->others = lappend(clauses->others, clause->clause);
    } else if (!equates_sides(clause, outer, inner)) {
      clauses->quals = lappend(clauses->quals, clause->clause);
    } else if (is_hash_clause(clause, outer, inner)) {
      clauses->hash = lappend(clauses->hash, clause->clause);
      clauses->hash_infos = lappend(clauses->hash_infos, clause);
    } else {
      clauses->quals = lappend(clauses->quals, clause->clause);
      missed = true;
    }
  }
  if (clauses->hash == NIL)
    return "no condition equates columns that are integers, decimals or text of one kind";
  /* The remaining keys may be frequent values: core's table would have short chains,
   * BatchHashJoin's long ones. */
  if (missed && !ccopt_force) return "it could hash by some of the equated columns only";
  return NULL;
}

/* Estimates the number of row pairs with equal keys, which the other conditions have to check. */
static double equal_pairs(PlannerInfo *root, const RelOptInfo *outer, const RelOptInfo *inner,
                          const JoinClauses *clauses) {
  SpecialJoinInfo join = {.type = T_SpecialJoinInfo,
                          .min_lefthand = outer->relids,
                          .min_righthand = inner->relids,
                          .syn_lefthand = outer->relids,
                          .syn_righthand = inner->relids,
                          .jointype = JOIN_INNER};
  Selectivity selectivity = 1;
  ListCell *cell;

  foreach (cell, clauses->hash_infos)
    selectivity *= clause_selectivity(root, lfirst(cell), 0, JOIN_INNER, &join);
  return outer->rows * inner->rows * selectivity;
}

/* ---- columns ---- */

typedef struct ColumnSearch {
  const RelOptInfo *outer, *inner;
} ColumnSearch;

/* True if neither child returns some column. Placeholders may also be computed from the
 * children's columns.
 */
static bool misses_column(Node *node, ColumnSearch *search) {
  if (node == NULL) return false;
  if (IsA(node, Var) || IsA(node, PlaceHolderVar)) {
    if (batch_join_find_column(search->outer->reltarget->exprs, node) >= 0 ||
        batch_join_find_column(search->inner->reltarget->exprs, node) >= 0)
      return false;
    if (IsA(node, Var)) return true;
  }
  return expression_tree_walker(node, misses_column, search);
}

static const char *columns_refusal(const RelOptInfo *joinrel, const RelOptInfo *outer,
                                   const RelOptInfo *inner, const JoinClauses *clauses) {
  ColumnSearch search = {outer, inner};
  ListCell *cell;

  foreach (cell, joinrel->reltarget->exprs)
    if (batch_join_find_column(outer->reltarget->exprs, lfirst(cell)) < 0 &&
        batch_join_find_column(inner->reltarget->exprs, lfirst(cell)) < 0)
      return "an expression has to be computed by the join";
  if (misses_column((Node *)clauses->quals, &search) ||
      misses_column((Node *)clauses->others, &search))
    return "a condition needs a column that its sides do not have";
  return NULL;
}

/* ---- what is around and below ---- */

static bool is_batch_join(const Path *path) {
  return IsA(path, CustomPath) && ((const CustomPath *)path)->methods == &batch_join_path_methods;
}

/* A path with its cost for a parent that takes batches: lower if it is one of ccopt's joins. */
static Path *at_batch_cost(Path *path) {
  BatchJoinPath *join;

  if (!is_batch_join(path)) return path;
  join = palloc(sizeof(*join));
  *join = *(BatchJoinPath *)path;
  join->custom.path.startup_cost = join->batch_startup;
  join->custom.path.total_cost = join->batch_total;
  return &join->custom.path;
}

static bool may_be_scanned(const RelOptInfo *rel) {
  return IS_SIMPLE_REL(rel) && rel->rtekind == RTE_RELATION && ccopt_enable_batch_scan;
}

/* The cheaper of a path of the relation and a BatchScan that returns batches (or NULL). */
static Path *cheaper(Path *path, Path *scan) {
  Path *batches = at_batch_cost(path);

  if (batches != path || scan == NULL) return batches;
  return ccopt_force || scan->total_cost < path->total_cost ? scan : path;
}

/* A child's path without parameters; NULL: there is none. */
static Path *child_path(PlannerInfo *root, RelOptInfo *rel) {
  Path *cheapest = rel->cheapest_total_path;

  if (cheapest == NULL || PATH_REQ_OUTER(cheapest) != NULL) return NULL;
  return cheaper(cheapest, may_be_scanned(rel) ? batch_join_scan_path(root, rel) : NULL);
}

/* The outer child's path that is divided among processes; NULL: there is none. */
static Path *partial_child_path(PlannerInfo *root, RelOptInfo *rel) {
  Path *cheapest;

  if (rel->partial_pathlist == NIL) return NULL;
  cheapest = linitial(rel->partial_pathlist);
  return cheaper(cheapest, may_be_scanned(rel) ? batch_join_partial_scan_path(root, rel) : NULL);
}

/* The inner child's path that each process runs completely; NULL: there is none. */
static Path *copied_child_path(PlannerInfo *root, RelOptInfo *rel) {
  Path *cheapest = get_cheapest_parallel_safe_total_inner(rel->pathlist);

  if (cheapest == NULL) return NULL;
  return cheaper(cheapest, may_be_scanned(rel) ? batch_join_scan_path(root, rel) : NULL);
}

/* ---- joins that are beaten ---- */

/* At most the cost of a child's path below BatchHashJoin; a BatchScan reads all pages. */
static Cost least_child_cost(const RelOptInfo *rel) {
  const Path *cheapest = rel->cheapest_total_path;

  if (is_batch_join(cheapest)) return ((const BatchJoinPath *)cheapest)->batch_total;
  if (!may_be_scanned(rel)) return cheapest->total_cost;
  return Min(cheapest->total_cost, rel->pages * seq_page_cost);
}

/*
 * True if a path of the join costs less than BatchHashJoin's children and its setup, before the first
 * row and in total, and returns its rows in no worse a way. Checked first, because short statements
 * that join a few rows by index look here as often as they have pairs of tables.
 */
static bool is_beaten(const RelOptInfo *joinrel, const RelOptInfo *outer, const RelOptInfo *inner) {
  const bool may_have_workers = joinrel->consider_parallel && outer->partial_pathlist != NIL;
  Cost outer_cost, inner_cost, startup, total;
  ListCell *cell;

  if (ccopt_force || reasons_are_wanted()) return false;
  if (outer->cheapest_total_path == NULL || inner->cheapest_total_path == NULL) return false;
  outer_cost = least_child_cost(outer);
  inner_cost = least_child_cost(inner);
  startup = Min(outer_cost, inner_cost) + batch_setup_cost();
  total = outer_cost + inner_cost + batch_setup_cost();
  /* A plan with workers costs more than that, whatever its parts cost. */
  if (may_have_workers) total = Min(total, parallel_setup_cost);
  foreach (cell, joinrel->pathlist) {
    const Path *path = lfirst(cell);
    if (path->param_info == NULL && path->startup_cost < startup && path->total_cost < total &&
        disabled_nodes_of(path) == 0 && (path->parallel_safe || !joinrel->consider_parallel))
      return true;
  }
  return false;
}

/* ---- the path ---- */

/* Beyond this many times hash_mem, core's join is kept: it holds a part of the table in memory,
 * while BatchHashJoin writes both sides completely. */
#define SPILL_FACTOR 8

static Size row_bytes(const RelOptInfo *rel, int nkeys) {
  return MAXALIGN(sizeof(JoinRow) + sizeof(int64) * nkeys + rel->reltarget->width) +
         sizeof(uint64) * 3 / 2;
}

/* Below this cost of the inner side, processes that wait for each other lose more than it takes. */
#define SHARED_FROM (0.1 * parallel_setup_cost)

/* Bytes that the table may have. A shared one may use the memory of all processes, of which the rows
 * that they pack take half. */
static double memory_for(const Path *outer, JoinSharing sharing) {
  double limit = get_hash_memory_limit();
  return sharing == JOIN_PRIVATE ? limit : limit * (outer->parallel_workers + 1) / 2;
}

static Cost spill_cost(const Path *outer, const Path *inner, double inner_bytes) {
  double pages = ceil(inner_bytes / BLCKSZ);
  double outer_pages = ceil(outer->rows * (MAXALIGN(outer->pathtarget->width) + 32) / BLCKSZ);
  return 2 * seq_page_cost * (pages + outer_pages);
}

static void add_join_path(PlannerInfo *root, RelOptInfo *joinrel, BatchJoinKind kind, Path *outer,
                          Path *inner, const JoinClauses *clauses, bool inner_unique,
                          JoinSharing sharing) {
  BatchJoinPath *join = (BatchJoinPath *)newNode(sizeof(*join), T_CustomPath);
  CustomPath *path = &join->custom;
  /* Of a divided inner side a process has its share, and the table all of it. */
  double readers = sharing == JOIN_DIVIDED ? process_divisor(inner->parallel_workers) : 1;
  JoinWork work = {.entry = readers * row_bytes(inner->parent, list_length(clauses->hash)),
                   .keys = list_length(clauses->hash)};
  double inner_bytes = inner->rows * work.entry;
  double limit = memory_for(outer, sharing);
  /* With a unique inner side, the result's size is the number of outer rows with a partner. */
  bool filters = ccopt_force || !inner_unique || joinrel->rows < 0.7 * outer->parent->rows;
  /* Workers divide the outer rows, and thereby the result rows. */
  double divisor = process_divisor(outer->parallel_workers);
  double pairs = joinrel->rows;
  Cost extra = 0;
  ListCell *cell;

  if (inner_bytes > limit * SPILL_FACTOR && !ccopt_force) {
    note_refusal(root, joinrel, BATCH_JOIN_NAME, "its hash table would be far beyond hash_mem");
    return;
  }
  if (clauses->quals != NIL)
    pairs = Max(pairs, equal_pairs(root, outer->parent, inner->parent, clauses));
  pairs /= divisor;
  foreach (cell, clauses->quals) work.row_quals += vector_qual_refusal(lfirst(cell)) != NULL;

  path->path.pathtype = T_CustomScan;
  path->path.parent = joinrel;
  path->path.pathtarget = joinrel->reltarget;
  path->path.rows = divisor > 1 ? clamp_row_est(joinrel->rows / divisor) : joinrel->rows;
  path->path.parallel_safe =
      joinrel->consider_parallel && outer->parallel_safe && inner->parallel_safe;
  path->path.parallel_aware = sharing != JOIN_PRIVATE;
  path->path.parallel_workers = outer->parallel_workers;
  path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
  path->methods = &batch_join_path_methods;
  path->custom_paths = list_make2(outer, inner);
  cost_batch_join(root, outer, inner, &work, pairs, true, &path->path.startup_cost,
                  &path->path.total_cost);
  cost_batch_join(root, outer, inner, &work, pairs, false, &join->batch_startup,
                  &join->batch_total);
  if (ccopt_force)
    extra = inner->rows * 1e-9; /* if all costs are zero, prefer the smaller table */
  else if (inner_bytes > limit)
    extra = spill_cost(outer, inner, inner_bytes);
  path->path.startup_cost += extra;
  path->path.total_cost += extra;
  join->batch_startup += extra;
  join->batch_total += extra;
  set_disabled_nodes(&path->path, outer->disabled_nodes + inner->disabled_nodes);

  path->custom_private = list_make5(makeInteger(kind), makeInteger(inner_unique),
                                    makeInteger(filters), joinrel->reltarget->exprs, clauses->hash);
  path->custom_private = lappend(path->custom_private, makeInteger(sharing));
  path->custom_private = lappend(path->custom_private, clauses->quals);
  path->custom_private = lappend(path->custom_private, clauses->others);
  if (outer->parallel_workers > 0)
    add_partial_path(joinrel, &path->path);
  else
    add_path(joinrel, &path->path);
}

/*
 * With workers, each process has its share of the outer rows. The hash table of all inner rows is its
 * own, or one for all of them: then each process reads a share of the inner rows, where these can be
 * divided, or one process reads them all. As core's, a table for all is in dynamic shared memory, and
 * enable_parallel_hash switches it off. Joins that return inner rows without a partner, or once for several
 * partners, are excluded: each process would return the row.
 */
static void add_partial_join_path(PlannerInfo *root, RelOptInfo *joinrel, BatchJoinKind kind,
                                  RelOptInfo *outerrel, RelOptInfo *innerrel,
                                  const JoinClauses *clauses, bool inner_unique) {
  Path *outer, *inner, *divided;
  Size entry;
  bool has_memory;

  if (!joinrel->consider_parallel || !bms_is_empty(joinrel->lateral_relids)) return;
  if (kind != BATCH_JOIN_INNER && kind != BATCH_JOIN_LEFT && kind != BATCH_JOIN_SEMI &&
      kind != BATCH_JOIN_ANTI)
    return;
  outer = partial_child_path(root, outerrel);
  if (outer == NULL) return;
  entry = row_bytes(innerrel, list_length(clauses->hash));
  has_memory = enable_parallel_hash && innerrel->rows * entry <= memory_for(outer, JOIN_ONCE);
  inner = copied_child_path(root, innerrel);
  if (inner != NULL)
    add_join_path(root, joinrel, kind, outer, inner, clauses, inner_unique,
                  has_memory && inner->total_cost > SHARED_FROM ? JOIN_ONCE : JOIN_PRIVATE);
  divided = partial_child_path(root, innerrel);
  if (divided != NULL && (has_memory || (ccopt_force && enable_parallel_hash)))
    add_join_path(root, joinrel, kind, outer, divided, clauses, inner_unique, JOIN_DIVIDED);
}

/* BatchHashJoin's kind for core's join type; false: core's variants of a semi join, which make
 * one side unique first. */
static bool kind_of(JoinType type, BatchJoinKind *kind) {
  switch (type) {
    case JOIN_INNER: *kind = BATCH_JOIN_INNER; return true;
    case JOIN_LEFT: *kind = BATCH_JOIN_LEFT; return true;
    case JOIN_RIGHT: *kind = BATCH_JOIN_RIGHT; return true;
    case JOIN_FULL: *kind = BATCH_JOIN_FULL; return true;
    case JOIN_SEMI: *kind = BATCH_JOIN_SEMI; return true;
    case JOIN_ANTI: *kind = BATCH_JOIN_ANTI; return true;
    default: return false;
  }
}

void batch_join_add_paths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel,
                          RelOptInfo *innerrel, JoinType jointype, JoinPathExtraData *extra) {
  BatchJoinKind kind;
  JoinClauses clauses = {NIL, NIL, NIL, NIL};
  const char *reason;
  Path *outer = NULL, *inner = NULL;

  if (!kind_of(jointype, &kind) || is_beaten(joinrel, outerrel, innerrel)) return;
  reason = statement_refusal(root);
  if (reason == NULL)
    reason = sort_clauses(joinrel, outerrel, innerrel, IS_OUTER_JOIN(jointype), extra->restrictlist,
                          &clauses);
  if (reason == NULL) reason = columns_refusal(joinrel, outerrel, innerrel, &clauses);
  if (reason == NULL) reason = batch_join_volatile_refusal(root, joinrel->relids);
  if (reason == NULL) reason = batch_join_read_ahead_refusal(root, joinrel);
  if (reason == NULL) {
    outer = child_path(root, outerrel);
    inner = child_path(root, innerrel);
    if (outer == NULL || inner == NULL) reason = "one side depends on values of the other";
  }
  if (reason != NULL) {
    note_refusal(root, joinrel, BATCH_JOIN_NAME, reason);
    return;
  }
  add_join_path(root, joinrel, kind, outer, inner, &clauses, extra->inner_unique, JOIN_PRIVATE);
  add_partial_join_path(root, joinrel, kind, outerrel, innerrel, &clauses, extra->inner_unique);
  /* The returned side may be the smaller one: then it is hashed, and the other side probes. */
  if (kind == BATCH_JOIN_SEMI)
    add_join_path(root, joinrel, BATCH_JOIN_RIGHT_SEMI, inner, outer, &clauses, false,
                  JOIN_PRIVATE);
  if (kind == BATCH_JOIN_ANTI)
    add_join_path(root, joinrel, BATCH_JOIN_RIGHT_ANTI, inner, outer, &clauses, false,
                  JOIN_PRIVATE);
}

void batch_join_register(void) {
  RegisterCustomScanMethods(&batch_join_scan_methods);
  batch_source_register(&batch_join_exec_methods);
}
