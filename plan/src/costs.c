/*
 * Costs of ccopt's paths, derived from core's for the same work (costs.h has the formula).
 */
#include "costs.h"

#include <math.h>

#include "costs_in_force.h"
#include "node_names.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/prep.h"
#include "reasons.h"
#include "settings.h"
#include "utils/spccache.h"

/* A batch's vectors and a predicate's program are made before the first row: this excludes small
 * tables. */
#define SETUP_NS 20000.0

/*
 * With ccopt.force a join costs less than any of core's, but not nothing: if all orders of joins cost the
 * same, a product of millions of rows is as good as what leaves a few.
 */
#define FORCED_ROW 1e-6

/* What is left of the cost of pages and rows that come from the column cache. */
#define CACHED_PAGE 0.05
#define CACHED_ROW 0.15
static double cached_part(double part, double cached) { return 1 - cached + cached * part; }

#define LOG2_FIRST_PROBE_KB 7
#define PROBES 12

double memory_ns(const double probe[PROBES], double bytes) {
  double position = log2(Max(bytes, 1.0) / 1024.0) - LOG2_FIRST_PROBE_KB;
  int below;

  if (position <= 0) return 0;
  if (position >= PROBES - 1) return probe[PROBES - 1] - probe[0];
  below = (int)position;
  return probe[below] + (position - below) * (probe[below + 1] - probe[below]) - probe[0];
}

static Cost setup_cost(const CostConstants *constants) { return SETUP_NS / ns_per_unit(constants); }

Cost batch_setup_cost(void) { return setup_cost(cost_constants()); }

/*
 * If a batch path is not cheaper than core's by the margin, its cost is set above core's: core's
 * path is taken. If it is, the margin does not raise its cost, because paths of another kind (an
 * index) compete as well, and core's costs for these are rather too low.
 */
static Cost with_margin(const CostConstants *constants, Cost core, Cost ours) {
  Cost widened = ours * constants->margin;
  return widened < core ? ours : widened;
}

/* Scales core's cost of work that takes core stock_ns and ccopt batch_ns. */
static Cost scaled(const CostConstants *constants, Cost core, double batch_ns, double stock_ns) {
  return with_margin(constants, core, core * batch_ns / Max(stock_ns, 1.0));
}

/* Each predicate is evaluated for the rows that passed the one before: assumed to be half. */
static double evaluated(int predicates) { return predicates > 0 ? 1 + 0.5 * (predicates - 1) : 0; }

static bool takes_batches(const Path *path) {
  const char *name;
  if (!IsA(path, CustomPath)) return false;
  name = ((const CustomPath *)path)->methods->CustomName;
  return strcmp(name, BATCH_SCAN_NAME) == 0 || strcmp(name, BATCH_JOIN_NAME) == 0;
}

/* For any other child, a batch operator gathers the rows itself. */
static double gather_ns(const CostConstants *constants, const Path *child) {
  return takes_batches(child) ? 0 : child->rows * constants->batch_emit;
}

/*
 * Core's cost of a scan's rows without predicates, and of the predicates that run on batches, each
 * scaled by its own ratio: with one ratio for both, a predicate on numeric (for which core's cost
 * is far too low) would make a scan cheaper than one without it.
 */
typedef struct ScanPrice {
  Cost rows;
  Cost quals;
} ScanPrice;

static double stock_row_ns(const CostConstants *c, const ScanWork *work) {
  return Max(c->stock_row + work->walked * c->stock_attribute, 1);
}

static ScanPrice batch_price(const CostConstants *c, const ScanWork *work, ScanPrice core) {
  double stock_qual_ns = evaluated(work->number_quals) * c->stock_qual +
                         evaluated(work->text_quals) * 2 * c->stock_qual +
                         work->decimals * Max(c->stock_numeric - c->stock_qual, 0);
  double batch_qual_ns = evaluated(work->number_quals) * c->batch_qual +
                         evaluated(work->text_quals) * c->batch_text_qual +
                         work->decimals * c->batch_decimal;
  int quals = work->number_quals + work->text_quals;
  ScanPrice price;

  /* Core's cost has no part for walking over columns: the ratio is that of the whole row. */
  price.rows = core.rows * (c->batch_row + work->walked * c->batch_attribute) /
               stock_row_ns(c, work) * cached_part(CACHED_ROW, work->cached);
  /* Core does not consider either that later predicates are evaluated for fewer rows. */
  price.quals = core.quals;
  if (stock_qual_ns > 0)
    price.quals *= batch_qual_ns / stock_qual_ns * evaluated(quals) / Max(quals, 1);
  return price;
}

/* The leader also serves its workers: the more workers, the fewer rows it processes. */
double process_divisor(int workers) {
  double leader = 1.0 - 0.3 * workers;
  if (workers == 0) return 1;
  return workers + (parallel_leader_participation ? Max(leader, 0) : 0);
}

