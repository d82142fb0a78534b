/*
 * Start and end of the library, and forks. process.h has the drawing.
 */
#include "affinity.h"
#include "hash.h"
#include "pmu.h"
#include "process.h"
#include "release.h"
#include "sample.h"
#include "settings.h"
#include "slice.h"
#include "thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
  pthread_mutex_t lock; /* held by threads that start or end the library */
  char directory[200];
  char reason[SPLIT_REASON]; /* why the library is off */
  struct split_mapping
      *left; /* mappings that were left, latest first: threads may still be using them */
} beginning = {.lock = PTHREAD_MUTEX_INITIALIZER, .reason = "split_init was not called"};

/* No lock in the child may be held by a thread that does not exist there. */
static void before_fork(void) {
  pthread_mutex_lock(&beginning.lock);
  split_sample_hold();
  split_threads_hold();
}

static void in_parent(void) {
  split_threads_let_go();
  split_sample_let_go();
  pthread_mutex_unlock(&beginning.lock);
}

static void in_child(void) {
  int before = errno;
  atomic_store(&split_process.served, NULL);
  split_threads_child();
  in_parent();
  errno = before;
}

static bool forks_open(void) {
  static bool open;
  if (!open) open = pthread_atfork(before_fork, in_parent, in_child) == 0;
  return open;
}

void split_configure(const char *directory) {
  pthread_mutex_lock(&beginning.lock);
  snprintf(beginning.directory, sizeof beginning.directory, "%s", directory ? directory : "");
  pthread_mutex_unlock(&beginning.lock);
}

/* The kernel, the C library and other threads hold addresses in this object (announcements,
 * destructors, fork handlers), so it must stay in memory. Fails for a main program, which stays
 * anyway. */
