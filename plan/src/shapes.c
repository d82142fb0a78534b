/*
 * Chooses between ccopt's plan and core's by the measured times of both.
 *
 * The chosen plan carries its shape among its invalidation items, which copies (the plan cache
 * makes them) have, too: an item of a nonexistent system cache, with the number of the chosen way,
 * and one of PROCOID. Through the latter, this session's cached plans of a shape are invalidated
 * when another plan is wanted for it, as if a function had changed: they are planned again at their
 * next use. Its hash value may equal that of a real function, whose change then causes one more
 * planning.
 *
 * Executions that failed, were cancelled, or ran under EXPLAIN ANALYZE are not recorded.
 */
#include "shapes.h"

#include "access/xact.h"
#include "costs_in_force.h"
#include "costs_second_opinion.h"
#include "executor/instrument.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "reasons.h"
#include "settings.h"
#include "shape_key.h"
#include "shape_memory.h"
#include "thread_time.h"
#include "utils/inval.h"
#include "utils/syscache.h"

#define MARK 0x63636f70 /* "ccop", an even number far above those of system caches */

/* ---- marks ---- */

static PlanInvalItem *item(int cache, uint32 value) {
  PlanInvalItem *made = makeNode(PlanInvalItem);
  made->cacheId = cache;
  made->hashValue = value;
  return made;
}

static PlannedStmt *marked(PlannedStmt *plan, uint64 key, ShapeWay way) {
  plan->invalItems = lappend(plan->invalItems, item(PROCOID, (uint32)key));
  plan->invalItems = lappend(plan->invalItems, item(MARK + way, (uint32)(key >> 32)));
  return plan;
}

static bool read_mark(const PlannedStmt *plan, uint64 *key, ShapeWay *way) {
  int length = list_length(plan->invalItems);
  const PlanInvalItem *low, *high;

  if (length < 2) return false;
  high = llast(plan->invalItems);
  if ((high->cacheId & ~1) != MARK) return false;
  low = list_nth(plan->invalItems, length - 2);
  *key = (uint64)high->hashValue << 32 | low->hashValue;
  *way = high->cacheId & 1;
  return true;
}

/* ---- planning ---- */

void shapes_look_at_query(ShapePlanning *planning, Query *parse) {
  if (ccopt_shapes == SHAPES_OFF || !ccopt_enabled || parse->commandType != CMD_SELECT) return;
  planning->sign = query_sign(parse);
  if (sign_is_known(planning->sign)) planning->copy = copyObject(parse);
}

/* Excluded: settings that ask for certain nodes, and cursors, which may be left in the middle. */
static bool is_remembered(const PlannedStmt *plan, int cursor_options) {
  return ccopt_shapes != SHAPES_OFF && plan->commandType == CMD_SELECT &&
         !(cursor_options & CURSOR_OPT_FAST_PLAN) && !ccopt_force &&
         (ccopt_buffer == BUFFER_AUTO || ccopt_buffer == BUFFER_OFF) &&
         (ccopt_require == NULL || ccopt_require[0] == '\0') && has_node_of_ours(plan);
}

static void describe(Shape *shape, const PlannedStmt *ours, const char *query_string) {
  size_t whole;
  const char *text = statement_text(ours, query_string, &whole);
  int length = pg_mbcliplen(text, (int)Min(whole, PG_INT32_MAX), SHAPE_QUERY_BYTES - 1);

  shape->role = GetUserId();
  shape->query_id = (uint64)ours->queryId;
  memcpy(shape->query, text, length);
  shape->query[length] = '\0';
}

typedef struct Asked {
  ShapeWay standing;
  ShapeWish wish;
  double ratio;
  int pairs;
} Asked;

/* Looks up the shape, and decides whether this planning is for a trial. */
static Asked ask(uint64 key, uint64 statement_id, const PlannedStmt *ours,
                 const ShapePlanning *planning, const char *query_string, bool explained) {
  Asked asked = {WAY_OURS, WISH_NOTHING, 1, 0};
  Shape *shape;

  shape_memory_lock();
  shape = shape_find(key, !explained);
  if (shape) {
    if (shape->query[0] == '\0' && query_string) describe(shape, ours, query_string);
    shape->statement_id = statement_id;
    shape->our_cost = ours->planTree->total_cost;
    asked.standing = shape_standing(shape);
    asked.ratio = shape_ratio(shape);
    asked.pairs = shape->pairs;
    /* EXPLAIN shows the standing plan and starts no trial. */
    if (!explained && planning->copy) asked.wish = shape_wish(shape, ccopt_shapes);
    if (asked.wish == WISH_TRIAL) shape_trial_begins(shape);
  }
  shape_memory_unlock();
  return asked;
}

