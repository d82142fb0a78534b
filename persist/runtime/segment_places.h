/*
 * Where objects begin in an arena, and the store's address of a byte of memory. Private to
 * segment*.c, arena.c, convert.c and residency*.c.
 */
#ifndef P3L_SEGMENT_PLACES_H
#define P3L_SEGMENT_PLACES_H

#include "page_state.h"
#include "segment.h"

/* Number of objects that begin before `granule`: the index of the one that begins there. The
 * thread that fills the arena writes words and ranks while others look up earlier objects. */
static inline uint32_t p3l_arena_rank(const p3l_segment *segment, uint32_t granule) {
  uint64_t starts = __atomic_load_n(&segment->arena.starts[granule / 64], __ATOMIC_RELAXED);
  uint64_t below = (UINT64_C(1) << granule % 64) - 1;
  return __atomic_load_n(&segment->arena.rank[granule / 64], __ATOMIC_RELAXED) +
         (uint32_t)__builtin_popcountll(starts & below);
}

/* The last object that begins at or before `granule`; false: there is none. */
static inline bool p3l_arena_start(const p3l_segment *segment, uint32_t granule, uint32_t *start) {
  uint32_t word = granule / 64;
  uint64_t mask = ~UINT64_C(0) >> (63 - granule % 64);
  for (;;) {
    uint64_t starts = __atomic_load_n(&segment->arena.starts[word], __ATOMIC_RELAXED) & mask;
    if (starts != 0) {
      *start = word * 64 + 63 - (uint32_t)__builtin_clzll(starts);
      return true;
    }
    if (word-- == 0) return false;
    mask = ~UINT64_C(0);
  }
}

/* The generation of the object that is, or was, at `offset` of an adopted frame. */
static inline uint8_t p3l_frame_generation(const p3l_frame_info *info, uint64_t offset) {
  const uint8_t *frame = (const uint8_t *)info->state->frame;
  p3l_piece piece;
  if (!p3l_piece_at(info->state->frame, (uint32_t)offset, &piece)) piece.offset = 0;
  if (piece.offset != 0 && p3l_is_in_place(info->state, piece.offset / P3L_GRANULE))
    return piece.generation;
  /* Deleted: transaction.c and refresh.c left the generation there. Bytes that were never an
   * object's have none, nor have bytes where type ids were written since. The result is then 0,
   * which no later object there has. */
  bool deleted = offset >= P3L_OBJECTS_BEGIN && offset < p3l_ids_begin(info->state->frame) &&
                 (frame[offset] & 0xe0u) == P3L_DELETED_BYTE;
  return deleted ? frame[offset] & 0x1fu : 0;
}

/* The store's address of a byte in the segment. */
static inline bool p3l_segment_address(const p3l_segment *segment, const void *memory,
                                       p3l_address *address) {
  uint64_t offset = (uint64_t)((const uint8_t *)memory - segment->memory);
  switch (segment->kind) {
    case P3L_FRAMES: {
      const p3l_frame_info *info = &segment->frames.frame[offset / P3L_PAGE_SIZE];
      address->byte = info->page * P3L_PAGE_SIZE + offset % P3L_PAGE_SIZE;
      return info->use == P3L_FRAME_ADOPTED;
    }
    case P3L_ARENA: {
      uint32_t start;
      if (!p3l_arena_start(segment, (uint32_t)(offset / P3L_GRANULE), &start)) return false;
      const p3l_resident *resident = &segment->arena.objects[p3l_arena_rank(segment, start)];
      uint64_t inside = offset - (uint64_t)start * P3L_GRANULE;
      address->byte = resident->address + inside;
      return inside < (uint64_t)resident->granules * P3L_GRANULE;
    }
    case P3L_LARGE:
      address->byte = segment->large.object.address + offset;
      return offset <= segment->large.bytes;
  }
  return false;
}

/* p3l_memory_surrogate() for a byte in the segment. */
static inline bool p3l_segment_surrogate(const p3l_segment *segment, const void *memory,
                                         uint64_t *surrogate) {
  uint64_t offset = (uint64_t)((const uint8_t *)memory - segment->memory);
  p3l_address address;
  uint8_t generation = 0;
  uint32_t start;
  if (!p3l_segment_address(segment, memory, &address)) return false;
  if (segment->kind == P3L_FRAMES) {
    generation = p3l_frame_generation(&segment->frames.frame[offset / P3L_PAGE_SIZE],
                                      offset % P3L_PAGE_SIZE);
  } else if (segment->kind == P3L_LARGE) {
    generation = (uint8_t)segment->large.object.generation;
  } else if (p3l_arena_start(segment, (uint32_t)(offset / P3L_GRANULE), &start)) {
    generation = (uint8_t)segment->arena.objects[p3l_arena_rank(segment, start)].generation;
  }
  *surrogate = p3l_surrogate_make(address, generation);
  return true;
}

/*
 * The same for the cases that take few instructions: a byte of an adopted frame or a large object, or of
 * the first granule of an object in an arena, to which most pointers lead. Always inlined, because a commit
 * calls it for each slot that it writes: a function with all cases took a fifth of OO1's Insert.
 */
static inline __attribute__((always_inline)) bool p3l_segment_surrogate_soon(
    const p3l_segment *segment, const void *memory, uint64_t *surrogate) {
  uint64_t offset = (uint64_t)((const uint8_t *)memory - segment->memory);
  if (segment->kind == P3L_ARENA) {
    uint32_t granule = (uint32_t)(offset / P3L_GRANULE), bit = granule % 64;
    uint64_t starts = __atomic_load_n(&segment->arena.starts[granule / 64], __ATOMIC_RELAXED);
    if ((starts >> bit & 1) == 0) return false;
    uint32_t rank = __atomic_load_n(&segment->arena.rank[granule / 64], __ATOMIC_RELAXED) +
                    (uint32_t)__builtin_popcountll(starts & ((UINT64_C(1) << bit) - 1));
    const p3l_resident *resident = &segment->arena.objects[rank];
    *surrogate = p3l_surrogate_make((p3l_address){resident->address + offset % P3L_GRANULE},
                                    (uint8_t)resident->generation);
    return true;
  }
  if (segment->kind == P3L_LARGE) {
    *surrogate = p3l_surrogate_make((p3l_address){segment->large.object.address + offset},
                                    (uint8_t)segment->large.object.generation);
    return offset <= segment->large.bytes;
  }
  const p3l_frame_info *info = &segment->frames.frame[offset / P3L_PAGE_SIZE];
  if (segment->kind != P3L_FRAMES || info->use != P3L_FRAME_ADOPTED || info->reused) return false;
  *surrogate =
      p3l_surrogate_make((p3l_address){info->page * P3L_PAGE_SIZE + offset % P3L_PAGE_SIZE}, 0);
  return true;
}

#endif
