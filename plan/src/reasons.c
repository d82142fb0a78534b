/*
 * Why an operator was not used: recorded while planning, printed by EXPLAIN, quoted by
 * ccopt.require.
 *
 * Nothing is recorded unless it will be read, so that planning a short statement costs one test per
 * reason. Reasons have their own memory context below the one that was current when planning began:
 * GEQO frees what is allocated while it tries join orders.
 */
#include "reasons.h"

#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "node_names.h"
#include "nodes/pg_list.h"
#include "parser/parsetree.h"
#include "settings.h"
#include "utils/memutils.h"

/* Reasons for smaller tables are not recorded. */
#define WORTH_TELLING_PAGES 64

/* A refusal or an offer, with the data to find its relation in the finished plan. */
typedef struct Note {
  Refusal refusal;
  bool offer;
  Oid table; /* InvalidOid unless the relation is one table */
  bool small;
} Note;

static Planning *current = NULL;
static int level = 0;
static ReasonsWatch *watching = NULL;

static bool requires_nodes(void) { return ccopt_require != NULL && ccopt_require[0] != '\0'; }

bool reasons_are_wanted(void) { return current != NULL && current->wanted; }

/* ---- recording ---- */

/* The alias of a base relation, or those of a join in parentheses; NULL for anything else. */
static const char *relation_name(PlannerInfo *root, RelOptInfo *rel) {
  StringInfoData name;
  int rti = -1;

  if (rel == NULL) return NULL;
  if (rel->reloptkind == RELOPT_BASEREL || rel->reloptkind == RELOPT_OTHER_MEMBER_REL)
    return pstrdup(planner_rt_fetch(rel->relid, root)->eref->aliasname);
  if (rel->reloptkind != RELOPT_JOINREL && rel->reloptkind != RELOPT_OTHER_JOINREL) return NULL;
  initStringInfo(&name);
  while ((rti = bms_next_member(rel->relids, rti)) >= 0) {
    /* Since version 16 outer joins are members too; they have no row of simple_rel_array. */
    if (rti >= root->simple_rel_array_size || root->simple_rel_array[rti] == NULL) continue;
    appendStringInfo(&name, "%s%s", name.len ? ", " : "(",
                     planner_rt_fetch(rti, root)->eref->aliasname);
  }
  appendStringInfoChar(&name, ')');
  return name.data;
}

static Oid table_of(PlannerInfo *root, RelOptInfo *rel) {
  if (rel == NULL || !IS_SIMPLE_REL(rel)) return InvalidOid;
  return planner_rt_fetch(rel->relid, root)->relid;
}

static bool same_text(const char *a, const char *b) {
  if (a == NULL || b == NULL) return a == b;
  return strcmp(a, b) == 0;
}

static void note(PlannerInfo *root, RelOptInfo *rel, const char *node, const char *reason,
                 bool offer) {
  MemoryContext outer;
  Note *new_note;
  ListCell *cell;
  const char *relation;

  if (!reasons_are_wanted()) return;
  if (current->context == NULL)
    current->context =
        AllocSetContextCreate(current->parent, "ccopt reasons", ALLOCSET_SMALL_SIZES);
  outer = MemoryContextSwitchTo(current->context);
  relation = relation_name(root, rel);
  foreach (cell, current->notes) {
    const Note *old = lfirst(cell);
    if (old->offer == offer && same_text(old->refusal.relation, relation) &&
        same_text(old->refusal.node, node) && same_text(old->refusal.reason, reason)) {
      MemoryContextSwitchTo(outer);
      return;
    }
  }
  new_note = palloc0(sizeof(*new_note));
  new_note->refusal.relation = relation;
  new_note->refusal.node = pstrdup(node);
  new_note->refusal.reason = pstrdup(reason);
  new_note->offer = offer;
  new_note->table = table_of(root, rel);
  new_note->small = rel != NULL && IS_SIMPLE_REL(rel) && rel->pages < WORTH_TELLING_PAGES;
  new_note->refusal.is_table = rel != NULL && IS_SIMPLE_REL(rel);
  current->notes = lappend(current->notes, new_note);
  MemoryContextSwitchTo(outer);
}

void note_refusal(PlannerInfo *root, RelOptInfo *rel, const char *node, const char *reason) {
  note(root, rel, node, reason, false);
}

void note_offer(PlannerInfo *root, RelOptInfo *rel, const char *node) {
  note(root, rel, node, "costs more than what was chosen", true);
}

