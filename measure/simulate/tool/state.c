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

/* A statement's text: where it is, its length if the server keeps that, and how to read it. */
struct text {
  uint64_t at, length;
  uint32_t has_length;
  enum hm_dialect dialect;
};

/* Length of a text, up to HM_STATEMENT_READ, its zero or the end of what can be read. */
static uint32_t text_length(const struct text *text) {
  uint32_t readable = 0, length = 0, most = HM_STATEMENT_READ;
  if (text->has_length && text->length < most) most = (uint32_t)text->length;
  while (length < most) {
    if (length == readable) {
      uint64_t at = text->at + length, to_page_end = PAGE_SIZE - (at & (PAGE_SIZE - 1));
      if (at < text->at || !hm_state_readable(at, to_page_end)) break;
      readable += (uint32_t)to_page_end;
    }
    if (((const volatile char *)(uintptr_t)text->at)[length] == 0) break;
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

static int is_last(const struct text *text, uint64_t header) {
  const char *bytes = (const char *)(uintptr_t)text->at;
  if (last.id == 0 || text->at != last.text || header != last.header) return 0;
  if (text->has_length && text->length != last.length) return 0;
  uint64_t needed = (uint64_t)last.length + (text->has_length ? 0 : 1);
  return hm_state_readable(text->at, needed) && (text->has_length || bytes[last.length] == 0) &&
         hash_of_beginning(bytes, last.length) == last.beginning;
}

static uint64_t statement_of(struct hm_header *header, const struct text *text) {
  static char normalised[HM_STATEMENT_LONGEST];
  if (is_last(text, (uint64_t)(uintptr_t)header)) return last.id;
  uint32_t length = text_length(text);
  if (length == 0) return 0;
  const char *bytes = (const char *)(uintptr_t)text->at;
  size_t written = hm_statement_normalise(text->dialect, bytes, length, normalised, NULL);
  if (written == 0) return 0; /* nothing but comments */
  uint64_t id = hm_statement_id(normalised, written);
  if (header->statements != 0)
    hm_statement_register((struct hm_statement *)((char *)header + header->statements), id,
                          normalised, written);
  last.text = text->at;
  last.header = (uint64_t)(uintptr_t)header;
  last.beginning = hash_of_beginning(bytes, length);
  last.length = length;
  last.id = id;
  return id;
}

static uint64_t statement_at(struct hm_header *header, uint64_t pointer) {
  struct text text = {.dialect = HM_DIALECT_POSTGRES};
  if (!read_pointer(pointer, &text.at) || text.at == 0) return 0;
  return statement_of(header, &text);
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

/* The last statement of each connection; one may take another's place, and is then forgotten. */
#define CONNECTIONS 4096u
static struct { uint64_t connection, statement; } executed[CONNECTIONS];

/* The statement of the session that the thread serves. */
static void read_thread_statement(struct hm_header *header, const struct hm_state_rule *rule,
                                  uint64_t thread_pointer, struct hm_state *state) {
  struct text text = {.has_length = 1, .dialect = HM_DIALECT_MARIADB};
  uint64_t session, connection;
  if (thread_pointer == 0 || !read_pointer(thread_pointer + rule->base, &session)) return;
  if (session == 0 || !read_pointer(session + rule->table, &connection)) return;
  if (!read_pointer(session + rule->offset, &text.at)) return;
  if (!read_pointer(session + rule->offset + sizeof text.at, &text.length)) return;
  uint64_t slot = connection % CONNECTIONS;
  if (text.at != 0) state->statement = statement_of(header, &text);
  if (state->statement != 0) {
    executed[slot].connection = connection;
    executed[slot].statement = state->statement;
  } else if (executed[slot].connection == connection) {
    state->statement = executed[slot].statement;
    state->statement_over = state->statement != 0;
  }
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

/* Words of four bytes of the page that holds the address. */
static int read_page(const struct hm_state_rule *rule, uint64_t address, uint8_t *into) {
  if (address < rule->base || address - rule->base >= rule->size || rule->stride == 0) return 0;
  uint64_t page = address - (address - rule->base) % rule->stride;
  for (uint32_t i = 0; i < rule->length / 4; i++) {
    uint64_t offsets = i < 4 ? rule->table : rule->table_stride;
    if (!read_bytes(page + (offsets >> 16 * (i % 4) & 0xffff), into + 4 * i, 4)) return 0;
  }
  return rule->length % 4 == 0;
}

static int needs_length(uint32_t kind) {
  return kind != HM_STATE_STATEMENT && kind != HM_STATE_THREAD_STATEMENT;
}

void hm_read_state(struct hm_header *header, uint64_t thread_pointer, uint64_t address,
                   struct hm_state *state) {
  uint32_t rules = atomic_load_explicit(&header->state_rules, memory_order_acquire);
  state->statement = 0;
  state->statement_over = 0;
  state->values = 0;
  if (rules > HM_STATE_RULES) rules = HM_STATE_RULES;
  for (uint32_t i = 0; i < rules; i++) {
    const struct hm_state_rule *rule = &header->state_rule[i];
    struct hm_state_value *value = &state->value[state->values];
    int found = 0;
    if (rule->length > HM_STATE_LONGEST || (rule->length == 0 && needs_length(rule->kind)))
      continue;
    switch (rule->kind) {
      case HM_STATE_STATEMENT: read_statement(header, rule, state); break;
      case HM_STATE_WORD: found = read_word(rule, value->bytes); break;
      case HM_STATE_ENTRY: found = read_entry(rule, address, value->bytes); break;
      case HM_STATE_THREAD_STATEMENT:
        read_thread_statement(header, rule, thread_pointer, state);
        break;
      case HM_STATE_PAGE: found = read_page(rule, address, value->bytes); break;
      default: break; /* of a newer recorder */
    }
    if (!found) continue;
    value->id = rule->id;
    value->length = rule->length;
    state->values++;
  }
}
