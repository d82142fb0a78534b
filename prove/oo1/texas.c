#include "texas.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "die.h"
#include "files.h"
#include "redo.h"

/* Address space, not memory. */
#define RESERVED (UINT64_C(16) << 30)
#define PAGES (RESERVED / IMAGE_PAGE)

typedef enum page_state { ABSENT, CLEAN, DIRTY } page_state;

static char *path;
static int file = -1, faults_file = -1;
static texas_means by;
static bool writing;
static char *base;
static uint64_t pages; /* of the file */
static uint8_t *state; /* [PAGES]: page_state */
static uint64_t *dirty_pages;
static size_t dirty_count, dirty_capacity;
static redo *log_of_file;
static texas_figures figures;
/* mprotect: number of mappings of the reservation, and the kernel's limit. */
static uint64_t cuts, cuts_allowed;
static struct sigaction former;

static image_page *page_at(uint64_t page) {
  return (image_page *)(void *)(base + page * IMAGE_PAGE);
}

/* ---- swizzling ---- */

/* Adds `distance` to what every slot of the page holds but NULL. */
static void move_slots(image_page *page, uint64_t distance) {
  uint64_t *words = (uint64_t *)(void *)page;
  for (uint32_t i = 0; i < 8; i++) {
    for (uint64_t bits = page->slots[i]; bits != 0; bits &= bits - 1) {
      uint64_t *slot = &words[64 * i + (uint32_t)__builtin_ctzll(bits)];
      if (*slot != 0) *slot += distance, figures.swizzled++;
    }
  }
}

static void swizzle(image_page *page) { move_slots(page, (uint64_t)base); }

/* ---- access ---- */

static void protect(uint64_t first, uint64_t count, int access) {
  if (mprotect(page_at(first), count * IMAGE_PAGE, access) != 0)
    oo1_die_errno("access to page %lu of %s cannot be changed (%lu mappings)", first, path, cuts);
}

/* Pages read per fault. Access to every second page would soon exceed vm.max_map_count mappings;
 * from half of that on, neighbours are read, too. */
static uint64_t pages_of_fault(void) {
  if (cuts < cuts_allowed / 2) return 1;
  return cuts < cuts_allowed / 4 * 3 ? 16 : 256;
}

/* Reads [first, first + count) by one request; all of them are absent. */
static void fetch_by_mprotect(uint64_t first, uint64_t count) {
  protect(first, count, PROT_READ | PROT_WRITE);
  oo1_read_all(file, path, page_at(first), count * IMAGE_PAGE, first * IMAGE_PAGE);
  for (uint64_t page = first; page < first + count; page++) {
    swizzle(page_at(page));
    state[page] = CLEAN;
  }
  if (writing) protect(first, count, PROT_READ);
  bool before = first > 0 && state[first - 1] != ABSENT, behind = state[first + count] != ABSENT;
  cuts = cuts + 2 - 2 * (uint64_t)before - 2 * (uint64_t)behind;
  figures.pages_read += count;
}

static void fetch_around(uint64_t page) {
  uint64_t group = pages_of_fault(), from = page / group * group, to = from + group;
  if (to > pages) to = pages;
  while (from < to) {
    uint64_t end = from;
    while (end < to && state[end] == ABSENT) end++;
    if (end > from) fetch_by_mprotect(from, end - from);
    from = end + 1;
  }
}

static void give(uint64_t page, const image_page *bytes) {
  struct uffdio_copy copy = {.dst = (uint64_t)page_at(page),
                             .src = (uint64_t)bytes,
                             .len = IMAGE_PAGE,
                             .mode = writing ? UFFDIO_COPY_MODE_WP : 0};
  if (ioctl(faults_file, UFFDIO_COPY, &copy) != 0)
    oo1_die_errno("page %lu of %s cannot be given to the program", page, path);
  state[page] = CLEAN;
}

static void fetch(uint64_t page) {
  if (by == TEXAS_MPROTECT) {
    fetch_around(page);
    return;
  }
  static image_page buffer;
  oo1_read_all(file, path, &buffer, IMAGE_PAGE, page * IMAGE_PAGE);
  swizzle(&buffer);
  give(page, &buffer);
  figures.pages_read++;
}

static void allow_writing(uint64_t page, bool allowed) {
  if (by == TEXAS_MPROTECT) {
    protect(page, 1, PROT_READ | (allowed ? PROT_WRITE : 0));
    return;
  }
  struct uffdio_writeprotect change = {.range = {(uint64_t)page_at(page), IMAGE_PAGE},
                                       .mode = allowed ? 0 : UFFDIO_WRITEPROTECT_MODE_WP};
  if (ioctl(faults_file, UFFDIO_WRITEPROTECT, &change) != 0)
    oo1_die_errno("access to page %lu of %s cannot be changed", page, path);
}

static void note_dirty(uint64_t page) {
  if (dirty_count == dirty_capacity) {
    dirty_capacity = dirty_capacity == 0 ? 256 : 2 * dirty_capacity;
    dirty_pages = realloc(dirty_pages, dirty_capacity * sizeof *dirty_pages);
    if (dirty_pages == NULL) oo1_die("no memory for a transaction");
  }
  dirty_pages[dirty_count++] = page;
  state[page] = DIRTY;
}

/* Runs in the program's own context, at its access to the page: malloc and stdio cannot be
 * interrupted there, since they do not access persistent objects. */
