/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Carrying out the state rules at a sample.
 *
 * A rule names addresses of the server's first process.  Here they may be
 * anything: not mapped in this process, or, before the server has set itself up,
 * full of garbage.  So every address is tested before it is read, lengths are
 * bounded, and what cannot be read is silently left out.
 */
#include "state.h"

#include "hm_hash.h"
#include "hm_statement.h"
#include "statement.h"

#define PAGE_SIZE (1ull << HM_PAGE_BITS)

static int read_bytes(uint64_t address, uint8_t *into, uint32_t length) {
  if (address == 0 || address + length < address || !hm_state_readable(address, length)) return 0;
  const volatile uint8_t *from = (const uint8_t *)(uintptr_t)address;
  for (uint32_t i = 0; i < length; i++) into[i] = from[i];
  return 1;
}

static int read_pointer(uint64_t address, uint64_t *value) {
  return read_bytes(address, (uint8_t *)value, sizeof *value);
}

/* Length of a text, up to HM_STATEMENT_READ or the end of what can be read. */
static uint32_t text_length(uint64_t address) {
  uint32_t readable = 0, length = 0;
  while (length < HM_STATEMENT_READ) {
    if (length == readable) {
      uint64_t at = address + length, to_page_end = PAGE_SIZE - (at & (PAGE_SIZE - 1));
      if (at < address || !hm_state_readable(at, to_page_end)) break;
      readable += (uint32_t)to_page_end;
    }
    if (((const volatile char *)(uintptr_t)address)[length] == 0) break;
    length++;
  }
  return length;
}

/* The statement of the previous sample. Consecutive samples usually have the same statement,
 * which is recognised without reading all of its text: same address, same beginning, same end. */
static struct {
  uint64_t text, header, beginning, id;
  uint32_t length;
} last;
#define BEGINNING 16384u

static uint64_t hash_of_beginning(const char *bytes, uint32_t length) {
  return hm_hash_text(bytes, length < BEGINNING ? length : BEGINNING);
}

static int is_last(uint64_t text, uint64_t header) {
  const char *bytes = (const char *)(uintptr_t)text;
  return last.id != 0 && text == last.text && header == last.header &&
         hm_state_readable(text, (uint64_t)last.length + 1) && bytes[last.length] == 0 &&
         hash_of_beginning(bytes, last.length) == last.beginning;
}

static uint64_t statement_at(struct hm_header *header, uint64_t pointer) {
  static char normalised[HM_STATEMENT_LONGEST];
  uint64_t text;
  if (!read_pointer(pointer, &text) || text == 0) return 0;
  if (is_last(text, (uint64_t)(uintptr_t)header)) return last.id;
  uint32_t length = text_length(text);
  if (length == 0) return 0;
  const char *bytes = (const char *)(uintptr_t)text;
  /* Only PostgreSQL has rules of this kind. */
  size_t written = hm_statement_normalise(HM_DIALECT_POSTGRES, bytes, length, normalised, NULL);
  if (written == 0) return 0; /* nothing but comments */
  uint64_t id = hm_statement_id(normalised, written);
  if (header->statements != 0)
    hm_statement_register((struct hm_statement *)((char *)header + header->statements), id,
                          normalised, written);
  last.text = text;
  last.header = (uint64_t)(uintptr_t)header;
  last.beginning = hash_of_beginning(bytes, length);
  last.length = length;
  last.id = id;
  return id;
}

/* The statement being executed; between statements, the latest one, which the server keeps for
 * its statistics views. */
static void read_statement(struct hm_header *header, const struct hm_state_rule *rule,
                           struct hm_state *state) {
  uint64_t holder;
  state->statement = statement_at(header, rule->base);
  if (state->statement != 0 || !rule->indirect) return;
  if (!read_pointer(rule->table, &holder) || holder == 0) return;
  state->statement = statement_at(header, holder + rule->offset);
  state->statement_over = state->statement != 0;
}

static int read_word(const struct hm_state_rule *rule, uint8_t *into) {
  uint64_t address = rule->base;
  if (rule->indirect) {
    if (!read_pointer(rule->base, &address) || address == 0) return 0;
    address += rule->offset;
  }
  return read_bytes(address, into, rule->length);
}

static int read_entry(const struct hm_state_rule *rule, uint64_t address, uint8_t *into) {
  if (address < rule->base || address - rule->base >= rule->size || rule->stride == 0) return 0;
  uint64_t index = (address - rule->base) / rule->stride;
  return read_bytes(rule->table + index * rule->table_stride, into, rule->length);
}

void hm_read_state(struct hm_header *header, uint64_t address, struct hm_state *state) {
  uint32_t rules = atomic_load_explicit(&header->state_rules, memory_order_acquire);
  state->statement = 0;
  state->statement_over = 0;
  state->values = 0;
  if (rules > HM_STATE_RULES) rules = HM_STATE_RULES;
  for (uint32_t i = 0; i < rules; i++) {
    const struct hm_state_rule *rule = &header->state_rule[i];
    struct hm_state_value *value = &state->value[state->values];
    int found = 0;
    if (rule->length > HM_STATE_LONGEST || (rule->length == 0 && rule->kind != HM_STATE_STATEMENT))
      continue;
    switch (rule->kind) {
      case HM_STATE_STATEMENT: read_statement(header, rule, state); break;
      case HM_STATE_WORD: found = read_word(rule, value->bytes); break;
      case HM_STATE_ENTRY: found = read_entry(rule, address, value->bytes); break;
      default: break; /* of a newer recorder */
    }
    if (!found) continue;
    value->id = rule->id;
    value->length = rule->length;
    state->values++;
  }
}
