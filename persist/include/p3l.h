/**
 * @file P3L: objects that outlive the program, and ordinary pointers between them.
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
 * Obligations of a program:
 *  1. Every pointer in a persistent object is declared (P3L_TYPE, the plugin, p3l.hpp), and is
 *     loaded through one of the interfaces (p3l_access.h). It points to a persistent object of the
 *     same store (also into its middle), or is NULL. A pointer to other memory makes the commit
 *     fail with an error that names the field.
 *  2. Every change of an existing object is made within a transaction, and is reported before
 *     (p3l_dirty, P3L_SET; the plugin and p3l.hpp do it automatically).
 *  3. A pointer kept in other memory or in a local variable is used only while it is valid; see
 *     "How long pointers live" below.
 *
 * Isolation: a thread is a reader (p3l_enter .. p3l_leave), the writer (p3l_begin .. p3l_commit or
 * p3l_abort), or outside. One writer excludes all readers, readers do not exclude each other: the
 * objects exist once, at one address, so no thread may read while they change. A program with one
 * thread need not call p3l_enter().
 *
 * How long pointers live: without a memory limit, until p3l_close(). With one, objects may be
 * evicted whenever the last reader leaves, at the end of a transaction, and in p3l_evict():
 * pointers in locals and in other memory do not survive that, unless the object is pinned
 * (p3l_pin); keep a surrogate (p3l_surrogate) instead. The library maintains pointers in persistent
 * objects.
 *
 * Errors: functions that can fail return a p3l_code (p3l_status.h) and fill `error`, which may be
 * NULL. Sizes are in bytes.
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

/* ---- unions ---- */

/*
 * The arm of a union that is live: the index into p3l_union.arms. `element` is the number of the
 * element of the array that begins at `object`; 0: a single object. It reads the object's bytes,
 * in arrays of more than 4,000 bytes those of this element and the ones beside it, and what never
 * changes; it follows no pointer, since slots may hold surrogates. It must not use the store, nor
 * leave by longjmp or throw (p3l_surrogate() is possible if the type is never upgraded to). Commits
 * call it, and upgrades; also for elements behind the last, whose bytes are 0.
 */
typedef uint32_t (*p3l_arm)(const void *object, size_t element);

#define P3L_MOST_ARMS 16
#define P3L_ARMS_END UINT64_MAX

/* A union whose arms are pointers or not. Bit n of an arm: the n-th word of it is a pointer. */
typedef struct p3l_union {
  const char *name; /* NULL ends a list of unions */
  uint32_t offset;  /* bytes; a multiple of 8 */
  uint32_t bytes;   /* at most 504 */
  p3l_arm live;
  uint64_t arms[P3L_MOST_ARMS + 1]; /* terminated by P3L_ARMS_END */
} p3l_union;

/* The arm that has no pointer, and one that has: P3L_ARM(struct value, u, u.text). Of several
 * pointers: P3L_ARM(T, u, u.open.next) | P3L_ARM(T, u, u.open.previous). */
#define P3L_PLAIN_ARM UINT64_C(0)
#define P3L_ARM(T, field, pointer)                                   \
  (((UINT64_C(1) << sizeof(((T *)0)->pointer) / sizeof(void *)) - 1) \
   << (offsetof(T, pointer) - offsetof(T, field)) / sizeof(void *))
/* The union `field` of T: P3L_UNION(struct value, u, live_arm, arm 0, arm 1 ...). */
#define P3L_UNION(T, field, live, ...)                                                       \
  {                                                                                          \
#field, offsetof(T, field), sizeof(((T *)0)->field), live, { __VA_ARGS__, P3L_ARMS_END } \
  }

/*
 * Converts an object that an earlier version of the program stored: `new_object` is zeroed and
 * has the present size of the type. Surrogates may be copied unchanged; do not load through
 * them. @return false if the object cannot be converted (the fault handler is called).
 */
typedef bool (*p3l_upgrade)(const void *old_object, size_t old_bytes, uint32_t old_version,
                            void *new_object, size_t new_bytes);

typedef struct p3l_type {
  const char *name;          /* the same in every program that opens the store */
  uint32_t version;          /* layout version, chosen by the programmer; from 1 */
  uint32_t bytes;            /* sizeof */
  const p3l_field *pointers; /* ascending; terminated by a NULL name */
  p3l_upgrade upgrade;       /* from any other version; NULL: open refuses other versions */
} p3l_type;

