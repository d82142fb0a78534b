/*
 * The program's types and the store's.
 *
 *   registered                           the store's table
 *   part v2 ── same name, same hash ───> 2 part v2  <── current ── 1 part v1
 *           <────── program_types ──────
 *
 * If the program has another layout for a type's name, objects are upgraded one by one when they
 * are first loaded. The new layout also has an id: in a store open for writing it is added to the
 * table at open; in a store open for reading the id exists only in memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "changes.h"
#include "fault.h"
#include "store.h"
#include "types.h"

/* ---- registered types ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct known_type {
  const p3l_type *type;
  const p3l_union *unions; /* NULL: none */
} * registered;
static size_t registered_count, registered_capacity;

static bool same_type(const struct known_type *a, const struct known_type *b);

enum { WORD = sizeof(void *), MOST_WORDS = 63 };

static uint32_t arms_of(const p3l_union *at) {
  uint32_t count = 0;
  while (count < P3L_MOST_ARMS && at->arms[count] != P3L_ARMS_END) count++;
  return count;
}

/* The words of a union that are pointers in any of its arms. */
static uint64_t words_of(const p3l_union *at) {
  uint64_t words = 0;
  for (uint32_t arm = arms_of(at); arm-- > 0;) words |= at->arms[arm];
  return words;
}

static const char *unions_fault(const p3l_type *type, const p3l_union *unions) {
  uint64_t end = 0;
  for (const p3l_union *at = unions; at != NULL && at->name != NULL; at++) {
    if (at->live == NULL) return "has a union without a function that says which arm is live";
    if (at->offset % WORD != 0) return "has a union that is not aligned";
    if (at->bytes == 0 || at->bytes > MOST_WORDS * WORD)
      return "has a union that is empty or of more than 504 bytes";
    if (at->offset < end) return "has unions out of order";
    end = (uint64_t)at->offset + at->bytes;
    if (end > type->bytes) return "has a union behind its end";
    if (arms_of(at) == 0 || at->arms[arms_of(at)] != P3L_ARMS_END)
      return "has a union with no arms, or with more than 16";
    if (words_of(at) >> at->bytes / WORD != 0) return "has a union with a pointer behind its end";
    if (type->bytes % WORD != 0) return "has a union, and a size that is not a multiple of 8";
  }
  return NULL;
}

/* The union that has the byte at `offset`, or NULL. */
static const p3l_union *union_at(const p3l_union *unions, uint32_t offset) {
  for (const p3l_union *at = unions; at != NULL && at->name != NULL; at++)
    if (offset >= at->offset && offset - at->offset < at->bytes) return at;
  return NULL;
}

bool p3l_types_in_union(const p3l_type *type, const p3l_field *field) {
  return union_at(p3l_types_unions(type), field->offset) != NULL;
}

/*
 * The compiler plugin finds pointers in unions, too: one that shares its place with a number is a
 * field of no slots. What is there, the union's description says.
 */
static const char *shared_fault(const p3l_union *unions, const p3l_field *field) {
  const p3l_union *in = union_at(unions, field->offset);
  if (in == NULL)
    return "has a pointer that shares its place with what is none, in a union that is not "
           "described "
           "(P3L_UNION)";
  uint32_t first = (field->offset - in->offset) / WORD;
  for (uint32_t word = first; word < first + field->count; word++)
    if (word > MOST_WORDS || (words_of(in) >> word & 1) == 0)
      return "has a pointer field within a union, and none of its arms has a pointer there";
  return NULL;
}

static const char *type_fault(const p3l_type *type, const p3l_union *unions) {
  uint64_t end = 0;
  if (type->name == NULL || type->name[0] == 0) return "has no name";
  if (type->bytes == 0) return "has no size";
  for (const p3l_field *field = type->pointers; field->name != NULL; field++) {
    if (field->count == 0 || union_at(unions, field->offset) != NULL) {
      const char *fault = shared_fault(unions, field);
      if (fault != NULL) return fault;
      continue;
    }
    /* So that no slot lies in two cards, and the processor reads and writes a slot in one
     * access. */
    if (field->offset % sizeof(void *) != 0) return "has a pointer that is not aligned";
    if (type->bytes % sizeof(void *) != 0)
      return "has pointers, and a size that is not a multiple of 8";
    if (field->offset < end) return "has pointer fields out of order";
    for (uint32_t slot = 0; unions != NULL && slot < field->count; slot++)
      if (union_at(unions, field->offset + slot * WORD) != NULL)
        return "has a pointer field that goes on within a union";
    end = field->offset + (uint64_t)field->count * sizeof(void *);
    if (end > type->bytes) return "has a pointer field behind its end";
  }
  return unions_fault(type, unions);
}

