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
static const p3l_type **registered;
static size_t registered_count, registered_capacity;

static bool same_type(const p3l_type *a, const p3l_type *b);

static const char *type_fault(const p3l_type *type) {
  uint64_t end = 0;
  if (type->name == NULL || type->name[0] == 0) return "has no name";
  if (type->bytes == 0) return "has no size";
  for (const p3l_field *field = type->pointers; field->name != NULL; field++) {
    if (field->count == 0) continue;
    /* So that no slot lies in two cards, and the processor reads and writes a slot in one
     * access. */
    if (field->offset % sizeof(void *) != 0) return "has a pointer that is not aligned";
    if (type->bytes % sizeof(void *) != 0)
      return "has pointers, and a size that is not a multiple of 8";
    if (field->offset < end) return "has pointer fields out of order";
    end = field->offset + (uint64_t)field->count * sizeof(void *);
    if (end > type->bytes) return "has a pointer field behind its end";
  }
  return NULL;
}

static _Noreturn void misuse(const p3l_type *type, const char *what) {
  p3l_error error;
  p3l_fail(&error, P3L_MISUSE, "the program's type %s, version %u, %s; fix its P3L_TYPE",
           type->name == NULL ? "(none)" : type->name, type->version, what);
  p3l_raise(&error);
}

void p3l_register_type(const p3l_type *type) {
  const char *fault = type_fault(type);
  if (fault != NULL) misuse(type, fault);
  bool known = false;
  pthread_mutex_lock(&lock);
  for (size_t at = 0; at < registered_count && fault == NULL && !known; at++) {
    if (strcmp(registered[at]->name, type->name) != 0) continue;
    known = same_type(registered[at], type);
    if (!known) fault = "is registered twice, with different layouts";
  }
  if (fault == NULL && !known) {
    if (registered_count == registered_capacity) {
      size_t capacity = registered_capacity == 0 ? 16 : 2 * registered_capacity;
      const p3l_type **types = realloc(registered, capacity * sizeof(*types));
      if (types != NULL) {
        registered = types;
        registered_capacity = capacity;
      }
    }
    if (registered_count < registered_capacity)
      registered[registered_count++] = type;
    else
      fault = "cannot be registered for want of memory";
  }
  pthread_mutex_unlock(&lock);
  if (fault != NULL) misuse(type, fault);
}

/* ---- in the store's form ---- */

/* Adjacent fields are merged: an interface that describes a[2] and one that describes a0, a1
 * mean the same layout. */
static p3l_stored_type *stored_form(const p3l_type *type) {
  uint32_t count = 0;
  for (const p3l_field *field = type->pointers; field->name != NULL; field++) count++;
  p3l_stored_type *stored = malloc(sizeof(*stored) + count * sizeof(struct p3l_stored_field));
  if (stored == NULL) return NULL;
  struct p3l_stored_field *fields = (struct p3l_stored_field *)(stored + 1);
  count = 0;
  for (const p3l_field *field = type->pointers; field->name != NULL; field++) {
    if (field->count == 0) continue;
    struct p3l_stored_field *last = count > 0 ? &fields[count - 1] : NULL;
    if (last != NULL && last->offset + last->count * sizeof(void *) == field->offset)
      last->count += field->count;
    else
      fields[count++] = (struct p3l_stored_field){field->offset, field->count};
  }
  *stored = (p3l_stored_type){
      .version = type->version,
      .bytes = type->bytes,
      .hash = p3l_type_hash(type->name, type->version, type->bytes, fields, count),
      .name = type->name,
      .field_count = count,
      .fields = fields};
  return stored;
}

static bool same_type(const p3l_type *a, const p3l_type *b) {
  p3l_stored_type *left = stored_form(a), *right = stored_form(b);
  bool same = left != NULL && right != NULL && left->hash == right->hash &&
              left->field_count == right->field_count &&
              (left->field_count == 0 ||
               memcmp(left->fields, right->fields, left->field_count * sizeof(*left->fields)) == 0);
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
    if (registered[at]->name == stored->name) found = registered[at]; /* stored_form() shares it */
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
  p3l_stored_type *copy = stored_form(type);
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

/* Finds the ids of each registered type. */
static p3l_code compare_all(p3l_store *store, p3l_error *error) {
  p3l_code code = P3L_OK;
  if (!make_room(store, store->types.limit)) return no_memory(store, error);
  pthread_mutex_lock(&lock);
  size_t count = registered_count;
  pthread_mutex_unlock(&lock);
  for (size_t at = 0; at < count && code == P3L_OK; at++) {
    pthread_mutex_lock(&lock);
    const p3l_type *type = registered[at];
    pthread_mutex_unlock(&lock);
    p3l_stored_type *stored = stored_form(type);
    if (stored == NULL) return no_memory(store, error);
    code = open_type(store, type, stored, error);
    free(stored);
  }
  return code;
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

static size_t cache_slot(const p3l_type *type) {
  return (uintptr_t)type / _Alignof(p3l_type) % P3L_TYPE_CACHE;
}

p3l_code p3l_types_id(p3l_store *store, const p3l_type *type, p3l_type_id *id, p3l_error *error) {
  p3l_type_id *cached = &store->type_cache[cache_slot(type)];
  if (*cached != 0 && *cached < store->types.limit && store->program_types[*cached] == type) {
    *id = *cached;
    return P3L_OK;
  }
  p3l_stored_type *stored = stored_form(type);
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
