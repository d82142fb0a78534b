/*
 * A background worker in place of the library's own thread: restores backends' affinity and time
 * slice after an analyzer died or stopped reporting, and applies the configuration to the
 * library for all processes.
 */
#include "extension.h"

#include <dlfcn.h>

#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"

#include "split.h"

/* A slice is restored within 0.6 s of the analyzer's death (stale after 0.5 s), an affinity
 * within 1.6 s (1.5 s). */
#define ROUND_MS 100
#define RESTART_S 5

PGDLLEXPORT void split_worker_main(Datum argument);

static void follow_settings(void) {
  int64_t collect = split_engine, place = split_place, budget = split_probe_budget;
  split_set(SPLIT_COLLECT, &collect);
  split_set(SPLIT_PLACE, &place);
  split_set(SPLIT_PROBE_BUDGET, &budget);
}

void split_worker_main(Datum argument) {
  pqsignal(SIGHUP, SignalHandlerForConfigReload);
  pqsignal(SIGTERM, die);
  BackgroundWorkerUnblockSignals();
  for (;;) {
    WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ROUND_MS,
              PG_WAIT_EXTENSION);
    ResetLatch(MyLatch);
    CHECK_FOR_INTERRUPTS();
    if (ConfigReloadPending) {
      ConfigReloadPending = false;
      ProcessConfigFile(PGC_SIGHUP);
      follow_settings();
    }
    split_release_stale();
  }
}

/* The worker process loads the library again: by its first path, or by its name if the path is
 * too long. */
static void library_name(char *name, size_t room) {
  Dl_info self;
  bool known = dladdr((const void *)&split_worker_main, &self) != 0 && self.dli_fname[0] == '/' &&
               strlen(self.dli_fname) < room;
  snprintf(name, room, "%s", known ? self.dli_fname : "split");
}

void worker_register(void) {
  BackgroundWorker worker = {0};
  worker.bgw_flags = BGWORKER_SHMEM_ACCESS;
  worker.bgw_start_time = BgWorkerStart_PostmasterStart;
  worker.bgw_restart_time = RESTART_S;
  library_name(worker.bgw_library_name, sizeof worker.bgw_library_name);
  snprintf(worker.bgw_function_name, sizeof worker.bgw_function_name, "split_worker_main");
  snprintf(worker.bgw_name, sizeof worker.bgw_name, "split placement");
  snprintf(worker.bgw_type, sizeof worker.bgw_type, "split placement");
  RegisterBackgroundWorker(&worker);
}
