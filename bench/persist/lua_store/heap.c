/*
 * Lua's heap in a store. Compiled without the plugin: it copies surrogates and writes only to
 * objects that it has just made.
 *
 * Which words are pointers, by what Lua's headers say of each kind of object:
 *
 *   lua_object   what has a GC header (type at byte 8): words, each a union; the function below
 *                knows each kind's pointers
 *   lua_thread   a thread; lua_main: the main thread and the global state: words, too
 *   lua_value    TValue[], stacks    a pointer if the type has the bit "collectable"
 *   lua_node     entries of tables   the same of value and key
 *   lua_call     a CallInfo          of a Lua function: where it goes on; of a C function: its
 *                                    continuation, whose address is a number here
 *   lua_pointer, lua_named, lua_byte pointers, names in debug information, no pointers
 *
 * Addresses of functions and of static variables (dummynode, an empty table's nodes) are numbers:
 * the program is linked at a fixed address (-no-pie), and main.c refuses another build's store.
 */
#include <stdlib.h>
#include <string.h>

#include "lua_store.h"

#include "lfunc.h"
#include "lgc.h"
#include "lstring.h"
#include "ltable.h"

#include "heap.h"

enum { PLAIN, POINTER };
#define ARMS(T, field) P3L_PLAIN_ARM, P3L_ARM(T, field, field.pointer)

/* ---- words of objects ---- */

struct word {
  union {
    void *pointer;
    uint64_t number;
  } is;
};

#define WORD_OF(T, field) (offsetof(T, field) / sizeof(struct word))

/* The value that begins at the word: a pointer if its type, in the next word, says so. */
static uint32_t value_at(const struct word *words, size_t word) {
  const TValue *value = (const TValue *)(const void *)&words[word];
  return iscollectable(value) ? POINTER : PLAIN;
}

static bool is_in(const uint16_t *list, size_t count, size_t word) {
  for (size_t at = 0; at < count; at++)
    if (list[at] == word) return true;
  return false;
}
#define IS_IN(list, word) is_in(list, sizeof(list) / sizeof(*(list)), word)

/* `gclist` has a meaning while its object is in a list of the collector. */
static bool is_listed(const GCObject *object) {
  return isgray(object) || getage(object) == G_TOUCHED2;
}

static uint32_t table_word(const Table *table, size_t word) {
  static const uint16_t pointers[] = {WORD_OF(Table, array), WORD_OF(Table, lastfree),
                                      WORD_OF(Table, metatable)};
  if (word == WORD_OF(Table, node)) return table->lastfree != NULL ? POINTER : PLAIN;
  if (word == WORD_OF(Table, gclist)) return is_listed((const GCObject *)table);
  return IS_IN(pointers, word);
}

static uint32_t userdata_word(const Udata *data, size_t word, const struct word *words) {
  size_t first = WORD_OF(Udata, uv), each = sizeof(UValue) / sizeof(struct word);
  if (word == WORD_OF(Udata, metatable)) return POINTER;
  if (data->nuvalue == 0) return PLAIN;
  if (word == WORD_OF(Udata, gclist)) return is_listed((const GCObject *)data);
  if (word < first || word >= first + data->nuvalue * each || (word - first) % each != 0)
    return PLAIN;
  return value_at(words, word);
}

static uint32_t prototype_word(const Proto *prototype, size_t word) {
  static const uint16_t pointers[] = {WORD_OF(Proto, k),        WORD_OF(Proto, code),
                                      WORD_OF(Proto, p),        WORD_OF(Proto, upvalues),
                                      WORD_OF(Proto, lineinfo), WORD_OF(Proto, abslineinfo),
                                      WORD_OF(Proto, locvars),  WORD_OF(Proto, source)};
  if (word == WORD_OF(Proto, gclist)) return is_listed((const GCObject *)prototype);
  return IS_IN(pointers, word);
}

/* An open one points to a stack, a closed one to itself. */
static uint32_t upvalue_word(const UpVal *upvalue, size_t word, const struct word *words) {
  const void *own = &upvalue->u.value;
  bool open = p3l_is_surrogate(upvalue->v) ? (const void *)upvalue->v != p3l_surrogate(own)
                                           : (const void *)upvalue->v != own;
  if (word == WORD_OF(UpVal, v)) return POINTER;
  if (open) return word == WORD_OF(UpVal, u.open.next) || word == WORD_OF(UpVal, u.open.previous);
  return word == WORD_OF(UpVal, u.value) ? value_at(words, word) : PLAIN;
}

