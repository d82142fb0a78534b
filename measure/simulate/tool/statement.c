/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The table of statements in the segment: normalised texts under their ids.
 */
#include "statement.h"

#include "hm_statement.h"

/* Open addressing: a slot belongs to the process that put the id there first; the length,
 * written last, marks the text as complete. */
void hm_statement_register(struct hm_statement *table, uint64_t id, const char *text,
                           size_t length) {
  enum { TRIES = 64 };
  for (uint32_t i = 0; i < TRIES; i++) {
    struct hm_statement *slot = &table[(id + i) % HM_STATEMENTS];
    uint64_t found = atomic_load_explicit(&slot->hash, memory_order_acquire);
    if (found == 0 && atomic_compare_exchange_strong(&slot->hash, &found, id)) {
      uint32_t kept = (uint32_t)hm_statement_cut(text, length, HM_STATEMENT_TEXT);
      for (uint32_t byte = 0; byte < kept; byte++) slot->text[byte] = text[byte];
      slot->text[kept] = 0;
      atomic_store_explicit(&slot->length, kept, memory_order_release);
      return;
    }
    if (found == id) return;
  }
}
