/*
 * Buffers, planning: the pass over a finished plan. First the places are collected, leaves first as
 * in the paper's CCO_recursive, then nodes are inserted there; the statement's limit of rows is
 * divided equally among its buffers.
 */
#include "plan_tree.h"

#include "doors.h"
#include "node_names.h"
#include "nodes/makefuncs.h"
#include "optimizer/tlist.h"
#include "reasons.h"
#include "settings.h"

typedef struct Pass {
  PlanFacts facts;
  PlanPosition position; /* position of the node whose children are visited */
  List *places;
} Pass;

/* ---- parameters that initplans set ---- */

static bool collect_init_params(Plan *plan, void *argument) {
  PlanFacts *facts = argument;
  ListCell *cell;
  foreach (cell, plan->initPlan) {
    ListCell *param;
    foreach (param, ((SubPlan *)lfirst(cell))->setParam)
      facts->init_params = bms_add_member(facts->init_params, lfirst_int(param));
  }
  return false;
}

/* ---- places ---- */

/* The purpose of a buffer at this place under the current setting, or the reason for none. */
static const char *choose_purpose(const PlanFacts *facts, ChildRole role, PlanPosition position,
                                  BufferPlace *place) {
  const Plan *child = *place->link;
  const char *reason;

  place->purpose = BUFFER_FOR_INSTRUCTIONS;
  switch ((BufferSetting)ccopt_buffer) {
    case BUFFER_FORCE: return NULL;
    case BUFFER_PAPER: return paper_refusal(place->parent, child);
    case BUFFER_AUTO:
      reason = key_order_refusal(facts, place->parent, role, child, position, place);
      return reason ? prefetch_refusal(place->parent, role, child, place) : NULL;
    case BUFFER_OFF: break;
  }
  return "ccopt.buffer is off";
}

/* Reasons are printed only for the rule's own places in paper mode, and never if forced. */
static bool is_worth_telling(const BufferPlace *place) {
  return ccopt_buffer == BUFFER_PAPER && paper_refusal(place->parent, *place->link) == NULL;
}

static void collect_places(Plan *parent, Plan **link, ChildRole role, void *argument) {
  Pass *pass = argument;
  PlanPosition above = pass->position;
  PlanPosition position = position_below(parent, role, above);
  BufferPlace place = {.parent = parent, .link = link};
  const char *reason;

  pass->position = position;
  plan_for_each_child(*link, collect_places, pass);
  pass->position = above;

  reason = buffer_edge_refusal(&pass->facts, parent, role, *link, position);
  if (reason && is_worth_telling(&place)) note_refusal(NULL, NULL, BUFFER_NAME, reason);
  if (reason || choose_purpose(&pass->facts, role, position, &place) != NULL) return;
  pass->places = lappend(pass->places, memcpy(palloc(sizeof(place)), &place, sizeof(place)));
}

/* ---- nodes ---- */

static List *integers_of(const Bitmapset *set) {
  List *integers = NIL;
  for (int member = -1; (member = bms_next_member(set, member)) >= 0;)
    integers = lappend_int(integers, member);
  return integers;
}

static int rows_of(const BufferPlace *place, int places) {
  int rows = place->rows ? place->rows : PAPER_TOTAL_ROWS / places;
  double expected = (*place->link)->plan_rows;

  if (ccopt_buffer_rows > 0) return ccopt_buffer_rows;
  /* The paper makes a buffer no larger than the number of rows it will hold. */
  if (place->purpose == BUFFER_FOR_INSTRUCTIONS && expected < rows) rows = (int)expected;
  return Max(rows, 1);
}

static void put_buffer(const BufferPlace *place, int rows, int plan_node_id) {
  Plan *child = *place->link;
  CustomScan *buffer = makeNode(CustomScan);
  Plan *plan = &buffer->scan.plan;

  plan->startup_cost = child->startup_cost;
  plan->total_cost = child->total_cost;
  plan->plan_rows = child->plan_rows;
  plan->plan_width = child->plan_width;
  plan->plan_node_id = plan_node_id;
  /* Passes the child's columns on: as the node's input and as its output. */
  plan->targetlist = plan_identity_list(child->targetlist, INDEX_VAR);
  plan->lefttree = child;
  plan->extParam = bms_copy(child->extParam);
  plan->allParam = bms_copy(child->allParam);
  buffer->custom_scan_tlist = plan_identity_list(child->targetlist, OUTER_VAR);
  buffer->methods = &buffer_scan_methods;
  /* In the order of BufferPrivate. */
  buffer->custom_private = list_make5(makeInteger(place->purpose), makeInteger(ccopt_buffer_mode),
                                      makeInteger(rows), place->keys, integers_of(place->needs));
  *place->link = plan;
}

void buffers_insert(PlannedStmt *plan, int cursor_options) {
  Pass pass = {.facts = {.statement = plan}};
  const char *reason = buffer_statement_refusal(plan, cursor_options);
  ListCell *cell;
  int last_id;

  if (reason) {
    if (ccopt_buffer != BUFFER_AUTO) note_refusal(NULL, NULL, BUFFER_NAME, reason);
    return;
  }
  statement_any(plan, collect_init_params, &pass.facts);
  pass.facts.is_cursor = (cursor_options & CURSOR_OPT_FAST_PLAN) != 0;
  /* The client sees the order if there is no Sort. It may stop early: a cursor, or a function of
   * SQL or PL/pgSQL that needs one row. */
  pass.position = (PlanPosition){.may_stop = true, .order_matters = true};
  plan_for_each_child(plan->planTree, collect_places, &pass);
  foreach (cell, plan->subplans) {
    /* The expression that reads a subplan is not examined: it may stop early. */
    pass.position = (PlanPosition){.may_stop = true, .order_matters = true, .rescanned = true};
    if (lfirst(cell)) plan_for_each_child(lfirst(cell), collect_places, &pass);
  }
  if (pass.places == NIL) return;

  last_id = statement_last_id(plan);
  foreach (cell, pass.places) {
    const BufferPlace *place = lfirst(cell);
    put_buffer(place, rows_of(place, list_length(pass.places)), ++last_id);
  }
}