/** Registers a type in this process; the descriptor must stay valid. P3L_TYPE calls it. A second
 * type of the same name must be equal to the first. */
void p3l_register_type(const p3l_type *type);
/** The same for a type with unions, in ascending order, terminated by a NULL name; NULL: none.
 * Pointers within them count only as the live arm says. P3L_TYPE_UNIONS calls it. A union that
 * cannot be so described goes to the fault handler (P3L_MISUSE). */
void p3l_register_unions(const p3l_type *type, const p3l_union *unions);

#define P3L_POINTERS(T, field) \
  { #field, offsetof(T, field), sizeof(((T *)0)->field) / sizeof(void *) }

/* clang-format off */
#define P3L_TYPE_UPGRADED(identifier, T, version, upgrade, ...)                                 \
  typedef T p3l_instance_of_##identifier;                                                       \
  static const p3l_field p3l_fields_of_##identifier[] = {__VA_ARGS__, {NULL, 0, 0}};            \
  P3L_REGISTER(identifier, T, version, upgrade, NULL)
#define P3L_REGISTER(identifier, T, version, upgrade, unions)                                   \
  static const p3l_type p3l_type_of_##identifier = {#identifier, version, sizeof(T),            \
                                                    p3l_fields_of_##identifier, upgrade};       \
  __attribute__((constructor)) static void p3l_register_##identifier(void) {                    \
    p3l_register_unions(&p3l_type_of_##identifier, unions);                                     \
  }                                                                                             \
  struct p3l_described_##identifier /* consumes the semicolon */
/* Describes T to the library under the name `identifier`. The fields are P3L_POINTERS(T, field). */
#define P3L_TYPE(identifier, T, version, ...) \
  P3L_TYPE_UPGRADED(identifier, T, version, NULL, __VA_ARGS__)
/* The same for a type with unions, P3L_UNIONS(P3L_UNION(T, u, ...), ...), and with fields or
 * P3L_NO_POINTERS behind them. `upgrade` may be NULL. */
#define P3L_UNIONS(...) {__VA_ARGS__, {NULL, 0, 0, NULL, {0}}}
#define P3L_NO_POINTERS {NULL, 0, 0}
#define P3L_TYPE_UNIONS(identifier, T, version, upgrade, unions, ...)                           \
  typedef T p3l_instance_of_##identifier;                                                       \
  static const p3l_field p3l_fields_of_##identifier[] = {__VA_ARGS__, {NULL, 0, 0}};            \
  static const p3l_union p3l_unions_of_##identifier[] = unions;                                 \
  P3L_REGISTER(identifier, T, version, upgrade, p3l_unions_of_##identifier)
/* The same for a type without pointers. */
#define P3L_PLAIN_TYPE(identifier, T, version) \
  P3L_TYPE_UPGRADED(identifier, T, version, NULL, {NULL, 0, 0})
/* clang-format on */

/* ---- stores ---- */

typedef struct p3l_options {
  bool create;           /* create the store if it does not exist */
  bool read_only;        /* shows the last commit, until p3l_refresh(); others may write and read */
  uint64_t memory_bytes; /* limit of resident objects and pages; 0: none. At least 4 MB. It is a
                              * soft limit: a scope or transaction that needs more goes over it
                              * until it ends */
  uint64_t checkpoint_bytes; /* length of the log that triggers a checkpoint; 0: 16 MB, or three
                              * times the pages that are changed repeatedly, up to 768 MB */
  /* Copy objects in the order of their first access, also from small stores: later pointer
   * accesses are faster, the first ones slower (docs/persist.md). */
  bool discovery_order;
  /* With read_only: no process may write meanwhile, so that pages of a store above 64 MB are
   * used directly in the page cache. */
  bool excludes_writers;
  /* Number of memory areas, of up to 4 KB each, that each commit compares with the store to find
   * unreported changes. 0: one; P3L_AUDIT_ALL: all, for tests. */
  uint32_t audit_places;
  /* Read an array whole when the program first comes to it. By default one of 4 MB and more that
   * contains pointers is read 2 MB at a time, when the program touches them: by a handler of SIGSEGV
   * of the library. For programs that have a handler of their own, pass parts of such arrays to
   * system calls (EFAULT), or touch them in threads that block SIGSEGV: the kernel ends those, unless the
   * first thread that comes to the array blocks it, for which the array is read whole. */
  bool whole_arrays;
} p3l_options;

#define P3L_AUDIT_ALL UINT32_MAX

/** Opens a store, recovers it if necessary, and checks its types against the registered ones. One
 * process may have a store open for writing, and any number for reading. Fork before you open a
 * store: a child can neither read nor write one that its parent has open for writing;
 * p3l_close() there frees memory only. `options` may be NULL. @return P3L_OK; P3L_BUSY: another
 * process has it open for writing, or excludes writers; P3L_MISUSE: in such a child, or
 * contradicting options (a limit below 4 MB, create with read_only); other codes of p3l_status.h
 * for files that cannot be opened or are damaged. `*store` is set with P3L_OK only. */
p3l_code p3l_open(const char *path, const p3l_options *options, p3l_store **store,
                  p3l_error *error);
/** Aborts a running transaction, checkpoints, closes. No other thread may use the store. @return
 * the result of the checkpoint; the store is closed in any case. */
p3l_code p3l_close(p3l_store *store, p3l_error *error);

/** Advances to the version committed last, for a store opened for reading while another process
 * may write to it. Waits for the readers of this process. Every pointer held outside the store
 * becomes invalid, except to pinned objects (a pinned object that was deleted in the meantime
 * keeps its contents). Unchanged objects stay in memory. Other stores are not affected. @return
 * P3L_OK; P3L_MISUSE: within a scope or transaction, or in a forked child. After another code
 * the store can only be closed. */
p3l_code p3l_refresh(p3l_store *store, p3l_error *error);

/** Selects the store in which this thread looks up surrogates of slots outside persistent memory,
 * where several are open. NULL: the only open one. */
void p3l_use(p3l_store *store);

/** Handles failures that no return value can report: a pointer that cannot be followed, a change
 * outside a transaction. The handler must not return (longjmp, throw, exit); the default prints the
 * message and aborts the process. Applies to all stores; NULL restores the default. */
typedef void (*p3l_fault_handler)(void *state, const p3l_error *error);
void p3l_on_fault(p3l_fault_handler handler, void *state);

/* ---- transactions ---- */

/** Begins a transaction; waits for the other writer and all readers. A thread has one transaction per
 * store.
 * @return P3L_OK; P3L_MISUSE: this thread has a transaction or a scope already; P3L_READ_ONLY;
 * P3L_NO_MEMORY; P3L_BROKEN: an earlier sync failed. */
p3l_code p3l_begin(p3l_store *store, p3l_error *error);
/**
 * Makes the changes durable. @return P3L_OK: they are on stable storage. P3L_MISUSE: an
 * unreported change was found (of this transaction or an earlier one;
 * p3l_options.audit_places). Other codes: memory and store are as before p3l_begin(), except
 * P3L_BROKEN (pager.h, invariant 3).
 */
p3l_code p3l_commit(p3l_store *store, p3l_error *error);
/** Restores every object; pointers to objects made since p3l_begin() dangle. */
void p3l_abort(p3l_store *store);

/** Loads data in bulk: until p3l_load_end() commits are cheap and not durable. After a crash the
 * store is as it was at p3l_load_begin(). New data is written once, to its final place, and not
 * to the log. p3l_close() ends the loading, too. Do not call it within a transaction of the same
 * thread. @return P3L_OK: at the end, everything loaded is on stable storage. P3L_MISUSE:
 * loading was already begun, or was not begun. Other codes: nothing loaded is durable yet;
 * p3l_load_end() may be called again. */
p3l_code p3l_load_begin(p3l_store *store, p3l_error *error);
p3l_code p3l_load_end(p3l_store *store, p3l_error *error);

/** Begins a reader's scope; scopes nest. Waits for the writer. Do not call it within a
 * transaction of the same thread. */
void p3l_enter(p3l_store *store);
void p3l_leave(p3l_store *store);

/* ---- objects ---- */

/**
 * Makes a new object, or an array of `count`, zeroed, within a transaction. If `near` is not NULL,
 * the new object shares its page if there is space. @return NULL on failure: p3l_failure() has the
 * reason, and the commit fails with it.
 */
void *p3l_allocate(p3l_store *store, const p3l_type *type, size_t count, const void *near);
/** The same for an array, possibly of one element. The address after its last element belongs to
 * the array. For a single object that address may be the next object's, and must not be stored. */
void *p3l_allocate_array(p3l_store *store, const p3l_type *type, size_t count, const void *near);
/** Deletes the object that begins at `object`; its space is freed when the transaction commits.
 * Pointers to it dangle; p3l verify finds them. */
void p3l_delete(p3l_store *store, void *object);
/** The latest failure in this store in this thread; its code is P3L_OK if nothing failed. Never NULL. */
const p3l_error *p3l_failure(p3l_store *store);

#define p3l_new(store, identifier) \
  ((p3l_instance_of_##identifier *)p3l_allocate((store), &p3l_type_of_##identifier, 1, NULL))
#define p3l_new_array(store, identifier, count)                                                    \
  ((p3l_instance_of_##identifier *)p3l_allocate_array((store), &p3l_type_of_##identifier, (count), \
                                                      NULL))
#define p3l_new_near(store, identifier, near) \
  ((p3l_instance_of_##identifier *)p3l_allocate((store), &p3l_type_of_##identifier, 1, (near)))

/** The size of an object in bytes, rounded up to 16; of an array, all elements and one byte
 * more, so that the address after its last element belongs to it. */
size_t p3l_extent(const void *object);

/** The store that contains this persistent memory; NULL for other memory. */
p3l_store *p3l_store_of(const void *address);

/** The object's type in this program, or NULL. */
const p3l_type *p3l_type_of(const void *object);

/** Looks up and sets named objects, the entry points of a program. A name has at most 55 bytes.
 * p3l_root returns NULL if there is no such name; setting a NULL object removes the name.
 * Setting needs a transaction, which cannot commit after a failure. */
void *p3l_root(p3l_store *store, const char *name);
p3l_code p3l_set_root(p3l_store *store, const char *name, void *object);

/** The surrogate of an object, or of a byte within one. It can be kept outside the store, printed
 * and hashed. P3L_LD of a slot with it returns the address. */
void *p3l_surrogate(const void *address);

/* ---- residency ---- */

/**
 * Makes resident the objects reachable from `object` by at most `depth` pointers, reading many
 * pages at a time. Stops at the store's memory limit. Skips dangling and unreadable pointers:
 * following them reports the error. @return the number of objects visited.
 */
size_t p3l_prefetch(p3l_store *store, const void *object, unsigned depth);
/** Decides whether to follow a slot: `field` is that one slot, count 1, with the name of its
 * field (C++ merges adjacent pptrs into one field). Must not use the store, nor leave by
 * longjmp or throw. */
typedef bool (*p3l_follow)(void *state, const p3l_type *type, const p3l_field *field);
/** Like p3l_prefetch, but follows only selected pointers: `follow`, if not NULL, is called once
 * for each slot of each type, not of each object; of a union, for each word that is a pointer. All
 * pointers of an unknown type are followed. */
size_t p3l_prefetch_by(p3l_store *store, const void *object, unsigned depth, p3l_follow follow,
                       void *state);

/** Keeps an object at its address until p3l_unpin() was called as often as p3l_pin(). Pins the
 * megabyte around it. */
void p3l_pin(const void *object);
void p3l_unpin(const void *object);
/** Evicts objects until at most `bytes` of memory are used, as far as pins allow. Every unpinned
 * pointer held outside the store becomes invalid. @return P3L_OK; P3L_MISUSE: within a scope or
 * transaction. */
p3l_code p3l_evict(p3l_store *store, uint64_t bytes, p3l_error *error);

/** Counters of a store since it was opened. */
typedef struct p3l_statistics {
  uint64_t swizzled;         /* slow paths taken: slots swizzled, or lookups that failed */
  uint64_t objects_copied;   /* made resident one by one, in the order of first access */
  uint64_t pages_adopted;    /* made resident as a page, with its objects in place */
  uint64_t pages_read;       /* from the file or the log's images */
  uint64_t reads;            /* requests that read them */
  uint64_t objects_upgraded; /* converted to the version of this program */
  uint64_t evictions;        /* sweeps */
  uint64_t objects_evicted;
  uint64_t memory_bytes; /* in use for objects, pages and their tables; arrays count whole */
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
