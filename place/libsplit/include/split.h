/*
 * libsplit: tells the cores of a server which kind of request they work on, measures what each kind does to the caches, and
 * follows what the analyzer (`hardmeter split analyze`) makes of it.
 *
 * The five calls of the paper (Ohno et al., SPLiT, 2010, table 1) and what a server of today needs besides: explicit handles,
 * nesting, keys that are known late. A host is never disturbed: no call fails it, prints, blocks, raises a signal or changes
 * errno; where something is amiss the library is off, and split_problem() says why.
 *
 *     split_init(SPLIT_APP_ANY, 0, SPLIT_KEY_TEXT);         once, before threads and children are made, or after
 *     split_start(0, "/SearchItems.php");                   a request begins on this thread
 *         split_start(origin, "SELECT ...");                requests within requests: each counts its own
 *         split_end();
 *     split_end();                                          on the same thread
 *
 * Threads: every call but split_init, split_configure and split_close may be made by any thread at any time. A section belongs to
 * the thread that began it. Forks: children share the segment of their parent and have no open section.
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

/* An application: a server whose requests are counted together. 1 to 2^24 - 1; chosen by whoever configures the server. */
typedef uint32_t split_app_id;
/* A kind of request of one application: an index into its table. 0: none, unknown, or the library is off. 1: all kinds for which
 * there was no room. */
typedef uint32_t split_code_id;

#define SPLIT_APP_ANY ((split_app_id)0) /* split_init derives the id from the program's name */
#define SPLIT_CODE_NONE ((split_code_id)0)
#define SPLIT_CODE_OTHER ((split_code_id)1)

/* What a code key is. */
enum split_key_type {
  SPLIT_KEY_TEXT = 1,   /* const char *, ended by a zero byte */
  SPLIT_KEY_NUMBER = 2, /* const uint64_t *, such as a query id */
};

/* What can be set, and asked for (paper, section 2.2.3). Values are int64_t, but for the weight: double. */
enum split_setting {
  SPLIT_COLLECT =
      1, /* 0: measure nothing and place nothing; affinities are given back. 1 (default) */
  SPLIT_ANALYSIS_INTERVAL, /* how often the analyzer looks, in milliseconds; default 1000 */
  SPLIT_HASH_SIZE, /* how many kinds there can be; before split_init only; default 1024, at most 65536 */
  SPLIT_WEIGHT,    /* w of equation (1): what the past weighs, 0 to 1; default 0.9 */
  SPLIT_THRESHOLD, /* theta of equation (1): so many executions are averaged evenly; default 100 */
  SPLIT_PLACE,     /* 0: never move a thread, whatever the analyzer says. 1 (default) */
  SPLIT_PROBE_BUDGET, /* what probing may cost, in millionths of processor time; default 5000, 0: never probe */
  SPLIT_BACKEND,        /* enum split_backend; before split_init only; default SPLIT_BACKEND_AUTO */
  SPLIT_APP_ID = 100,   /* to be asked for only */
  SPLIT_RELATED_APP_ID, /* to be asked for only */
  SPLIT_CODE_ID,        /* of the innermost open section of this thread; to be asked for only */
};

/* What measures a section, beside its cycles. */
enum split_backend {
  SPLIT_BACKEND_AUTO = 0,
  SPLIT_BACKEND_PMU,   /* the processor's counters, read in user space */
  SPLIT_BACKEND_PROBE, /* occupancy probe: how much of L2 did the section replace? (probe.h) */
  SPLIT_BACKEND_NONE,  /* cycles only */
};

/* Where the segments are: names a folder that the analyzer looks into too. Default: the environment's SPLIT_DIRECTORY, else
 * /run/hardmeter-split. To be called before split_init. The text is copied. */
SPLIT_API void split_configure(const char *directory);

/* Begins. `app`: SPLIT_APP_ANY or an id; `related`: the application whose requests cause ours (the web server of a database
 * server), or 0. Returns the id, or 0 if the library stays off (split_problem says why). A second call of a process changes
 * nothing and returns the id. */
SPLIT_API split_app_id split_init(split_app_id app, split_app_id related,
                                  enum split_key_type key_type);

/* The same with a name for people ("web", "mariadb"; 31 bytes) instead of the program's. */
SPLIT_API split_app_id split_init_named(const char *name, split_app_id app, split_app_id related,
                                        enum split_key_type key_type);