static _Noreturn void misuse(const p3l_type *type, const char *what) {
  p3l_error error;
  p3l_fail(&error, P3L_MISUSE, "the program's type %s, version %u, %s; fix its P3L_TYPE",
           type->name == NULL ? "(none)" : type->name, type->version, what);
  p3l_raise(&error);
}

void p3l_register_unions(const p3l_type *type, const p3l_union *unions) {
  const struct known_type added = {type, unions};
  const char *fault = type_fault(type, unions);
  if (fault != NULL) misuse(type, fault);
  bool known = false;
  pthread_mutex_lock(&lock);
  for (size_t at = 0; at < registered_count && fault == NULL && !known; at++) {
    if (strcmp(registered[at].type->name, type->name) != 0) continue;
    known = same_type(&registered[at], &added);
    if (!known) fault = "is registered twice, with different layouts";
  }
  if (fault == NULL && (!known || unions != NULL)) {
    if (registered_count == registered_capacity) {
      size_t capacity = registered_capacity == 0 ? 16 : 2 * registered_capacity;
      struct known_type *types = realloc(registered, capacity * sizeof(*types));
      if (types != NULL) {
        registered = types;
        registered_capacity = capacity;
      }
    }
    if (registered_count < registered_capacity)
      registered[registered_count++] = added;
    else
      fault = "cannot be registered for want of memory";
  }
  pthread_mutex_unlock(&lock);
  if (fault != NULL) misuse(type, fault);
}

void p3l_register_type(const p3l_type *type) { p3l_register_unions(type, NULL); }

const p3l_union *p3l_types_unions(const p3l_type *type) {
  const p3l_union *unions = NULL;
  pthread_mutex_lock(&lock);
  for (size_t at = 0; at < registered_count && unions == NULL; at++)
    if (registered[at].type == type) unions = registered[at].unions;
  pthread_mutex_unlock(&lock);
  return unions;
}

/* ---- in the store's form ---- */

/* Adjacent fields are merged: an interface that describes a[2] and one that describes a0, a1
 * mean the same layout. */
static void add_field(struct p3l_stored_field *fields, uint32_t *count, uint32_t offset,
                      uint32_t slots) {
  struct p3l_stored_field *last = *count > 0 ? &fields[*count - 1] : NULL;
  if (last != NULL && last->offset + last->count * WORD == offset)
    last->count += slots;
  else
    fields[(*count)++] = (struct p3l_stored_field){offset, slots};
}

static p3l_stored_type *stored_form(const p3l_type *type, const p3l_union *unions) {
  uint32_t count = 0, union_count = 0, union_words = 0;
  for (const p3l_field *field = type->pointers; field->name != NULL; field++) count++;
  for (const p3l_union *at = unions; at != NULL && at->name != NULL; at++)
    count += (uint32_t)__builtin_popcountll(words_of(at));
  p3l_stored_type *stored = malloc(sizeof(*stored) + count * sizeof(struct p3l_stored_field));
  if (stored == NULL) return NULL;
  struct p3l_stored_field *fields = (struct p3l_stored_field *)(stored + 1);
  count = 0;
  for (const p3l_field *field = type->pointers; field->name != NULL; field++)
    if (union_at(unions, field->offset) == NULL)
      add_field(fields, &count, field->offset, field->count);
  for (const p3l_union *at = unions; at != NULL && at->name != NULL; at++)
    for (uint64_t words = words_of(at); words != 0; words &= words - 1, union_words++)
      add_field(fields + count, &union_count, at->offset + (uint32_t)__builtin_ctzll(words) * WORD,
                1);
  *stored = (p3l_stored_type){
      .version = type->version,
      .bytes = type->bytes,
      .hash = p3l_type_hash(type->name, type->version, type->bytes, fields, count, union_count),
      .name = type->name,
      .field_count = count,
      .fields = fields,
      .union_count = union_count,
      .union_words = union_words};
  return stored;
}

static bool same_type(const struct known_type *a, const struct known_type *b) {
  p3l_stored_type *left = stored_form(a->type, a->unions);
  p3l_stored_type *right = stored_form(b->type, b->unions);
  bool same = left != NULL && right != NULL && left->hash == right->hash &&
              left->field_count == right->field_count && left->union_count == right->union_count &&
              (left->field_count + left->union_count == 0 ||
               memcmp(left->fields, right->fields,
                      (left->field_count + left->union_count) * sizeof(*left->fields)) == 0);
  free(left);
  free(right);
  return same;
}

static p3l_code no_memory(const p3l_store *store, p3l_error *error) {
  return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory for its types", store->path);
}

/* ---- types of a store ---- */

