/*
 * P3L: objects that outlive the program, and ordinary pointers between them.
 *
 *   struct part { uint32_t id; struct part *to[3]; };
 *   P3L_TYPE(part, struct part, 1, P3L_POINTERS(struct part, to));
 *
 *   p3l_store *store;
 *   if (p3l_open("parts.p3l", &(p3l_options){.create = true}, &store, &error) != P3L_OK) ...
 *   p3l_begin(store, &error);
 *   struct part *first = p3l_new(store, part);
 *   first->id = 1;
 *   p3l_set_root(store, "first", first);
 *   p3l_commit(store, &error);
 *
 * What a program promises:
 *  1. Every pointer in a persistent object is declared (P3L_TYPE, the plugin, p3l.hpp), is loaded
 *     through one of the doors (p3l_access.h), and leads to a persistent object of the same store,
 *     into one (interior pointers are fine), or is NULL. A pointer to other memory makes the commit
 *     fail, and says which field it was.
 *  2. Every change of an existing object is told before it is made (p3l_dirty, P3L_SET; the plugin
 *     and p3l.hpp do it), within a transaction.
 *  3. A pointer that it keeps in other memory or in a local variable is used only while it is
 *     valid, see "How long pointers live" below.
 *
 * Isolation: a thread is a reader (p3l_enter .. p3l_leave), the writer (p3l_begin .. p3l_commit or
 * p3l_abort), or outside. One writer excludes all readers, readers do not exclude each other: the
 * objects are there once, at one address, so nobody may look while they change. A program with one
 * thread need not call p3l_enter() at all.
 *
 * How long pointers live: without a memory limit, until p3l_close(). With one, objects may be
 * evicted whenever the last reader leaves, at the end of a transaction, and in p3l_evict(): pointers
 * in locals and in other memory do not survive that, unless the object is pinned (p3l_pin); keep a
 * surrogate (p3l_surrogate) instead. Pointers in persistent objects are the library's business.
 *
 * Functions that can fail return a p3l_code and fill `error`, which may be NULL.
 */
#ifndef P3L_H
#define P3L_H

#include "p3l_access.h"
#include "p3l_status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct p3l_store p3l_store;

/* ---- types ---- */

/* One field that holds pointers: `count` slots from byte `offset` on. */
typedef struct p3l_field {
  const char *name; /* NULL ends a list of fields */
  uint32_t offset;  /* bytes */
  uint32_t count;   /* slots */
} p3l_field;

/*
 * Makes a new object of what an earlier version of the program stored: `new_object` is zeroed and
 * has the size of the type as it is now. Surrogates may be copied as they are; nothing may be
 * loaded through them. Returns false if it cannot be done (the fault handler is told).
 */
typedef bool (*p3l_upgrade)(const void *old_object, size_t old_bytes, uint32_t old_version,
                            void *new_object, size_t new_bytes);

typedef struct p3l_type {
  const char *name;          /* the same in every program that opens the store */
  uint32_t version;          /* of the layout, from 1; the programmer's */
  uint32_t bytes;            /* sizeof */
  const p3l_field *pointers; /* ascending; ends with a NULL name */
  p3l_upgrade upgrade;       /* from any other version; NULL: other versions are refused at open */
} p3l_type;

/* Makes a type known to this process; the descriptor must live as long. P3L_TYPE calls it. A second
 * type of the same name must be equal to the first. */
void p3l_register_type(const p3l_type *type);