void cost_batch_scan(PlannerInfo *root, RelOptInfo *rel, const ScanWork *work, List *row_quals,
                     bool emits_rows, double divisor, Cost *startup, Cost *total) {
  const CostConstants *c = cost_constants();
  double page_cost;
  Cost unchanged; /* the same in both plans: pages, the target list, and predicates left to rows */
  Cost pages;     /* part of `unchanged` */
  Cost emitted = 0;
  QualCost row_qual_cost;
  ScanPrice core;
  ScanPrice ours;
  Path stock = {0};

  note_offer(root, rel, BATCH_SCAN_NAME);
  if (ccopt_force) {
    *startup = *total = 0;
    return;
  }

  stock.type = T_Path;
  stock.pathtype = T_SeqScan;
  stock.parent = rel;
  stock.pathtarget = rel->reltarget;
  /* With enable_seqscan off (up to 17) this has core's penalty; BatchScan, being a sequential
   * scan, gets it, too. */
  cost_seqscan(&stock, root, rel, NULL);
  get_tablespace_page_costs(rel->reltablespace, NULL, &page_cost);
  cost_qual_eval(&row_qual_cost, row_quals, root);
  core.rows = cpu_tuple_cost * rel->tuples;
  core.quals = Max(rel->baserestrictcost.per_tuple - row_qual_cost.per_tuple, 0) * rel->tuples;
  unchanged = stock.total_cost - core.rows - core.quals;

  ours = batch_price(c, work, core);
  if (emits_rows || row_quals != NIL)
    emitted = cpu_tuple_cost * rel->rows * c->batch_emit / stock_row_ns(c, work);
  *startup = stock.startup_cost + setup_cost(c);
  /* As in core: the disk is not faster for several processes. */
  pages = Min(page_cost * rel->pages, unchanged);
  *total = setup_cost(c) + pages * cached_part(CACHED_PAGE, work->cached) +
           (unchanged - pages +
            with_margin(c, core.rows + core.quals, ours.rows + ours.quals + emitted)) /
               divisor;
}

/* Core's cost for the rows and for the groups of an aggregation, as in cost_agg() for a table
 * that fits memory. */
typedef struct AggPrice {
  Cost startup;
  Cost rows;
  Cost groups;
} AggPrice;

static AggPrice core_agg_price(PlannerInfo *root, double rows, const AggWork *work, double groups) {
  AggClauseCosts aggregates = {0};
  QualCost having = {0};
  int keys = work->keys;
  AggPrice price;

  if (work->step != AGG_STEP_KEYS)
    get_agg_clause_costs(root,
                         work->step == AGG_STEP_PARTIAL ? AGGSPLIT_INITIAL_SERIAL : AGGSPLIT_SIMPLE,
                         &aggregates);
  if (work->step == AGG_STEP_WHOLE || work->step == AGG_STEP_OF_DISTINCT)
    cost_qual_eval(&having, (List *)root->parse->havingQual, root);
  price.startup = aggregates.transCost.startup + aggregates.finalCost.startup + having.startup;
  price.rows = rows * (aggregates.transCost.per_tuple + cpu_operator_cost * keys);
  price.groups = groups * (aggregates.finalCost.per_tuple + cpu_tuple_cost + having.per_tuple);
  return price;
}

/* Time for a row in an aggregation, without the cache misses of its table. */
static double stock_agg_row_ns(const CostConstants *c, const AggWork *work) {
  return work->transitions * c->stock_transition + work->decimals * c->stock_numeric +
         work->keys * c->stock_group;
}

static double batch_agg_row_ns(const CostConstants *c, const AggWork *work) {
  return work->transitions * c->batch_transition + work->decimals * c->batch_decimal +
         work->keys * c->batch_group;
}

void cost_batch_agg(PlannerInfo *root, const Path *input, const AggWork *work, double groups,
                    Cost *startup, Cost *total) {
  const CostConstants *c = cost_constants();
  double stock_row_ns = stock_agg_row_ns(c, work);
  double batch_row_ns = batch_agg_row_ns(c, work);
  AggPrice core;

  note_offer(root, NULL, BATCH_AGG_NAME);
  if (ccopt_force) {
    *startup = *total = 0;
    return;
  }
  if (work->keys > 0) {
    stock_row_ns += memory_ns(c->probe_plain, groups * work->state);
    batch_row_ns += memory_ns(c->probe_prefetched, groups * work->state);
  }
  core = core_agg_price(root, input->rows, work, groups);
  *startup = input->total_cost + core.startup + setup_cost(c) +
             scaled(c, core.rows, input->rows * batch_row_ns + gather_ns(c, input),
                    input->rows * stock_row_ns);
  *total = *startup + core.groups;
}

Cost cost_batch_agg_beside_streams(PlannerInfo *root, const Path *input, const AggWork *work,
                                   double groups) {
  const CostConstants *c = cost_constants();
  double batch_row_ns =
      batch_agg_row_ns(c, work) + memory_ns(c->probe_prefetched, groups * work->state);
  AggPrice core = core_agg_price(root, input->rows, work, groups);

  return input->total_cost + core.startup + setup_cost(c) + core.groups +
         core.rows * (batch_row_ns + gather_ns(c, input) / Max(input->rows, 1)) /
             Max(stock_agg_row_ns(c, work), 1);
}

