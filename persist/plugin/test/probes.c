#include "probes.h"

#include <stdarg.h>
#include <string.h>

int64_t PROBE(loop)(link part, long n) {
  int64_t sum = 0;
  for (long i = 0; i < n; i++) {
    sum += part->x;
    part = part->to[i % 3];
  }
  return sum;
}

/* Adjacent loads of pointers: a vectoriser makes them one vector load. */
int64_t PROBE(gather)(link part, long n) {
  link persistent *row = part->to;
  int64_t sum = 0;
  for (long round = 0; round < n; round++)
    for (int i = 0; i < 3; i++) sum += row[i]->x * round;
  return sum;
}

/* Two adjacent loads and two adjacent stores: the pattern of the SLP vectoriser. */
int64_t PROBE(pairs)(link part, long n) {
  link left = part->pair.left, right = part->pair.right;
  part->pair.left = right;
  part->pair.right = left;
  return left->x * n - right->x;
}

int64_t PROBE(unions)(link part, long n) {
  link first = part->either;
  return first->x + n * part->or->id;
}

int64_t PROBE(atomics)(link part, long n) {
  link acquired = __atomic_load_n(&part->atomic, __ATOMIC_ACQUIRE);
  link relaxed;
  __atomic_load(&acquired->atomic, &relaxed, __ATOMIC_RELAXED);
  return acquired->x + n * relaxed->x;
}

int64_t PROBE(exchanges)(link part, long n) {
  link expected = part->to[0];
  part->atomic = expected; /* the same object, perhaps not the same bits */
  if (!__atomic_compare_exchange_n(&part->atomic, &expected, part->to[1], 0, __ATOMIC_SEQ_CST,
                                   __ATOMIC_SEQ_CST))
    return -1;
  link wrong = part;
  if (__atomic_compare_exchange_n(&part->to[2]->atomic, &wrong, part, 0, __ATOMIC_SEQ_CST,
                                  __ATOMIC_SEQ_CST))
    return -2;
  link former = __atomic_exchange_n(&part->to[1]->atomic, part, __ATOMIC_SEQ_CST);
  return wrong->x + n * former->x;
}

int64_t PROBE(struct_copy)(link part, long n) {
  struct part copy = *part;
  struct pair pair = copy.to[0]->pair;
  return copy.to[n % 3]->x + pair.left->x - pair.right->x;
}

__attribute__((noinline)) static int64_t by_value(struct pair pair, long n) {
  return pair.left->x * n + pair.right->x;
}
__attribute__((noinline)) static struct pair pair_of(link part) { return part->pair; }
int64_t PROBE(struct_argument)(link part, long n) {
  return by_value(part->pair, n) + by_value(pair_of(part->to[1]), n);
}

__attribute__((noinline)) static int64_t sum_of(int count, ...) {
  va_list parts;
  va_start(parts, count);
  int64_t sum = 0;
  while (count-- > 0) sum += va_arg(parts, link)->x;
  va_end(parts);
  return sum;
}
int64_t PROBE(varargs)(link part, long n) {
  return sum_of(8, part, part->to[0], part->to[1], part->to[2], part->either, part->pair.left,
                part->atomic, part->to[n % 3]);
}

int64_t PROBE(recursion)(link part, long n) {
  if (n == 0) return part->x;
  int64_t sum = 0;
  for (int i = 0; i < 3; i++) sum += PROBE(recursion)(part->to[i], n - 1);
  return sum % 1000003;
}

int64_t PROBE(switches)(link part, long n) {
  link next = part;
  for (long i = 0; i < n; i++) {
    switch (next->id % 5) {
      case 0: next = next->to[0]; break;
      case 1: next = next->to[1]; break;
      case 2: next = next->pair.left; break;
      case 3: next = next->either; break;
      default: next = next->to[2]->to[0]; break;
    }
  }
  return next->x;
}

int64_t PROBE(bitfields)(link part, long n) {
  part->to[1]->kind = (unsigned)n & 7;
  return part->to[0]->kind + part->to[1]->kind * 8 + part->to[2]->rest;
}

int64_t PROBE(volatiles)(link part, long n) {
  link first = part->unsteady;
  return first->x + n * part->unsteady->unsteady->x;
}

int64_t PROBE(interior)(link part, long n) {
  struct part persistent *persistent *slot = part->inside;
  link before = slot[-1], here = *slot;
  int32_t persistent *number = &part->to[0]->numbers[n];
  return before->x + here->x + *number;
}

int64_t PROBE(selects)(link part, long n) {
  link chosen = n & 1 ? part->to[0] : part->to[1];
  link persistent *slot = n & 2 ? &part->either : &part->pair.left;
  return chosen->x + (*slot)->x;
}

