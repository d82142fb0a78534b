/*
 * Builds a graph in a P3L store: nodes, then edges in random order, each at the head of its node's list; a
 * commit every CHANGES changes. Prints one line of JSON; first_ms is the commit of the nodes, and middle_ms,
 * late_ms (of 1,000 the second slowest) and worst_ms are of those of edges; own_worst_ms leaves out what
 * a commit waited for a processor, which beside other work is most of the worst.
 *
 *   build_graph STORE commits|load NODES EDGES CHANGES
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "p3l.h"

typedef struct edge edge;
typedef struct node {
  uint64_t id, degree;
  edge *edges;
} node;
struct edge {
  node *to;
  edge *next;
};
typedef struct table {
  node *nodes;
  uint64_t count;
} table;
P3L_TYPE(node, node, 1, P3L_POINTERS(node, edges));
P3L_TYPE(edge, edge, 1, P3L_POINTERS(edge, to), P3L_POINTERS(edge, next));
P3L_TYPE(table, table, 1, P3L_POINTERS(table, nodes));

static p3l_store *store;
static p3l_error error;
static double first, *edge_commits; /* seconds: of the nodes; of each commit of edges */
static double own_worst;            /* of commits of edges, without the wait for a processor */
static uint64_t edge_commit_count, state = 42;

static void must(p3l_code code) {
  if (code == P3L_OK) return;
  fprintf(stderr, "build_graph: %s\n", error.message);
  exit(1);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static uint64_t below(uint64_t limit) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state % limit;
}

/* Seconds that this thread was ready to run and had no processor; 0 if the kernel does not report
 * it. */
static double waited(void) {
  static int file = -1;
  char text[100];
  unsigned long long ran, wait = 0;
  if (file < 0) file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  ssize_t length = file < 0 ? -1 : pread(file, text, sizeof(text) - 1, 0);
  text[length < 0 ? 0 : length] = 0;
  return sscanf(text, "%llu %llu", &ran, &wait) == 2 ? (double)wait / 1e9 : 0;
}

/* `own`: seconds without the wait for a processor. */
static double commit(double *own) {
  double begin = now(), before = waited();
  must(p3l_commit(store, &error));
  double took = now() - begin;
  *own = took - (waited() - before);
  return took;
}

static void build(uint64_t nodes, uint64_t edges, uint64_t changes) {
  must(p3l_begin(store, &error));
  table *all = p3l_new(store, table);
  all->nodes = p3l_new_array(store, node, nodes);
  all->count = nodes;
  for (uint64_t i = 0; i < nodes; i++) all->nodes[i].id = i;
  must(p3l_set_root(store, "graph", all));
  double own;
  first = commit(&own);
  for (uint64_t done = 0; done < edges;) {
    must(p3l_begin(store, &error));
    all = p3l_root(store, "graph");
    node *first = P3L_LD(all->nodes);
    for (uint64_t i = 0; i < changes && done < edges; i++, done++) {
      node *from = &first[below(nodes)];
      edge *made = p3l_new(store, edge);
      if (made == NULL) must(p3l_failure(store)->code);
      made->to = &first[below(nodes)];
      made->next = from->edges;
      P3L_SET(from->edges, made);
      P3L_SET(from->degree, from->degree + 1);
    }
    edge_commits[edge_commit_count++] = commit(&own);
    if (own > own_worst) own_worst = own;
  }
}

static int ascending(const void *a, const void *b) {
  double left = *(const double *)a, right = *(const double *)b;
  return left < right ? -1 : left > right;
}

/* The quantile `part` of the durations of the commits of edges, in milliseconds. */
static double quantile(double part) {
  return edge_commits[(uint64_t)(part * (double)(edge_commit_count - 1))] * 1e3;
}

/* In another opening of the store: the edges that the nodes' lists have. */
static uint64_t count_edges(const char *path) {
  uint64_t found = 0;
  must(p3l_open(path, &(p3l_options){.read_only = true}, &store, &error));
  table *all = p3l_root(store, "graph");
  node *first = P3L_LD(all->nodes);
  for (uint64_t i = 0; i < all->count; i++) {
    uint64_t degree = 0;
    for (edge *at = P3L_LD(first[i].edges); at != NULL; at = P3L_LD(at->next)) degree++;
    if (degree != first[i].degree) return 0;
    found += degree;
  }
  must(p3l_close(store, &error));
  return found;
}

int main(int argc, char **argv) {
  if (argc != 6)
    return fprintf(stderr, "usage: build_graph STORE commits|load NODES EDGES CHANGES\n"), 2;
  bool load = strcmp(argv[2], "load") == 0;
  uint64_t edges = strtoull(argv[4], NULL, 10), changes = strtoull(argv[5], NULL, 10);
  if (edges == 0 || changes == 0)
    return fprintf(stderr, "build_graph: no edges, or no changes\n"), 2;
  edge_commits = calloc(edges / changes + 1, sizeof(*edge_commits));
  if (edge_commits == NULL) return fprintf(stderr, "build_graph: no memory\n"), 1;
  double begin = now();
  must(p3l_open(argv[1], &(p3l_options){.create = true}, &store, &error));
  if (load) must(p3l_load_begin(store, &error));
  build(strtoull(argv[3], NULL, 10), edges, changes);
  double end = now();
  if (load) must(p3l_load_end(store, &error));
  double ended = now() - end;
  p3l_statistics statistics;
  p3l_get_statistics(store, &statistics);
  /* A load's own frames are counted by the pager with the next commit. */
  must(p3l_begin(store, &error));
  must(p3l_commit(store, &error));
  p3l_get_statistics(store, &statistics);
  must(p3l_close(store, &error));
  double took = now() - begin;
  struct stat file;
  struct rusage usage;
  if (stat(argv[1], &file) != 0) return 1;
  getrusage(RUSAGE_SELF, &usage);
  uint64_t found = count_edges(argv[1]);
  double sum = first;
  for (uint64_t at = 0; at < edge_commit_count; at++) sum += edge_commits[at];
  qsort(edge_commits, edge_commit_count, sizeof(*edge_commits), ascending);
  printf(
      "{\"seconds\": %.2f, \"end_seconds\": %.3f, \"store_bytes\": %jd, \"logged_bytes\": %" PRIu64
      ", \"commits\": %" PRIu64
      ", \"commit_ms\": %.3f, \"first_ms\": %.2f, \"middle_ms\": %.3f, \"late_ms\": %.2f, "
      "\"worst_ms\": %.2f, \"own_worst_ms\": %.2f, \"peak_kb\": %ld, \"edges\": %" PRIu64 "}\n",
      took, ended, (intmax_t)file.st_size, statistics.bytes_logged, edge_commit_count + 1,
      sum / (double)(edge_commit_count + 1) * 1e3, first * 1e3, quantile(0.5), quantile(0.999),
      quantile(1), own_worst * 1e3, usage.ru_maxrss, found);
  return found == edges ? 0 : 1;
}