static bool make_room(p3l_store *store, uint32_t limit) {
  if (limit <= store->type_capacity) return true;
  uint32_t capacity = limit + 16;
  const p3l_type **program = realloc(store->program_types, capacity * sizeof(*program));
  if (program != NULL) store->program_types = program;
  p3l_type_id *current = realloc(store->current, capacity * sizeof(*current));
  if (current != NULL) store->current = current;
  if (program == NULL || current == NULL) return false;
  uint32_t old = store->type_capacity;
  memset(program + old, 0, (capacity - old) * sizeof(*program));
  memset(current + old, 0, (capacity - old) * sizeof(*current));
  store->type_capacity = capacity;
  return true;
}

const p3l_stored_type *p3l_types_of(const p3l_store *store, p3l_type_id id) {
  if (id < store->types.limit) return store->types.types[id];
  uint32_t from_end = P3L_FORWARD - 1u - id;
  return id != P3L_FORWARD && from_end < store->provisional_count ? store->provisional[from_end]
                                                                  : NULL;
}

const p3l_type *p3l_types_program(const p3l_store *store, p3l_type_id id) {
  if (id < store->types.limit && id < store->type_capacity) return store->program_types[id];
  const p3l_stored_type *stored = p3l_types_of(store, id);
  const p3l_type *found = NULL;
  pthread_mutex_lock(&lock);
  for (size_t at = 0; at < registered_count && stored != NULL && found == NULL; at++)
    if (registered[at].type->name == stored->name)
      found = registered[at].type; /* stored_form() shares it */
  pthread_mutex_unlock(&lock);
  return found;
}

bool p3l_types_upgrade(const p3l_store *store, p3l_type_id id, p3l_type_id *to,
                       p3l_upgrade *upgrade) {
  if (id >= store->type_capacity || store->current[id] == 0) return false;
  const p3l_type *type = p3l_types_program(store, store->current[id]);
  if (type == NULL) return false;
  *to = store->current[id];
  *upgrade = type->upgrade;
  return true;
}

/* Checks whether the store has objects of the name in layouts that the program does not have,
 * and whether it may upgrade them. */
static p3l_code compare(p3l_store *store, const p3l_type *type, const p3l_stored_type *stored,
                        bool *needs_upgrade, p3l_error *error) {
  for (uint32_t id = 1; id < store->types.limit; id++) {
    const p3l_stored_type *other = store->types.types[id];
    if (other == NULL || strcmp(other->name, type->name) != 0) continue;
    if (other->hash == stored->hash) {
      store->program_types[id] = type;
      store->current[id] = 0;
      continue;
    }
    if (type->upgrade == NULL && other->version == type->version)
      return p3l_fail(error, P3L_WRONG_TYPE,
                      "%s has objects of type %s, version %u, of %u bytes, and the program means "
                      "another layout by that version, of %u bytes; give the program's layout a "
                      "new version and an upgrade function (P3L_TYPE_UPGRADED)",
                      store->path, type->name, other->version, other->bytes, type->bytes);
    if (type->upgrade == NULL)
      return p3l_fail(error, P3L_WRONG_TYPE,
                      "%s has objects of type %s in version %u, the program has version %u and no "
                      "way from one to the other; give it an upgrade function (P3L_TYPE_UPGRADED), "
                      "or use the program that wrote the store",
                      store->path, type->name, other->version, type->version);
    *needs_upgrade = true;
  }
  return P3L_OK;
}

/* Adds an id for a layout that is not in the store. */
static p3l_code add_layout(p3l_store *store, const p3l_type *type, p3l_stored_type *stored,
                           p3l_type_id *id, p3l_error *error) {
  if (!store->options.read_only) {
    p3l_pager_transaction *transaction;
    p3l_code code = p3l_pager_begin(store->pager, &transaction, error);
    if (code != P3L_OK) return code;
    code = p3l_type_add(transaction, &store->types, stored, id, error);
    if (code != P3L_OK) {
      p3l_pager_abort(transaction);
      return code;
    }
    code = p3l_pager_commit(transaction, error);
    if (code != P3L_OK) return code;
    if (!make_room(store, store->types.limit)) return no_memory(store, error);
    store->program_types[*id] = type;
    return P3L_OK;
  }
  uint32_t count = store->provisional_count;
  p3l_stored_type **types = realloc(store->provisional, (count + 1) * sizeof(*types));
  if (types == NULL) return no_memory(store, error);
  p3l_stored_type *copy = stored_form(type, p3l_types_unions(type));
  if (copy == NULL) return no_memory(store, error);
  *id = (p3l_type_id)(P3L_FORWARD - 1u - count);
  copy->id = *id;
  types[count] = copy;
  store->provisional = types;
  store->provisional_count = count + 1;
  return P3L_OK;
}

