/*
 * The comment by which a statement says which request caused it: a last comment split_id='<app>.<code>' (sqlcommenter's syntax). Knows
 * nothing of PHP.
 *
 * The text depends on the kind of the request and on nothing else: statements stay as few as they were, and caches of statements
 * are not flooded.
 */
#ifndef SPLIT_COMMENT_H
#define SPLIT_COMMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The longest comment, with the space before it. */
#define COMMENT_MOST 40
/* Longer statements go as they are: to copy them costs more than the id is worth, and none may grow over a server's limit. */
#define COMMENT_STATEMENT_MOST ((size_t)1 << 20)

/* Writes the comment of an id, "<app>.<code>" in lower-case hexadecimal; no zero byte follows. Returns its length, 0 if that is no
 * id: whatever else comes from an environment does not get into statements. */
size_t comment_make(const char *id, size_t length, char comment[COMMENT_MOST]);

/* Where in a statement the comment goes: at its end, but before semicolons and spaces that end it (what follows a semicolon is a
 * statement of its own to MariaDB, with a result of its own). False: this statement goes as it is. It is empty (an error that must
 * stay one), has an id already, is too long, or ends in a comment that nobody closed. */
bool comment_place(const char *statement, size_t length, size_t *place);

/* Which statements of a request get the comment. A kind of statement keeps the latest page that sent it, so that pages which send
 * thousands need not say it each time: the server would read a comment for each of them, which costs it more than all else that a
 * section does. The first COMMENT_FIRST of a request do, then one in COMMENT_EVERY by chance, so that no loop of a page hides one. */
#define COMMENT_FIRST 32
#define COMMENT_EVERY 32
struct comment_turns {
  uint32_t left;   /* so many statements, from the next one on, get it */
  uint32_t passed; /* so many go without before the next that gets it */
  uint32_t random;
};
void comment_turns_begin(struct comment_turns *turns);
/* Whether the next statement gets it. */
bool comment_turn(struct comment_turns *turns);

#endif
