/*
 * Chooses the cost constants in force: those that ccopt_calibrate() stored for this processor,
 * server and library, otherwise the built-in ones.
 *
 * They are read at the session's first planning and again after the table was invalidated, which
 * ccopt_calibrate() does. The table is read without SQL: the planner calls this and must not start
 * another planning, and all users may know the constants.
 */
#include "costs_in_force.h"

#include <math.h>
#include <stdio.h>

#include "access/genam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "doors.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "funcapi.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/tuplestore.h"

/* Medians of five calibrations on a Xeon with 2 MB L2. Inexact elsewhere, but of the right
 * order, and only ratios of stock and batch matter. */
const CostConstants built_in_cost_constants = {
    .ns_per_unit = 2800,
    .stock_page = 400,
    .stock_row = 28,
    .stock_attribute = 2.7,
    .stock_qual = 4,
    .stock_numeric = 28,
    .stock_transition = 4.5,
    .stock_group = 60,
    .batch_page = 350,
    .batch_row = 11,
    .batch_attribute = 0.4,
    .batch_qual = 0.3,
    .batch_text_qual = 5,
    .batch_decimal = 5,
    .batch_transition = 1.3,
    .batch_group = 7.5,
    .batch_emit = 11,
    .batch_probe = 7,
    /* Measured on a quiet machine (docs/design/plan.md, 3.1): with other load in L3 there is
     * less to gain. */
    .probe_plain = {40, 41, 51, 65, 125, 194, 345, 430, 523, 620, 723, 750},
    .probe_prefetched = {36, 36, 39, 42, 52, 70, 93, 110, 127, 160, 191, 200},
    .margin = 1.3,
};

