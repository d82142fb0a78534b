/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The copied pages. A page has the same address as in the followed process. An access to a page that
 * is not present faults, and fetches it from the process, which runs on in the meantime.
 *
 *     absent ── fault, hm_need_page ──> present ── hm_begin_memory: writable, not copied ──> absent
 *                                          │  ^
 *                                          └──┘ hm_begin_memory: copied with the snapshot
 *
 * A page that the process cannot write (code, constants) is fetched once and kept. Other pages that
 * were touched recently are "hot": the stopper copies them at each stop, so that their contents are
 * those at the stop. A page fetched later may have changed since the stop. Usually it has not. If it
 * has, the stretch usually ends in another state than the server's, and is dropped.
 *
 * Invariants:
 *  1. `table` has each page that is mapped for the guest exactly once; `entry` finds it.
 *  2. Present pages are private anonymous memory: no store reaches the followed process.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ghost.h"
#include "guest.h"

#define MOST_PAGES (1u << 15) /* the kernel allows 65,530 mappings */
#define SLOTS (MOST_PAGES * 4)
#define MOST_CODE (MOST_PAGES / 4)
#define MOST_OF_A_FILE (16u << 20)
#define CONSTANT_BATCH 8u /* pages of code fetched at a time */

struct page {
  uint64_t address;
  uint32_t copied;                         /* with the snapshot of this stretch */
  uint8_t constant, shared, stored, added; /* added: by the scout */
};

static struct page table[MOST_PAGES];
static uint32_t pages;
static uint32_t entry[SLOTS]; /* of table, + 1; open addressing */
static uint32_t stretch;
static int process;
static uint64_t constants; /* which pages of files are there to stay */
static uint64_t fetched;
static int rights = PROT_READ | PROT_WRITE;
static uint8_t late_maps; /* mappings were read again in this stretch */

/* --- The table ---------------------------------------------------------------------- */

static uint32_t slot_of(uint64_t page) {
  return (uint32_t)((page >> 12) * 0x9e3779b97f4a7c15ull >> 40) & (SLOTS - 1);
}

static struct page *find(uint64_t address) {
  uint64_t page = address & ~(uint64_t)(HM_PAGE - 1);
  for (uint32_t slot = slot_of(page); entry[slot] != 0; slot = (slot + 1) & (SLOTS - 1))
    if (table[entry[slot] - 1].address == page) return &table[entry[slot] - 1];
  return NULL;
}

static void enter(uint32_t index) {
  uint32_t slot = slot_of(table[index].address);
  while (entry[slot] != 0) slot = (slot + 1) & (SLOTS - 1);
  entry[slot] = index + 1;
}

/* Removes the page at `index`; the last page moves into its slot. */
static void drop(uint32_t index) {
  munmap((void *)table[index].address, HM_PAGE);
  uint32_t hole = slot_of(table[index].address);
  while (entry[hole] != index + 1) hole = (hole + 1) & (SLOTS - 1);
  entry[hole] = 0;
  /* Entries behind the hole that a search could no longer find move up. */
  for (uint32_t slot = (hole + 1) & (SLOTS - 1); entry[slot] != 0;
       slot = (slot + 1) & (SLOTS - 1)) {
    uint32_t first = slot_of(table[entry[slot] - 1].address);
    if (((slot - first) & (SLOTS - 1)) < ((slot - hole) & (SLOTS - 1))) continue;
    entry[hole] = entry[slot];
    entry[slot] = 0;
    hole = slot;
  }
  if (index != --pages) {
    uint32_t slot = slot_of(table[pages].address);
    while (entry[slot] != pages + 1) slot = (slot + 1) & (SLOTS - 1);
    entry[slot] = index + 1;
    table[index] = table[pages];
  }
}

static void drop_all(void) {
  while (pages > 0) drop(pages - 1);
}

/* --- Fetching ------------------------------------------------------------------------ */

/* Copies pages of the kernel's clock. Every process has them, and they cannot be copied from
 * another process, but this process has the same pages at another address. Two equal copies show
 * that the copy is consistent. */
