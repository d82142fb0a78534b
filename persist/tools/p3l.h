/*
 * The p3l command: what can be done to a store from outside. One function a subcommand; each
 * returns the exit status: 0 done, 1 something is wrong with the store or the system, 2 wrong
 * arguments.
 */
#ifndef P3L_TOOL_H
#define P3L_TOOL_H

int p3l_run_create(int argc, char **argv);
int p3l_run_stat(int argc, char **argv);
int p3l_run_verify(int argc, char **argv);
int p3l_run_torture(int argc, char **argv);

#endif
