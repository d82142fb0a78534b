/**
 * @file libsplit: measures the effect of each kind of request of a server on the caches, and places
 * threads as the analyzer (`hardmeter split analyze`) decides.
 *
 * The five calls of the paper (Ohno et al., SPLiT, 2010, table 1) and extensions: explicit handles,
 * nesting, keys that are only known later.
 *
 * Errors: no call makes its host fail, prints, blocks, raises a signal or changes errno. On any
 * problem the library is off and its calls do nothing; split_problem() returns the reason.
 *
 *     split_init(SPLIT_APP_ANY, 0, SPLIT_KEY_TEXT);         once, before threads and children are made, or after
 *     split_start(0, "/SearchItems.php");                   a request begins on this thread
 *         split_start(origin, "SELECT ...");                requests within requests: each is counted separately
 *         split_end();
 *     split_end();                                          on the same thread
 *
 * Threads: any thread may make any call at any time, except split_init, split_configure and
 * split_close. A section belongs to the thread that began it. Forks: children share the segment of
 * their parent and have no open section.
 */
#ifndef SPLIT_H
#define SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SPLIT_API __attribute__((visibility("default")))

/** An application: a server whose requests are counted together. 1 to 2^24 - 1; set in the
 * server's configuration. */
typedef uint32_t split_app_id;
/** A kind of request of one application: an index into its table. 0: none, unknown, or the
 * library is off. 1: all kinds beyond the limit. */
typedef uint32_t split_code_id;

#define SPLIT_APP_ANY ((split_app_id)0) /* split_init derives the id from the program's name */
#define SPLIT_CODE_NONE ((split_code_id)0)
#define SPLIT_CODE_OTHER ((split_code_id)1)

/** Types of code keys. */
enum split_key_type {
  SPLIT_KEY_TEXT = 1,   /* const char *, ended by a zero byte */
  SPLIT_KEY_NUMBER = 2, /* const uint64_t *, such as a query id */
};

/** Settings (paper, section 2.2.3). Values are int64_t, except the weight: double. */
enum split_setting {
  SPLIT_COLLECT =
      1, /* 0: measure nothing and place nothing; affinities are restored. 1 (default) */
  SPLIT_ANALYSIS_INTERVAL, /* interval of the analyzer, in milliseconds; default 1000 */
  SPLIT_HASH_SIZE, /* maximum number of kinds; before split_init only; default 1024, at most 65536 */
  SPLIT_WEIGHT,    /* w of equation (1): weight of the past, 0 to 1; default 0.9 */
  SPLIT_THRESHOLD, /* theta of equation (1): executions averaged evenly; default 100 */
  SPLIT_PLACE,     /* 0: never move a thread, even if the analyzer decides so. 1 (default) */
  SPLIT_PROBE_BUDGET, /* limit of probing, in millionths of processor time; default 5000, 0: never probe */
  SPLIT_BACKEND,        /* enum split_backend; before split_init only; default SPLIT_BACKEND_AUTO */
  SPLIT_APP_ID = 100,   /* read only */
  SPLIT_RELATED_APP_ID, /* read only */
  SPLIT_CODE_ID,        /* of the innermost open section of this thread; read only */
};

/** How a section is measured, in addition to its cycles. */
enum split_backend {
  SPLIT_BACKEND_AUTO = 0,
  SPLIT_BACKEND_PMU,   /* the processor's counters, read in user space */
  SPLIT_BACKEND_PROBE, /* occupancy probe: the share of L2 that the section replaced (probe.h) */
  SPLIT_BACKEND_NONE,  /* cycles only */
};

/** Sets the folder of the segments, which the analyzer reads too. Default: the environment's SPLIT_DIRECTORY, else
 * /run/hardmeter-split. Call it before split_init. The text is copied. */
SPLIT_API void split_configure(const char *directory);

/** Starts the library.
 * @param app SPLIT_APP_ANY or an id.
 * @param related the application whose requests cause those of this one (the web server of a database server), or 0.
 * @return the id; 0 if the library stays off, see split_problem(). A second call in a process changes nothing and returns the
 * id. */
SPLIT_API split_app_id split_init(split_app_id app, split_app_id related,
                                  enum split_key_type key_type);

/** As split_init, with a display name ("web", "mariadb"; at most 31 bytes) instead of the program's. */
SPLIT_API split_app_id split_init_named(const char *name, split_app_id app, split_app_id related,
                                        enum split_key_type key_type);

/** Stops the library: affinities are restored, measuring ends. Open sections are discarded. */
SPLIT_API void split_close(void);