/* Time for core to sort one of this many rows: a comparison for each halving, and the row in and
 * out. */
static double stock_sort_ns(const CostConstants *c, double rows) {
  return c->stock_row + 2 * c->stock_qual * log2(Max(rows, 2));
}

void cost_batch_distinct(PlannerInfo *root, const Path *input, const AggWork *keys, double pairs,
                         const AggWork *work, double groups, Cost *startup, Cost *total) {
  const CostConstants *c = cost_constants();
  double stock_row_ns = stock_agg_row_ns(c, work) + stock_sort_ns(c, input->rows / Max(groups, 1));
  double batch_ns = input->rows * (batch_agg_row_ns(c, keys) +
                                   memory_ns(c->probe_prefetched, pairs * keys->state)) +
                    gather_ns(c, input) + pairs * (batch_agg_row_ns(c, work) + c->batch_emit);
  AggPrice core;

  note_offer(root, NULL, BATCH_AGG_NAME);
  if (ccopt_force) {
    *startup = *total = 0;
    return;
  }
  core = core_agg_price(root, input->rows, work, groups);
  *startup = input->total_cost + core.startup + 2 * setup_cost(c) +
             scaled(c, core.rows, batch_ns, input->rows * stock_row_ns);
  *total = *startup + core.groups;
}

/* Handing a row to a WindowAgg: into its tuplestore, out again, and into its slot. */
#define STOCK_WINDOW_ROWS 4
/* Of a BatchWindow: a column into the store and out, a key of the sort; in rows of a BatchScan. */
#define BATCH_WINDOW_COLUMN 0.5
#define BATCH_WINDOW_KEY 1.0

static double stock_window_ns(const CostConstants *c, const WindowWork *work, double rows) {
  double sort_ns = work->stock_sorts && work->keys > 0 ? stock_sort_ns(c, rows) : 0;
  return sort_ns + work->windows * STOCK_WINDOW_ROWS * c->stock_row +
         work->functions * c->stock_transition + work->numerics * c->stock_numeric;
}

static double batch_window_ns(const CostConstants *c, const WindowWork *work, double rows) {
  double sort_ns = work->keys > 0 ? c->batch_qual * log2(Max(rows, 2)) : 0;
  return (work->columns * BATCH_WINDOW_COLUMN + work->keys * BATCH_WINDOW_KEY) * c->batch_row +
         sort_ns + work->functions * c->batch_transition + work->numerics * c->stock_numeric +
         c->batch_emit;
}

void cost_batch_window(const Path *input, const WindowWork *work, Cost core, Cost *startup,
                       Cost *total) {
  const CostConstants *c = cost_constants();
  const double rows = input->rows;

  note_offer(NULL, NULL, BATCH_WINDOW_NAME);
  if (ccopt_force) {
    *startup = *total = 0;
    return;
  }
  *total = input->total_cost + setup_cost(c) +
           scaled(c, core, rows * batch_window_ns(c, work, rows) + gather_ns(c, input),
                  rows * stock_window_ns(c, work, rows));
  /* Handing out is the smaller part. */
  *startup = *total - cpu_tuple_cost * rows * 0.1;
  *startup = Max(*startup, input->total_cost);
}

void cost_batch_join(PlannerInfo *root, const Path *outer, const Path *inner, const JoinWork *work,
                     double rows, bool emits_rows, Cost *startup, Cost *total) {
  const CostConstants *c = cost_constants();
  double table = inner->rows * work->entry;
  double plain_ns = c->stock_group + memory_ns(c->probe_plain, table);
  double prefetched_ns = c->batch_probe + memory_ns(c->probe_prefetched, table);
  Cost build;
  Cost probe;

  note_offer(root, NULL, BATCH_JOIN_NAME);
  if (ccopt_force) {
    *startup = inner->total_cost;
    *total = *startup + outer->total_cost + FORCED_ROW * (inner->rows + outer->rows + rows);
    return;
  }

  /* As in initial_cost_hashjoin() and final_cost_hashjoin(), for one batch and short chains. */
  build = inner->rows * (cpu_operator_cost * work->keys + cpu_tuple_cost);
  probe = outer->rows * cpu_operator_cost * work->keys * 1.5 +
          rows * (cpu_tuple_cost + cpu_operator_cost * work->row_quals);

  *startup = inner->total_cost + outer->startup_cost + setup_cost(c) +
             scaled(c, build, inner->rows * (c->batch_row + prefetched_ns) + gather_ns(c, inner),
                    inner->rows * (c->stock_row + plain_ns));
  *total = *startup + outer->total_cost - outer->startup_cost +
           scaled(c, probe,
                  outer->rows * prefetched_ns + gather_ns(c, outer) +
                      (emits_rows || work->row_quals > 0 ? rows * c->batch_emit : 0),
                  outer->rows * plain_ns + rows * c->stock_row);
}
