/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Simulated page frames: who shares which, copies after fork, colours, reuse.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "test.h"

#define COLOURS 16

static void *frames;
static _Atomic uint32_t exhausted;

static int set_up(void **state) {
  (void)state;
  frames = mmap(NULL, hm_pages_shared_size(), PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  hm_pages_initialise(frames, COLOURS);
  host_forget_pages();
  exhausted = 0;
  return frames == MAP_FAILED;
}

static int tear_down(void **state) {
  (void)state;
  return munmap(frames, hm_pages_shared_size());
}

static struct hm_pages new_process(uint32_t pid) {
  struct hm_pages pages;
  memset(&pages, 0, sizeof pages);
  hm_pages_attach(&pages, frames, &exhausted, pid);
  return pages;
}

/* The effect of fork: the child's page table is a copy of the parent's. */
static struct hm_pages forked_process(struct hm_pages *parent, uint32_t pid, uint32_t salt) {
  const uint64_t chunks = 1u << 17, chunk_size = (1u << 18) * sizeof(hm_pte);
  struct hm_pages child = *parent;
  child.table = hm_host_allocate(chunks * sizeof(hm_pte *));
  for (uint64_t i = 0; i < chunks; i++) {
    if (parent->table[i] == NULL) continue;
    child.table[i] = hm_host_allocate(chunk_size);
    memcpy(child.table[i], parent->table[i], chunk_size);
  }
  hm_pages_forked(&child, pid, salt);
  hm_pages_forked(parent, parent->me, parent->colour_salt);
  return child;
}

static uint32_t read_frame(struct hm_pages *pages, uint64_t page) {
  return HM_PTE_FRAME(hm_pages_touch(pages, page));
}

static uint32_t written_frame(struct hm_pages *pages, uint64_t page) {
  hm_pte pte = hm_pages_write(pages, page);
  assert_true(hm_pte_writable(pages, pte));
  assert_int_equal(hm_pages_touch(pages, page), pte); /* it was remembered */
  return HM_PTE_FRAME(pte);
}

static void private_pages_have_frames_of_their_own(void **state) {
  (void)state;
  struct hm_pages one = new_process(1), two = new_process(2);
  uint32_t frame = read_frame(&one, 0x7f001);
  assert_int_not_equal(frame, 0); /* 0 marks an empty way of a cache */
  assert_int_equal(read_frame(&one, 0x7f001), frame);
  assert_int_not_equal(read_frame(&one, 0x7f002), frame);
  assert_int_not_equal(read_frame(&two, 0x7f001), frame);
  assert_int_equal(written_frame(&one, 0x7f001), frame); /* private from the start */
}

static void a_frame_has_the_colour_of_its_page(void **state) {
  (void)state;
  struct hm_pages one = new_process(1), salted = new_process(2);
  salted.colour_salt = 37; /* 37 mod 16 = 5 */
  for (uint64_t page = 0x1000; page < 0x1040; page++) {
    assert_int_equal(read_frame(&one, page) % COLOURS, page % COLOURS);
    assert_int_equal(read_frame(&salted, page) % COLOURS, (page + 5) % COLOURS);
  }
}

static void shared_pages_are_one_frame_wherever_they_are_mapped(void **state) {
  (void)state;
  struct hm_pages one = new_process(1), two = new_process(2);
  host_describe_pages(0x100, 4, HM_PAGE_SHARED, 5000);
  host_describe_pages(0x900, 4, HM_PAGE_SHARED, 5000); /* the same object at another address */
  uint32_t frame = read_frame(&one, 0x102);
  assert_int_equal(read_frame(&two, 0x102), frame);
  assert_int_equal(read_frame(&two, 0x902), frame);
  assert_int_equal(written_frame(&two, 0x902), frame); /* writing copies nothing */
  assert_int_equal(read_frame(&one, 0x102), frame);
  assert_int_not_equal(read_frame(&one, 0x103), frame);
}

static void a_files_page_is_common_until_it_is_written(void **state) {
  (void)state;
  struct hm_pages one = new_process(1), two = new_process(2);
  host_describe_pages(0x400, 8, HM_PAGE_FILE_PRIVATE, 9000);
  uint32_t frame = read_frame(&one, 0x400);
  assert_int_equal(read_frame(&two, 0x400), frame);
  uint32_t copy = written_frame(&one, 0x400);
  assert_int_not_equal(copy, frame);
  assert_int_equal(read_frame(&two, 0x400), frame);
  assert_int_equal(written_frame(&one, 0x400), copy); /* copied once only */
}

static void fork_shares_until_either_side_writes(void **state) {
  (void)state;
  struct hm_pages parent = new_process(1);
  uint32_t read_only = written_frame(&parent, 0x10);
  uint32_t parents = written_frame(&parent, 0x11), childs = written_frame(&parent, 0x12);
  struct hm_pages child = forked_process(&parent, 2, 0);
  assert_int_equal(read_frame(&child, 0x10), read_only);
  assert_int_equal(read_frame(&parent, 0x10), read_only);
  /* The parent writes: it gets the copy, the child keeps the frame. */
  assert_int_not_equal(written_frame(&parent, 0x11), parents);
  assert_int_equal(read_frame(&child, 0x11), parents);
  /* The child writes. */
  uint32_t copy = written_frame(&child, 0x12);
  assert_int_not_equal(copy, childs);
  assert_int_equal(read_frame(&parent, 0x12), childs);
  assert_int_equal(written_frame(&child, 0x12), copy);
  /* Pages touched only after the fork are private. */
  assert_int_not_equal(read_frame(&parent, 0x13), read_frame(&child, 0x13));
}

static void shared_pages_stay_shared_over_fork(void **state) {
  (void)state;
  host_describe_pages(0x200, 1, HM_PAGE_SHARED, 77);
  struct hm_pages parent = new_process(1);
  uint32_t frame = written_frame(&parent, 0x200);
  struct hm_pages child = forked_process(&parent, 2, 37);
  assert_int_equal(written_frame(&child, 0x200), frame);
  assert_int_equal(written_frame(&parent, 0x200), frame);
}

static void freed_frames_are_reused_last_in_first_out(void **state) {
  (void)state;
  struct hm_pages one = new_process(1);
  /* Two pages of colour 3, with one of colour 4 in between. */
  uint32_t first = read_frame(&one, 0x03), second = read_frame(&one, 0x13);
  uint32_t other = read_frame(&one, 0x04);
  hm_pages_unmap(&one, 0x03, 1);
  hm_pages_unmap(&one, 0x13, 1);
  hm_pages_unmap(&one, 0x04, 1);
  assert_int_equal(read_frame(&one, 0x23), second);
  assert_int_equal(read_frame(&one, 0x33), first);
  assert_int_equal(read_frame(&one, 0x24), other);
  uint32_t fresh = read_frame(&one, 0x43);
  assert_int_not_equal(fresh, first);
  assert_int_not_equal(fresh, second);
}

static void frames_that_others_may_use_are_not_freed(void **state) {
  (void)state;
  host_describe_pages(0x205, 1, HM_PAGE_SHARED, 77);
  struct hm_pages parent = new_process(1);
  uint32_t shared = read_frame(&parent, 0x205), inherited = written_frame(&parent, 0x305);
  struct hm_pages child = forked_process(&parent, 2, 0);
  hm_pages_unmap(&parent, 0x205, 1);
  hm_pages_unmap(&parent, 0x305, 1);
  uint32_t next = read_frame(&parent, 0x405); /* the same colour as both */
  assert_int_not_equal(next, shared);
  assert_int_not_equal(next, inherited);
  assert_int_equal(read_frame(&child, 0x205), shared);
  assert_int_equal(read_frame(&child, 0x305), inherited);
  assert_int_equal(read_frame(&parent, 0x205), shared); /* mapped again: the same frame */
}

static void unmapping_skips_what_was_never_touched(void **state) {
  (void)state;
  struct hm_pages one = new_process(1);
  uint32_t low = read_frame(&one, 0x3ffff), high = read_frame(&one, 0x80000);
  hm_pages_unmap(&one, 0, 0x80000); /* all of chunks 0 and 1, up to the page before `high` */
  assert_int_equal(read_frame(&one, 0x80000), high);
  assert_int_equal(read_frame(&one, 0x4000f), low); /* colour 15: the freed frame */
}

/* A process that ends gives up all of user space at once. */
static void the_frames_of_a_process_that_ends_are_free(void **state) {
  (void)state;
  struct hm_pages parent = new_process(1);
  uint32_t inherited = written_frame(&parent, 0x10);
  struct hm_pages child = forked_process(&parent, 2, 0);
  uint32_t own = written_frame(&child, 0x20), far = written_frame(&child, 0x7ffffff20);
  hm_pages_unmap(&child, 0, 1ull << (47 - HM_PAGE_BITS));
  assert_int_equal(read_frame(&parent, 0x30), far); /* last in, first out */
  assert_int_equal(read_frame(&parent, 0x40), own);
  assert_int_not_equal(read_frame(&parent, 0x50), inherited);
  assert_int_equal(read_frame(&parent, 0x10), inherited);
}

static void moved_pages_keep_their_frames(void **state) {
  (void)state;
  struct hm_pages one = new_process(1);
  uint32_t frame[3];
  for (uint64_t i = 0; i < 3; i++) frame[i] = read_frame(&one, 0x500 + i);
  hm_pages_move(&one, 0x500, 0x90000, 3);
  for (uint64_t i = 0; i < 3; i++) assert_int_equal(read_frame(&one, 0x90000 + i), frame[i]);
  assert_int_not_equal(read_frame(&one, 0x500), frame[0]);
  hm_pages_move(&one, 0x90000, 0x90000, 3); /* grown in place */
  assert_int_equal(read_frame(&one, 0x90002), frame[2]);
}

/* With 4096 colours, one of them has 2^22 / 4096 - 1 = 1023 frames. */
static void running_out_of_memory_is_told(void **state) {
  (void)state;
  hm_pages_initialise(frames, 4096);
  struct hm_pages one = new_process(1);
  for (uint64_t i = 0; i < 1023; i++) {
    assert_in_range(read_frame(&one, i * 4096), 1, HM_MAX_FRAMES - 1);
    assert_int_equal(exhausted, 0);
  }
  uint32_t first = read_frame(&one, 0);
  assert_int_equal(read_frame(&one, 1023 * 4096), first); /* aliases from here on */
  assert_int_equal(exhausted, 1);
}

static void addresses_outside_user_space_do_no_harm(void **state) {
  (void)state;
  struct hm_pages one = new_process(1);
  uint64_t vsyscall = 0xffffffffff600000ull >> HM_PAGE_BITS;
  assert_int_equal(read_frame(&one, vsyscall), 1);
  hm_pte pte = hm_pages_write(&one, vsyscall);
  assert_int_equal(HM_PTE_FRAME(pte), 1);
  hm_pages_unmap(&one, vsyscall, 1);
}

/* The generation has seven bits.  A page written before 126 forks is still
 * known to be shared with the children. */
static void many_forks_are_told_apart(void **state) {
  (void)state;
  struct hm_pages parent = new_process(1);
  uint32_t frame = written_frame(&parent, 0x10);
  for (int i = 0; i < 126; i++) hm_pages_forked(&parent, 1, 0);
  assert_int_not_equal(written_frame(&parent, 0x10), frame);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(private_pages_have_frames_of_their_own),
      TEST(a_frame_has_the_colour_of_its_page),
      TEST(shared_pages_are_one_frame_wherever_they_are_mapped),
      TEST(a_files_page_is_common_until_it_is_written),
      TEST(fork_shares_until_either_side_writes),
      TEST(shared_pages_stay_shared_over_fork),
      TEST(freed_frames_are_reused_last_in_first_out),
      TEST(frames_that_others_may_use_are_not_freed),
      TEST(unmapping_skips_what_was_never_touched),
      TEST(the_frames_of_a_process_that_ends_are_free),
      TEST(moved_pages_keep_their_frames),
      TEST(running_out_of_memory_is_told),
      TEST(addresses_outside_user_space_do_no_harm),
      TEST(many_forks_are_told_apart),
  };
  return cmocka_run_group_tests_name("pages", tests, NULL, NULL);
}
