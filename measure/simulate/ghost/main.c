/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * hardmeter-ghost: follows running processes and simulates the memory hierarchy under what they do,
 * from copies.  Alone it counts and prints figures; with the segment of `hardmeter record --ghosts` it
 * writes samples into it (docs/design/ghost.md).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ghost.h"
#include "simulator.h"

static const char usage[] =
    "usage: hardmeter-ghost -p PID[,PID...] [options]\n"
    "  -p, --processes PID,...  the processes to follow\n"
    "      --descendants        and their children, later ones too\n"
    "  -s, --seconds N          for that long (default: until a signal, or the recorder ends)\n"
    "      --segment PATH       the segment made by `hardmeter record` (default: only count)\n"
    "      --enough N           end when N stretches were the same\n"
    "      --stretches N        from one system call to the next so often, per window (default "
    "20)\n"
    "      --lanes N            processes followed at once, at most (default: processors, at most "
    "4)\n"
    "      --share PERCENT      of a process's time that stops may take (default 1)\n"
    "      --instructions N     most of a stretch (default 2000000)\n"
    "      --report FILE        write the result as JSON\n"
    "  -q, --quiet              print no figures\n"
    "  -v, --verbose            print why each stretch was dropped\n";

static _Noreturn void wrong(const char *what, const char *value) {
  fprintf(stderr, "hardmeter-ghost: invalid %s \"%s\"\n%s", what, value, usage);
  exit(2);
}

static double number(const char *what, const char *text, double least, double most) {
  char *end;
  errno = 0;
  double value = strtod(text, &end);
  if (errno != 0 || end == text || *end != 0 || !(value >= least && value <= most))
    wrong(what, text);
  return value;
}

static void processes(struct hm_options *options, const char *text) {
  for (const char *at = text; *at != 0;) {
    char *end;
    long pid = strtol(at, &end, 10);
    if (end == at || pid <= 0 || pid > INT32_MAX || (*end != 0 && *end != ','))
      wrong("process", text);
    if (options->process_count == sizeof options->processes / sizeof options->processes[0])
      wrong("number of processes (at most 256)", text);
    options->processes[options->process_count++] = (int)pid;
    at = *end == ',' ? end + 1 : end;
  }
}

static void parse(int count, char **arguments, struct hm_options *options) {
  enum { SEGMENT = 256, STRETCHES, SHARE, LANES, INSTRUCTIONS, REPORT, DESCENDANTS, ENOUGH };
  static const struct option known[] = {{"processes", required_argument, NULL, 'p'},
                                        {"seconds", required_argument, NULL, 's'},
                                        {"segment", required_argument, NULL, SEGMENT},
                                        {"stretches", required_argument, NULL, STRETCHES},
                                        {"share", required_argument, NULL, SHARE},
                                        {"lanes", required_argument, NULL, LANES},
                                        {"instructions", required_argument, NULL, INSTRUCTIONS},
                                        {"report", required_argument, NULL, REPORT},
                                        {"descendants", no_argument, NULL, DESCENDANTS},
                                        {"enough", required_argument, NULL, ENOUGH},
                                        {"quiet", no_argument, NULL, 'q'},
                                        {"verbose", no_argument, NULL, 'v'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};
  for (int option; (option = getopt_long(count, arguments, "p:s:qvh", known, NULL)) != -1;) {
    switch (option) {
      case 'p': processes(options, optarg); break;
      case 's': options->seconds = number("seconds", optarg, 0.001, 1e7); break;
      case SEGMENT: options->segment = optarg; break;
      case STRETCHES:
        options->stretches = (uint32_t)number("stretches", optarg, 1, HM_SNAPSHOTS);
        break;
      case SHARE: options->share = number("share", optarg, 0.01, 50); break;
      case INSTRUCTIONS:
        options->instructions = (uint64_t)number("instructions", optarg, 1000, 1e8);
        break;
      case LANES: options->lanes = (uint32_t)number("lanes", optarg, 1, HM_LANES); break;
      case REPORT: options->report = optarg; break;
      case ENOUGH: options->enough = (uint64_t)number("enough", optarg, 1, 1e12); break;
      case DESCENDANTS: options->descendants = 1; break;
      case 'q': options->quiet = 1; break;
      case 'v': options->verbose = 1; break;
      case 'h': fputs(usage, stdout); exit(0);
      default: fputs(usage, stderr); exit(2);
    }
  }
  /* Alone, a process needs no second lane. */
  if (options->process_count == 1 && !options->descendants) options->lanes = 1;
  if (options->process_count == 0 || optind != count) {
    fputs(usage, stderr);
    exit(2);
  }
}

static _Noreturn void fail(const char *what, const char *why) {
  fprintf(stderr, "hardmeter-ghost: %s: %s\n", what, why);
  exit(1);
}

static uint32_t lanes_by_default(void) {
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  return processors < 1 ? 1 : processors > (long)HM_LANES ? HM_LANES : (uint32_t)processors;
}

/* A channel, with a watchdog and a stopper, for each lane. */
static struct hm_channel *channels(uint32_t lanes) {
  size_t size = lanes * sizeof(struct hm_channel);
  struct hm_channel *channel =
      mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (channel == MAP_FAILED) fail("no memory is left", strerror(errno));
  for (uint32_t i = 0; i < lanes; i++) {
    channel[i].bell = &channel[0].news;
    channel[i].round = &channel[0].met;
    if (hm_start_watchdog(&channel[i]) < 0) fail("the watchdog cannot be started", strerror(errno));
  }
  return channel;
}

/* One start in some 500 has its stack where a followed process has its own: the next start's lies
 * elsewhere. Processes that come later are refused if theirs does. */
static void start_elsewhere(const struct hm_options *options, char **arguments) {
  static const char name[] = "HARDMETER_GHOST_STARTS";
  const char *starts = getenv(name); /* a digit */
  const char next[2] = {starts != NULL ? (char)(starts[0] + 1) : '1', 0};
  for (uint32_t i = 0; i < options->process_count && next[0] <= '8'; i++) {
    if (hm_read_mappings(options->processes[i]) != hm_overlap) continue;
    setenv(name, next, 1);
    execv("/proc/self/exe", arguments);
    fail("it cannot start itself again", strerror(errno));
  }
  unsetenv(name);
}

int main(int count, char **arguments) {
  static struct hm_options options = {.stretches = 20, .share = 1, .instructions = 2000000};
  options.lanes = lanes_by_default();
  parse(count, arguments, &options);
  const char *problem = hm_arrange_layout(arguments);
  if (problem != NULL) fail("its own memory cannot be arranged", problem);
  start_elsewhere(&options, arguments);
  struct hm_channel *channel = channels(options.lanes);
  struct hm_header *header = options.segment != NULL ? hm_open_segment(options.segment, &problem)
                                                     : hm_own_segment(&problem);
  if (header == NULL) fail("the segment cannot be used", problem);
  problem = hm_attach(header, (uint32_t)getpid());
  if (problem != NULL) fail("the segment cannot be used", problem);
  return hm_follow(&options, channel);
}