static void stay_in_memory(void) {
  Dl_info us;
  if (dladdr((void *)stay_in_memory, &us) == 0 || !us.dli_fname) return;
  void *handle = dlopen(us.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  if (handle) dlclose(handle);
}

/* The same program is the same application, wherever it was started from. */
static uint32_t app_of_program(const char *name) {
  uint32_t app = (uint32_t)(hm_hash_text(name, strlen(name)) >> 40);
  return app ? app : 1;
}

static const char *folder(void) {
  if (beginning.directory[0]) return beginning.directory;
  const char *of_environment = secure_getenv("SPLIT_DIRECTORY");
  return of_environment && of_environment[0] && strlen(of_environment) < sizeof beginning.directory
             ? of_environment
             : SPLIT_DEFAULT_FOLDER;
}

/* Chooses what is measured, and records what cannot be. */
static void choose_backend(struct split_mapping *mapping) {
  uint32_t wanted = split_settings.backend;
  uint32_t without = atomic_load(&mapping->header->without) & SPLIT_WITHOUT_MACHINE;
  split_process.rseq_works = split_preempt_works();
  if (!split_process.rseq_works) without |= SPLIT_WITHOUT_RSEQ;
  struct split_pmu *pmu = NULL;
  if (wanted == SPLIT_BACKEND_AUTO || wanted == SPLIT_BACKEND_PMU) pmu = split_pmu_open();
  split_process.pmu_works = pmu != NULL;
  split_pmu_close(pmu);
  if (!split_process.pmu_works) without |= SPLIT_WITHOUT_PMU;
  if (!split_slice_note_first()) without |= SPLIT_WITHOUT_SLICES;
  without |= SPLIT_WITHOUT_PROBE_SETS; /* until sets are published */
  atomic_store(&mapping->header->without, without);
  atomic_store(&mapping->header->backend,
               split_process.pmu_works ? SPLIT_BACKEND_PMU : SPLIT_BACKEND_NONE);
  split_process.may_probe = wanted == SPLIT_BACKEND_AUTO || wanted == SPLIT_BACKEND_PROBE;
  if (split_process.may_probe) split_sample_probes(mapping);
}

static split_app_id begin(const char *name, split_app_id app, split_app_id related,
                          enum split_key_type key_type) {
  struct split_wish wish = {
      .directory = folder(),
      .app_id = app ? app : app_of_program(program_invocation_short_name),
      .related_app_id = related,
      .key_type = (uint32_t)key_type,
      .kinds = split_settings.kinds,
      .kinds_asked = split_settings.kinds_asked,
  };
  if (wish.app_id >= 1u << 24 || related >= 1u << 24) {
    snprintf(beginning.reason, SPLIT_REASON, "an application id is 1 to 16777215, not %u",
             wish.app_id >= 1u << 24 ? wish.app_id : related);
    return 0;
  }
  if (key_type != SPLIT_KEY_TEXT && key_type != SPLIT_KEY_NUMBER) {
    snprintf(beginning.reason, SPLIT_REASON, "there is no key type %d", (int)key_type);
    return 0;
  }
  snprintf(wish.name, sizeof wish.name, "%s", name ? name : program_invocation_short_name);
  if (!split_threads_open() || !forks_open()) {
    snprintf(beginning.reason, SPLIT_REASON, "this program has no thread key left");
    return 0;
  }
  stay_in_memory();
  split_process.began = getpid();
  split_affinity_note_wide();
  struct split_mapping *mapping = split_mapping_open(&wish, beginning.reason);
  if (!mapping) return 0;
  split_settings_apply(mapping);
  choose_backend(mapping);
  beginning.reason[0] = '\0';
  atomic_store_explicit(&split_process.mapping, mapping, memory_order_release);
  return mapping->app_id;
}

split_app_id split_init_named(const char *name, split_app_id app, split_app_id related,
                              enum split_key_type key_type) {
  int before = errno;
  pthread_mutex_lock(&beginning.lock);
  struct split_mapping *mapping = split_mapping_in_use();
  split_app_id id = mapping ? mapping->app_id : begin(name, app, related, key_type);
  pthread_mutex_unlock(&beginning.lock);
  errno = before;
  return id;
}

split_app_id split_init(split_app_id app, split_app_id related, enum split_key_type key_type) {
  return split_init_named(NULL, app, related, key_type);
}

static void give_back(struct split_self *self) {
  struct split_thread *entry = atomic_load(&self->affinity.entry);
  if (!entry) return;
  split_entry_release(entry);
  split_entry_release_slice(entry);
}

void split_close(void) {
  int before = errno;
  pthread_mutex_lock(&beginning.lock);
  struct split_mapping *mapping = split_mapping_in_use();
  if (mapping) {
    atomic_store(&split_process.mapping, NULL);
    split_threads_each(give_back);
    if (split_self_here) split_preempt_disarm(&split_self_here->preempt);
    split_mapping_leave(mapping);
    mapping->earlier = beginning.left;
    beginning.left = mapping;
    snprintf(beginning.reason, SPLIT_REASON, "split_close was called");
  }
  pthread_mutex_unlock(&beginning.lock);
  errno = before;
}

const char *split_problem(void) {
  static _Thread_local char text[SPLIT_REASON];
  struct split_mapping *mapping = split_mapping_in_use();
  if (!mapping) {
    /* Never waits for a thread, not even one that is starting the library. */
    if (pthread_mutex_trylock(&beginning.lock) != 0) return "split_init is under way";
    snprintf(text, sizeof text, "%s", beginning.reason);
    pthread_mutex_unlock(&beginning.lock);
    return text;
  }
  static const struct {
    uint32_t bit;
    const char *words;
  } lacks[] = {
      {SPLIT_WITHOUT_RSEQ, "no rseq (preemption is seen in one section of 16)"},
      {SPLIT_WITHOUT_PMU | SPLIT_WITHOUT_PROBE_SETS,
       "no PMU and no probe sets (no cache behaviour until an analyzer finds some)"},
      {SPLIT_WITHOUT_MACHINE, "no machine.segment (other applications are not seen)"},
  };
  uint32_t without = atomic_load(&mapping->header->without);
  size_t length = 0;
  text[0] = '\0';
  for (size_t i = 0; i < sizeof lacks / sizeof *lacks; i++) {
    if ((without & lacks[i].bit) != lacks[i].bit) continue;
    length += (size_t)snprintf(text + length, sizeof text - length, "%s%s", length ? "; " : "",
                               lacks[i].words);
  }
  if (atomic_load(&mapping->header->without_room) && length < sizeof text)
    snprintf(text + length, sizeof text - length, "%sno room for more kinds (SPLIT_HASH_SIZE)",
             length ? "; " : "");
  return text;
}

#ifndef SPLIT_VERSION
#define SPLIT_VERSION "0"
#endif
const char *split_version(void) { return SPLIT_VERSION; }