static void on_fault(int signal_number, siginfo_t *what, void *context) {
  (void)context;
  uint64_t offset = (uint64_t)((char *)what->si_addr - base), page = offset / IMAGE_PAGE;
  if (page < pages && state[page] == ABSENT) {
    figures.faults++;
    fetch(page);
  } else if (page < pages && writing && state[page] == CLEAN) {
    figures.faults++;
    allow_writing(page, true);
    note_dirty(page);
  } else { /* a fault of the program itself: restore the default action */
    sigaction(signal_number, &former, NULL);
  }
}

/* ---- opening ---- */

static uint64_t mappings_allowed(void) {
  uint64_t allowed = 65530;
  FILE *limit = fopen("/proc/sys/vm/max_map_count", "r");
  if (limit != NULL) {
    if (fscanf(limit, "%lu", &allowed) != 1) allowed = 65530;
    fclose(limit);
  }
  return allowed;
}

static void begin_mprotect(void) {
  cuts_allowed = mappings_allowed();
  cuts = 1;
  /* Accessed while it is one mapping, so that all its pieces have the same anon_vma: adjacent
   * pieces with equal access can then be merged. */
  base[RESERVED - 1] = 0;
  protect(0, PAGES, PROT_NONE);
}

static void begin_userfaultfd(void) {
  faults_file = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
  if (faults_file < 0)
    oo1_not_here("userfaultfd is not allowed here: %s\n  remedy: run as root, or use mode texas",
                 strerror(errno));
  struct uffdio_api api = {
      .api = UFFD_API,
      .features = UFFD_FEATURE_SIGBUS | (writing ? UFFD_FEATURE_PAGEFAULT_FLAG_WP : 0)};
  if (ioctl(faults_file, UFFDIO_API, &api) != 0)
    oo1_not_here("this kernel's userfaultfd has no SIGBUS%s: %s\n  remedy: use mode texas",
                 writing ? " and write protection" : "", strerror(errno));
  struct uffdio_register range = {
      .range = {(uint64_t)base, RESERVED},
      .mode = UFFDIO_REGISTER_MODE_MISSING | (writing ? UFFDIO_REGISTER_MODE_WP : 0)};
  if (ioctl(faults_file, UFFDIO_REGISTER, &range) != 0)
    oo1_die_errno("the store's addresses cannot be registered with userfaultfd");
}

void texas_open(const char *name, texas_means means, bool writable) {
  uint64_t bytes;
  path = oo1_format("%s", name);
  by = means;
  writing = writable;
  file = image_open(path, &bytes);
  pages = bytes / IMAGE_PAGE;
  if (pages >= PAGES) oo1_die("%s is longer than the %lu bytes reserved", path, RESERVED);
  base = mmap(NULL, RESERVED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
              -1, 0);
  if (base == MAP_FAILED) oo1_die_errno("%lu bytes of addresses cannot be reserved", RESERVED);
  /* A huge page would be read completely at the first fault in it. */
  madvise(base, RESERVED, MADV_NOHUGEPAGE);
  state =
      mmap(NULL, PAGES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (state == MAP_FAILED) oo1_die_errno("no memory for the states of pages");
  memset(&figures, 0, sizeof figures);
  if (by == TEXAS_MPROTECT)
    begin_mprotect();
  else
    begin_userfaultfd();
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
  sigaction(by == TEXAS_MPROTECT ? SIGSEGV : SIGBUS, &action, &former);
  if (writing) log_of_file = redo_open(path, file);
}

void texas_close(void) {
  if (log_of_file != NULL) redo_close(log_of_file);
  log_of_file = NULL;
  sigaction(by == TEXAS_MPROTECT ? SIGSEGV : SIGBUS, &former, NULL);
  munmap(base, RESERVED);
  munmap(state, PAGES);
  if (faults_file >= 0) close(faults_file);
  faults_file = -1;
  close(file);
  free(dirty_pages), free(path);
  dirty_pages = NULL;
  dirty_count = dirty_capacity = 0;
}

void texas_allow(uint64_t mappings) { cuts_allowed = mappings; }

/* ---- objects ---- */

static image_header *header(void) { return (image_header *)(void *)base; }

void *texas_root(void) { return base + header()->root; }

static void add_page(uint64_t page) {
  static const image_page empty;
  if (page >= PAGES) oo1_die("%s outgrew the %lu bytes reserved", path, RESERVED);
  if (by == TEXAS_MPROTECT)
    protect(page, 1, PROT_READ | PROT_WRITE);
  else
    give(page, &empty), allow_writing(page, true);
  if (state[page - 1] == ABSENT) cuts += 2;
  note_dirty(page);
  pages = page + 1;
}

void *texas_new(uint64_t bytes, const image_field *fields) {
  uint64_t offset = image_place(&header()->end, bytes), page = offset / IMAGE_PAGE;
  if (page >= pages) add_page(page);
  image_note(page_at(page), offset, fields);
  return base + offset;
}

void texas_commit(void) {
  for (size_t i = 0; i < dirty_count; i++) {
    uint64_t page = dirty_pages[i];
    image_page as_stored;
    memcpy(&as_stored, page_at(page), sizeof as_stored);
    move_slots(&as_stored, -(uint64_t)base);
    redo_add(log_of_file, page * IMAGE_PAGE, &as_stored, sizeof as_stored);
    allow_writing(page, false);
    state[page] = CLEAN;
  }
  dirty_count = 0;
  redo_commit(log_of_file);
}

texas_figures texas_look(void) {
  figures.bytes_logged = log_of_file == NULL ? 0 : redo_bytes(log_of_file);
  return figures;
}
