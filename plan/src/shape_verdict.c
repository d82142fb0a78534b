/*
 * Decides when core's plan is tried, and when it is kept.
 *
 *            SHAPE_PAIRS pairs, no verdict: counts are reset
 *              +-------+
 *              v       |   counts reach a boundary: turn(true)
 *   new ----> ours ----+-------------------------------------------> pinned to stock
 *              ^                                                            |
 *              +------------------------------------------------------------+
 *                  SHAPE_CONTRARY trials in a row, ours not slower: turn(false)
 *
 * The boundaries are those of hardmeter-evidence (shape_boundaries.h): the counts may be checked
 * after every pair.
 *
 * Invariants:
 * 1. much_slower <= slower <= judged <= pairs; judged < SHAPE_PAIRS between two calls.
 * 2. `against` counts only while the shape is pinned.
 * 3. Pairs of processor time and of elapsed time are never mixed in one mean (`by_wall`).
 */
#include "shape_verdict.h"

#include "shape_boundaries.h"

#include <math.h>

/* Least duration for a trial: the cost of planning it is small, and so is the risk. */
#define SHORTEST_NS 1e6
#define LONGEST_NS 10e9
/* Executions between two trials, at least; doubled after each trial without a change. */
#define SHORTEST_WAIT 2
#define LONGEST_WAIT (1 << 16)
#define WAIT_WHEN_PINNED 8
/* Limit of the extra time of trials, as a share of the standing plan's total time. */
#define TRIAL_SHARE (1.0 / 64)
/* The mean is over about this many executions. */
#define REMEMBERED_RUNS 4
/* The mean ratio is over about this many pairs. */
#define REMEMBERED_PAIRS 16

/* ---- trials ---- */

void shape_begin(Shape *shape) { shape->wait = SHORTEST_WAIT; }

ShapeWish shape_wish(const Shape *shape, ShapesSetting setting) {
  const ShapeTimes *standing = &shape->times[shape_standing(shape)];
  const ShapeTimes *other = &shape->times[shape->pinned ? WAY_OURS : WAY_STOCK];
  double budget = Max(shape->total_ns * TRIAL_SHARE - shape->regret_ns, 0);
  double standing_ns;

  if (setting == SHAPES_OFF || shape->since < shape->wait || standing->samples < SHORTEST_WAIT)
    return WISH_NOTHING;
  standing_ns = exp(standing->mean);
  if (standing_ns < SHORTEST_NS || standing_ns > LONGEST_NS) return WISH_NOTHING;
  if (other->samples > 0)
    return exp(other->mean) - standing_ns <= budget ? WISH_TRIAL : WISH_NOTHING;
  if (shape->stock_cost == 0) return WISH_PRICE;
  /* By the cost model's own prediction, core's plan would have been faster. */
  if (shape->predicted_ns <= standing_ns) return WISH_TRIAL;
  if (setting == SHAPES_SUSPECTS) return WISH_NOTHING;
  return standing_ns * (shape->stock_cost / shape->our_cost - 1) <= budget ? WISH_TRIAL
                                                                           : WISH_NOTHING;
}

void shape_trial_begins(Shape *shape) { shape->since = 0; }

static void begin_counting(Shape *shape) { shape->judged = shape->slower = shape->much_slower = 0; }

static void forget_pairs(Shape *shape) {
  shape->pairs = 0;
  shape->mean = 0;
  begin_counting(shape);
}

void shape_priced(Shape *shape, double stock_cost, double ns_per_unit, bool by_wall) {
  shape->stock_cost = Max(stock_cost, 1e-6);
  shape->predicted_ns = stock_cost * ns_per_unit;
  if (by_wall == shape->by_wall) return;
  /* Earlier measurements are of the other kind. */
  shape->by_wall = by_wall;
  for (int way = 0; way < WAYS; way++) shape->times[way].samples = 0;
  forget_pairs(shape);
}

/* ---- verdicts ---- */

double shape_ratio(const Shape *shape) { return exp(shape->mean); }

static void add_pair(Shape *shape, double difference) {
  shape->pairs++;
  shape->mean += (difference - shape->mean) / Min(shape->pairs, REMEMBERED_PAIRS);
  shape->judged++;
  if (difference > log(SHAPE_SLOWER)) shape->slower++;
  if (difference > log(SHAPE_MUCH_SLOWER)) shape->much_slower++;
  shape->against = shape->pinned && difference < 0 ? shape->against + 1 : 0;
}

static bool is_slower(const Shape *shape) {
  return shape->slower >= shape_slower_from[shape->judged] ||
         shape->much_slower >= shape_much_slower_from[shape->judged];
}

static void turn(Shape *shape, bool pinned) {
  shape->pinned = pinned;
  shape->wait = pinned ? WAIT_WHEN_PINNED : SHORTEST_WAIT;
  shape->since = 0;
  shape->total_ns = shape->regret_ns = 0;
  shape->against = 0;
  begin_counting(shape);
}

static void judge(Shape *shape) {
  bool doubtful;

  if (!shape->pinned && is_slower(shape)) {
    turn(shape, true);
    return;
  }
  if (shape->judged == SHAPE_PAIRS) begin_counting(shape);
  /* Conditions have changed: the mean of all pairs would take long to show that. */
  if (shape->pinned && shape->against >= SHAPE_CONTRARY) {
    turn(shape, false);
    forget_pairs(shape);
    return;
  }
  doubtful = shape->pinned ? shape->against > 0 : shape->mean > log(SHAPE_SLOWER);
  shape->wait = doubtful ? SHORTEST_WAIT : Min(2 * shape->wait, LONGEST_WAIT);
}

static void learn(ShapeTimes *times, double logarithm) {
  times->samples++;
  times->mean += (logarithm - times->mean) / Min(times->samples, REMEMBERED_RUNS);
}

void shape_record(Shape *shape, ShapeWay way, double ns) {
  ShapeWay standing = shape_standing(shape);
  double logarithm = log(Max(ns, 1));
  double standing_mean = shape->times[standing].mean;

  shape->times[way].runs++;
  /* The first execution runs with cold caches, core's first trial then with warm ones. */
  if (way == WAY_OURS && shape->times[way].runs == 1) return;
  learn(&shape->times[way], logarithm);
  if (way == standing) {
    shape->total_ns += ns;
    if (shape->since < LONGEST_WAIT) shape->since++;
    return;
  }
  if (shape->times[standing].samples < SHORTEST_WAIT) return;
  shape->regret_ns += Max(ns - exp(standing_mean), 0);
  add_pair(shape, way == WAY_STOCK ? standing_mean - logarithm : logarithm - standing_mean);
  judge(shape);
}