static uint32_t closure_word(const Closure *closure, size_t word, const struct word *words) {
  if (word == WORD_OF(LClosure, gclist)) return is_listed((const GCObject *)closure);
  if (closure->c.tt == LUA_VLCL)
    return word == WORD_OF(LClosure, p) ||
           (word >= WORD_OF(LClosure, upvals) &&
            word < WORD_OF(LClosure, upvals) + closure->l.nupvalues);
  size_t first = WORD_OF(CClosure, upvalue), each = sizeof(TValue) / sizeof(struct word);
  if (word < first || word >= first + closure->c.nupvalues * each || (word - first) % each != 0)
    return PLAIN;
  return value_at(words, word);
}

static uint32_t object_arm(const void *object, size_t word) {
  const GCObject *header = object;
  if (word == 0) return POINTER; /* the next object of a list */
  switch (header->tt) {
    case LUA_VSHRSTR: return word == WORD_OF(TString, u.hnext);
    case LUA_VTABLE: return table_word(object, word);
    case LUA_VUSERDATA: return userdata_word(object, word, object);
    case LUA_VLCL:
    case LUA_VCCL: return closure_word(object, word, object);
    case LUA_VUPVAL: return upvalue_word(object, word, object);
    case LUA_VPROTO: return prototype_word(object, word);
    default: return PLAIN;
  }
}
#define WORDS P3L_UNIONS(P3L_UNION(struct word, is, object_arm, ARMS(struct word, is)))
P3L_TYPE_UNIONS(lua_object, struct word, 1, NULL, WORDS, P3L_NO_POINTERS);

/* ---- threads ---- */

/* As lstate.c allocates them. */
struct thread {
  lua_State *next; /* the extra space */
  lua_State state;
};
struct whole {
  struct thread thread;
  global_State global;
};
_Static_assert(LUA_EXTRASPACE == sizeof(lua_State *), "a link fits");

#define THREAD(field) WORD_OF(struct thread, state.field)
static uint32_t thread_arm(const void *object, size_t word) {
  const struct thread *thread = object;
  static const uint16_t pointers[] = {WORD_OF(struct thread, next),
                                      THREAD(next),
                                      THREAD(top),
                                      THREAD(l_G),
                                      THREAD(ci),
                                      THREAD(stack_last),
                                      THREAD(stack),
                                      THREAD(openupval),
                                      THREAD(tbclist),
                                      THREAD(twups),
                                      THREAD(base_ci.func),
                                      THREAD(base_ci.top),
                                      THREAD(base_ci.previous),
                                      THREAD(base_ci.next)};
  if (word == THREAD(gclist)) return is_listed((const GCObject *)&thread->state);
  return IS_IN(pointers, word);
}
P3L_TYPE_UNIONS(lua_thread, struct word, 1, NULL,
                P3L_UNIONS(P3L_UNION(struct word, is, thread_arm, ARMS(struct word, is))),
                P3L_NO_POINTERS);

#define GLOBAL(field) WORD_OF(struct whole, global.field)
static uint32_t main_arm(const void *object, size_t word) {
  static const uint16_t pointers[] = {GLOBAL(strt.hash), GLOBAL(allgc),      GLOBAL(sweepgc),
                                      GLOBAL(finobj),    GLOBAL(gray),       GLOBAL(grayagain),
                                      GLOBAL(weak),      GLOBAL(ephemeron),  GLOBAL(allweak),
                                      GLOBAL(tobefnz),   GLOBAL(fixedgc),    GLOBAL(survival),
                                      GLOBAL(old1),      GLOBAL(reallyold),  GLOBAL(firstold1),
                                      GLOBAL(finobjsur), GLOBAL(finobjold1), GLOBAL(finobjrold),
                                      GLOBAL(twups),     GLOBAL(mainthread), GLOBAL(memerrmsg)};
  if (word < WORD_OF(struct whole, global)) return thread_arm(object, word);
  if (word == GLOBAL(l_registry)) return value_at(object, word);
  if (word >= GLOBAL(tmname) && word < GLOBAL(tmname) + TM_N) return POINTER;
  if (word >= GLOBAL(mt) && word < GLOBAL(mt) + LUA_NUMTAGS) return POINTER;
  if (word >= GLOBAL(strcache) && word < GLOBAL(strcache) + STRCACHE_N * STRCACHE_M) return POINTER;
  return IS_IN(pointers, word);
}
P3L_TYPE_UNIONS(lua_main, struct word, 1, NULL,
                P3L_UNIONS(P3L_UNION(struct word, is, main_arm, ARMS(struct word, is))),
                P3L_NO_POINTERS);

