#include "graph.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checksum.h"
#include "die.h"

static const char magic[16] = "OO1 graph 1";

/* From 1980-01-01, ten years; arbitrary. */
#define BUILD_FROM INT64_C(315532800)
#define BUILD_SECONDS (INT64_C(3652) * 86400)

uint32_t oo1_window(uint32_t id, uint32_t parts, uint32_t *size) {
  *size = parts / 100;
  uint32_t first = id > *size / 2 ? id - *size / 2 : 1;
  return first + *size - 1 > parts ? parts - *size + 1 : first;
}

static void draw_type(oo1_random *random, const char *kind, char type[OO1_TYPE_BYTES]) {
  memcpy(type, kind, OO1_TYPE_BYTES - 1);
  type[OO1_TYPE_BYTES - 1] = (char)('0' + oo1_below(random, 10));
}

void oo1_draw_part(oo1_random *random, uint32_t id, uint32_t parts, bool locality,
                   oo1_graph_part *part) {
  memset(part, 0, sizeof *part);
  part->id = id;
  part->x = (uint32_t)oo1_below(random, 100000);
  part->y = (uint32_t)oo1_below(random, 100000);
  part->build = BUILD_FROM + (int64_t)oo1_below(random, BUILD_SECONDS);
  draw_type(random, "part-type", part->type);
  uint32_t size, first = oo1_window(id, parts, &size);
  for (int k = 0; k < OO1_OUT; k++) {
    oo1_graph_connection *out = &part->out[k];
    bool near = locality && oo1_below(random, 10) < 9;
    out->to = (uint32_t)(near ? first + oo1_below(random, size) : 1 + oo1_below(random, parts));
    out->length = (uint32_t)oo1_below(random, 100000);
    draw_type(random, "conn-type", out->type);
  }
}

static uint64_t digest_part(uint64_t digest, const oo1_graph_part *part) {
  uint64_t words[sizeof *part / 8];
  memcpy(words, part, sizeof words);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) digest = oo1_mix(digest, words[i]);
  return digest;
}

static uint64_t digest_header(const oo1_graph_header *header) {
  uint64_t digest = oo1_mix(OO1_CHECKSUM_START, header->parts | (uint64_t)header->locality << 32);
  return oo1_mix(digest, header->seed);
}

uint64_t oo1_graph_generate(const char *path, uint32_t parts, bool locality, uint64_t seed) {
  oo1_graph_header header = {.parts = parts, .locality = locality, .seed = seed};
  memcpy(header.magic, magic, sizeof magic);
  header.digest = digest_header(&header);

  char *temporary = oo1_format("%s.part", path);
  FILE *file = fopen(temporary, "w");
  if (file == NULL) oo1_die_errno("%s cannot be made", temporary);
  oo1_random random = oo1_stream(seed, 0);
  bool good = fwrite(&header, sizeof header, 1, file) == 1;
  for (uint32_t id = 1; good && id <= parts; id++) {
    oo1_graph_part part;
    oo1_draw_part(&random, id, parts, locality, &part);
    header.digest = digest_part(header.digest, &part);
    good = fwrite(&part, sizeof part, 1, file) == 1;
  }
  good = good && fseek(file, 0, SEEK_SET) == 0 && fwrite(&header, sizeof header, 1, file) == 1;
  int trouble = errno;
  if (fclose(file) != 0 && good) good = false, trouble = errno;
  if (good && rename(temporary, path) != 0) good = false, trouble = errno;
  if (!good) {
    unlink(temporary);
    errno = trouble;
    oo1_die_errno("%s cannot be written", path);
  }
  free(temporary);
  return header.digest;
}

oo1_graph oo1_graph_open(const char *path) {
  int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  struct stat status;
  if (descriptor < 0 || fstat(descriptor, &status) != 0)
    oo1_die_errno("graph %s cannot be opened", path);
  oo1_graph graph = {.mapped_bytes = (uint64_t)status.st_size};
  if (graph.mapped_bytes < sizeof graph.header)
    oo1_die("%s is not a graph: too short\n  remedy: oo1-generate makes one", path);
  graph.mapping = mmap(NULL, graph.mapped_bytes, PROT_READ, MAP_SHARED, descriptor, 0);
  if (graph.mapping == MAP_FAILED) oo1_die_errno("graph %s cannot be mapped", path);
  close(descriptor);
  memcpy(&graph.header, graph.mapping, sizeof graph.header);
  graph.parts = (const oo1_graph_part *)(const void *)((char *)graph.mapping + sizeof graph.header);
  if (memcmp(graph.header.magic, magic, sizeof magic) != 0)
    oo1_die("%s is not a graph: it begins otherwise\n  remedy: oo1-generate makes one", path);
  if (graph.mapped_bytes !=
      sizeof graph.header + (uint64_t)graph.header.parts * sizeof *graph.parts)
    oo1_die("graph %s is cut off\n  remedy: oo1-generate makes it again", path);
  return graph;
}

void oo1_graph_close(oo1_graph *graph) { munmap(graph->mapping, graph->mapped_bytes); }