void forget_offers(void) {
  ListCell *cell;
  if (current == NULL) return;
  foreach (cell, current->notes)
    if (((Note *)lfirst(cell))->offer)
      current->notes = foreach_delete_current(current->notes, cell);
}

/* ---- searching the finished plan ---- */

/* Calls visit() for each node of the plan, until it returns true. */
typedef bool (*PlanVisitor)(Plan *node, void *argument);

static bool walk_plan(Plan *plan, PlanVisitor visit, void *argument);

static bool walk_plans(List *plans, PlanVisitor visit, void *argument) {
  ListCell *cell;
  foreach (cell, plans)
    if (walk_plan(lfirst(cell), visit, argument)) return true;
  return false;
}

static bool walk_plan(Plan *plan, PlanVisitor visit, void *argument) {
  if (plan == NULL) return false;
  check_stack_depth();
  if (visit(plan, argument)) return true;
  switch (nodeTag(plan)) {
    case T_Append:
      if (walk_plans(((Append *)plan)->appendplans, visit, argument)) return true;
      break;
    case T_MergeAppend:
      if (walk_plans(((MergeAppend *)plan)->mergeplans, visit, argument)) return true;
      break;
    case T_SubqueryScan:
      if (walk_plan(((SubqueryScan *)plan)->subplan, visit, argument)) return true;
      break;
    case T_CustomScan:
      if (walk_plans(((CustomScan *)plan)->custom_plans, visit, argument)) return true;
      break;
    default: break; /* bitmap nodes' lists hold index scans only */
  }
  return walk_plan(plan->lefttree, visit, argument) || walk_plan(plan->righttree, visit, argument);
}

static bool walk_statement(PlannedStmt *statement, PlanVisitor visit, void *argument) {
  return walk_plan(statement->planTree, visit, argument) ||
         walk_plans(statement->subplans, visit, argument);
}

/* The node to search for: one of ccopt's by name, or the node of core's that it would replace. */
typedef struct Wanted {
  PlannedStmt *statement;
  const char *node;
  const char *relation; /* for a table: only if it scans this one */
  Oid table;
} Wanted;

static bool scans_wanted(Plan *plan, const Wanted *wanted) {
  const RangeTblEntry *entry;
  Index rti;

  if (!OidIsValid(wanted->table)) return true;
  rti = ((Scan *)plan)->scanrelid;
  if (rti == 0) return false;
  entry = rt_fetch(rti, wanted->statement->rtable);
  return entry->relid == wanted->table && same_text(entry->eref->aliasname, wanted->relation);
}

static bool is_our_node(Plan *plan, void *argument) {
  const Wanted *wanted = argument;
  return IsA(plan, CustomScan) &&
         strcmp(((CustomScan *)plan)->methods->CustomName, wanted->node) == 0 &&
         scans_wanted(plan, wanted);
}

static bool is_cores_node(Plan *plan, void *argument) {
  const Wanted *wanted = argument;
  if (strcmp(wanted->node, BATCH_SCAN_NAME) == 0)
    return IsA(plan, SeqScan) && scans_wanted(plan, wanted);
  if (strcmp(wanted->node, BATCH_AGG_NAME) == 0) return IsA(plan, Agg);
  if (strcmp(wanted->node, BATCH_JOIN_NAME) == 0) return IsA(plan, HashJoin);
  if (strcmp(wanted->node, BATCH_WINDOW_NAME) == 0) return IsA(plan, WindowAgg);
  return false;
}

bool plan_has_node(PlannedStmt *statement, const char *node) {
  Wanted wanted = {statement, node, NULL, InvalidOid};
  return walk_statement(statement, is_our_node, &wanted);
}

/*
 * Fills in concerns_plan, and removes what the plan contradicts: an offer that was taken; and, for
 * joins and groups, which have no name in a finished plan, an offer if the node occurs anywhere.
 */
static List *judge(List *notes, PlannedStmt *statement) {
  List *refusals = NIL;
  ListCell *cell;

  foreach (cell, notes) {
    Note *judged = lfirst(cell);
    Wanted wanted = {statement, judged->refusal.node, judged->refusal.relation, judged->table};

    if (judged->offer && walk_statement(statement, is_our_node, &wanted)) continue;
    judged->refusal.concerns_plan =
        !judged->small && walk_statement(statement, is_cores_node, &wanted);
    refusals = lappend(refusals, &judged->refusal);
  }
  return refusals;
}

/* ---- ccopt.require ---- */

