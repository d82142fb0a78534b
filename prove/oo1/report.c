#include "report.h"

#include <cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "die.h"
#include "json.h"

struct oo1_report {
  cJSON *statistics;
};

oo1_report *oo1_report_new(void) {
  oo1_report *report = oo1_allocate(sizeof *report);
  report->statistics = cJSON_CreateObject();
  return report;
}

void oo1_report_add(void *report, const char *name, double value) {
  cJSON_AddNumberToObject(((oo1_report *)report)->statistics, name, value);
}

static void add_list(cJSON *object, const char *name, const uint64_t *values, size_t count) {
  cJSON *list = cJSON_AddArrayToObject(object, name);
  for (size_t i = 0; i < count; i++)
    cJSON_AddItemToArray(list, cJSON_CreateNumber((double)values[i]));
}

static void add_graph(cJSON *object, const oo1_description *description) {
  cJSON_AddNumberToObject(object, "parts", description->parts);
  cJSON_AddBoolToObject(object, "locality", description->locality);
  oo1_json_whole(object, "graph_seed", description->graph_seed);
  oo1_json_hex(object, "graph", description->digest);
}

void oo1_report_load(const oo1_description *description, uint64_t store_bytes) {
  cJSON *object = cJSON_CreateObject();
  cJSON_AddStringToObject(object, "benchmark", "oo1");
  cJSON_AddStringToObject(object, "mode", description->mode);
  cJSON_AddStringToObject(object, "layout", description->layout);
  add_graph(object, description);
  cJSON_AddNumberToObject(object, "load_seconds", description->load_seconds);
  oo1_json_whole(object, "store_bytes", store_bytes);
  oo1_json_print(object);
}

void oo1_report_mode(const char *name, const oo1_mode *mode) {
  cJSON *object = cJSON_CreateObject();
  cJSON_AddStringToObject(object, "benchmark", "oo1");
  cJSON_AddStringToObject(object, "mode", name);
  cJSON_AddStringToObject(object, "compiler", mode->compiler);
  cJSON *layouts = cJSON_AddArrayToObject(object, "layouts");
  cJSON_AddItemToArray(layouts, cJSON_CreateString("oo1"));
  cJSON_AddItemToArray(layouts, cJSON_CreateString("paper"));
  cJSON *measures = cJSON_AddArrayToObject(object, "measures");
  for (int i = 0; i < 4; i++) cJSON_AddItemToArray(measures, cJSON_CreateString(oo1_measures[i]));
  cJSON_AddBoolToObject(object, "persistent", mode->keeps);
  cJSON_AddBoolToObject(object, "can_prefetch", mode->can_prefetch);
  cJSON_AddBoolToObject(object, "can_limit_memory", mode->can_limit);
  oo1_json_print(object);
}

static void add_cache(cJSON *object, const oo1_request *request, const oo1_result *result) {
  cJSON *cache = cJSON_AddObjectToObject(object, "cache");
  cJSON_AddStringToObject(cache, "state", request->drop_cache ? "dropped" : "hot");
  cJSON_AddStringToObject(
      cache, "how", request->drop_cache ? "fsync, posix_fadvise(DONTNEED)" : "read once before");
  if (request->drop_cache) oo1_json_whole(cache, "resident_bytes", result->resident_after_drop);
}

static void add_phases(cJSON *object, const oo1_result *result) {
  cJSON *phases = cJSON_AddArrayToObject(object, "phases");
  for (int i = 0; i < OO1_PHASES && result->plan.phases[i] != NULL; i++) {
    const oo1_times *times = &result->phases[i];
    cJSON *phase = cJSON_CreateObject();
    cJSON_AddItemToArray(phases, phase);
    cJSON_AddStringToObject(phase, "name", result->plan.phases[i]);
    cJSON_AddNumberToObject(phase, "repeats", times->count > 0 ? times->repeats[0] : 1);
    add_list(phase, "wall_ns", times->wall, times->count);
    add_list(phase, "cpu_ns", times->cpu, times->count);
  }
}

void oo1_report_run(oo1_report *report, const oo1_mode *mode, const oo1_description *description,
                    const oo1_request *request, const oo1_result *result) {
  cJSON *object = cJSON_CreateObject();
  cJSON_AddStringToObject(object, "benchmark", "oo1");
  cJSON_AddStringToObject(object, "mode", description->mode);
  cJSON_AddStringToObject(object, "compiler", mode->compiler);
  cJSON_AddStringToObject(object, "layout", description->layout);
  cJSON_AddStringToObject(object, "measure", oo1_measures[request->measure]);
  cJSON_AddStringToObject(object, "protocol", request->protocol);
  oo1_json_whole(object, "seed", request->sizes.seed);
  add_graph(object, description);
  add_cache(object, request, result);
  cJSON_AddBoolToObject(object, "prefetch", request->how.prefetch);
  oo1_json_whole(object, "memory_limit", request->how.memory_limit);
  cJSON_AddBoolToObject(object, "discovery_order", request->how.discovery_order);
  cJSON_AddNumberToObject(object, "load_seconds", description->load_seconds);
  oo1_json_whole(object, "open_ns", result->open_ns);
  oo1_json_whole(object, "store_bytes", result->store_bytes);
  add_phases(object, result);
  add_list(object, "visited", result->visited, result->patterns_seen);
  oo1_json_hex(object, "checksum", result->checksum);
  oo1_json_whole(object, "capped", result->capped);
  cJSON *faults = cJSON_AddObjectToObject(object, "faults");
  oo1_json_whole(faults, "minor", result->usage.minor_faults);
  oo1_json_whole(faults, "major", result->usage.major_faults);
  oo1_json_whole(faults, "handled", result->counts.faults_handled);
  cJSON *reads = cJSON_AddObjectToObject(object, "reads");
  oo1_json_whole(reads, "calls", result->usage.read_calls);
  oo1_json_whole(reads, "bytes", result->usage.read_bytes);
  oo1_json_whole(object, "rss_bytes", result->rss);
  oo1_json_whole(object, "rss_peak_bytes", result->rss_peak);
  add_list(object, "raw_wall_ns", result->raw, result->raw_count);
  oo1_json_whole(object, "raw_bytes", result->raw_bytes);
  if (request->measure == OO1_INSERT)
    cJSON_AddBoolToObject(object, "durable", mode->durable);
  else
    cJSON_AddNullToObject(object, "durable");
  cJSON_AddItemToObject(object, "statistics", report->statistics);
  free(report);
  oo1_json_print(object);
}
