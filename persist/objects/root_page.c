/* Checks the invariants of a page of roots. */
#include "root_page.h"

static bool entry_possible(const p3l_root_entry *entry) {
  static const p3l_root_entry none;
  if (entry->address == 0) return memcmp(entry, &none, sizeof(none)) == 0;
  if (!p3l_root_name_possible(entry->name)) return false;
  size_t length = strlen(entry->name);
  return memcmp(entry->name + length, none.name, P3L_ROOT_NAME_BYTES - length) == 0 &&
         (entry->address & UINT64_C(1) << 63) == 0 &&
         p3l_surrogate_possible(UINT64_C(1) << 63 | entry->address);
}

/* Names seen so far, by hash. Each page of roots is checked whenever a name is looked up in it,
 * and comparing all pairs of names dominated that time. */
enum { NAME_SLOTS = 128 };
typedef struct names {
  const char *at[NAME_SLOTS]; /* twice the number of entries, so that some are always free */
} names;

/* Hashes all bytes: those after the terminator are zero. */
static uint32_t name_hash(const char *name) {
  uint64_t hash = 0;
  for (size_t at = 0; at < P3L_ROOT_NAME_BYTES; at += sizeof(uint64_t)) {
    uint64_t word;
    memcpy(&word, name + at, sizeof(word));
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    hash ^= hash >> 32;
  }
  return (uint32_t)hash;
}
_Static_assert(P3L_ROOT_NAME_BYTES % sizeof(uint64_t) == 0 && P3L_ROOT_ENTRIES < NAME_SLOTS,
               "whole words, and a free slot");

/* Returns false if the name was already there. */
static bool names_add(names *names, const char *name) {
  uint32_t slot = name_hash(name) % NAME_SLOTS;
  for (; names->at[slot] != NULL; slot = (slot + 1) % NAME_SLOTS)
    if (strcmp(names->at[slot], name) == 0) return false;
  names->at[slot] = name;
  return true;
}

const char *p3l_root_page_fault(const p3l_root_page *page) {
  names names = {{NULL}};
  for (size_t i = 0; i < sizeof(page->zeros) / sizeof(*page->zeros); i++)
    if (page->zeros[i] != 0) return "has a head that was never written so";
  for (size_t i = 0; i < P3L_ROOT_ENTRIES; i++) {
    if (!entry_possible(&page->entries[i])) return "has a root that cannot be";
    if (page->entries[i].address != 0 && !names_add(&names, page->entries[i].name))
      return "has two roots of one name";
  }
  return NULL;
}
