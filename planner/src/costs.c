/*
 * Costs of our paths, from core's for the same work (costs.h has the formula).
 */
#include "costs.h"

#include <math.h>

#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/prep.h"
#include "reasons.h"
#include "utils/spccache.h"

/* A batch's vectors and a predicate's program are made before the first row: keeps us away from
 * small tables. */
#define SETUP_NS 20000.0

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

/* What one of core's units of processor cost takes in ns: the user may have scaled them. */
static double ns_per_unit(const CostConstants *constants) {
  return constants->ns_per_unit * DEFAULT_CPU_TUPLE_COST / Max(cpu_tuple_cost, 1e-6);
}

static Cost setup_cost(const CostConstants *constants) { return SETUP_NS / ns_per_unit(constants); }

/*
 * What core asks for work that takes it stock_ns, if we do it in batch_ns and have to be cheaper by
 * the margin. Where we are no faster the result is above core's, and core's path is taken.
 */
static Cost scaled(const CostConstants *constants, Cost core, double batch_ns, double stock_ns) {
  return core * constants->margin * batch_ns / Max(stock_ns, 1.0);
}

/* Each predicate sees the rows that the one before it let pass: say half. */
static double evaluated(int predicates) { return predicates > 0 ? 1 + 0.5 * (predicates - 1) : 0; }

static bool takes_batches(const Path *path) {
  const char *name;
  if (!IsA(path, CustomPath)) return false;
  name = ((const CustomPath *)path)->methods->CustomName;
  return strcmp(name, BATCH_SCAN_NAME) == 0 || strcmp(name, BATCH_JOIN_NAME) == 0;
}

/* An operator on batches gathers the rows of any other child by itself. */
static double gather_ns(const CostConstants *constants, const Path *child) {
  return takes_batches(child) ? 0 : child->rows * constants->batch_emit;
}

void cost_batch_scan(PlannerInfo *root, RelOptInfo *rel, const ScanWork *work, List *row_quals,
                     bool emits_rows, Cost *startup, Cost *total) {
  const CostConstants *c = cost_constants();
  double pages = rel->pages;
  double batch_ns;
  double stock_ns;
  Cost disk;
  Cost unchanged; /* what both pay alike: the target list, and predicates left to rows */
  QualCost row_qual_cost;
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
  /* With enable_seqscan off (up to 17) this has core's penalty, and so have we: ours is one, too.
   */
  cost_seqscan(&stock, root, rel, NULL);
  {
    double page_cost;
    get_tablespace_page_costs(rel->reltablespace, NULL, &page_cost);
    disk = page_cost * pages;
  }
  cost_qual_eval(&row_qual_cost, row_quals, root);
  unchanged = stock.startup_cost + row_qual_cost.per_tuple * rel->tuples +
              rel->reltarget->cost.per_tuple * stock.rows;

  stock_ns = pages * c->stock_page +
             rel->tuples * (c->stock_row + work->walked * c->stock_attribute +
                            evaluated(work->number_quals) * c->stock_qual +
                            evaluated(work->text_quals) * 2 * c->stock_qual +
                            work->decimals * Max(c->stock_numeric - c->stock_qual, 0));
  batch_ns =
      pages * c->batch_page + rel->tuples * (c->batch_row + work->walked * c->batch_attribute +
                                             evaluated(work->number_quals) * c->batch_qual +
                                             evaluated(work->text_quals) * c->batch_text_qual +
                                             work->decimals * c->batch_decimal);
  if (emits_rows || row_quals != NIL) batch_ns += rel->rows * c->batch_emit;

  *startup = stock.startup_cost + setup_cost(c);
  *total = *startup - stock.startup_cost + disk + unchanged +
           scaled(c, Max(stock.total_cost - disk - unchanged, 0), batch_ns, stock_ns);
}

void cost_batch_agg(PlannerInfo *root, const Path *input, const AggWork *work, double groups,
                    Cost *startup, Cost *total) {
  const CostConstants *c = cost_constants();
  double table = groups * work->state;
  double stock_row_ns;
  double batch_row_ns;
  AggClauseCosts aggregates = {0};
  QualCost having;
  Cost of_rows;
  Cost of_groups;

  note_offer(root, NULL, BATCH_AGG_NAME);
  if (ccopt_force) {
    *startup = *total = 0;
    return;
  }

  /* As cost_agg() has it, for a table that fits memory. */
  get_agg_clause_costs(root, AGGSPLIT_SIMPLE, &aggregates);
  cost_qual_eval(&having, (List *)root->parse->havingQual, root);
  of_rows = input->rows * (aggregates.transCost.per_tuple + cpu_operator_cost * work->keys);
  of_groups = groups * (aggregates.finalCost.per_tuple + cpu_tuple_cost + having.per_tuple);

  stock_row_ns = work->transitions * c->stock_transition + work->decimals * c->stock_numeric;
  batch_row_ns = work->transitions * c->batch_transition + work->decimals * c->batch_decimal;
  if (work->keys > 0) {
    stock_row_ns += c->stock_group * work->keys + memory_ns(c->probe_plain, table);
    batch_row_ns += c->batch_group * work->keys + memory_ns(c->probe_prefetched, table);
  }

  *startup = input->total_cost + aggregates.transCost.startup + aggregates.finalCost.startup +
             having.startup + setup_cost(c) +
             scaled(c, of_rows, input->rows * batch_row_ns + gather_ns(c, input),
                    input->rows * stock_row_ns);
  *total = *startup + of_groups;
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
    *startup = *total = 0;
    return;
  }

  /* As initial_cost_hashjoin() and final_cost_hashjoin() have it, for one batch and short chains.
   */
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
