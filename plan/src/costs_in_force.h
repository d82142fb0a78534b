/*
 * Cost constants: definitions, the values in force, and names. The names are used by the
 * calibration's table, by the view, and by code that sets all constants.
 */
#ifndef CCOPT_COSTS_IN_FORCE_H
#define CCOPT_COSTS_IN_FORCE_H

#include "compat.h"

typedef struct CostConstants {
  double ns_per_unit; /* stock: ns of a unit of processor cost, at cpu_tuple_cost = 0.01 */

  /* stock, per row unless said otherwise */
  double stock_page;       /* per page: pin, visibility */
  double stock_row;        /* a row through SeqScan */
  double stock_attribute;  /* deforming one more attribute */
  double stock_qual;       /* one comparison of a by-value type */
  double stock_numeric;    /* one operator or transition on numeric */
  double stock_transition; /* one transition of a by-value type: count, sum(int4) */
  double stock_group;      /* finding a row's group in a hash table that fits L2 */

  /* batches, per row unless said otherwise */
  double batch_page;
  double batch_row;       /* gathering a row: header, selection */
  double batch_attribute; /* the walk, one more attribute */
  double batch_qual;      /* a comparison of decoded numbers */
  double batch_text_qual; /* equality, LIKE */
  double batch_decimal;   /* decoding one decimal */
  double batch_transition;
  double batch_group;
  double batch_emit;  /* passing a row on in a slot */
  double batch_probe; /* a hash probe, prefetched, into a table far beyond L2 */

  /* memory: a dependent access to a structure of 2^i KB, i = 7 .. 18; plain and prefetched */
  double probe_plain[12];
  double probe_prefetched[12];

  double margin; /* required ratio of the costs that a batch path changes; >= 1 */
} CostConstants;

/*
 * The constants in force: calibrated for this machine and server, or built in; with the margin of
 * ccopt.margin if that is set. Never NULL; loaded at the session's first use, only while planning.
 */
extern const CostConstants *cost_constants(void);

/* ns of one of core's units of processor cost: the user may have scaled the units. */
extern double ns_per_unit(const CostConstants *constants);

/* Part of the key of a calibration: in another version a constant may have another meaning. */
#define CCOPT_VERSION "0.1"

typedef struct CostConstantName {
  const char *name;
  size_t offset; /* of the double in CostConstants */
  const char *unit;
  const char *meaning;
} CostConstantName;

extern const CostConstantName cost_constant_names[];
extern const int cost_constant_count;

static inline double *cost_constant(CostConstants *constants, int index) {
  return (double *)((char *)constants + cost_constant_names[index].offset);
}

/* The built-in constants, used before the first calibration. */
extern const CostConstants built_in_cost_constants;

/* The part of a calibration's key that names the processor. */
extern const char *processor_name(void);
extern const char *server_version_name(void);

/* The table ccopt.calibration, if it exists and belongs to the extension; otherwise InvalidOid. */
extern Oid calibration_table(void);

#endif
