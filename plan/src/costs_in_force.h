/*
 * The constants of costs.h by name: for the table that calibration writes, the view that shows
 * them, and whoever sets all of them.
 */
#ifndef CCOPT_COSTS_IN_FORCE_H
#define CCOPT_COSTS_IN_FORCE_H

#include "costs.h"

/* Part of the key of a calibration: another version may mean something else by a constant. */
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

/* What the constants are before anybody measured. */
extern const CostConstants built_in_cost_constants;

/* What a calibration is valid for, with the version above. */
extern const char *processor_name(void);
extern const char *server_version_name(void);

/* ccopt.calibration, if it is there and the extension's own; else InvalidOid. */
extern Oid calibration_table(void);

/* Core's plan: as `planner`, NULL for core's, makes it with ccopt.enabled off. It is on. */
extern PlannedStmt *plan_without_us(planner_hook_type planner, Query *parse,
                                    const char *query_string, int cursor_options,
                                    ParamListInfo bound_params);

/* Before ccopt.c puts its own hook in place, which then calls this one. */
extern void costs_second_opinion_register(void);

#endif
