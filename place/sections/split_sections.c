/* split-sections: a server of synthetic sections that measures the effect of placement; see
 * server.h. */
#include "server.h"

#include "probe.h"
#include "segment.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char usage[] =
    "split-sections: serves requests of two kinds with known footprints, and reports their cost\n"
    "\n"
    "  split-sections --mix C [--seconds 10] [--workers 4] [--outstanding 8 | --rate R]\n"
    "\n"
    "  --mix LETTER        A C F H B D E K M N; --list describes them\n"
    "  --l2 KB             sizes are for an L2 of 2048 KB; for one of so much, all in proportion\n"
    "  --balance           shares of balanced mixes as this machine has them balanced\n"
    "  --seconds S         of a stage (default 10)\n"
    "  --settle S          at the start of each stage, not counted (default 0.3)\n"
    "  --stages 0110...    one stage for each digit: 1 places by the analyzer's decisions, 0 does "
    "not "
    "(default 1)\n"
    "  --watch             before and after each stage all workers rest, and it is looked for\n"
    "                      how much of the caches other guests and our own processors\n"
    "                      displace; until an analyzer has published a probe: all\n"
    "  --requests N        end after N requests instead: one stage; its seconds are the makespan\n"
    "  --workers N         threads (default 4)\n"
    "  --outstanding N     closed loop: N requests at any time (default 8)\n"
    "  --rate R            open loop: R requests a second, at random times\n"
    "  --policy analyzer   by the analyzer's decisions (default); none: sections are measured, not "
    "placed;\n"
    "                      bare: the library is not used at all\n"
    "  --directory DIR     where the segments are (default: as libsplit's)\n"
    "  --app N             application id (default: by name)\n"
    "  --seed N            of the order of requests (default 1)\n"
    "  --format text|json  (default text)\n"
    "\n"
    "Example: split-sections --mix K --stages 0110 --seconds 2 --directory /tmp/split\n"
    "Exit status: 0 done, 1 it could not run, 2 wrong arguments.\n";

static struct {
  bool json;
  bool collect;
  const char *directory;
  split_app_id app;
} settings = {.collect = true};

static const struct split_header *header;

static uint64_t affinity_moves(void) {
  return header == NULL ? 0 : atomic_load_explicit(&header->moves, memory_order_relaxed);
}

/* The folder of the segments. */
static const char *directory(void) {
  if (settings.directory != NULL) return settings.directory;
  const char *named = getenv("SPLIT_DIRECTORY");
  return named != NULL ? named : "/run/hardmeter-split";
}

