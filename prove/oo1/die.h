/* The programs run one measurement each: an error ends them with a message. */
#ifndef OO1_DIE_H
#define OO1_DIE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OO1_NOT_HERE 77 /* exit status: this machine cannot run the mode */

__attribute__((noreturn, format(printf, 1, 2))) void oo1_die(const char *format, ...);
/* The same followed by the text of errno. */
__attribute__((noreturn, format(printf, 1, 2))) void oo1_die_errno(const char *format, ...);
__attribute__((noreturn, format(printf, 1, 2))) void oo1_not_here(const char *format, ...);

/* malloc's family; never NULL. */
void *oo1_allocate(size_t bytes);
void *oo1_allocate_zeroed(size_t bytes);
__attribute__((format(printf, 1, 2))) char *oo1_format(const char *format, ...);

#ifdef __cplusplus
}
#endif

#endif
