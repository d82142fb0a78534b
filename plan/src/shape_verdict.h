/*
 * What is known of one shape, and what follows from it. No locks, no hooks: arithmetic.
 *
 * Times are compared as logarithms, and in pairs: a trial of one plan with the last few executions
 * of the other. Tables grow, caches fill, parameters differ; neighbours in time have the same of
 * all that, more or less, and the spread of the pairs says how much less.
 */
#ifndef CCOPT_SHAPE_VERDICT_H
#define CCOPT_SHAPE_VERDICT_H

#include "shapes.h"

typedef enum ShapeWay { WAY_OURS, WAY_STOCK, WAYS } ShapeWay;

typedef struct ShapeTimes {
  uint64 runs;    /* executions that ran to their end */
  uint64 samples; /* of them in `mean` */
  double mean;    /* of the logarithm of ns; the last few weigh most */
} ShapeTimes;

typedef struct Shape {
  uint64 key;  /* 0: this place is free */
  uint64 used; /* the table's clock when it was used last */
  Oid database;
  Oid role;            /* who ran it first: may see its text */
  uint64 statement_id; /* of its text (ground/statement); 0: none */
  uint64 query_id;     /* the server's own; 0: none */
  bool pinned;         /* core's plan is the one to run */
  bool by_wall;        /* one of both plans has workers: their processor time is not ours to read */
  ShapeTimes times[WAYS];
  double our_cost;
  double stock_cost;   /* 0: not known yet */
  double predicted_ns; /* what the costs say of stock */
  double replan_ns; /* what planning for core took: comes with each execution of a pinned shape */
  /* trials */
  uint32 since;     /* executions of the standing plan since the last trial */
  uint32 wait;      /* before the next */
  double total_ns;  /* all executions of the standing plan */
  double regret_ns; /* by how much trials took longer */
  /* pairs: ln(ours) - ln(stock) */
  int pairs;
  double mean;     /* the last few weigh most */
  int judged;      /* pairs of this trial, at most SHAPE_PAIRS */
  int slower;      /* of them with ours slower by more than SHAPE_SLOWER */
  int much_slower; /* and by more than SHAPE_MUCH_SLOWER */
  int against;     /* trials in a row in which a pinned shape's ours was not slower */
#define SHAPE_QUERY_BYTES 240
  char query[SHAPE_QUERY_BYTES]; /* the beginning of the text */
} Shape;

typedef enum ShapeWish {
  WISH_NOTHING,
  WISH_PRICE, /* to know what core's plan costs */
  WISH_TRIAL  /* an execution of the plan that is not the standing one */
} ShapeWish;

static inline ShapeWay shape_standing(const Shape *shape) {
  return shape->pinned ? WAY_STOCK : WAY_OURS;
}

/* Of a new shape. */
extern void shape_begin(Shape *shape);
extern ShapeWish shape_wish(const Shape *shape, ShapesSetting setting);
/* A trial was planned: the next caller must wait. */
extern void shape_trial_begins(Shape *shape);
/* Takes in an execution, and pins or releases the shape. */
extern void shape_record(Shape *shape, ShapeWay way, double ns);
/* Core's plan was made: what it costs, and whether workers run in either. */
extern void shape_priced(Shape *shape, double stock_cost, double ns_per_unit, bool by_wall);

/* Ours to stock's, over all pairs; 1 without any. */
extern double shape_ratio(const Shape *shape);

#endif