static int copy_clock(const struct hm_mapping *mapping, uint64_t page) {
  static struct {
    char name[24];
    uint64_t start, end;
  } own[4];
  static uint32_t found;
  if (found == 0) {
    char line[256];
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps != NULL && found < 4 && fgets(line, sizeof line, maps) != NULL) {
      const char *name = strstr(line, "[vvar");
      unsigned long start, end;
      if (name == NULL || sscanf(line, "%lx-%lx", &start, &end) != 2) continue;
      snprintf(own[found].name, sizeof own[found].name, "%.*s", (int)strcspn(name, "\n"), name);
      own[found].start = start;
      own[found++].end = end;
    }
    if (maps != NULL) fclose(maps);
  }
  for (uint32_t i = 0; i < found; i++) {
    uint64_t from = own[i].start + (page - mapping->start);
    if (strcmp(own[i].name, mapping->name) != 0 || from >= own[i].end) continue;
    for (int tries = 0; tries < 100; tries++) {
      memcpy((void *)page, (const void *)from, HM_PAGE);
      if (memcmp((void *)page, (const void *)from, HM_PAGE) == 0) break;
    }
    return 1;
  }
  return 0;
}

static struct page *map_page(uint64_t page, int constant, int shared) {
  if (pages == MOST_PAGES) return NULL;
  void *at =
      mmap((void *)page, HM_PAGE, rights, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (at != (void *)page) {
    if (at != MAP_FAILED) munmap(at, HM_PAGE);
    return NULL;
  }
  struct page *new = &table[pages];
  *new = (struct page){.address = page, .constant = (uint8_t)constant, .shared = (uint8_t)shared};
  enter(pages++);
  return new;
}

static int fetch(uint64_t page) {
  const struct hm_mapping *mapping = hm_find_mapping(page);
  if (mapping == NULL && !late_maps) {
    late_maps = 1; /* it may be new */
    if (hm_read_mappings(process) != NULL) return 0;
    mapping = hm_find_mapping(page);
  }
  if (mapping == NULL || !mapping->read || hm_is_own(page)) return 0;
  int constant = hm_is_constant(mapping);
  if (map_page(page, constant, mapping->shared) == NULL) return 0;
  if (!hm_read_process(process, page, (void *)page, HM_PAGE) && !copy_clock(mapping, page)) {
    drop(pages - 1);
    return 0;
  }
  fetched++;
  /* The code behind this page will soon be needed, too. */
  for (uint32_t i = 1; constant && i < CONSTANT_BATCH; i++) {
    uint64_t next = page + (uint64_t)i * HM_PAGE;
    if (next >= mapping->end || find(next) != NULL || map_page(next, 1, 0) == NULL) break;
    if (hm_read_process(process, next, (void *)next, HM_PAGE)) continue;
    drop(pages - 1);
    break;
  }
  return 1;
}

int hm_need_page(uint64_t address) {
  uint64_t page = address & ~(uint64_t)(HM_PAGE - 1);
  return find(page) != NULL || (page >> 47 == 0 && page != 0 && fetch(page));
}

int hm_page_is_present(uint64_t address) { return find(address) != NULL; }

int hm_page_is_constant(uint64_t address) {
  const struct page *page = find(address);
  return page != NULL && page->constant;
}

void hm_pages_are_executable(void) { rights = PROT_READ | PROT_WRITE | PROT_EXEC; }

void hm_fetch_code(void) {
  static uint64_t of;
  if (of == constants) return;
  of = constants;
  uint32_t count;
  const struct hm_mapping *mapping = hm_all_mappings(&count);
  for (uint32_t i = 0; i < count && pages < MOST_CODE; i++) {
    if (!hm_is_constant(&mapping[i]) || !mapping[i].execute) continue;
    uint64_t end = mapping[i].end;
    if (end - mapping[i].start > MOST_OF_A_FILE) continue;
    for (uint64_t page = mapping[i].start; page < end && pages < MOST_CODE; page += HM_PAGE)
      if (!hm_need_page(page)) break;
  }
}

void hm_drop_late(void) {
  for (uint32_t i = pages; i-- > 0;)
    if (!table[i].constant && table[i].copied != stretch) drop(i);
}

int hm_need_range(uint64_t address, uint64_t length) {
  if (length == 0) return 1;
  uint64_t last = address + length - 1;
  if (last < address) return 0;
  for (uint64_t page = address & ~(uint64_t)(HM_PAGE - 1); page <= last; page += HM_PAGE)
    if (!hm_need_page(page)) return 0;
  return 1;
}

static void faulted(int number, siginfo_t *info, void *context) {
  (void)context;
  int was = errno;
  uint64_t address = (uint64_t)info->si_addr;
  /* A fault on a page that is present cannot be repaired. */
  if (number == SIGSEGV && address >> 47 == 0 && find(address) == NULL && hm_need_page(address)) {
    errno = was;
    return;
  }
  hm_guest_give_up(number == SIGFPE || number == SIGILL || number == SIGTRAP ? HM_GHOST_TRAPPED
                   : hm_is_own(address)                                      ? HM_GHOST_STRAYED
                                                                             : HM_GHOST_UNMAPPED);
  /* No stretch runs: the fault is in this program, which must end by it. */
  signal(number, SIG_DFL);
}

void hm_memory_begin(void) {
  static uint8_t stack[1 << 17];
  stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
  sigaltstack(&alternate, NULL);
  struct sigaction action = {.sa_sigaction = faulted,
                             .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
  const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
    sigaction(numbers[i], &action, NULL);
}

/* --- Stretches ------------------------------------------------------------------------- */

/* Processes that were forked from one have the same constant pages. */
void hm_follow_memory_of(int whom) {
  process = whom;
  if (hm_constants() == constants) return;
  constants = hm_constants();
  drop_all();
}

void hm_begin_memory(const struct hm_snapshot *snapshot, uint32_t lane) {
  stretch++;
  hm_history_begin(lane);
  late_maps = 0;
  if (pages > MOST_PAGES / 2) drop_all();
  for (uint32_t i = 0; i < snapshot->pages; i++) {
    struct page *page = find(snapshot->page[i]);
    if (page == NULL) {
      const struct hm_mapping *mapping = hm_find_mapping(snapshot->page[i]);
      page = map_page(snapshot->page[i], 0, mapping != NULL && mapping->shared);
      if (page == NULL) continue;
    }
    memcpy((void *)page->address, snapshot->data[i], HM_PAGE);
    page->copied = stretch;
    page->stored = 0;
    page->added = i >= snapshot->listed;
  }
  for (uint32_t i = pages; i-- > 0;)
    if (!table[i].constant && table[i].copied != stretch) drop(i);
}

void hm_touch(uint64_t address, int stored) {
  static struct {
    uint64_t page;
    uint32_t stretch;
    int stored;
  } lately[256];
  uint64_t number = address >> 12;
  if (lately[number % 256].page == number && lately[number % 256].stretch == stretch &&
      lately[number % 256].stored >= stored)
    return;
  if (!hm_need_page(address)) return;
  struct page *page = find(address);
  page->stored |= stored != 0;
  if (!page->constant) hm_history_touch(page->address, page->shared, stored);
  lately[number % 256].page = number;
  lately[number % 256].stretch = stretch;
  lately[number % 256].stored = stored;
}

void hm_publish_hot(struct hm_channel *channel) {
  uint32_t next = (atomic_load(&channel->hot_current) + 1) % HM_HOT_LISTS;
  hm_history_hot(&channel->hot[next], channel->scouted);
  atomic_store(&channel->hot_current, next);
}

struct hm_late hm_pages_late(void) {
  struct hm_late late = {0, 0, 0, 0};
  for (uint32_t i = 0; i < pages; i++) {
    if (table[i].constant) continue;
    if (table[i].copied == stretch) {
      late.stored_added += table[i].added && table[i].stored;
      continue;
    }
    late.all++;
    if (table[i].stored && table[i].shared) late.stored_shared++;
    if (table[i].stored && !table[i].shared) late.stored_private++;
  }
  return late;
}

uint64_t hm_pages_fetched(void) { return fetched; }
