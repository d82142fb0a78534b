/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Carrying out the state rules at a sample.
 *
 * A rule names addresses of the server's first process.  Here they may be
 * anything: not mapped in this process, or, before the server has set itself up,
 * full of garbage.  So every address is asked for before it is read, lengths are
 * bounded, and what cannot be read is silently left out.
 */
#include "state.h"

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

/* Length of a text, up to HM_STATEMENT_RAW or the end of what can be read. */
static uint32_t text_length(uint64_t address) {
  uint32_t readable = 0, length = 0;
  while (length < HM_STATEMENT_RAW) {
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

/* Samples come in bursts of the same statement; the raw text tells whether it is
 * the same, at a tenth of the cost of taking it apart again. */
static uint64_t statement_at(struct hm_header *header, uint64_t pointer) {
  static uint64_t last_raw, last_hash, last_header;
  uint64_t text;
  if (!read_pointer(pointer, &text) || text == 0) return 0;
  uint32_t length = text_length(text);
  if (length == 0) return 0;
  const char *bytes = (const char *)(uintptr_t)text;
  uint64_t raw = hm_statement_hash(bytes, length);
  if (raw == last_raw && last_header == (uint64_t)(uintptr_t)header) return last_hash;
  char without_constants[HM_STATEMENT_TEXT + 4];
  uint32_t normalised = hm_statement_normalise(bytes, length, without_constants);
  if (normalised == 0) return 0; /* nothing but comments */
  uint64_t hash = hm_statement_hash(without_constants, normalised);
  if (header->statements != 0)
    hm_statement_register((struct hm_statement *)((char *)header + header->statements), hash,
                          without_constants, normalised);
  last_raw = raw;
  last_hash = hash;
  last_header = (uint64_t)(uintptr_t)header;
  return hash;
}

/* The statement being executed; between statements, the one executed last, which
 * the server keeps for its own views of what it does. */
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