/* Records the cost of core's plan for the shape; returns whether the planning is for a trial. */
static bool price(uint64 key, const PlannedStmt *ours, const PlannedStmt *stock, double replan_ns,
                  bool asks) {
  double unit_ns = ns_per_unit(cost_constants());
  bool trial = false;
  Shape *shape;

  shape_memory_lock();
  shape = shape_find(key, false);
  if (shape) {
    shape_priced(shape, stock->planTree->total_cost, unit_ns,
                 ours->parallelModeNeeded || stock->parallelModeNeeded);
    shape->replan_ns = replan_ns;
    trial = asks && shape_wish(shape, ccopt_shapes) == WISH_TRIAL;
    if (trial) shape_trial_begins(shape);
  }
  shape_memory_unlock();
  return trial;
}

PlannedStmt *shapes_choose(const ShapePlanning *planning, PlannedStmt *ours,
                           planner_hook_type planner, const char *query_string, int cursor_options,
                           ParamListInfo bound_params) {
  bool explained = reasons_are_watched();
  PlannedStmt *stock;
  uint64 key, statement_id;
  Asked asked;
  double begin;
  bool trial;

  if (!is_remembered(ours, cursor_options)) return ours;
  statement_id = statement_id_of(ours, query_string);
  key = shape_key(ours, statement_id);
  shape_memory_in_use();
  if (planning->sign != 0) sign_add(planning->sign);
  asked = ask(key, statement_id, ours, planning, query_string, explained);
  trial = asked.wish == WISH_TRIAL;
  if (planning->copy == NULL || (asked.wish != WISH_PRICE && (asked.standing == WAY_OURS) != trial))
    return marked(ours, key, WAY_OURS);

  begin = thread_ns();
  stock = plan_without_us(planner, planning->copy, query_string, cursor_options, bound_params);
  if (price(key, ours, stock, thread_ns() - begin, asked.wish == WISH_PRICE)) trial = true;
  if (asked.standing == WAY_OURS && !trial) return marked(ours, key, WAY_OURS);
  forget_offers();
  if (asked.standing == WAY_STOCK)
    reasons_remark(psprintf("shape pinned to stock: %.2fx over n=%d", asked.ratio, asked.pairs));
  return marked(stock, key, WAY_STOCK);
}

/* ---- executions ---- */

typedef struct Execution {
  MemoryContextCallback callback;
  uint64 key;
  ShapeWay way;
  double begin; /* time of the thread */
  const EState *estate;
  const Instrumentation *clock;
} Execution;

static double wall_ns(const Instrumentation *clock) {
  return (clock->total + INSTR_TIME_GET_DOUBLE(clock->counter)) * 1e9;
}

/*
 * Called when the executor's memory is freed: the statement is over. The processor time of a cursor
 * or of a loop in PL/pgSQL includes work between its rows, so it is limited by the time spent
 * within the executor.
 */
static void executed(void *argument) {
  const Execution *execution = argument;
  double wall = wall_ns(execution->clock);
  double own = Min(thread_ns() - execution->begin, wall);
  bool other_plan_wanted = false;
  Shape *shape;

  /* After an error, in an aborted transaction, or never run. */
  if (!execution->estate->es_finished || !IsTransactionState() || wall <= 0) return;
  shape_memory_lock();
  shape = shape_find(execution->key, false);
  if (shape) {
    double extra = execution->way == WAY_STOCK ? shape->replan_ns : 0;
    shape_record(shape, execution->way, (shape->by_wall ? wall : own) + extra);
    other_plan_wanted =
        execution->way != shape_standing(shape) || shape_wish(shape, ccopt_shapes) != WISH_NOTHING;
  }
  shape_memory_unlock();
  if (other_plan_wanted) CallSyscacheCallbacks(PROCOID, (uint32)execution->key);
}

void shapes_measure(QueryDesc *query, int eflags) {
  MemoryContext context = query->estate->es_query_cxt;
  Execution *execution;
  uint64 key;
  ShapeWay way;

  if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) || query->instrument_options != 0) return;
  if (ccopt_shapes == SHAPES_OFF || !read_mark(query->plannedstmt, &key, &way)) return;
  execution = MemoryContextAllocZero(context, sizeof(*execution));
  if (query->totaltime == NULL) {
    MemoryContext outer = MemoryContextSwitchTo(context);
    /* All counters: pg_stat_statements, if called later, uses an existing one. */
    query->totaltime = InstrAlloc(1, INSTRUMENT_ALL, false);
    MemoryContextSwitchTo(outer);
  }
  execution->key = key;
  execution->way = way;
  execution->estate = query->estate;
  execution->clock = query->totaltime;
  execution->callback.func = executed;
  execution->callback.arg = execution;
  MemoryContextRegisterResetCallback(context, &execution->callback);
  execution->begin = thread_ns();
}

/* ---- forgetting ---- */

int shapes_forget(void) {
  int forgotten = 0;

  shape_memory_lock();
  for (int i = 0; i < SHAPE_PLACES; i++) {
    Shape *shape = shape_at(i);
    if (shape->key == 0 || shape->database != MyDatabaseId) continue;
    shape_drop(shape);
    forgotten++;
  }
  shape_memory_unlock();
  return forgotten;
}
