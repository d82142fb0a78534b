/*
 * Objects side by side, in the order in which the program first reached them: objects that are used
 * together lie together, whatever their order in the store. segment.h has the invariants.
 */
#include "arena.h"

#include "guard.h"
#include "store.h"

p3l_code p3l_arena_add(p3l_store *store, p3l_resident object, p3l_place *place, p3l_error *error) {
  uint32_t bytes = (uint32_t)object.granules * P3L_GRANULE;
  uint32_t stride = P3L_GUARDED ? (uint32_t)p3l_arena_stride(bytes) : bytes;
  p3l_segment *arena = store->filling;
  if (arena == NULL || arena->arena.fill + stride > P3L_SEGMENT_BYTES) {
    p3l_code code = p3l_segment_take(store, P3L_ARENA, 1, &arena, error);
    if (code != P3L_OK) return code;
    store->filling = arena;
  }
  uint32_t granule = arena->arena.fill / P3L_GRANULE, word = granule / 64;
  uint64_t starts = arena->arena.starts[word];
  if (starts == 0) {
    /*
     * The first object that begins in this word. The words spanned by the object before it have no
     * start.
     */
    for (uint32_t at = word; at > 0 && arena->arena.starts[at] == 0; at--)
      __atomic_store_n(&arena->arena.rank[at], arena->arena.count, __ATOMIC_RELAXED);
  }
  p3l_resident *resident = &arena->arena.objects[arena->arena.count++];
  *resident = object;
  __atomic_store_n(&arena->arena.starts[word], starts | UINT64_C(1) << granule % 64,
                   __ATOMIC_RELAXED);
  *place =
      (p3l_place){arena,    arena->memory + arena->arena.fill, {object.address}, bytes, object.type,
                  resident, (uint8_t)object.generation};
  arena->arena.fill += stride;
  /* Without what a debug library adds: limits are for the program as it will run. */
  p3l_segment_grew(arena, bytes + sizeof(p3l_resident));
  return P3L_OK;
}
