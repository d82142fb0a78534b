/**
 * @file Access to persistent memory: the contents of a pointer slot, the check at a load, the mark
 * at a store. This is the complete contract between the three interfaces (the compiler plugin,
 * p3l.hpp, the macros below) and the library: programs of all three may share a store.
 *
 * A slot is eight bytes in a persistent object. It holds
 *
 *     0                                          no object
 *     0xxxxxxx xxxxxxxx ... xxxxxxxx             an address of memory: the object is there
 *     1 00 ggggg  page number (44) offset (12)   a surrogate: the object's address in the store, and its
 *     63  60..56  55            12 11       0    generation, by which it differs from what had its place
 *                                                before: a pointer to a deleted object dangles, and does
 *                                                not lead to another
 *
 * The file holds surrogates too, so that reading a page converts nothing. On x86-64 a surrogate is
 * not canonical, with 48 or 57 bits of address: used without the check, it traps. On AArch64 the
 * processor ignores the top byte: the access goes to the object's address in the store, where a
 * position-independent program, the compilers' default, has no memory; that traps as well. It is not
 * relative to its place: it may be copied anywhere (memcpy, struct assignment), and surrogate + 8 is
 * the address of the byte eight further on.
 *
 * The rule: values in registers, arguments and local variables are swizzled; only slots may hold
 * surrogates. So every pointer is checked where it is loaded from a slot, and nowhere else. The
 * address is written back into the slot (the next load finds it); slots outside persistent memory
 * are not changed, because eviction could not restore them.
 */
#ifndef P3L_ACCESS_H
#define P3L_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define P3L_SURROGATE_BIT (UINT64_C(1) << 63)
/* Bits 62 and 61 of a surrogate are zero. A negative value with any of them set, (void *)-1 say, is
 * not a surrogate, and is not changed. */
#define P3L_SURROGATE_ZEROS (UINT64_C(0x60) << 56)
#define P3L_SURROGATE_ADDRESS (~UINT64_C(0) >> 8)

/*
 * The range of virtual memory that holds all resident persistent objects, and a byte for each
 * card of it: 0 if the running transaction has not changed the card. Read only. Before the first
 * store is opened `bytes` is 0 and `base` 2^63, where no memory is: a thread may see either change
 * before the other, and no address is inside.
 */
typedef struct p3l_memory {
  uintptr_t base;  /* address of the first byte */
  uintptr_t bytes; /* length */
  uint8_t *cards;  /* cards[(address - base) / P3L_CARD_BYTES] */
} p3l_memory;
extern p3l_memory p3l_persistent_memory;

#define P3L_CARD_SHIFT 10
#define P3L_CARD_BYTES (UINT64_C(1) << P3L_CARD_SHIFT)

static inline bool p3l_is_persistent(const void *address) {
  return (uintptr_t)address - p3l_persistent_memory.base < p3l_persistent_memory.bytes;
}

static inline bool p3l_is_surrogate(const void *pointer) { return (intptr_t)pointer < 0; }

/*
 * The slow path of a load: makes the object resident and returns its address; writes it to `slot`
 * if that is in persistent memory and still holds `surrogate`. The object is looked up in the
 * slot's store. For a slot outside persistent memory this is the store selected by p3l_use(), or
 * the only open one. Errors (corrupt page, dangling pointer, disk error, no memory) go to the
 * handler of p3l_on_fault(), which does not return here. Any thread may call it.
 */
void *p3l_swizzle(void *slot, const void *surrogate);

/*
 * The slow path of a store, before the bytes are changed: saves the old bytes and marks their cards.
 * Outside a transaction of this thread it calls the fault handler (P3L_MISUSE).
 */
void p3l_will_write(void *address, size_t bytes);

/** Call it before changing [address, address + bytes). It has no effect for memory that is not
 * persistent. */
static inline void p3l_dirty(void *address, size_t bytes) {
  uintptr_t offset = (uintptr_t)address - p3l_persistent_memory.base;
  if (offset >= p3l_persistent_memory.bytes || bytes == 0) return;
  uintptr_t first = offset >> P3L_CARD_SHIFT, last = (offset + bytes - 1) >> P3L_CARD_SHIFT;
  if (__builtin_expect(first == last && p3l_persistent_memory.cards[first] != 0, 1)) return;
  p3l_will_write(address, bytes);
}

/* ---- C without the plugin ---- */

/*
 * The swizzled slot publishes the object's bytes: a relaxed load and the dependency on its value
 * are enough on x86-64 and AArch64, whose order of loads respects dependencies of addresses: what a
 * thread reads by way of the address (the object, and its entries in the library's tables, which are
 * found by it) is not older than the slot. ThreadSanitizer does not understand dependencies.
 */
#if defined(__SANITIZE_THREAD__)
#define P3L_LOAD_ORDER __ATOMIC_ACQUIRE
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define P3L_LOAD_ORDER __ATOMIC_ACQUIRE
#endif
#endif
#ifndef P3L_LOAD_ORDER
#define P3L_LOAD_ORDER __ATOMIC_RELAXED
#endif

/*
 * The contents of the slot at `place`. A volatile load is one complete load, like a relaxed atomic
 * one, but gcc needs no register for its address. For an atomic load gcc computes that address,
 * which only the slow path needs, every time. That would be three more of the ten instructions that
 * checks cost in a traversal of OO1.
 */
#if P3L_LOAD_ORDER == __ATOMIC_RELAXED
#define P3L_SLOT_VALUE(place) (*(__typeof__(*(place)) volatile *)(place))
#else
#define P3L_SLOT_VALUE(place) __atomic_load_n(place, P3L_LOAD_ORDER)
#endif

/*
 * Calls p3l_swizzle() from checks. clang keeps a value in the slow path's argument register on the
 * fast path, too, and f(p->next) needs it as the first argument: as the second it costs a move. gcc
 * is not affected, and is slower if the slow path is marked cold.
 */
#if defined(__clang__) && defined(__x86_64__)
void *p3l_swizzle_value(const void *surrogate, void *slot);
#define P3L_SWIZZLE(slot, surrogate) p3l_swizzle_value(surrogate, slot)
#else
#define P3L_SWIZZLE(slot, surrogate) p3l_swizzle(slot, surrogate)
#endif

/** Loads a pointer from a slot: struct part *p = P3L_LD(part->to[0]); */
#define P3L_LD(slot)                                                             \
  (__extension__({                                                               \
    __typeof__(slot) *p3l_slot_ = &(slot);                                       \
    __typeof__(slot) p3l_value_ = P3L_SLOT_VALUE(p3l_slot_);                     \
    if (__builtin_expect(p3l_is_surrogate(p3l_value_), 0))                       \
      p3l_value_ = (__typeof__(slot))P3L_SWIZZLE((void *)p3l_slot_, p3l_value_); \
    p3l_value_;                                                                  \
  }))

/** Changes a field of a persistent object: P3L_SET(part->x, 7); evaluates `place` twice. */
#define P3L_SET(place, value)           \
  (__extension__({                      \
    p3l_dirty(&(place), sizeof(place)); \
    (place) = (value);                  \
  }))

#ifdef __cplusplus
}
#endif

#endif
