/*
 * The comment that links a statement to its request: a final comment split_id='<app>.<code>'
 * (sqlcommenter's syntax). Independent of PHP.
 *
 * The text depends only on the kind of the request: the number of distinct statements stays small,
 * and statement caches are not flooded.
 */
#ifndef SPLIT_COMMENT_H
#define SPLIT_COMMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The longest comment, with the space before it. */
#define COMMENT_MOST 40
/* Longer statements are not changed: copying them costs more than the id is worth, and they must
 * not exceed a server's limit. */
#define COMMENT_STATEMENT_MOST ((size_t)1 << 20)

/* Writes the comment of an id, "<app>.<code>" in lower-case hexadecimal, without a terminating
 * zero. Returns its length, 0 if the id is malformed: no other text from an environment gets
 * into statements. */
size_t comment_make(const char *id, size_t length, char comment[COMMENT_MOST]);

/* The position of the comment in a statement: at its end, but before trailing semicolons and
 * spaces (for MariaDB, text after a semicolon is a separate statement with its own result).
 * Returns false if the statement must not be changed: it is empty (an error that must stay one),
 * has an id already, is too long, or ends in an unclosed comment. */
bool comment_place(const char *statement, size_t length, size_t *place);

/* Which statements of a request get the comment. The server keeps the latest page of each kind
 * of statement, so pages with thousands of statements need not mark each: lexing a comment costs
 * the server more than the rest of a section. The first COMMENT_FIRST of a request get it, then
 * one in COMMENT_EVERY at random, so that no loop of a page hides one. */
#define COMMENT_FIRST 32
#define COMMENT_EVERY 32
struct comment_turns {
  uint32_t left;   /* number of statements, from the next one on, that get it */
  uint32_t passed; /* number of statements before the next one that gets it */
  uint32_t random;
};
void comment_turns_begin(struct comment_turns *turns);
/* Whether the next statement gets it. */
bool comment_turn(struct comment_turns *turns);

#endif
