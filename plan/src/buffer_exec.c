/*
 * Buffer, execution. PCPCPCPC becomes PCCCCCCCCPPPPPPPP: an empty buffer runs its child until it is
 * full, a buffer with rows returns one.
 *
 * Reading ahead may do unrequested work: below LIMIT or EXISTS the prototype was up to 2.6 times
 * slower. So a buffer starts with 8 rows and doubles; it never reads more rows ahead than were
 * requested already.
 */
#include "buffer.h"

#include "buffer_rows.h"
#include "doors.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "node_names.h"
#include "nodes/extensible.h"
#include "settings.h"
#include "stats.h"

#define FIRST_REFILL 8

typedef struct BufferState {
  CustomScanState node;
  BufferRows *rows;
  int next;       /* index of the row to return */
  bool exhausted; /* the child has reported its end; it must not be called again */
  int refill;     /* rows to fetch next */
  int most;       /* most rows to fetch */
  bool slow_start;
  BufferHelper *helper;
  int pass; /* rows to return unbuffered before the helper is asked again */
  const char *passed_because;
  uint64 passed;
  NodeCounts counts; /* batches are refills */
} BufferState;

static const CustomExecMethods buffer_exec_methods;

static int private_integer(const CustomScan *plan, BufferPrivate which) {
  return intVal(list_nth(plan->custom_private, which));
}

static List *private_list(const CustomScan *plan, BufferPrivate which) {
  return (List *)list_nth(plan->custom_private, which);
}

/* ---- running ---- */

static TupleTableSlot *end_of_rows(BufferState *buffer) {
  buffer_rows_clear(buffer->rows);
  buffer->next = 0;
  buffer->exhausted = true;
  return NULL;
}

static TupleTableSlot *pass_row(BufferState *buffer) {
  TupleTableSlot *slot = ExecProcNode(outerPlanState(buffer));
  if (TupIsNull(slot)) return end_of_rows(buffer);
  buffer->pass--;
  buffer->passed++;
  return slot;
}

/* True if rows are to be returned unbuffered for now. */
static bool should_pass(BufferState *buffer) {
  if (buffer->helper == NULL) return false;
  if (buffer->pass > 0) return true;
  int ask_again = 1;
  const char *reason = buffer->helper->ready(buffer->helper, &ask_again);
  if (reason == NULL) return false;
  buffer->passed_because = reason;
  buffer->pass = Max(ask_again, 1);
  return true;
}

static TupleTableSlot *refill(BufferState *buffer) {
  PlanState *child = outerPlanState(buffer);
  BufferRows *rows = buffer->rows;

  buffer_rows_clear(rows);
  buffer->next = 0;
  if (buffer->exhausted) return NULL;
  if (should_pass(buffer)) return pass_row(buffer);

  buffer_rows_reserve(rows, buffer->refill);
  while (rows->nrows < buffer->refill) {
    TupleTableSlot *slot = ExecProcNode(child);
    if (TupIsNull(slot)) {
      buffer->exhausted = true;
      break;
    }
    if (!buffer_rows_add(rows, slot)) break;
    CHECK_FOR_INTERRUPTS();
  }
  buffer->refill = Min(buffer->refill * 2, buffer->most);
  buffer->counts.batches++;
  buffer->counts.rows_in += rows->nrows;
  if (rows->nrows == 0) return end_of_rows(buffer);
  if (buffer->helper) buffer->helper->gathered(buffer->helper, rows);
  return buffer_rows_get(rows, buffer->next++);
}

static TupleTableSlot *buffer_run(PlanState *node) {
  BufferState *buffer = (BufferState *)node;
  if (likely(buffer->next < buffer->rows->nrows))
    return buffer_rows_get(buffer->rows, buffer->next++);
  return refill(buffer);
}

/* The function that core would call if BeginCustomScan had not replaced it by buffer_run(). */
static TupleTableSlot *buffer_run_custom(CustomScanState *node) { return buffer_run(&node->ss.ps); }

/* ---- beginning and ending ---- */

static Node *buffer_create(CustomScan *plan) {
  BufferState *buffer = (BufferState *)newNode(sizeof(BufferState), T_CustomScanState);
  buffer->node.methods = &buffer_exec_methods;
  return (Node *)buffer;
}

static void start_over(BufferState *buffer) {
  buffer->next = 0;
  buffer->exhausted = false;
  buffer->pass = 0;
  buffer->refill = buffer->slow_start ? Min(FIRST_REFILL, buffer->most) : buffer->most;
}

