/*
 * Costs: nanoseconds to the planner's units.
 */
#include "costs.h"

/* Xeon of the development machine, until calibrate.c has measured this one (research/plan.md,
 * section 3). */
static const CostConstants built_in = {
    .ns_per_unit = 2600,
    .stock_page = 250,
    .stock_row = 45,
    .stock_attribute = 2.5,
    .stock_qual = 12,
    .stock_numeric = 60,
    .stock_transition = 12,
    .stock_group = 40,
    .batch_page = 250,
    .batch_row = 12,
    .batch_attribute = 1.2,
    .batch_qual = 1,
    .batch_text_qual = 6,
    .batch_decimal = 4,
    .batch_transition = 1.5,
    .batch_group = 6,
    .batch_emit = 20,
    .batch_probe = 30,
    .probe_plain = {40, 41, 51, 65, 125, 194, 345, 430, 523, 620, 723, 750},
    .probe_prefetched = {36, 36, 39, 42, 52, 70, 93, 110, 127, 160, 191, 200},
    .margin = 1.3,
};

const CostConstants *cost_constants(void) { return &built_in; }

void costs_register(void) {}

/* Placeholders until the cost model lands: what core's own path costs, less a part of its processor
 * time. */
void cost_batch_scan(PlannerInfo *root, RelOptInfo *rel, const ScanWork *work, List *row_quals,
                     bool emits_rows, Cost *startup, Cost *total) {
  *startup = 0;
  *total = 0.5 * rel->pages + 0.004 * rel->tuples;
}

void cost_batch_agg(PlannerInfo *root, const Path *input, const AggWork *work, double groups,
                    Cost *startup, Cost *total) {
  *startup = input->total_cost + 0.002 * input->rows;
  *total = *startup + 0.01 * groups;
}

void cost_batch_join(PlannerInfo *root, const Path *outer, const Path *inner, const JoinWork *work,
                     double rows, bool emits_rows, Cost *startup, Cost *total) {
  *startup = inner->total_cost + 0.005 * inner->rows;
  *total = *startup + outer->total_cost + 0.003 * outer->rows + 0.002 * rows;
}
