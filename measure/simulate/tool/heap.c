/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Which heap block an address lies in, and where the program asked for it.
 *
 * Linked only into the variant of the tool that replaces malloc (softpmuheap): blocks
 * then come from Valgrind's allocator and lie elsewhere than the C library would put
 * them, which a user has to ask for.  What calloc and realloc themselves access is
 * not simulated.
 */
#include "tool.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_oset.h"
#include "pub_tool_replacemalloc.h"
#include "pub_tool_stacktrace.h"

#define ALIGNMENT 16 /* of what malloc returns */

static OSet *blocks; /* struct hm_block without overlap */

/* Compares an address with a block: before, after or inside; an empty block contains its first
 * byte. */
static Word compare(const void *key, const void *element) {
  Addr address = *(const Addr *)key;
  const struct hm_block *block = element;
  if (address < block->start) return -1;
  return address - block->start >= (block->size != 0 ? block->size : 1);
}

/* The return address of the call.  Innermost are frames of the replacement, two where
 * one of its functions calls another (posix_memalign). */
static Addr call_site(ThreadId tid) {
  Addr frames[4];
  UInt found = VG_(get_StackTrace)(tid, frames, 4, NULL, NULL, 0);
  NSegment const *replacement = found != 0 ? VG_(am_find_nsegment)(frames[0]) : NULL;
  for (UInt i = 1; i < found; i++) /* For a caller Valgrind gives the last byte of the call. */
    if (VG_(am_find_nsegment)(frames[i]) != replacement) return frames[i] + 1;
  return 0;
}

static void *allocate(ThreadId tid, SizeT align, SizeT size) {
  if ((SSizeT)size < 0) return NULL;
  void *memory = VG_(cli_malloc)(align, size);
  if (memory == NULL) return NULL;
  struct hm_block *block = VG_(OSetGen_AllocNode)(blocks, sizeof *block);
  block->start = (Addr)memory;
  block->size = size;
  block->site = call_site(tid);
  VG_(OSetGen_Insert)(blocks, block);
  return memory;
}

/* The block that begins there. */
static struct hm_block *block_at(const void *memory) {
  Addr start = (Addr)memory;
  struct hm_block *block = VG_(OSetGen_Lookup)(blocks, &start);
  return block != NULL && block->start == start ? block : NULL;
}

static void release(ThreadId tid, void *memory) {
  (void)tid;
  struct hm_block *block = block_at(memory);
  if (block == NULL) return; /* never allocated, or freed already: an error of the program */
  VG_(OSetGen_Remove)(blocks, &block->start);
  VG_(OSetGen_FreeNode)(blocks, block);
  VG_(cli_free)(memory);
}

static void *new_block(ThreadId tid, SizeT size) { return allocate(tid, ALIGNMENT, size); }

static void *new_zeroed(ThreadId tid, SizeT count, SizeT size) {
  SizeT bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return NULL;
  void *memory = allocate(tid, ALIGNMENT, bytes);
  if (memory != NULL) VG_(memset)(memory, 0, bytes);
  return memory;
}

static void *resize(ThreadId tid, void *old, SizeT size) {
  if (old == NULL) return new_block(tid, size);
  const struct hm_block *block = block_at(old);
  if (block == NULL) return NULL;
  SizeT kept = block->size < size ? block->size : size;
  if (size == 0) {
    release(tid, old);
    return NULL;
  }
  void *memory = new_block(tid, size);
  if (memory == NULL) return NULL;
  VG_(memcpy)(memory, old, kept);
  release(tid, old);
  return memory;
}

static SizeT usable_size(ThreadId tid, void *memory) {
  (void)tid;
  const struct hm_block *block = block_at(memory);
  return block != NULL ? block->size : 0;
}

/* Newer Valgrinds also pass the alignment as requested. */
#ifdef HM_ORIGINAL_ALIGNMENT
#define ORIGINAL , SizeT original
#define UNUSED_ORIGINAL (void)original
#else
#define ORIGINAL
#define UNUSED_ORIGINAL
#endif

static void *new_aligned(ThreadId tid, SizeT size, SizeT align ORIGINAL) {
  UNUSED_ORIGINAL;
  return allocate(tid, align < ALIGNMENT ? ALIGNMENT : align, size);
}

static void *new_at_alignment(ThreadId tid, SizeT align ORIGINAL, SizeT size) {
  UNUSED_ORIGINAL;
  return allocate(tid, align < ALIGNMENT ? ALIGNMENT : align, size);
}

static void release_aligned(ThreadId tid, void *memory, SizeT align) {
  (void)align;
  release(tid, memory);
}

Bool hm_find_block(Addr address, struct hm_block *found) {
  const struct hm_block *block = VG_(OSetGen_Lookup)(blocks, &address);
  if (block != NULL) *found = *block;
  return block != NULL;
}

void hm_replace_malloc(void) {
  blocks = VG_(OSetGen_Create)(offsetof(struct hm_block, start), compare, VG_(malloc),
                               "softpmu.heap", VG_(free));
  VG_(needs_malloc_replacement)
  (new_block, new_block, new_aligned, new_block, new_aligned, new_at_alignment, new_zeroed, release,
   release, release_aligned, release, release_aligned, resize, usable_size, 0);
}
