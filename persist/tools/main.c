#include <stdio.h>
#include <string.h>

#include "tool.h"

static const struct {
  const char *name;
  int (*run)(int argc, char **argv);
  const char *what;
} commands[] = {
    {"create", p3l_run_create, "make an empty store"},
    {"stat", p3l_run_stat, "describe a store and its contents"},
    {"verify", p3l_run_verify, "check every page, object and pointer"},
    {"dump", p3l_run_dump, "list objects and what they point to"},
    {"backup", p3l_run_backup, "copy a store, also while a process writes to it"},
    {"restore", p3l_run_restore, "make a store of a backup and increments"},
    {"follow", p3l_run_follow, "ship what is committed to a folder, for a standby"},
    {"gc", p3l_run_gc, "find and delete objects that no root leads to"},
    {"torture", p3l_run_torture,
     "kill a writer at random moments, and check that no committed change is lost"},
};
enum { COMMANDS = sizeof(commands) / sizeof(*commands) };

static void help(FILE *to) {
  fprintf(to, "p3l: persistent stores of C and C++ programs, from outside\n\n");
  for (int i = 0; i < COMMANDS; i++)
    fprintf(to, "  p3l %-8s  %s\n", commands[i].name, commands[i].what);
  fprintf(
      to,
      "\nExample: p3l create /tmp/parts && p3l verify /tmp/parts\n"
      "`p3l COMMAND --help` says more. Exit status: 0 done, 1 an error or a damaged store, 2 wrong "
      "arguments.\n");
}

int main(int argc, char **argv) {
  if (argc < 2) {
    help(stderr);
    return 2;
  }
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
    help(stdout);
    return 0;
  }
  for (int i = 0; i < COMMANDS; i++)
    if (strcmp(argv[1], commands[i].name) == 0) {
      /* The subcommand's messages begin with its name. */
      argv[1] = argv[0];
      return commands[i].run(argc - 1, argv + 1);
    }
  fprintf(stderr, "p3l: there is no command %s; see p3l --help\n", argv[1]);
  return 2;
}
