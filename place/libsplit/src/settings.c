/*
 * Settings of the library.
 *
 * Invariants:
 *   1. Values set before the library starts are kept in `early` and split_settings, and are stored
 *      in the segment afterwards (split_settings_apply).
 *   2. After that, settings in the segment are read and written there; the others can no longer be
 *      set.
 */
#include "settings.h"

#include "process.h"
#include "release.h"

#include <string.h>

struct split_settings split_settings = {.kinds = 1024};

/* Settings in the segment: their word, and the valid values. */
static const struct word {
  enum split_setting setting;
  int64_t least, most;
} words[] = {
    {SPLIT_COLLECT, 0, 1}, {SPLIT_ANALYSIS_INTERVAL, 10, 3600000}, {SPLIT_THRESHOLD, 0, INT32_MAX},
    {SPLIT_PLACE, 0, 1},   {SPLIT_PROBE_BUDGET, 0, 1000000},
};
#define WORDS (sizeof words / sizeof *words)

static struct {
  bool set[WORDS], weight_set;
  int64_t value[WORDS];
  double weight;
} early;

static _Atomic uint32_t *place_of(struct split_header *header, enum split_setting setting) {
  switch (setting) {
    case SPLIT_COLLECT: return &header->collect;
    case SPLIT_ANALYSIS_INTERVAL: return &header->analysis_interval_ms;
    case SPLIT_THRESHOLD: return &header->threshold;
    case SPLIT_PLACE: return &header->place;
    case SPLIT_PROBE_BUDGET: return &header->probe_budget_ppm;
    default: return NULL;
  }
}

static void store_weight(struct split_header *header, double weight) {
  uint64_t bits;
  memcpy(&bits, &weight, sizeof bits);
  atomic_store(&header->weight_bits, bits);
}

void split_settings_apply(struct split_mapping *mapping) {
  for (size_t i = 0; i < WORDS; i++)
    if (early.set[i])
      atomic_store(place_of(mapping->header, words[i].setting), (uint32_t)early.value[i]);
  if (early.weight_set) store_weight(mapping->header, early.weight);
}

static int set_word(struct split_mapping *mapping, size_t i, int64_t value) {
  if (value < words[i].least || value > words[i].most) return -1;
  if (!mapping) {
    early.set[i] = true;
    early.value[i] = value;
    return 0;
  }
  atomic_store(place_of(mapping->header, words[i].setting), (uint32_t)value);
  bool off = (words[i].setting == SPLIT_COLLECT || words[i].setting == SPLIT_PLACE) && value == 0;
  if (off) split_release_all(mapping);
  return 0;
}

int split_set(enum split_setting setting, const void *value) {
  struct split_mapping *mapping = split_mapping_in_use();
  if (!value) return -1;
  if (setting == SPLIT_WEIGHT) {
    double weight;
    memcpy(&weight, value, sizeof weight);
    if (!(weight >= 0 && weight <= 1)) return -1;
    if (mapping) {
      store_weight(mapping->header, weight);
    } else {
      early.weight = weight;
      early.weight_set = true;
    }
    return 0;
  }
  int64_t number;
  memcpy(&number, value, sizeof number);
  for (size_t i = 0; i < WORDS; i++)
    if (words[i].setting == setting) return set_word(mapping, i, number);
  if (mapping) return -1; /* the remaining settings can only be set before */
  if (setting == SPLIT_HASH_SIZE && number >= 16 && number <= SPLIT_KINDS_MAX) {
    split_settings.kinds = (uint32_t)number;
    split_settings.kinds_asked = true;
    return 0;
  }
  if (setting == SPLIT_BACKEND && number >= SPLIT_BACKEND_AUTO && number <= SPLIT_BACKEND_NONE) {
    split_settings.backend = (uint32_t)number;
    return 0;
  }
  return -1;
}

static bool early_word(size_t i, int64_t *number) {
  static const int64_t defaults[WORDS] = {1, 1000, 100, 1, 5000};
  *number = early.set[i] ? early.value[i] : defaults[i];
  return true;
}

static bool number_of(struct split_mapping *mapping, enum split_setting setting, int64_t *number) {
  for (size_t i = 0; i < WORDS; i++) {
    if (words[i].setting != setting) continue;
    if (!mapping) return early_word(i, number);
    *number = (int64_t)atomic_load(place_of(mapping->header, setting));
    return true;
  }
  switch (setting) {
    case SPLIT_HASH_SIZE: *number = mapping ? mapping->kind_count : split_settings.kinds; break;
    case SPLIT_BACKEND:
      *number = mapping ? atomic_load(&mapping->header->backend) : split_settings.backend;
      break;
    case SPLIT_APP_ID: *number = mapping ? mapping->app_id : 0; break;
    case SPLIT_RELATED_APP_ID: *number = mapping ? mapping->related_app_id : 0; break;
    case SPLIT_CODE_ID: {
      const struct split_self *self = split_self_here;
      bool inside = mapping && self && self->mapping == mapping && self->innermost;
      *number = inside ? self->innermost->code : SPLIT_CODE_NONE;
      break;
    }
    default: return false;
  }
  return true;
}

int split_get(enum split_setting setting, void *value) {
  struct split_mapping *mapping = split_mapping_in_use();
  if (!value) return -1;
  if (setting == SPLIT_WEIGHT) {
    double weight = early.weight_set ? early.weight : 0.9;
    if (mapping) {
      uint64_t bits = atomic_load(&mapping->header->weight_bits);
      memcpy(&weight, &bits, sizeof weight);
    }
    memcpy(value, &weight, sizeof weight);
    return 0;
  }
  int64_t number;
  if (!number_of(mapping, setting, &number)) return -1;
  memcpy(value, &number, sizeof number);
  return 0;
}