#define P3L_POINTERS(T, field) \
  { #field, offsetof(T, field), sizeof(((T *)0)->field) / sizeof(void *) }

/* clang-format off */
#define P3L_TYPE_UPGRADED(identifier, T, version, upgrade, ...)                                 \
  typedef T p3l_instance_of_##identifier;                                                       \
  static const p3l_field p3l_fields_of_##identifier[] = {__VA_ARGS__, {NULL, 0, 0}};            \
  static const p3l_type p3l_type_of_##identifier = {#identifier, version, sizeof(T),            \
                                                    p3l_fields_of_##identifier, upgrade};       \
  __attribute__((constructor)) static void p3l_register_##identifier(void) {                    \
    p3l_register_type(&p3l_type_of_##identifier);                                               \
  }                                                                                             \
  struct p3l_described_##identifier /* takes the semicolon */
/* Describes T to the library under the name `identifier`. The fields are P3L_POINTERS(T, field). */
#define P3L_TYPE(identifier, T, version, ...) \
  P3L_TYPE_UPGRADED(identifier, T, version, NULL, __VA_ARGS__)
/* The same for a type without pointers. */
#define P3L_PLAIN_TYPE(identifier, T, version) \
  P3L_TYPE_UPGRADED(identifier, T, version, NULL, {NULL, 0, 0})
/* clang-format on */

/* ---- stores ---- */

typedef struct p3l_options {
  bool create;               /* make the store if there is none */
  bool read_only;            /* shared with other readers; excludes writers */
  uint64_t memory_bytes;     /* limit of resident objects and pages; 0: none. At least 4 MB. It is a
                              * soft limit: a scope or transaction that needs more goes over it
                              * until it ends */
  uint64_t checkpoint_bytes; /* length of the log that makes a checkpoint; 0: 16 MB */
  bool discovery_order;      /* objects are copied in the order in which the program comes to them,
                              * from small stores, too: pointers are faster to follow later, and slower
                              * the first time (docs/persist.md) */
} p3l_options;

/* Opens a store, recovers it if need be, checks its types against those registered. One process may
 * have a store open for writing, or any number for reading (P3L_BUSY). Fork before a store is opened:
 * in a child, one that the parent has open for writing can be read no more, nor written (P3L_MISUSE);
 * p3l_close() there frees memory and touches nothing. `options` may be NULL. */
p3l_code p3l_open(const char *path, const p3l_options *options, p3l_store **store,
                  p3l_error *error);
/* Aborts a transaction under way, checkpoints, closes. The store is gone whatever this returns. No
 * other thread may be in it. */
p3l_code p3l_close(p3l_store *store, p3l_error *error);

/* The store in which surrogates of slots outside of persistent memory are looked up by this thread,
 * where more than one is open. NULL: whichever is the only one. */
void p3l_use(p3l_store *store);

/* Where failures go that no return value can tell: a pointer that cannot be followed, a change
 * outside of a transaction. The handler must not return (longjmp, throw, exit); the default prints
 * the sentence and aborts the process. For all stores; NULL restores the default. */
typedef void (*p3l_fault_handler)(void *state, const p3l_error *error);
void p3l_on_fault(p3l_fault_handler handler, void *state);

/* ---- transactions ---- */

/* Waits for the other writer and all readers. A thread has one transaction per store. */
p3l_code p3l_begin(p3l_store *store, p3l_error *error);
/*
 * Makes the changes durable. P3L_OK: they are on stable storage. Anything else: memory and store are
 * as before p3l_begin(), but for P3L_BROKEN (pager.h, invariant 3).
 */
p3l_code p3l_commit(p3l_store *store, p3l_error *error);
/* Puts every object back as it was; pointers to objects made since p3l_begin() dangle. */
void p3l_abort(p3l_store *store);

/* A reader's scope; nests. Waits for the writer. Not within a transaction of the same thread. */
void p3l_enter(p3l_store *store);
void p3l_leave(p3l_store *store);

/* ---- objects ---- */

/*
 * A new object, or an array of `count`, zeroed, within a transaction. `near`, if not NULL, is an
 * object whose page it should share if there is room. NULL: it failed, p3l_failure() says why, and
 * so will the commit.
 */
void *p3l_allocate(p3l_store *store, const p3l_type *type, size_t count, const void *near);
/* The object that begins at `object`; its room is given back when the transaction commits. Pointers
 * to it dangle; p3l verify finds them. */
void p3l_delete(p3l_store *store, void *object);
const p3l_error *p3l_failure(p3l_store *store);

#define p3l_new(store, identifier) \
  ((p3l_instance_of_##identifier *)p3l_allocate((store), &p3l_type_of_##identifier, 1, NULL))
#define p3l_new_array(store, identifier, count) \
  ((p3l_instance_of_##identifier *)p3l_allocate((store), &p3l_type_of_##identifier, (count), NULL))
#define p3l_new_near(store, identifier, near) \
  ((p3l_instance_of_##identifier *)p3l_allocate((store), &p3l_type_of_##identifier, 1, (near)))

/* Bytes that the object has, rounded up to 16; of an array, of all its elements and the byte behind
 * its end, so that the address behind its last element is its own. */
size_t p3l_extent(const void *object);

/* The store whose persistent memory this is; NULL: it is other memory. */
p3l_store *p3l_store_of(const void *address);

/* The type by which this program knows it, or NULL. */
const p3l_type *p3l_type_of(const void *object);

/* Named objects, where a program begins. A name has at most 55 bytes. NULL: there is none; a NULL
 * object takes the name away. Setting needs a transaction, which a failure poisons. */
void *p3l_root(p3l_store *store, const char *name);
p3l_code p3l_set_root(p3l_store *store, const char *name, void *object);

/* The surrogate of an object, or of a byte within one: to keep outside of the store, to print, to
 * hash. P3L_LD of a slot that holds it leads back. */
void *p3l_surrogate(const void *address);

/* ---- residency ---- */

/*
 * Makes resident what is reachable from `object` by at most `depth` pointers, reading many pages at
 * a time. Returns the number of objects on the way. Ends early at the store's memory limit; what
 * cannot be had (dangling, unreadable) is left out and told to whoever follows it.
 */
size_t p3l_prefetch(p3l_store *store, const void *object, unsigned depth);
/* Whether a slot is followed: `field` is that one slot, count 1, with the name of its field (C++ makes
 * one field of pptrs side by side). Must not use the store, nor leave by longjmp or throw. */
typedef bool (*p3l_follow)(void *state, const p3l_type *type, const p3l_field *field);
/* The same by chosen pointers only: `follow`, if not NULL, is asked once for each slot of each type
 * that is met, not of each object. A type that the program does not know is followed wholly. */
size_t p3l_prefetch_by(p3l_store *store, const void *object, unsigned depth, p3l_follow follow,
                       void *state);

/* The object is not evicted, nor moves, until as many p3l_unpin(). Pins the megabyte that it lies
 * in. */
void p3l_pin(const void *object);
void p3l_unpin(const void *object);
/* Evicts down to `bytes` of memory, as far as pins allow. Not within a scope or transaction
 * (P3L_MISUSE); every pointer held outside of the store and not pinned dangles. */
p3l_code p3l_evict(p3l_store *store, uint64_t bytes, p3l_error *error);

/* What a store did since it was opened. */
typedef struct p3l_statistics {
  uint64_t swizzled;         /* slow paths taken: slots healed, or looked up in vain */
  uint64_t objects_copied;   /* made resident one by one, in the order of discovery */
  uint64_t pages_adopted;    /* made resident as a page, its objects in place */
  uint64_t pages_read;       /* from the file or the log's images */
  uint64_t reads;            /* requests that read them */
  uint64_t objects_upgraded; /* to the version that this program has */
  uint64_t evictions;        /* sweeps */
  uint64_t objects_evicted;
  uint64_t memory_bytes; /* held for objects, pages and what is known of them, now */
  uint64_t memory_peak;
  uint64_t cards_written; /* first writes to a card in a transaction */
  uint64_t commits;
  uint64_t bytes_logged; /* frames of commits, with their headers */
} p3l_statistics;
void p3l_get_statistics(p3l_store *store, p3l_statistics *statistics);

#ifdef __cplusplus
}
#endif

#endif