/* Ends: affinities are given back, nothing more is measured. Open sections are forgotten. */
SPLIT_API void split_close(void);

/* A section begins on this thread. `related`: the code id of the section that caused it, of the related application, or 0.
 * `code_key`: as split_init was told; NULL: not known yet (see split_note). Returns the kind's code id. Texts are cut after
 * SPLIT_KEY_LENGTH bytes: what follows does not tell kinds apart. Short ones that stay where they are, as literals do, are found faster. */
SPLIT_API split_code_id split_start(split_code_id related, const void *code_key);
#define SPLIT_KEY_LENGTH 8192

/* The innermost section of this thread ends. */
SPLIT_API void split_end(void);

/* Both return 0, or -1 if there is no such setting or value. */
SPLIT_API int split_set(enum split_setting setting, const void *value);
SPLIT_API int split_get(enum split_setting setting, void *value);

/* Where a section's start and end are far apart in a host's code: a handle of the host's (on its stack, in its request pool) instead
 * of the order of nesting. Start and end on the same thread; a section that ends on another thread is dropped and counted. */
typedef struct split_section {
  uint64_t private_[24];
} split_section;
SPLIT_API split_code_id split_begin(split_section *section, split_code_id related, const void *key,
                                    size_t length);
SPLIT_API void split_finish(split_section *section);
/* The section is over and shall not be counted; affinity is given back as by split_finish. */
SPLIT_API void split_cancel(split_section *section);
/* Before a wait of unknown length inside a section (a slow client, a lock): affinity is given back, the section goes on. */
SPLIT_API void split_pause(split_section *section);

/* What becomes known of the innermost section while it runs. */
enum split_note_type {
  SPLIT_NOTE_KEY =
      1, /* its key: it counts as that kind, as if it had begun with it; placed now, if it pays */
  SPLIT_NOTE_TEXT =
      2, /* words for people, kept with the kind once (63 bytes): "select items,users" */
  SPLIT_NOTE_ORIGIN =
      3, /* "<app>.<code>" in lower-case hexadecimal, as split_origin writes it: not trusted, only counted */
  SPLIT_NOTE_STATEMENT =
      4 /* of SQL: the StatementId of its text, a uint64_t; kept with the kind once */
};
SPLIT_API void split_note(enum split_note_type type, const void *note, size_t length);
SPLIT_API void split_note_section(split_section *section, enum split_note_type type,
                                  const void *note, size_t length);

/* How a section tells the next tier that it was the cause: "<app>.<code>", at most SPLIT_ORIGIN_LENGTH bytes with the zero. Empty if
 * there is no open section. Returns its length. */
#define SPLIT_ORIGIN_LENGTH 24
SPLIT_API size_t split_origin(char *buffer);

/* Gives threads their affinity back that a dead or silent analyzer left narrowed: of the whole application, as far as rights reach.
 * A thread of the library's own calls it four times a second in each process that moves threads, unless the host said that it does so
 * itself. Async-signal-safe. */
SPLIT_API void split_release_stale(void);
SPLIT_API void split_without_service_thread(void); /* before split_init */

/* For views inside hosts (SHOW STATUS, SQL): the application's counters so far. false: the library is off. */
struct split_counts {
  uint64_t sections; /* that ended; a few may be missing */
  uint64_t kinds, moves, dropped, contended, without_room, bad_origins, refused, probes;
  uint32_t backend; /* enum split_backend */
  bool analyzer;    /* one is alive */
};
SPLIT_API bool split_counts(struct split_counts *counts);

/* The same of a kind, over all processors. false: there is no such kind, or the library is off. */
struct split_kind_counts {
  split_code_id code;
  char label[129], note[65];
  uint64_t count;
  uint64_t exact, cycles; /* of those whose cycles are known to be their own */
  uint32_t class_;        /* 0 unknown, 1 short, 2 polluter, 3 sensitive, 4 neutral */
  uint32_t related_app, related_code;
  uint64_t statement; /* of SQL: its StatementId; 0: not known */
};
SPLIT_API bool split_kind_counts(split_code_id code, struct split_kind_counts *counts);

/* Why the library is off, or what it does without (no PMU, no rseq, no room for more kinds): one line, never NULL, "" if all is well. */
SPLIT_API const char *split_problem(void);
SPLIT_API const char *split_version(void);

#ifdef __cplusplus
}
#endif
#endif
