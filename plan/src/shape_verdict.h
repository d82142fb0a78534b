/*
 * The measurements of one shape, and the decisions that follow. No locks, no hooks: arithmetic
 * only.
 *
 * Times are compared as logarithms, and in pairs: a trial of one plan with the last few executions
 * of the other. Tables grow, caches fill, parameters differ; executions close in time share most of
 * these conditions, and the spread of the pairs shows the rest.
 */
#ifndef CCOPT_SHAPE_VERDICT_H
#define CCOPT_SHAPE_VERDICT_H

#include "shapes.h"

typedef enum ShapeWay { WAY_OURS, WAY_STOCK, WAYS } ShapeWay;

typedef struct ShapeTimes {
  uint64 runs;    /* executions that ran to their end */
  uint64 samples; /* those included in `mean` */
  double mean;    /* mean logarithm of ns; the last few have most weight */
} ShapeTimes;

typedef struct Shape {
  uint64 key;  /* 0: this place is free */
  uint64 used; /* the table's clock when it was used last */
  Oid database;
  Oid role;            /* who ran it first, and may therefore read its text */
  uint64 statement_id; /* of its text (ground/statement); 0: none */
  uint64 query_id;     /* the server's own; 0: none */
  bool pinned;         /* core's plan is the standing one */
  bool by_wall;        /* one of the two plans has workers, whose processor time cannot be read */
  ShapeTimes times[WAYS];
  double our_cost;
  double stock_cost;   /* 0: not known yet */
  double predicted_ns; /* time predicted from core's cost */
  double replan_ns;    /* time to plan for core, spent at each execution of a pinned shape */
  /* trials */
  uint32 since;     /* executions of the standing plan since the last trial */
  uint32 wait;      /* executions to wait for the next trial */
  double total_ns;  /* time of all executions of the standing plan */
  double regret_ns; /* extra time of trials */
  /* pairs: ln(ours) - ln(stock) */
  int pairs;
  double mean;     /* the last few have most weight */
  int judged;      /* pairs of this trial, at most SHAPE_PAIRS */
  int slower;      /* those where ccopt's plan was slower by more than SHAPE_SLOWER */
  int much_slower; /* those where it was slower by more than SHAPE_MUCH_SLOWER */
  int against;     /* trials in a row in which a pinned shape's ccopt plan was not slower */
#define SHAPE_QUERY_BYTES 240
  char query[SHAPE_QUERY_BYTES]; /* the beginning of the text */
} Shape;

typedef enum ShapeWish {
  WISH_NOTHING,
  WISH_PRICE, /* plan with core to learn its cost */
  WISH_TRIAL  /* execute the plan that is not the standing one */
} ShapeWish;

static inline ShapeWay shape_standing(const Shape *shape) {
  return shape->pinned ? WAY_STOCK : WAY_OURS;
}

/* Initializes a new shape. */
extern void shape_begin(Shape *shape);
extern ShapeWish shape_wish(const Shape *shape, ShapesSetting setting);
/* A trial was planned: the next caller must wait. */
extern void shape_trial_begins(Shape *shape);
/* Adds an execution, and pins or releases the shape. */
extern void shape_record(Shape *shape, ShapeWay way, double ns);
/* Core's plan was made: records its cost, and whether either plan has workers. */
extern void shape_priced(Shape *shape, double stock_cost, double ns_per_unit, bool by_wall);

/* The ratio of ccopt's time to core's, over all pairs; 1 without pairs. */
extern double shape_ratio(const Shape *shape);

#endif
