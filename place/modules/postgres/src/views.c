/*
 * SQL functions: the kinds of statements, and the library's state. For pg_monitor, since they
 * show texts of other users' statements.
 */
#include "extension.h"

#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

#include "split.h"
#include "split_admission.h"

#define CODES 65536 /* maximum number of kinds (SPLIT_HASH_SIZE) */

PGDLLEXPORT Datum split_kinds(PG_FUNCTION_ARGS);
PGDLLEXPORT Datum split_status(PG_FUNCTION_ARGS);
PG_FUNCTION_INFO_V1(split_kinds);
PG_FUNCTION_INFO_V1(split_status);

/* Texts may be truncated within a character, and have the encoding of the database whose
 * statement was first. */
static Datum readable(char *text) {
  if (!pg_verifymbstr(text, (int)strlen(text), true))
    for (char *at = text; *at != '\0'; at++)
      if (IS_HIGHBIT_SET(*at)) *at = '?';
  return CStringGetTextDatum(text);
}

static const char *class_name(unsigned number) {
  static const char *const names[] = {"unknown", "short", "polluter", "sensitive", "neutral"};
  return number < lengthof(names) ? names[number] : names[0];
}

Datum split_kinds(PG_FUNCTION_ARGS) {
  ReturnSetInfo *result = (ReturnSetInfo *)fcinfo->resultinfo;

  InitMaterializedSRF(fcinfo, 0);
  for (split_code_id code = 0; code < CODES; code++) {
    struct split_kind_counts kind;
    Datum values[8];
    bool nulls[8] = {false};

    if (!split_kind_counts(code, &kind)) continue;
    values[0] = Int64GetDatum(code);
    values[1] = readable(kind.label);
    values[2] = readable(kind.note);
    values[3] = Int64GetDatum((int64)kind.count);
    nulls[4] = kind.exact == 0;
    values[4] = Float8GetDatum(kind.exact == 0 ? 0.0 : (double)kind.cycles / (double)kind.exact);
    values[5] = CStringGetTextDatum(class_name(kind.class_));
    nulls[6] = kind.related_app == 0;
    values[6] = nulls[6]
                    ? (Datum)0
                    : CStringGetTextDatum(psprintf("%x.%x", kind.related_app, kind.related_code));
    /* As text: SQL has no unsigned numbers, and the other views print it so. */
    nulls[7] = kind.statement == 0;
    values[7] = nulls[7]
                    ? (Datum)0
                    : CStringGetTextDatum(psprintf("%016llx", (unsigned long long)kind.statement));
    tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
  }
  return (Datum)0;
}

static void put_number(ReturnSetInfo *result, const char *name, uint64 number) {
  Datum values[2] = {CStringGetTextDatum(name),
                     CStringGetTextDatum(psprintf(UINT64_FORMAT, number))};
  bool nulls[2] = {false};
  tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

static void put_text(ReturnSetInfo *result, const char *name, const char *text) {
  Datum values[2] = {CStringGetTextDatum(name), CStringGetTextDatum(text)};
  bool nulls[2] = {false};
  tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

Datum split_status(PG_FUNCTION_ARGS) {
  ReturnSetInfo *result = (ReturnSetInfo *)fcinfo->resultinfo;
  struct split_counts counts = {0};
  struct split_admission_counts admission;
  int64_t app = 0;

  InitMaterializedSRF(fcinfo, 0);
  split_counts(&counts);
  split_admission_count(&admission);
  split_get(SPLIT_APP_ID, &app);
  put_number(result, "admission_exempt", admission.exempt);
  put_number(result, "admission_for_others", admission.for_others);
  put_number(result, "admission_late", admission.late);
  put_number(result, "admission_longest_ms", admission.longest_wait_ns / 1000000);
  put_number(result, "admission_running", admission.running);
  put_number(result, "admission_unlimited", admission.unlimited);
  put_number(result, "admission_waiting", admission.waiting);
  put_number(result, "admission_waits", admission.waits);
  put_text(result, "analyzer", counts.analyzer ? "running" : "absent");
  put_text(result, "app_id", psprintf("%x", (unsigned)app));
  put_number(result, "bad_origins", counts.bad_origins);
  put_number(result, "kinds", counts.kinds);
  put_number(result, "moves", counts.moves);
  put_number(result, "probes", counts.probes);
  put_text(result, "problem", split_problem());
  put_number(result, "sections", counts.sections);
  put_number(result, "without_room", counts.without_room);
  return (Datum)0;
}