/** Begins a section on this thread.
 * @param related the code id of the causing section in the related application, or 0.
 * @param code_key of the type given to split_init; NULL: not known yet (see split_note). Only the first SPLIT_KEY_LENGTH bytes of
 * a text identify its kind. Short texts at a fixed address, such as literals, are found faster.
 * @return the kind's code id; SPLIT_CODE_NONE if the library is off. */
SPLIT_API split_code_id split_start(split_code_id related, const void *code_key);
#define SPLIT_KEY_LENGTH 8192

/** Ends the innermost section of this thread; does nothing without one. */
SPLIT_API void split_end(void);

/** Set and read a setting.
 * @return 0, or -1 if the setting or value is not valid. */
SPLIT_API int split_set(enum split_setting setting, const void *value);
SPLIT_API int split_get(enum split_setting setting, void *value);

/** A handle in the host's memory (on its stack, in its request pool), instead of the order of
 * nesting, for sections whose start and end are far apart in the host's code. Start and end it
 * on the same thread; a section that ends on another thread is dropped and counted. */
typedef struct split_section {
  uint64_t private_[24];
} split_section;
SPLIT_API split_code_id split_begin(split_section *section, split_code_id related, const void *key,
                                    size_t length);
SPLIT_API void split_finish(split_section *section);
/** Ends the section without counting it; restores the affinity as split_finish does. */
SPLIT_API void split_cancel(split_section *section);
/** Call it before a wait of unknown length inside a section (a slow client, a lock): restores the affinity, the section
 * continues. */
SPLIT_API void split_pause(split_section *section);

/** This thread helps with a section of that kind that another thread or process has open (a
 * parallel worker): it gets the kind's time slice and is not measured. It has no open section
 * itself. @return false if the kind has no slice, nothing is placed now, or the library is off. */
SPLIT_API bool split_help(const void *code_key, size_t length);
/** The thread no longer helps: restores its own time slice. */
SPLIT_API void split_help_ends(void);

/** Facts about the innermost section that become known while it runs. */
enum split_note_type {
  SPLIT_NOTE_KEY =
      1, /* its key: the section counts as that kind, as if begun with it; placed now if worthwhile */
  SPLIT_NOTE_TEXT = 2, /* display text, kept with the kind once (63 bytes): "select items,users" */
  SPLIT_NOTE_ORIGIN =
      3, /* "<app>.<code>" in lower-case hexadecimal, as split_origin writes it: counted, not trusted */
  SPLIT_NOTE_STATEMENT =
      4 /* for SQL: the StatementId of its text, a uint64_t; kept with the kind once */
};
SPLIT_API void split_note(enum split_note_type type, const void *note, size_t length);
SPLIT_API void split_note_section(split_section *section, enum split_note_type type,
                                  const void *note, size_t length);

/** Writes the id by which the next tier records its cause: "<app>.<code>", at most
 * SPLIT_ORIGIN_LENGTH bytes including the zero. @return its length in bytes; 0 without an open
 * section. */
#define SPLIT_ORIGIN_LENGTH 24
SPLIT_API size_t split_origin(char *buffer);

/** Restores affinity and time slice of threads that a dead or silent analyzer left changed: in
 * the whole application, as far as rights allow. A thread of the library calls it four times a
 * second in each process that changes threads, unless the host calls it itself
 * (split_without_service_thread). Async-signal-safe. */
SPLIT_API void split_release_stale(void);
SPLIT_API void split_without_service_thread(void); /* before split_init */

/** The application's counters so far, for views inside hosts (SHOW STATUS, SQL). */
struct split_counts {
  uint64_t sections; /* sections that ended; a few may be missing */
  uint64_t kinds, moves, dropped, contended, without_room, bad_origins, refused, probes;
  uint32_t backend; /* enum split_backend */
  bool analyzer;    /* an analyzer runs */
};
/** @return false if the library is off; then all counts are 0. */
SPLIT_API bool split_counts(struct split_counts *counts);

/** Counters of a kind, over all processors. */
struct split_kind_counts {
  split_code_id code;
  char label[129], note[65];
  uint64_t count;
  uint64_t exact, cycles; /* sections whose cycles are known to be their own; the sum of these */
  uint32_t class_;        /* 0 unknown, 1 short, 2 polluter, 3 sensitive, 4 neutral */
  uint32_t related_app, related_code;
  uint64_t statement; /* for SQL: its StatementId; 0: unknown */
};
/** @return false if there is no such kind, or the library is off. */
SPLIT_API bool split_kind_counts(split_code_id code, struct split_kind_counts *counts);

/** Why the library is off, or what is missing (PMU, rseq, space for more kinds). @return one
 * line, never NULL; "" without a problem. */
SPLIT_API const char *split_problem(void);
SPLIT_API const char *split_version(void);

#ifdef __cplusplus
}
#endif
#endif
