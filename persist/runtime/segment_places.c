/*
 * Finds the object at an address in memory.
 */
#include "segment_places.h"

#include "guard.h"
#include "page_state.h"

static p3l_place arena_place(p3l_segment *segment, uint32_t start) {
  p3l_resident *resident = &segment->arena.objects[p3l_arena_rank(segment, start)];
  return (p3l_place){segment,
                     segment->memory + (uint64_t)start * P3L_GRANULE,
                     {resident->address},
                     (uint64_t)resident->granules * P3L_GRANULE,
                     resident->type,
                     resident,
                     (uint8_t)resident->generation};
}

/* The object of the arena that contains byte `offset`, dead or not. */
static bool in_arena(p3l_segment *segment, uint64_t offset, p3l_place *place) {
  uint32_t start;
  if (!p3l_arena_start(segment, (uint32_t)(offset / P3L_GRANULE), &start)) return false;
  *place = arena_place(segment, start);
  return offset < start * P3L_GRANULE + place->bytes;
}

/* The page state of an adopted frame; NULL: the frame is not adopted. */
static const p3l_page_state *adopted(const p3l_segment *segment, uint64_t frame) {
  const p3l_frame_info *info = &segment->frames.frame[frame];
  return info->use == P3L_FRAME_ADOPTED ? info->state : NULL;
}

/*
 * The object at `piece` of an adopted frame; false: a hole, a forward, or an object that was
 * copied.
 */
static bool in_frame(p3l_segment *segment, uint64_t frame, const p3l_page_state *state,
                     const p3l_piece *piece, p3l_place *place) {
  uint32_t granule = piece->offset / P3L_GRANULE;
  if (piece->type == P3L_HOLE || piece->type == P3L_FORWARD) return false;
  if ((state->in_place[granule / 64] >> granule % 64 & 1) == 0) return false;
  *place = (p3l_place){segment,
                       segment->memory + frame * P3L_PAGE_SIZE + piece->offset,
                       {segment->frames.frame[frame].page * P3L_PAGE_SIZE + piece->offset},
                       piece->bytes,
                       piece->type,
                       NULL,
                       piece->generation};
  return true;
}

static p3l_place large_place(p3l_segment *segment) {
  return (p3l_place){segment,
                     segment->memory,
                     {segment->large.object.address},
                     segment->large.bytes,
                     segment->large.object.type,
                     &segment->large.object,
                     (uint8_t)segment->large.object.generation};
}

static bool is_dead(const p3l_place *place) {
  return (place->resident->flags & P3L_RESIDENT_DEAD) != 0;
}

bool p3l_place_of(const void *address, p3l_place *place) {
  p3l_segment *segment = p3l_segment_of(address);
  if (segment == NULL) return false;
  uint64_t offset = (uint64_t)((const uint8_t *)address - segment->memory);
  switch (segment->kind) {
    case P3L_ARENA: return in_arena(segment, offset, place) && !is_dead(place);
    case P3L_LARGE: *place = large_place(segment); return offset < place->bytes && !is_dead(place);
    case P3L_FRAMES: {
      uint64_t frame = offset / P3L_PAGE_SIZE;
      const p3l_page_state *state = adopted(segment, frame);
      p3l_piece piece;
      return state != NULL && p3l_piece_at(state->frame, offset % P3L_PAGE_SIZE, &piece) &&
             in_frame(segment, frame, state, &piece, place);
    }
  }
  return false;
}

bool p3l_memory_surrogate(const void *memory, p3l_store **store, uint64_t *surrogate) {
  const p3l_segment *segment = p3l_segment_of(memory);
  if (segment == NULL) return false;
  *store = segment->store;
  return p3l_segment_surrogate(segment, memory, surrogate);
}

/* ---- all in a range ---- */

static p3l_code visit_arena(p3l_segment *segment, uint64_t from, uint64_t to,
                            p3l_place_visitor visit, void *state, p3l_error *error) {
  if (to > segment->arena.fill) to = segment->arena.fill;
  uint32_t start;
  if (from >= to || !p3l_arena_start(segment, (uint32_t)(from / P3L_GRANULE), &start))
    return P3L_OK;
  p3l_resident *resident = &segment->arena.objects[p3l_arena_rank(segment, start)];
  uint64_t at = start * P3L_GRANULE;
  p3l_code code = P3L_OK;
  /* Objects are contiguous, so the end of one is the beginning of the next. */
  for (; at < to && code == P3L_OK; resident++) {
    uint64_t bytes = (uint64_t)resident->granules * P3L_GRANULE;
    p3l_place place = {
        segment,  segment->memory + at,         {resident->address}, bytes, resident->type,
        resident, (uint8_t)resident->generation};
    bool behind = P3L_GUARDED && at + bytes <= from; /* where nothing lies, up to the next page */
    if (!is_dead(&place) && !behind) code = visit(state, &place, error);
    at += p3l_arena_stride(bytes);
  }
  return code;
}

static p3l_code visit_frame(p3l_segment *segment, uint64_t frame, uint64_t from, uint64_t to,
                            p3l_place_visitor visit, void *state, p3l_error *error) {
  const p3l_page_state *page = adopted(segment, frame);
  if (page == NULL) return P3L_OK;
  p3l_piece piece = {0};
  p3l_code code = P3L_OK;
  bool more = from > P3L_OBJECTS_BEGIN ? p3l_piece_at(page->frame, (uint32_t)from, &piece)
                                       : p3l_piece_next(page->frame, &piece);
  for (; more && piece.offset < to && code == P3L_OK; more = p3l_piece_next(page->frame, &piece)) {
    p3l_place place;
    if (in_frame(segment, frame, page, &piece, &place)) code = visit(state, &place, error);
  }
  return code;
}

p3l_code p3l_places_in(p3l_segment *segment, const uint8_t *from, const uint8_t *to,
                       p3l_place_visitor visit, void *state, p3l_error *error) {
  uint64_t first = (uint64_t)(from - segment->memory), end = (uint64_t)(to - segment->memory);
  p3l_code code = P3L_OK;
  if (first >= end) return P3L_OK;
  if (segment->kind == P3L_ARENA) return visit_arena(segment, first, end, visit, state, error);
  if (segment->kind == P3L_LARGE) {
    p3l_place place = large_place(segment);
    return first < place.bytes && !is_dead(&place) ? visit(state, &place, error) : P3L_OK;
  }
  for (uint64_t frame = first / P3L_PAGE_SIZE; frame * P3L_PAGE_SIZE < end && code == P3L_OK;
       frame++) {
    uint64_t begin = frame * P3L_PAGE_SIZE;
    code =
        visit_frame(segment, frame, first > begin ? first - begin : 0,
                    end - begin < P3L_PAGE_SIZE ? end - begin : P3L_PAGE_SIZE, visit, state, error);
  }
  return code;
}
