/*
 * Loading: settings, the segment that all backends share, hooks.
 *
 * The segment is made by the postmaster, and its children inherit it: starting a backend costs
 * nothing. No backend has the library's thread (PostgreSQL's processes are single-threaded); a
 * background worker does its work for all.
 */
#include "admission.h"
#include "extension.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/guc.h"

#include "split.h"

PG_MODULE_MAGIC;

bool split_engine = true;
bool split_ready = false;
bool split_place = true;
int split_probe_budget = 5000;

static char *directory = NULL;
static int app_id = 0;
static int related_app_id = 0;
static int kinds = 1024;
static int backend = SPLIT_BACKEND_AUTO;

static const struct config_enum_entry backends[] = {{"auto", SPLIT_BACKEND_AUTO, false},
                                                    {"pmu", SPLIT_BACKEND_PMU, false},
                                                    {"probe", SPLIT_BACKEND_PROBE, false},
                                                    {"none", SPLIT_BACKEND_NONE, false},
                                                    {NULL, 0, false}};

#define LARGEST_APP_ID ((1 << 24) - 1)

static void define_settings(void) {
  DefineCustomBoolVariable("split.engine", "Measures statements, and lets them be placed.",
                           "Switched off, backends have their affinity back within half a second.",
                           &split_engine, true, PGC_SIGHUP, 0, NULL, NULL, NULL);
  DefineCustomBoolVariable("split.place", "Lets the analyzer move backends.", NULL, &split_place,
                           true, PGC_SIGHUP, 0, NULL, NULL, NULL);
  DefineCustomIntVariable("split.probe_budget",
                          "What probing may cost, in millionths of the processors' time.", NULL,
                          &split_probe_budget, 5000, 0, 1000000, PGC_SIGHUP, 0, NULL, NULL, NULL);
  DefineCustomStringVariable("split.directory", "Folder of the segments, the analyzer's too.",
                             "Empty: the environment's SPLIT_DIRECTORY, else /run/hardmeter-split.",
                             &directory, "", PGC_POSTMASTER, 0, NULL, NULL, NULL);
  DefineCustomIntVariable("split.app_id", "Id of this server, which distinguishes it from others.",
                          "0: made from its name.", &app_id, 0, 0, LARGEST_APP_ID, PGC_POSTMASTER,
                          0, NULL, NULL, NULL);
  DefineCustomIntVariable(
      "split.related_app_id", "Id of the web server whose pages send the statements.", "0: none.",
      &related_app_id, 0, 0, LARGEST_APP_ID, PGC_POSTMASTER, 0, NULL, NULL, NULL);
  DefineCustomIntVariable("split.kinds", "Maximum number of statement kinds.",
                          "All others are counted as one.", &kinds, 1024, 64, 65536, PGC_POSTMASTER,
                          0, NULL, NULL, NULL);
  DefineCustomEnumVariable("split.backend", "What measures beside cycles.",
                           "The processor's counters, the occupancy probe, nothing.", &backend,
                           SPLIT_BACKEND_AUTO, backends, PGC_POSTMASTER, 0, NULL, NULL, NULL);
  DefineCustomIntVariable(
      "split.admission_timeout", "The longest time that a long statement waits for its turn.",
      "0: statements of this session are never held back.", &split_admission_timeout, 1000, 0,
      3600000, PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);
  MarkGUCPrefixReserved("split");
}

static void set(enum split_setting setting, int64_t value) { split_set(setting, &value); }

PGDLLEXPORT void _PG_init(void);

void _PG_init(void) {
  if (!process_shared_preload_libraries_in_progress)
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("split must be loaded when the server starts"),
                    errhint("Add split to shared_preload_libraries and restart the server.")));
  define_settings();
  EnableQueryId();
  split_without_service_thread();
  if (directory != NULL && directory[0] != '\0') split_configure(directory);
  set(SPLIT_HASH_SIZE, kinds);
  set(SPLIT_BACKEND, backend);
  split_app_id id = split_init_named("postgres", (split_app_id)app_id, (split_app_id)related_app_id,
                                     SPLIT_KEY_NUMBER);
  if (id == 0) {
    /* A server must start even if its measurements do not work. */
    ereport(WARNING, (errmsg("split is off: %s", split_problem())));
    return;
  }
  set(SPLIT_COLLECT, split_engine);
  set(SPLIT_PLACE, split_place);
  set(SPLIT_PROBE_BUDGET, split_probe_budget);
  split_ready = true;
  sections_install();
  worker_register();
  ereport(LOG, (errmsg("split %s measures statements as application %x", split_version(), id)));
  if (split_problem()[0] != '\0') ereport(LOG, (errmsg("split: %s", split_problem())));
}