/* ---- arrays ---- */

struct value {
  union {
    void *pointer;
    uint64_t number;
  } is;
  uint64_t type;
};
_Static_assert(sizeof(struct value) == sizeof(TValue) && sizeof(TValue) == sizeof(StackValue), "");
static uint32_t value_arm(const void *object, size_t element) {
  return value_at(object, 2 * element);
}
P3L_TYPE_UNIONS(lua_value, struct value, 1, NULL,
                P3L_UNIONS(P3L_UNION(struct value, is, value_arm, ARMS(struct value, is))),
                P3L_NO_POINTERS);

struct node {
  struct value value;
  union {
    void *pointer;
    uint64_t number;
  } key;
};
_Static_assert(sizeof(struct node) == sizeof(Node) &&
                   offsetof(struct node, key) == offsetof(Node, u.key_val),
               "");
static uint32_t node_value_arm(const void *object, size_t element) {
  return iscollectable(gval(&((const Node *)object)[element])) ? POINTER : PLAIN;
}
static uint32_t node_key_arm(const void *object, size_t element) {
  return keyiscollectable(&((const Node *)object)[element]) ? POINTER : PLAIN;
}
P3L_TYPE_UNIONS(lua_node, struct node, 1, NULL,
                P3L_UNIONS({"value", 0, 8, node_value_arm, {P3L_PLAIN_ARM, 1, P3L_ARMS_END}},
                           P3L_UNION(struct node, key, node_key_arm, ARMS(struct node, key))),
                P3L_NO_POINTERS);

static uint32_t call_arm(const void *object, size_t element) {
  return isLua(&((const CallInfo *)object)[element]) ? POINTER : PLAIN;
}
P3L_TYPE_UNIONS(lua_call, CallInfo, 1, NULL,
                P3L_UNIONS(P3L_UNION(CallInfo, u, call_arm, P3L_PLAIN_ARM,
                                     P3L_ARM(CallInfo, u, u.l.savedpc))),
                P3L_POINTERS(CallInfo, func), P3L_POINTERS(CallInfo, top),
                P3L_POINTERS(CallInfo, previous), P3L_POINTERS(CallInfo, next));

struct named {
  TString *name;
  uint64_t rest;
};
_Static_assert(sizeof(struct named) == sizeof(Upvaldesc) && sizeof(Upvaldesc) == sizeof(LocVar),
               "");
P3L_TYPE(lua_named, struct named, 1, P3L_POINTERS(struct named, name));
struct pointer {
  void *to;
};
P3L_TYPE(lua_pointer, struct pointer, 1, P3L_POINTERS(struct pointer, to));
P3L_PLAIN_TYPE(lua_byte, char, 1);

/* ---- the allocator ---- */

enum lua_store_kind lua_store_kind;
static p3l_store *heap;

void lua_store_heap(p3l_store *store) { heap = store; }

static const p3l_type *type_for(size_t tag, size_t bytes) {
  static const p3l_type *const arrays[] = {
      [LS_BYTES] = &p3l_type_of_lua_byte,  [LS_VALUES] = &p3l_type_of_lua_value,
      [LS_NODES] = &p3l_type_of_lua_node,  [LS_POINTERS] = &p3l_type_of_lua_pointer,
      [LS_NAMED] = &p3l_type_of_lua_named, [LS_CALLS] = &p3l_type_of_lua_call};
  if (tag == 0) return arrays[lua_store_kind];
  if (tag != LUA_TTHREAD) return &p3l_type_of_lua_object;
  return bytes == sizeof(struct whole) ? &p3l_type_of_lua_main : &p3l_type_of_lua_thread;
}

