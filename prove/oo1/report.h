/* The programs' output: one JSON object, documented in README.md. */
#ifndef OO1_REPORT_H
#define OO1_REPORT_H

#include "run.h"

typedef struct oo1_report oo1_report; /* the report of a run in progress */

oo1_report *oo1_report_new(void);
/* An oo1_add. */
void oo1_report_add(void *report, const char *name, double value);
/* Prints and frees. */
void oo1_report_run(oo1_report *report, const oo1_mode *mode, const oo1_description *description,
                    const oo1_request *request, const oo1_result *result);

void oo1_report_load(const oo1_description *description, uint64_t store_bytes);
void oo1_report_mode(const char *name, const oo1_mode *mode);

#endif