static void buffer_begin(CustomScanState *node, EState *estate, int eflags) {
  BufferState *buffer = (BufferState *)node;
  CustomScan *plan = (CustomScan *)node->ss.ps.plan;
  BufferPurpose purpose = private_integer(plan, BUFFER_PRIVATE_PURPOSE);
  BufferMode mode = private_integer(plan, BUFFER_PRIVATE_MODE);
  PlanState *child;
  const TupleTableSlotOps *child_ops;
  bool child_fixed;
  RowStore store;
  MemoryContext context;

  /* buffer_legal.c ensures that no node scans backwards here. */
  child = ExecInitNode(outerPlan(plan), estate, eflags & ~(EXEC_FLAG_BACKWARD | EXEC_FLAG_MARK));
  outerPlanState(node) = child;
  child_ops = ExecGetResultSlotOps(child, &child_fixed);

  if (purpose == BUFFER_FOR_KEY_ORDER)
    store = ROWS_VALUES; /* many rows from many pages */
  else if (mode == BUFFER_COPY)
    store = ROWS_COPIES;
  else
    store = child_fixed && child_ops == &TTSOpsBufferHeapTuple ? ROWS_PINNED : ROWS_VALUES;
  context = AllocSetContextCreate(estate->es_query_cxt, "Buffer", ALLOCSET_DEFAULT_SIZES);
  buffer->rows = buffer_rows_make(store, ExecGetResultType(child),
                                  private_list(plan, BUFFER_PRIVATE_NEEDS), context);
  buffer->most = private_integer(plan, BUFFER_PRIVATE_ROWS);
  buffer->slow_start = purpose != BUFFER_FOR_KEY_ORDER;
  start_over(buffer);

  /*
   * Announces to the parent which slots it will get. A buffer that may pass rows through also returns the
   * child's slots.
   */
  node->ss.ps.resultops = store == ROWS_PINNED   ? &TTSOpsHeapTuple
                          : store == ROWS_COPIES ? &TTSOpsMinimalTuple
                                                 : &TTSOpsVirtual;
  node->ss.ps.resultopsfixed =
      purpose == BUFFER_FOR_INSTRUCTIONS || (child_fixed && child_ops == node->ss.ps.resultops);
  node->ss.ps.resultopsset = true;
  /* ExecInitNode() makes this the node's function: one call less a row. */
  node->ss.ps.ExecProcNode = buffer_run;
}

static void buffer_end(CustomScanState *node) {
  BufferState *buffer = (BufferState *)node;
  NodeCounts counts = buffer->counts;

  counts.rows_in += buffer->passed;
  counts.rows_out = counts.rows_in;
  counts.fallbacks = buffer->passed > 0;
  buffer_rows_free(buffer->rows);
  ExecEndNode(outerPlanState(node));
  stats_add(STATS_BUFFER, &counts);
}

static void buffer_rescan(CustomScanState *node) {
  BufferState *buffer = (BufferState *)node;
  PlanState *child = outerPlanState(node);

  buffer_rows_clear(buffer->rows);
  start_over(buffer);
  /* With changed parameters the next ExecProcNode() restarts the child. */
  if (child->chgParam == NULL) ExecReScan(child);
}

/* ---- EXPLAIN ---- */

static void buffer_explain(CustomScanState *node, List *ancestors, ExplainState *es) {
  static const char *const purposes[] = {"instruction cache", "prefetch", "key order"};
  static const char *const stores[] = {"ring, pinned pages", "ring, values", "copy"};
  const BufferState *buffer = (const BufferState *)node;
  const CustomScan *plan = (const CustomScan *)node->ss.ps.plan;

  ExplainPropertyText("Purpose", purposes[private_integer(plan, BUFFER_PRIVATE_PURPOSE)], es);
  ExplainPropertyText("Mode", stores[buffer->rows->store], es);
  ExplainPropertyInteger("Buffered Rows", NULL, buffer->most, es);
  if (!es->analyze) return;
  ExplainPropertyUInteger("Refills", NULL, buffer->counts.batches, es);
  if (buffer->passed > 0) {
    ExplainPropertyUInteger("Rows Passed Through", NULL, buffer->passed, es);
    if (buffer->passed_because)
      ExplainPropertyText("Passed Through Because", buffer->passed_because, es);
  }
}

static const CustomExecMethods buffer_exec_methods = {
    .CustomName = BUFFER_NAME,
    .BeginCustomScan = buffer_begin,
    .ExecCustomScan = buffer_run_custom,
    .EndCustomScan = buffer_end,
    .ReScanCustomScan = buffer_rescan,
    .ExplainCustomScan = buffer_explain,
};

const CustomScanMethods buffer_scan_methods = {
    .CustomName = BUFFER_NAME,
    .CreateCustomScanState = buffer_create,
};

/* ---- for attach.c ---- */

static const BufferState *as_buffer(const PlanState *node) {
  if (!IsA(node, CustomScanState)) return NULL;
  if (((const CustomScanState *)node)->methods != &buffer_exec_methods) return NULL;
  return (const BufferState *)node;
}

int buffer_purpose_of(const PlanState *node) {
  const BufferState *buffer = as_buffer(node);
  return buffer
             ? private_integer((const CustomScan *)buffer->node.ss.ps.plan, BUFFER_PRIVATE_PURPOSE)
             : -1;
}

List *buffer_keys(const PlanState *node) {
  const BufferState *buffer = as_buffer(node);
  Assert(buffer);
  return private_list((const CustomScan *)buffer->node.ss.ps.plan, BUFFER_PRIVATE_KEYS);
}

void buffer_set_helper(PlanState *node, BufferHelper *helper) {
  BufferState *buffer = (BufferState *)as_buffer(node);
  Assert(buffer);
  buffer->helper = helper;
}

void buffer_register(void) { RegisterCustomScanMethods(&buffer_scan_methods); }