/* Maps the first page of this process's own segment; without it, the count of moves is 0. */
static void map_header(void) {
  char path[4096];
  const int length =
      snprintf(path, sizeof(path), "%s/app-%x.segment", directory(), (unsigned)settings.app);
  if (length < 0 || (size_t)length >= sizeof(path)) return;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  const struct split_header *mapped = mmap(NULL, SPLIT_HEADER_SIZE, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (mapped == MAP_FAILED) return;
  if (mapped->magic == SPLIT_SEGMENT_MAGIC && mapped->version == SPLIT_SEGMENT_VERSION)
    header = mapped;
}

/* Uses the sets that were published last; random lines would measure nothing in 200 us. */
static struct section_calm look_for_calm(void) {
  struct section_calm calm = {1, 1};
  struct split_probe *probe = split_probe_open(directory(), NULL);
  if (probe == NULL) return calm;
  if (split_probe_published(probe)->random_lines == 0) calm = section_calm(probe);
  split_probe_close(probe);
  return calm;
}

static int wrong(const char *what, const char *value) {
  fprintf(stderr, "split-sections: %s: %s\n  remedy: split-sections --help\n", what, value);
  return 2;
}

static bool number_of(const char *text, double least, double most, double *value) {
  char *end;
  errno = 0;
  *value = strtod(text, &end);
  return errno == 0 && end != text && *end == '\0' && *value >= least && *value <= most;
}

static void list(void) {
  for (unsigned i = 0; i < MIXES; i++)
    printf("%c  %s (%.0f %% %s)\n", mixes[i].letter, mixes[i].what, 100 * mixes[i].first_share,
           mixes[i].kind[0].key);
}

static double per(double value, uint64_t count) { return count == 0 ? 0 : value / (double)count; }

static void print_json(const struct server_options *options,
                       const struct server_stage_result *results) {
  printf("{\"format\":\"split-sections\",\"version\":1,\"mix\":\"%c\",\"workers\":%u,",
         options->mix.letter, options->workers);
  printf("\"outstanding\":%u,\"rate\":%g,\"stages\":[",
         options->rate > 0 ? 0 : options->outstanding, options->rate);
  for (unsigned i = 0; i < options->stages; i++) {
    const struct server_stage_result *stage = &results[i];
    printf("%s{\"placing\":%s,\"seconds\":%.6f,\"requests\":%llu,\"worker_cpu_us\":%.3f,",
           i ? "," : "", stage->placing ? "true" : "false", stage->seconds,
           (unsigned long long)stage->requests,
           per((double)stage->worker_cpu_ns / 1000, stage->requests));
    char calm[64] = "null";
    if (options->look != NULL)
      snprintf(calm, sizeof(calm), "{\"by_strangers\":%.3f,\"by_ours\":%.3f}",
               stage->calm.by_strangers, stage->calm.by_ours);
    printf(
        "\"at_home\":%llu,\"stolen\":%llu,\"placed\":%llu,\"refused\":%llu,\"moves\":%llu,"
        "\"cpu_changes\":%llu,"
        "\"displaced\":%s,\"kinds\":[",
        (unsigned long long)stage->queue.taken_at_home, (unsigned long long)stage->queue.stolen,
        (unsigned long long)stage->queue.placed, (unsigned long long)stage->queue.refused,
        (unsigned long long)stage->affinity_moves, (unsigned long long)stage->cpu_changes, calm);
    for (unsigned k = 0; k < MIX_KINDS; k++) {
      const struct server_kind_result *kind = &stage->kind[k];
      printf("%s{\"key\":\"%s\",\"count\":%llu,\"cpu_us\":%.3f,\"p50_us\":%.3f,\"p99_us\":%.3f}",
             k ? "," : "", options->mix.kind[k].key, (unsigned long long)kind->count,
             per((double)kind->cpu_ns / 1000, kind->count),
             (double)latencies_quantile(&kind->latencies, 0.5) / 1000,
             (double)latencies_quantile(&kind->latencies, 0.99) / 1000);
    }
    printf("]}");
  }
  printf("]}\n");
}

static void print_text(const struct server_options *options,
                       const struct server_stage_result *results) {
  printf("%c: %s; %u workers\n", options->mix.letter, options->mix.what, options->workers);
  if (split_problem()[0] != '\0') printf("libsplit: %s\n", split_problem());
  for (unsigned i = 0; i < options->stages; i++) {
    const struct server_stage_result *stage = &results[i];
    printf(
        "placement %-3s %7.3f s  %9.0f requests/s  %8.1f us CPU each  %llu stolen, %llu affinity "
        "moves,"
        " %llu changes of CPU\n",
        stage->placing ? "on" : "off", stage->seconds,
        stage->seconds > 0 ? (double)stage->requests / stage->seconds : 0,
        per((double)stage->worker_cpu_ns / 1000, stage->requests),
        (unsigned long long)stage->queue.stolen, (unsigned long long)stage->affinity_moves,
        (unsigned long long)stage->cpu_changes);
    if (options->look != NULL)
      printf("  displaced before or after, at rest %.0f %%, by our other processors %.0f %%\n",
             100 * stage->calm.by_strangers, 100 * stage->calm.by_ours);
    for (unsigned k = 0; k < MIX_KINDS; k++) {
      const struct server_kind_result *kind = &stage->kind[k];
      printf("  %-12s %9llu  %8.1f us CPU  p50 %8.1f us  p99 %8.1f us\n", options->mix.kind[k].key,
             (unsigned long long)kind->count, per((double)kind->cpu_ns / 1000, kind->count),
             (double)latencies_quantile(&kind->latencies, 0.5) / 1000,
             (double)latencies_quantile(&kind->latencies, 0.99) / 1000);
    }
  }
}

static int parse(int argc, char **argv, struct server_options *options) {
  enum {
    MIX = 1,
    L2,
    BALANCE,
    SECONDS,
    SETTLE,
    STAGES,
    WATCH,
    REQUESTS,
    WORKERS,
    OUTSTANDING,
    RATE,
    POLICY,
    DIRECTORY,
    APP,
    SEED,
    FORMAT,
    LIST,
    HELP
  };
  static const struct option names[] = {{"mix", 1, NULL, MIX},
                                        {"l2", 1, NULL, L2},
                                        {"balance", 0, NULL, BALANCE},
                                        {"seconds", 1, NULL, SECONDS},
                                        {"settle", 1, NULL, SETTLE},
                                        {"stages", 1, NULL, STAGES},
                                        {"watch", 0, NULL, WATCH},
                                        {"requests", 1, NULL, REQUESTS},
                                        {"workers", 1, NULL, WORKERS},
                                        {"outstanding", 1, NULL, OUTSTANDING},
                                        {"rate", 1, NULL, RATE},
                                        {"policy", 1, NULL, POLICY},
                                        {"directory", 1, NULL, DIRECTORY},
                                        {"app", 1, NULL, APP},
                                        {"seed", 1, NULL, SEED},
                                        {"format", 1, NULL, FORMAT},
                                        {"list", 0, NULL, LIST},
                                        {"help", 0, NULL, HELP},
                                        {NULL, 0, NULL, 0}};
  const struct mix *mix = NULL;
  uint32_t l2_kilobytes = MIX_L2_KILOBYTES;
  double value = 0;
  for (int option; (option = getopt_long(argc, argv, "", names, NULL)) != -1;) {
    bool good = true;
    switch (option) {
      case MIX: good = (mix = mix_of(optarg)) != NULL; break;
      case L2:
        good = number_of(optarg, 64, 1 << 20, &value);
        l2_kilobytes = (uint32_t)value;
        break;
      case BALANCE: options->balance = true; break;
      case SECONDS: good = number_of(optarg, 0.001, 86400, &options->stage_seconds); break;
      case SETTLE: good = number_of(optarg, 0, 3600, &options->settle_seconds); break;
      case STAGES:
        options->placing = optarg;
        good = strlen(optarg) <= STAGES_MAX && strlen(optarg) > 0 &&
               strspn(optarg, "01") == strlen(optarg);
        options->stages = (unsigned)strlen(optarg);
        break;
      case WATCH: options->look = look_for_calm; break;
      case REQUESTS:
        good = number_of(optarg, 1, 1e12, &value);
        options->requests = (uint64_t)value;
        break;
      case WORKERS:
        good = number_of(optarg, 1, 1024, &value);
        options->workers = (unsigned)value;
        break;
      case OUTSTANDING:
        good = number_of(optarg, 1, 65536, &value);
        options->outstanding = (unsigned)value;
        break;
      case RATE: good = number_of(optarg, 0.001, 1e7, &options->rate); break;
      case POLICY:
        options->bare = strcmp(optarg, "bare") == 0;
        settings.collect = !options->bare;
        if (strcmp(optarg, "none") == 0)
          options->placing = "0";
        else
          good = options->bare || strcmp(optarg, "analyzer") == 0;
        break;
      case DIRECTORY: settings.directory = optarg; break;
      case APP:
        good = number_of(optarg, 1, 0xffffff, &value);
        settings.app = (split_app_id)value;
        break;
      case SEED:
        good = number_of(optarg, 0, 1e15, &value);
        options->seed = (uint64_t)value;
        break;
      case FORMAT:
        settings.json = strcmp(optarg, "json") == 0;
        good = settings.json || strcmp(optarg, "text") == 0;
        break;
      case LIST: list(); exit(0);
      case HELP: fputs(usage, stdout); exit(0);
      default: return 2;
    }
    if (!good) return wrong("wrong value", optarg);
  }
  if (optind < argc) return wrong("what is that", argv[optind]);
  if (mix == NULL) return wrong("which mix", "--mix LETTER is missing");
  options->mix = mix_for(mix, l2_kilobytes);
  if (options->requests > 0 && options->stages > 1)
    return wrong("one stage only", "--requests beside --stages");
  if (options->look != NULL && (options->requests > 0 || options->rate > 0))
    return wrong("needs a closed loop of stages", "--watch");
  if (strlen(options->placing) != options->stages)
    return wrong("which one", "--policy none beside --stages");
  return 0;
}

int main(int argc, char **argv) {
  struct server_options options = {.workers = 4,
                                   .outstanding = 8,
                                   .seed = 1,
                                   .stages = 1,
                                   .placing = "1",
                                   .stage_seconds = 10,
                                   .settle_seconds = 0.3};
  const int refused = parse(argc, argv, &options);
  if (refused != 0) return refused;
  if (settings.collect) {
    if (settings.directory != NULL) split_configure(settings.directory);
    settings.app = split_init_named("sections", settings.app, 0, SPLIT_KEY_TEXT);
    if (settings.app == 0)
      fprintf(stderr, "split-sections: not measured: %s\n", split_problem());
    else
      map_header();
  }
  struct server_stage_result *results = calloc(options.stages, sizeof(*results));
  const char *problem = results == NULL ? "there is not enough memory"
                                        : server_run(&options, affinity_moves, results);
  if (problem != NULL) {
    fprintf(stderr, "split-sections: %s\n", problem);
  } else if (settings.json) {
    print_json(&options, results);
  } else {
    print_text(&options, results);
  }
  free(results);
  split_close();
  return problem == NULL ? 0 : 1;
}