static bool reads_table(PlannedStmt *statement) {
  ListCell *cell;
  foreach (cell, statement->rtable)
    if (lfirst_node(RangeTblEntry, cell)->rtekind == RTE_RELATION) return true;
  return false;
}

/* The setting that disables a node, or NULL. */
static const char *switched_off(const char *node) {
  if (!ccopt_enabled) return "ccopt.enabled";
  if (strcmp(node, BATCH_SCAN_NAME) == 0 && !ccopt_enable_batch_scan)
    return "ccopt.enable_batch_scan";
  if (strcmp(node, BATCH_AGG_NAME) == 0 && !ccopt_enable_batch_agg) return "ccopt.enable_batch_agg";
  if (strcmp(node, BATCH_JOIN_NAME) == 0 && !ccopt_enable_batch_join)
    return "ccopt.enable_batch_join";
  if (strcmp(node, BATCH_WINDOW_NAME) == 0 && !ccopt_enable_batch_window)
    return "ccopt.enable_batch_window";
  return NULL;
}

static char *reasons_for(List *refusals, const char *node) {
  StringInfoData text;
  ListCell *cell;
  const char *setting = switched_off(node);

  initStringInfo(&text);
  if (setting) appendStringInfo(&text, "%s is off", setting);
  foreach (cell, refusals) {
    const Refusal *refusal = lfirst(cell);
    if (strcmp(refusal->node, node) != 0) continue;
    appendStringInfo(&text, "%s%s: %s", text.len ? "\n" : "",
                     refusal->relation ? refusal->relation : "statement", refusal->reason);
  }
  if (text.len == 0) appendStringInfoString(&text, "No place for it was found.");
  return text.data;
}

static void check_required(PlannedStmt *statement, List *refusals) {
  char *names = pstrdup(ccopt_require);
  char *rest = NULL;

  for (char *name = strtok_r(names, ", \t\n", &rest); name;
       name = strtok_r(NULL, ", \t\n", &rest)) {
    if (!plan_has_node(statement, name))
      ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                      errmsg("the plan has no %s, which ccopt.require lists", name),
                      errdetail_internal("%s", reasons_for(refusals, name)),
                      errhint("EXPLAIN (VERBOSE) with ccopt.require unset shows the plan.")));
  }
  pfree(names);
}

/* ---- one planning ---- */

bool reasons_are_watched(void) {
  return watching != NULL && !watching->done && watching->level == level;
}

void reasons_begin(Planning *planning) {
  planning->outer = current;
  planning->parent = CurrentMemoryContext;
  planning->context = NULL;
  planning->notes = NIL;
  planning->remark = NULL;
  level++;
  /* Functions that are evaluated while planning are not part of the user's statement. */
  planning->wanted = (level == 1 && requires_nodes()) || reasons_are_watched();
  current = planning;
}

void reasons_remark(const char *remark) {
  if (current) current->remark = remark;
}

void reasons_abandon(void) {
  Planning *planning = current;

  Assert(planning != NULL);
  current = planning->outer;
  level--;
  if (planning->context) MemoryContextDelete(planning->context);
}

static void hand_over(ReasonsWatch *watch, List *refusals) {
  MemoryContext outer = MemoryContextSwitchTo(watch->context);
  ListCell *cell;

  foreach (cell, refusals) {
    const Refusal *from = lfirst(cell);
    Refusal *copy = palloc(sizeof(*copy));
    *copy = *from;
    if (from->relation) copy->relation = pstrdup(from->relation);
    copy->node = pstrdup(from->node);
    copy->reason = pstrdup(from->reason);
    watch->refusals = lappend(watch->refusals, copy);
  }
  if (current->remark) watch->remark = pstrdup(current->remark);
  watch->done = true;
  MemoryContextSwitchTo(outer);
}

void reasons_end(PlannedStmt *plan) {
  if (current->wanted) {
    List *refusals = judge(current->notes, plan);

    /* Before anything is freed: if it throws, reasons_abandon() does that. */
    if (level == 1 && requires_nodes() && reads_table(plan)) check_required(plan, refusals);
    if (reasons_are_watched()) hand_over(watching, refusals);
    list_free(refusals);
  }
  reasons_abandon();
}

void reasons_watch(ReasonsWatch *watch) {
  memset(watch, 0, sizeof(*watch));
  watch->context = CurrentMemoryContext;
  watch->level = level + 1;
  watch->outer = watching;
  watching = watch;
}

void reasons_unwatch(ReasonsWatch *watch) {
  Assert(watching == watch);
  watching = watch->outer;
}
