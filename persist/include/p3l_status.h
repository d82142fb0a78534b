/**
 * @file Errors of the store: a code for the program, and a message with file, page and remedy.
 */
#ifndef P3L_STATUS_H
#define P3L_STATUS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum p3l_code {
  P3L_OK = 0,
  P3L_IO,            /* a system call failed; errno is in the message */
  P3L_NO_SPACE,      /* disk or quota full: the transaction is aborted, the store is unchanged */
  P3L_NO_MEMORY,     /* malloc failed: as P3L_NO_SPACE */
  P3L_NOT_A_STORE,   /* not a file of P3L */
  P3L_WRONG_VERSION, /* the store has another version of the format */
  P3L_WRONG_MACHINE, /* byte order, word size or page size differ from this build */
  P3L_BUSY,          /* another process has it open in a conflicting mode */
  P3L_READ_ONLY,     /* a change of a store opened for reading */
  P3L_CORRUPT,       /* damaged data: checksum, page number or lengths */
  P3L_BROKEN, /* an earlier sync failed; the state on disk is unknown until the store is opened again
               */
  P3L_WRONG_TYPE, /* the store's type of this name differs, and has no upgrade */
  P3L_DANGLING,   /* a persistent pointer without a valid object */
  P3L_MISUSE      /* the caller broke a rule of the interface */
} p3l_code;

typedef struct p3l_error {
  p3l_code code;
  char message[640];
} p3l_error;

/** Fills `error` (may be NULL) and returns `code`. Use it as `return p3l_fail(...)`. */
__attribute__((format(printf, 3, 4))) p3l_code p3l_fail(p3l_error *error, p3l_code code,
                                                        const char *format, ...);

/** Like p3l_fail, for a failed system call: the errno value determines the code and the end of
 * the message. */
__attribute__((format(printf, 3, 4))) p3l_code p3l_fail_errno(p3l_error *error, int errno_value,
                                                              const char *format, ...);

/** The code as text, "no space" or "corrupt": for tools and tests. */
const char *p3l_code_name(p3l_code code);

#ifdef __cplusplus
}
#endif

#endif