static size_t units_of(const p3l_type *type, size_t bytes) {
  return (bytes + type->bytes - 1) / type->bytes;
}

/*
 * What Lua freed since the last commit, by type and length, to be used again: the store gives space
 * back only when a transaction commits, and a script makes much that does not live so long.
 */
typedef struct freed {
  const p3l_type *type; /* NULL: the entry is free */
  size_t units;
  void **blocks;
  size_t count, capacity;
} freed;
enum { LISTS = 4096, MOST_LISTS = LISTS / 2 };
static freed lists[LISTS];
static size_t list_count;

/* NULL: there are too many lists for another. */
static freed *list_of(const p3l_type *type, size_t units) {
  size_t at = ((uintptr_t)type / sizeof(*type) * 31 + units * 0x9e3779b1u) % LISTS;
  while (lists[at].type != NULL && (lists[at].type != type || lists[at].units != units))
    at = (at + 1) % LISTS;
  if (lists[at].type != NULL) return &lists[at];
  if (list_count == MOST_LISTS) return NULL;
  list_count++;
  lists[at].type = type;
  lists[at].units = units;
  return &lists[at];
}

static void *allocate(const p3l_type *type, size_t bytes) {
  size_t units = units_of(type, bytes);
  /* What the store would refuse, Lua is to report: a failure ends the transaction. */
  if (bytes > p3l_persistent_memory.bytes / 4) return NULL;
  freed *list = list_of(type, units);
  if (list == NULL || list->count == 0) return p3l_allocate_array(heap, type, units, NULL);
  void *block = list->blocks[--list->count];
  p3l_dirty(block, units * type->bytes);
  return memset(block, 0, units * type->bytes);
}

static void free_block(void *block, size_t bytes) {
  const p3l_type *type = p3l_type_of(block);
  freed *list = list_of(type, units_of(type, bytes));
  if (list != NULL && list->count == list->capacity) {
    size_t capacity = list->capacity == 0 ? 16 : 2 * list->capacity;
    void **blocks = realloc(list->blocks, capacity * sizeof(*blocks));
    if (blocks != NULL) {
      list->blocks = blocks;
      list->capacity = capacity;
    }
  }
  if (list != NULL && list->count < list->capacity)
    list->blocks[list->count++] = block;
  else
    p3l_delete(heap, block);
}

void lua_store_give_back(void) {
  for (size_t at = 0; at < LISTS; at++) {
    freed *list = &lists[at];
    while (list->count > 0) p3l_delete(heap, list->blocks[--list->count]);
    free(list->blocks);
    *list = (freed){.type = NULL};
  }
  list_count = 0;
}

/* A block that fits, or that shrinks by less than a half, stays where it is. */
static void *resize(void *block, size_t old_bytes, size_t new_bytes) {
  if (new_bytes <= old_bytes && new_bytes >= old_bytes / 2) return block;
  void *made = allocate(p3l_type_of(block), new_bytes);
  if (made == NULL) return NULL;
  memcpy(made, block, old_bytes < new_bytes ? old_bytes : new_bytes);
  free_block(block, old_bytes);
  return made;
}

void *lua_store_allocate(void *state, void *block, size_t old_bytes, size_t new_bytes) {
  (void)state;
  void *made = NULL;
  if (block != NULL && new_bytes == 0)
    free_block(block, old_bytes);
  else if (block != NULL)
    made = resize(block, old_bytes, new_bytes);
  else if (new_bytes > 0)
    made = allocate(type_for(old_bytes, new_bytes), new_bytes);
  lua_store_kind = LS_BYTES;
  return made;
}

unsigned lua_store_number(const void *object) {
  uintptr_t number = (uintptr_t)object;
  if (p3l_is_persistent(object))
    number = ((uintptr_t)p3l_surrogate(object) & P3L_SURROGATE_ADDRESS) / 16;
  return (unsigned)(number ^ number >> 32);
}

/* ---- threads, for the host ---- */

void *lua_store_object_of(lua_State *first) {
  return (uint8_t *)first - offsetof(struct thread, state);
}
lua_State *lua_store_state_of(void *object) { return &((struct thread *)object)->state; }