static p3l_code open_type(p3l_store *store, const p3l_type *type, p3l_stored_type *stored,
                          p3l_error *error) {
  bool needs_upgrade = false;
  p3l_code code = compare(store, type, stored, &needs_upgrade, error);
  if (code != P3L_OK || !needs_upgrade) return code;
  const p3l_stored_type *there = p3l_type_find(&store->types, type->name, stored->hash);
  p3l_type_id id = there != NULL ? there->id : 0;
  if (there == NULL) code = add_layout(store, type, stored, &id, error);
  if (code != P3L_OK) return code;
  for (uint32_t at = 1; at < store->types.limit; at++) {
    const p3l_stored_type *other = store->types.types[at];
    if (other != NULL && strcmp(other->name, type->name) == 0 && other->hash != stored->hash)
      store->current[at] = id;
  }
  store->upgrades = true;
  return P3L_OK;
}

/* Objects with unions that the program has no functions for: what is in them would be lost. */
static p3l_code know_unions(p3l_store *store, p3l_error *error) {
  for (uint32_t id = 1; id < store->types.limit; id++) {
    const p3l_stored_type *type = store->types.types[id];
    if (type == NULL || type->union_count == 0) continue;
    store->unions = true;
    if (store->program_types[id] == NULL && store->current[id] == 0)
      return p3l_fail(error, P3L_WRONG_TYPE,
                      "%s has objects of type %s, version %u, with a union of pointers and others, "
                      "and the program has no function that says which arm is live; describe the "
                      "type (P3L_TYPE_UNIONS), or link the part of the program that does",
                      store->path, type->name, type->version);
  }
  return P3L_OK;
}

/* Finds the ids of each registered type. */
static p3l_code compare_all(p3l_store *store, p3l_error *error) {
  p3l_code code = P3L_OK;
  if (!make_room(store, store->types.limit)) return no_memory(store, error);
  pthread_mutex_lock(&lock);
  size_t count = registered_count;
  pthread_mutex_unlock(&lock);
  for (size_t at = 0; at < count && code == P3L_OK; at++) {
    pthread_mutex_lock(&lock);
    const p3l_type *type = registered[at].type;
    const p3l_union *unions = registered[at].unions;
    pthread_mutex_unlock(&lock);
    p3l_stored_type *stored = stored_form(type, unions);
    if (stored == NULL) return no_memory(store, error);
    code = open_type(store, type, stored, error);
    free(stored);
  }
  return code == P3L_OK ? know_unions(store, error) : code;
}

p3l_code p3l_types_open(p3l_store *store, p3l_error *error) {
  p3l_code code = p3l_type_table_read(store->pager, &store->types, error);
  return code == P3L_OK ? compare_all(store, error) : code;
}

p3l_code p3l_types_refresh(p3l_store *store, p3l_error *error) {
  p3l_type_table read = {0};
  p3l_code code = p3l_type_table_read(store->pager, &read, error);
  /* Ids are only added; they are neither removed nor reused. */
  if (code != P3L_OK || read.limit == store->types.limit) {
    p3l_type_table_free(&read);
    return code;
  }
  p3l_type_table_free(&store->types);
  store->types = read;
  return compare_all(store, error);
}

/* Two types in one slot would be looked up by name at each new object: descriptors lie side by side, so
 * the bits are mixed, and there are more slots than types. */
static size_t cache_slot(const p3l_type *type) {
  return (uintptr_t)type * UINT64_C(0x9e3779b97f4a7c15) >> 32 & (P3L_TYPE_CACHE - 1);
}

p3l_code p3l_types_id(p3l_store *store, const p3l_type *type, p3l_type_id *id, p3l_error *error) {
  p3l_type_id *cached = &store->type_cache[cache_slot(type)];
  if (*cached != 0 && *cached < store->types.limit && store->program_types[*cached] == type) {
    *id = *cached;
    return P3L_OK;
  }
  p3l_stored_type *stored = stored_form(type, p3l_types_unions(type));
  if (stored == NULL) return no_memory(store, error);
  const p3l_stored_type *there = p3l_type_find(&store->types, type->name, stored->hash);
  p3l_code code = P3L_OK;
  if (there != NULL)
    *id = there->id;
  else
    code = p3l_type_add(store->changes->pager, &store->types, stored, id, error);
  free(stored);
  if (code != P3L_OK) return code;
  if (!make_room(store, store->types.limit)) return no_memory(store, error);
  store->program_types[*id] = type;
  store->unions |= store->types.types[*id]->union_count > 0;
  *cached = *id;
  return P3L_OK;
}

void p3l_types_forget(p3l_store *store, uint32_t limit) {
  for (uint32_t id = limit; id < store->types.limit && id < store->type_capacity; id++) {
    store->program_types[id] = NULL;
    store->current[id] = 0;
  }
  p3l_type_table_forget(&store->types, limit);
}

void p3l_types_close(p3l_store *store) {
  p3l_type_table_free(&store->types);
  for (uint32_t at = 0; at < store->provisional_count; at++) free(store->provisional[at]);
  free(store->provisional);
  free(store->program_types);
  free(store->current);
}
