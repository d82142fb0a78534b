/*
 * A mode: the driver's interface to a way of storing the database. A process has at most one
 * open store. Any error ends the program (../oo1/die.h).
 */
#ifndef OO7_MODE_H
#define OO7_MODE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum oo7_traversal { OO7_T1, OO7_T2A, OO7_T6, OO7_TRAVERSALS } oo7_traversal;

typedef void (*oo7_add)(void *state, const char *name, double value);

typedef struct oo7_mode {
  const char *name;
  const char *compiler;
  bool can_prefetch;
  /* A database drawn from `seed`, into an empty folder. */
  void (*load)(const char *folder, uint64_t seed);
  void (*open)(const char *folder, bool writable);
  void (*close)(void);
  /* The timed operation, including the commit of T2a. Returns the number of visited atomic
   * parts. */
  uint64_t (*run)(oo7_traversal traversal, bool prefetch);
  /* The same without changes: every visit is added to oo7_seen. */
  void (*look)(oo7_traversal traversal);
  uint64_t (*faults_handled)(void); /* since open() */
  uint64_t (*bytes_logged)(void);
  void (*statistics)(oo7_add add, void *state);
} oo7_mode;

extern const oo7_mode oo7_this_mode;

/* ---- operation of a visit; in a separate translation unit, invisible to the optimiser ---- */

/* Of what is timed. */
void oo7_null_proc(uint32_t x, uint32_t y, const char *type);
/* Of what looks. */
void oo7_look(uint32_t id, uint32_t x, uint32_t y, const char *type);
typedef struct oo7_tally {
  uint64_t checksum, visited;
} oo7_tally;
extern oo7_tally oo7_seen;

#if defined(__clang__)
#define OO7_COMPILER __VERSION__
#else
#define OO7_COMPILER "gcc " __VERSION__
#endif

#ifdef __cplusplus
}
#endif

#endif