#define CONSTANT(field, unit, meaning) \
  { #field, offsetof(CostConstants, field), unit, meaning }
#define PROBE(i, size)                                                            \
  {"probe_plain_" size, offsetof(CostConstants, probe_plain[i]), "ns",            \
   "one access into a structure of " size},                                       \
  {                                                                               \
    "probe_prefetched_" size, offsetof(CostConstants, probe_prefetched[i]), "ns", \
        "the same, prefetched"                                                    \
  }

const CostConstantName cost_constant_names[] = {
    CONSTANT(ns_per_unit, "ns", "a unit of core's processor cost, at cpu_tuple_cost = 0.01"),
    CONSTANT(stock_page, "ns/page", "Seq Scan, a page"),
    CONSTANT(stock_row, "ns/row", "Seq Scan, a row"),
    CONSTANT(stock_attribute, "ns/row", "Seq Scan, one more column to walk over"),
    CONSTANT(stock_qual, "ns/row", "Seq Scan, a comparison of integers"),
    CONSTANT(stock_numeric, "ns/row", "an operator or sum of numeric"),
    CONSTANT(stock_transition, "ns/row", "Aggregate, a count or sum of integers"),
    CONSTANT(stock_group, "ns/row", "HashAggregate, finding the group"),
    CONSTANT(batch_page, "ns/page", "BatchScan, a page"),
    CONSTANT(batch_row, "ns/row", "BatchScan, a row"),
    CONSTANT(batch_attribute, "ns/row", "BatchScan, one more column to walk over"),
    CONSTANT(batch_qual, "ns/row", "BatchScan, a comparison of numbers"),
    CONSTANT(batch_text_qual, "ns/row", "BatchScan, a comparison of text"),
    CONSTANT(batch_decimal, "ns/row", "decoding a numeric"),
    CONSTANT(batch_transition, "ns/row", "BatchAgg, a count or sum"),
    CONSTANT(batch_group, "ns/row", "BatchAgg, finding the group"),
    CONSTANT(batch_emit, "ns/row", "handing a row on to a node of core's"),
    CONSTANT(batch_probe, "ns/row", "BatchHashJoin, a probe, without its cache misses"),
    PROBE(0, "128kB"),
    PROBE(1, "256kB"),
    PROBE(2, "512kB"),
    PROBE(3, "1MB"),
    PROBE(4, "2MB"),
    PROBE(5, "4MB"),
    PROBE(6, "8MB"),
    PROBE(7, "16MB"),
    PROBE(8, "32MB"),
    PROBE(9, "64MB"),
    PROBE(10, "128MB"),
    PROBE(11, "256MB"),
    CONSTANT(margin, "times", "by how much a batch path must be faster to be chosen"),
};
const int cost_constant_count = lengthof(cost_constant_names);

static CostConstants in_force;
static bool measured[lengthof(cost_constant_names)];
static bool loaded = false;
static Oid loaded_from = InvalidOid;
static double margin_setting = 0;

/* ---- validity of a calibration ---- */

const char *processor_name(void) {
  static char name[128] = "";
  char line[256];
  FILE *file;

  if (name[0] != '\0') return name;
  snprintf(name, sizeof(name), "unknown");
  file = fopen("/proc/cpuinfo", "r");
  if (file == NULL) return name;
  while (fgets(line, sizeof(line), file) != NULL) {
    char *colon = strchr(line, ':');
    /* ARM has no name, only a part number. */
    if (colon == NULL ||
        (strncmp(line, "model name", 10) != 0 && strncmp(line, "CPU part", 8) != 0))
      continue;
    for (colon++; *colon == ' ' || *colon == '\t'; colon++) continue;
    colon[strcspn(colon, "\n")] = '\0';
    snprintf(name, sizeof(name), "%s", colon);
    break;
  }
  fclose(file);
  return name;
}

const char *server_version_name(void) { return GetConfigOption("server_version", false, false); }

Oid calibration_table(void) {
  Oid schema = get_namespace_oid("ccopt", true);
  Oid extension;
  Oid table;

  if (!OidIsValid(schema)) return InvalidOid;
  table = get_relname_relid("calibration", schema);
  if (!OidIsValid(table)) return InvalidOid;
  /* A user's table of that name is not used. */
  extension = get_extension_oid("ccopt", true);
  if (!OidIsValid(extension) || getExtensionOfObject(RelationRelationId, table) != extension)
    return InvalidOid;
  return table;
}

/* ---- loading ---- */

/* Columns of ccopt.calibration, in the order of sql/ccopt--0.1.sql. */
enum { PROCESSOR, SERVER, LIBRARY, NAME, VALUE, CALIBRATION_COLUMNS };

static bool expected_shape(TupleDesc shape) {
  static const Oid types[CALIBRATION_COLUMNS] = {TEXTOID, TEXTOID, TEXTOID, TEXTOID, FLOAT8OID};
  if (shape->natts < CALIBRATION_COLUMNS) return false;
  for (int i = 0; i < CALIBRATION_COLUMNS; i++)
    if (TupleDescAttr(shape, i)->atttypid != types[i]) return false;
  return true;
}

static bool text_is(Datum value, const char *expected) {
  char *content = TextDatumGetCString(value);
  bool same = strcmp(content, expected) == 0;
  pfree(content);
  return same;
}

static void take(Datum name, double value) {
  for (int i = 0; i < cost_constant_count; i++) {
    if (!text_is(name, cost_constant_names[i].name)) continue;
    /* Users may have written to the table: a cost of 0 or NaN would confuse the planner. */
    if (!(value > 0) || !isfinite(value)) return;
    *cost_constant(&in_force, i) = value;
    measured[i] = true;
  }
}

static void read_table(Oid table) {
  Relation relation = table_open(table, AccessShareLock);
  TupleTableSlot *slot = table_slot_create(relation, NULL);
  TableScanDesc scan = table_beginscan(relation, GetActiveSnapshot(), 0, NULL);

  while (expected_shape(RelationGetDescr(relation)) &&
         table_scan_getnextslot(scan, ForwardScanDirection, slot)) {
    bool has_null = false;
    slot_getsomeattrs(slot, CALIBRATION_COLUMNS);
    for (int i = 0; i < CALIBRATION_COLUMNS; i++) has_null = has_null || slot->tts_isnull[i];
    if (!has_null && text_is(slot->tts_values[PROCESSOR], processor_name()) &&
        text_is(slot->tts_values[SERVER], server_version_name()) &&
        text_is(slot->tts_values[LIBRARY], CCOPT_VERSION))
      take(slot->tts_values[NAME], DatumGetFloat8(slot->tts_values[VALUE]));
  }
  table_endscan(scan);
  ExecDropSingleTupleTableSlot(slot);
  table_close(relation, AccessShareLock);
}

static void load(void) {
  in_force = built_in_cost_constants;
  memset(measured, 0, sizeof(measured));
  loaded_from = InvalidOid;
  /* Without a transaction or a snapshot tables cannot be read: the built-in constants are used
   * for now.
   */
  if (!IsTransactionState() || !ActiveSnapshotSet()) return;
  /* Set first, so that an invalidation that arrives during the read is not lost. */
  loaded = true;
  loaded_from = calibration_table();
  if (!OidIsValid(loaded_from)) return;
  PG_TRY();
  { read_table(loaded_from); }
  PG_CATCH();
  {
    loaded = false;
    PG_RE_THROW();
  }
  PG_END_TRY();
}

const CostConstants *cost_constants(void) {
  static CostConstants with_setting;

  if (!loaded) load();
  if (margin_setting == 0) return &in_force;
  with_setting = in_force;
  with_setting.margin = margin_setting;
  return &with_setting;
}

/* While there is no table, any new table may be it: another session may run CREATE EXTENSION. */
static void table_changed(Datum argument, Oid relation) {
  if (!OidIsValid(relation) || !OidIsValid(loaded_from) || relation == loaded_from) loaded = false;
}

double ns_per_unit(const CostConstants *constants) {
  return constants->ns_per_unit * DEFAULT_CPU_TUPLE_COST / Max(cpu_tuple_cost, 1e-6);
}

void costs_register(void) {
  DefineCustomRealVariable("ccopt.margin",
                           "By how much a batch path must be faster to be chosen; 0 takes the "
                           "calibrated margin.",
                           NULL, &margin_setting, 0, 0, 1000, PGC_USERSET, GUC_EXPLAIN, NULL, NULL,
                           NULL);
  CacheRegisterRelcacheCallback(table_changed, (Datum)0);
}

/* ---- showing ---- */

PGDLLEXPORT Datum ccopt_constants(PG_FUNCTION_ARGS);
PG_FUNCTION_INFO_V1(ccopt_constants);

/* name, value, unit, built_in, source, meaning */
Datum ccopt_constants(PG_FUNCTION_ARGS) {
  ReturnSetInfo *result = (ReturnSetInfo *)fcinfo->resultinfo;
  CostConstants shown = *cost_constants();
  CostConstants built_in = built_in_cost_constants;

  InitMaterializedSRF(fcinfo, 0);
  for (int i = 0; i < cost_constant_count; i++) {
    const CostConstantName *constant = &cost_constant_names[i];
    bool set = margin_setting != 0 && constant->offset == offsetof(CostConstants, margin);
    const char *source = set ? "setting" : measured[i] ? "measured" : "built in";
    bool nulls[6] = {false};
    Datum values[6] = {
        CStringGetTextDatum(constant->name), Float8GetDatum(*cost_constant(&shown, i)),
        CStringGetTextDatum(constant->unit), Float8GetDatum(*cost_constant(&built_in, i)),
        CStringGetTextDatum(source),         CStringGetTextDatum(constant->meaning),
    };
    tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
  }
  return (Datum)0;
}