/* Surrogates may be stored anywhere, provided that they are checked when they are loaded. */
int64_t PROBE(copies)(link part, long n) {
  link links[3];
  memcpy(links, (const void *)part->to, sizeof links);
  link one;
  memcpy(&one, (const void *)&part->pair.right, sizeof one);
  unsigned char bytes[sizeof one];
  for (size_t i = 0; i < sizeof one; i++)
    bytes[i] = ((const unsigned char persistent *)&part->pair.left)[i];
  link other;
  memcpy(&other, bytes, sizeof other);
  return links[n % 3]->x + one->x + other->x;
}

int64_t PROBE(compares)(link part, long n) {
  int64_t equal = 0;
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 3; j++) equal = equal * 2 + (part->to[i] == part->to[j]->to[n % 3]);
  return equal * 2 + (part->either == part->to[0]);
}

__attribute__((noinline)) static void find(link part, link *found) {
  *found = part;
  if (part->x & 1) memcpy(found, (const void *)&part->to[2], sizeof *found);
}
int64_t PROBE(escaping_local)(link part, long n) {
  link local = part;
  for (long i = 0; i < n; i++) find(local->to[1], &local);
  return local->x;
}

static link kept, copied;
int64_t PROBE(static_variable)(link part, long n) {
  kept = part->to[n % 3];
  memcpy(&copied, (const void *)&part->to[1], sizeof copied);
  return kept->x * 3 + copied->x;
}

int64_t PROBE(array_of_locals)(link part, long n) {
  link stack[32];
  int depth = 0;
  int64_t sum = 0;
  stack[depth++] = part;
  while (depth > 0) {
    link top = stack[--depth];
    sum += top->x;
    if (n-- > 0 && depth < 28)
      for (int i = 0; i < 3; i++) stack[depth++] = top->to[i];
  }
  return sum;
}

int64_t PROBE(nulls)(link part, long n) {
  part->to[0]->either = NULL;
  if (part->to[0]->either) return -1;
  if (!part->to[1]) return -2;
  return part->to[0]->either == NULL ? n : -3;
}

int64_t PROBE(store_fields)(link part, long n) {
  part->id += (uint32_t)n;
  part->x = n;
  part->name[5] = 'x';
  if (n > 3) part->weight = 0.5;
  part->to[1]->numbers[31] = 9;
  return part->id;
}

/* Wide vectors of stores, across cards. */
int64_t PROBE(store_loop)(link part, long n) {
  link to = part->to[0];
  for (long round = 0; round < n; round++) {
    for (int i = 0; i < 32; i++) to->numbers[i] = (int32_t)(i * round);
    to = to->to[1];
  }
  return to->numbers[3];
}

int64_t PROBE(store_memory)(link part, long n) {
  memset((void *)part->to[0]->numbers, (int)n, sizeof part->numbers);
  memmove((void *)part->to[1]->name, (const void *)part->name, sizeof part->name);
  memset((void *)part->to[2]->name, 'y', (size_t)n);
  return part->to[0]->numbers[0];
}

int64_t PROBE(store_copy)(link part, long n) {
  *part->to[0] = *part->to[1];
  struct part local = *part->to[2];
  local.x = n;
  *part->to[2] = local;
  part->to[1]->pair = part->pair;
  return part->to[0]->to[0]->x;
}

int64_t PROBE(store_atomic)(link part, long n) {
  __atomic_fetch_add(&part->to[0]->x, n, __ATOMIC_RELAXED);
  __atomic_store_n(&part->to[1]->atomic, part, __ATOMIC_RELEASE);
  __atomic_store_n(&part->to[2]->id, 7u, __ATOMIC_SEQ_CST);
  return part->to[0]->x;
}

int64_t PROBE(store_string)(link part, long n) {
  char text[24] = "of its own";
  text[n] = 0;
  strcpy((char *)part->to[0]->name, text);
  strcat((char *)part->to[0]->name, "+");
  strncpy((char *)part->to[1]->name, text, 4);
  return (int64_t)strlen((const char *)part->to[0]->name);
}

int64_t PROBE(store_links)(link part, long n) {
  link first = part->to[0], last = part->to[2];
  part->to[0] = last;
  part->to[2] = first;
  for (long i = 0; i < n; i++) last->to[i % 3] = last->to[(i + 1) % 3];
  return part->to[0]->x - part->to[2]->x;
}

__attribute__((noinline)) static void elsewhere(link part) { part->weight += 1; }
int64_t PROBE(store_branches)(link part, long n) {
  link other = part->to[1];
  if (n & 1)
    other->x = 1;
  else
    part->x = 2;
  other->x += n;
  elsewhere(part);
  for (long i = 0; i < n; i++) {
    other->numbers[0] += 1;
    other = other->to[0];
    other->x -= 1;
    if (i & 1) elsewhere(other);
  }
  return other->x;
}

/* With AVX2 and more, a vector store under a mask. */
int64_t PROBE(store_conditional_vector)(link part, long n) {
  link to = part->to[0];
  for (int i = 0; i < 32; i++)
    if (to->numbers[i] > n * 4) to->numbers[i] = -1;
  return to->numbers[31];
}
