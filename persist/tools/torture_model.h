/*
 * A graph of objects of several sizes, and a model of it in plain memory. Transaction t changes both
 * in ways that follow from the seed, t and the model alone: so a process with the model as of
 * transaction t - 1 knows what the store must be after transaction t, without having seen it run.
 * For `p3l torture` and the tests of the runtime.
 *
 *   root "model" ─> state ─> slots (one large object) ─┬─> element          48 bytes
 *                                                      ├─> wide           1000 bytes, lies across cards
 *                                                      ├─> element[n]    4800 .. 7200 bytes: a large object
 *                                                      └─> word[n]         100 .. 2400
 *   links lead from any of them to any other, or to an element within one
 */
#ifndef P3L_TORTURE_MODEL_H
#define P3L_TORTURE_MODEL_H

#include <p3l.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  MODEL_OBJECTS = 600, /* slots: 4,800 bytes */
  MODEL_ALIVE = 100,   /* from this number on as many objects are deleted as created */
  MODEL_OWN = 2,       /* objects: state, slots */
  MODEL_VALUES = 300,
  MODEL_LINKS = 450,
  MODEL_NOWHERE = 0xffff
};

typedef struct model_element {
  uint64_t values[2];
  void *links[3];
  uint64_t zero;
} model_element;
P3L_TYPE(model_element, model_element, 1, P3L_POINTERS(model_element, links));

typedef struct model_wide {
  uint64_t values[60];
  void *links[4];
  uint64_t more[60];
  uint64_t zero;
} model_wide;
P3L_TYPE(model_wide, model_wide, 1, P3L_POINTERS(model_wide, links));

typedef struct model_word {
  uint64_t value;
} model_word;
P3L_PLAIN_TYPE(model_word, model_word, 1);

typedef struct model_slot {
  void *object;
} model_slot;
P3L_TYPE(model_slot, model_slot, 1, P3L_POINTERS(model_slot, object));

typedef struct model_state {
  uint64_t transaction;
  model_slot *slots;
} model_state;
P3L_TYPE(model_state, model_state, 1, P3L_POINTERS(model_state, slots));

typedef enum model_kind { MODEL_NONE, MODEL_ELEMENTS, MODEL_WIDE, MODEL_WORDS } model_kind;

typedef struct model_link {
  uint16_t target;  /* index, or MODEL_NOWHERE */
  uint16_t element; /* of an array of elements */
} model_link;

typedef struct model_object {
  model_kind kind; /* MODEL_NONE: the slot is free */
  uint16_t count;  /* of elements or words */
  uint16_t values, link_count;
  uint32_t linked; /* how many links lead here */
  uint32_t value[MODEL_VALUES];
  model_link link[MODEL_LINKS];
} model_object;

typedef struct model {
  uint64_t seed, transaction;
  uint64_t random;
  uint32_t alive;
  model_object objects[MODEL_OBJECTS];
} model;

/* ---- where values and links lie in an object ---- */

static inline uint64_t *model_value_at(const model_object *object, void *memory, unsigned i) {
  model_wide *wide = memory;
  switch (object->kind) {
    case MODEL_ELEMENTS: return &((model_element *)memory)[i / 2].values[i % 2];
    case MODEL_WIDE: return i < 60 ? &wide->values[i] : &wide->more[i - 60];
    default: return &((model_word *)memory)[i].value;
  }
}

static inline void **model_link_at(const model_object *object, void *memory, unsigned i) {
  if (object->kind == MODEL_ELEMENTS) return &((model_element *)memory)[i / 3].links[i % 3];
  return &((model_wide *)memory)->links[i];
}

static inline size_t model_extent(const model_object *object) {
  size_t bytes = object->kind == MODEL_WIDE       ? sizeof(model_wide)
                 : object->kind == MODEL_ELEMENTS ? object->count * sizeof(model_element)
                                                  : object->count * sizeof(model_word);
  /* The end of an array has an address. */
  return (bytes + (object->count > 1) + 15) / 16 * 16;
}

static inline const p3l_type *model_type(const model_object *object) {
  switch (object->kind) {
    case MODEL_ELEMENTS: return &p3l_type_of_model_element;
    case MODEL_WIDE: return &p3l_type_of_model_wide;
    default: return &p3l_type_of_model_word;
  }
}

/* ---- choices ---- */

static inline uint64_t model_mix(uint64_t x) { /* splitmix64's finalizer */
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

static inline unsigned model_draw(model *model, unsigned below) {
  model->random += UINT64_C(0x9e3779b97f4a7c15);
  return (unsigned)(model_mix(model->random) >> 33) % below;
}

/* An existing object, or MODEL_NOWHERE. */
static inline unsigned model_any(model *model) {
  if (model->alive == 0) return MODEL_NOWHERE;
  unsigned at = model_draw(model, MODEL_OBJECTS);
  while (model->objects[at].kind == MODEL_NONE) at = (at + 1) % MODEL_OBJECTS;
  return at;
}

/* ---- changes: to the model, and to the store if there is one ---- */

/* A store within a transaction. */
typedef struct model_graph {
  p3l_store *store;
  model_slot *slots;
} model_graph;

static inline void *model_memory(const model_graph *graph, unsigned index) {
  return index == MODEL_NOWHERE ? NULL : P3L_LD(graph->slots[index].object);
}

static inline void model_set_value(model *model, const model_graph *graph, unsigned index,
                                   unsigned i) {
  model_object *object = &model->objects[index];
  object->value[i] = model_draw(model, 1u << 30);
  if (graph != NULL)
    P3L_SET(*model_value_at(object, model_memory(graph, index), i), object->value[i]);
}

static inline void model_set_link(model *model, const model_graph *graph, unsigned index,
                                  unsigned i, unsigned target) {
  model_object *object = &model->objects[index];
  model_link *link = &object->link[i];
  if (link->target != MODEL_NOWHERE) model->objects[link->target].linked--;
  *link = (model_link){(uint16_t)target, 0};
  if (target != MODEL_NOWHERE) {
    model->objects[target].linked++;
    if (model->objects[target].kind == MODEL_ELEMENTS)
      link->element = (uint16_t)model_draw(model, model->objects[target].count);
  }
  if (graph == NULL) return;
  uint8_t *to = model_memory(graph, target);
  void **slot = model_link_at(object, model_memory(graph, index), i);
  P3L_SET(*slot, to == NULL ? NULL : to + link->element * sizeof(model_element));
}

/* Returns false if the store could not make the object. */
static inline bool model_make(model *model, const model_graph *graph) {
  unsigned index = model_draw(model, MODEL_OBJECTS);
  while (model->objects[index].kind != MODEL_NONE) index = (index + 1) % MODEL_OBJECTS;
  model_object *object = &model->objects[index];
  unsigned dice = model_draw(model, 16);
  *object = (model_object){.kind = MODEL_ELEMENTS, .count = 1};
  if (dice == 0) {
    object->count = (uint16_t)(100 + model_draw(model, 51));
  } else if (dice < 4) {
    object->kind = MODEL_WIDE;
  } else if (dice < 6) {
    object->kind = MODEL_WORDS;
    object->count = (uint16_t)(12 + model_draw(model, 476) % (MODEL_VALUES - 12));
  }
  if (object->kind == MODEL_ELEMENTS) {
    object->values = (uint16_t)(object->count * 2);
    object->link_count = (uint16_t)(object->count * 3);
  } else {
    object->values = object->kind == MODEL_WIDE ? 120 : object->count;
    object->link_count = object->kind == MODEL_WIDE ? 4 : 0;
  }
  for (unsigned i = 0; i < object->link_count; i++) object->link[i].target = MODEL_NOWHERE;
  unsigned near = model_draw(model, 3) == 0 ? model_any(model) : MODEL_NOWHERE;
  if (near == index) near = MODEL_NOWHERE;
  model->alive++;
  if (graph == NULL) return true;
  void *made =
      p3l_allocate(graph->store, model_type(object), object->count, model_memory(graph, near));
  if (made == NULL) return false;
  P3L_SET(graph->slots[index].object, made);
  return true;
}

static inline void model_delete(model *model, const model_graph *graph) {
  unsigned index = model_any(model);
  if (index == MODEL_NOWHERE) return;
  model_object *object = &model->objects[index];
  for (unsigned i = 0; i < object->link_count; i++)
    if (object->link[i].target != MODEL_NOWHERE) {
      model->objects[object->link[i].target].linked--;
      object->link[i].target = MODEL_NOWHERE;
      /* In the store the links of what is deleted stay as they are. */
    }
  if (object->linked > 0) {
    /* Links to it are removed. */
    for (unsigned from = 0; from < MODEL_OBJECTS && object->linked > 0; from++)
      for (unsigned i = 0; i < model->objects[from].link_count; i++)
        if (model->objects[from].kind != MODEL_NONE && model->objects[from].link[i].target == index)
          model_set_link(model, graph, from, i, MODEL_NOWHERE);
  }
  if (graph != NULL) {
    p3l_delete(graph->store, model_memory(graph, index));
    P3L_SET(graph->slots[index].object, NULL);
  }
  *object = (model_object){.kind = MODEL_NONE};
  model->alive--;
}

static inline bool model_step(model *model, const model_graph *graph) {
  unsigned dice = model_draw(model, 12), index = model_any(model);
  if (index == MODEL_NOWHERE || dice < 2) return model_make(model, graph);
  if (dice < 4) {
    if (model->alive <= MODEL_ALIVE) return model_make(model, graph);
    model_delete(model, graph);
    return true;
  }
  const model_object *object = &model->objects[index];
  if (dice < 8) {
    unsigned changes = dice == 4 ? object->values : 1 + model_draw(model, 4);
    for (unsigned i = 0; i < changes; i++)
      model_set_value(model, graph, index, model_draw(model, object->values));
    return true;
  }
  unsigned changes = dice == 8 ? object->link_count : 1 + model_draw(model, 3);
  for (unsigned i = 0; i < changes && object->link_count > 0; i++)
    model_set_link(model, graph, index, model_draw(model, object->link_count),
                   model_draw(model, 8) == 0 ? MODEL_NOWHERE : model_any(model));
  return true;
}

/* Carries out transaction `number`, without p3l_begin() and p3l_commit(). `graph` NULL: on the
 * model only. False: the store failed; p3l_failure() has the reason. */
static inline bool model_transaction(model *model, p3l_store *store, uint64_t number) {
  model_graph graph = {store, NULL}, *changed = NULL;
  model->transaction = number;
  model->random = model_mix(model->seed + number * UINT64_C(0xd1342543de82ef95));
  if (store != NULL) {
    model_state *state = p3l_root(store, "model");
    graph.slots = P3L_LD(state->slots);
    P3L_SET(state->transaction, number);
    changed = &graph;
  }
  unsigned steps = number % 64 == 0 ? 100 : 1 + model_draw(model, 8);
  for (unsigned i = 0; i < steps; i++)
    if (!model_step(model, changed)) return false;
  return true;
}

/* Makes an empty graph, transaction 0. Must be called within a transaction. */
static inline bool model_begin(p3l_store *store) {
  model_state *state = p3l_new(store, model_state);
  if (state == NULL) return false;
  state->slots = p3l_new_array(store, model_slot, MODEL_OBJECTS);
  return state->slots != NULL && p3l_set_root(store, "model", state) == P3L_OK;
}

static inline model *model_new(uint64_t seed) {
  model *made = calloc(1, sizeof(*made));
  if (made == NULL) abort();
  made->seed = seed;
  return made;
}

/* ---- the comparison ---- */

/* Returns the number of the last transaction recorded in the store. */
static inline uint64_t model_last_of(p3l_store *store) {
  const model_state *state = p3l_root(store, "model");
  return state == NULL ? 0 : state->transaction;
}

/* Whether the store equals the model; otherwise the first difference. */
static inline bool model_equals(const model *model, p3l_store *store, char *sentence,
                                size_t bytes) {
  model_state *state = p3l_root(store, "model");
  model_graph graph = {store, state == NULL ? NULL : P3L_LD(state->slots)};
  if (state == NULL || state->transaction != model->transaction) {
    snprintf(sentence, bytes, "the store ends with transaction %llu, not %llu",
             state == NULL ? 0 : (unsigned long long)state->transaction,
             (unsigned long long)model->transaction);
    return false;
  }
  for (unsigned index = 0; index < MODEL_OBJECTS; index++) {
    const model_object *object = &model->objects[index];
    void *memory = model_memory(&graph, index);
    if ((memory != NULL) != (object->kind != MODEL_NONE)) {
      snprintf(sentence, bytes, "object %u is %sthere after transaction %llu", index,
               memory == NULL ? "not " : "", (unsigned long long)model->transaction);
      return false;
    }
    if (memory == NULL) continue;
    /* By name: each file that includes this header has type descriptors of its own. */
    const p3l_type *type = p3l_type_of(memory);
    if (p3l_extent(memory) != model_extent(object) || type == NULL ||
        strcmp(type->name, model_type(object)->name) != 0) {
      snprintf(sentence, bytes, "object %u has %zu bytes, not %zu, or another type", index,
               p3l_extent(memory), model_extent(object));
      return false;
    }
    for (unsigned i = 0; i < object->values; i++)
      if (*model_value_at(object, memory, i) != object->value[i]) {
        snprintf(sentence, bytes, "value %u of object %u (kind %d, %u) is %llu, not %u", i, index,
                 object->kind, object->count,
                 (unsigned long long)*model_value_at(object, memory, i), object->value[i]);
        return false;
      }
    for (unsigned i = 0; i < object->link_count; i++) {
      uint8_t *expected = model_memory(&graph, object->link[i].target);
      if (expected != NULL) expected += object->link[i].element * sizeof(model_element);
      void **slot = model_link_at(object, memory, i);
      if (P3L_LD(*slot) != (void *)expected) {
        snprintf(sentence, bytes, "link %u of object %u leads to %p, not to %p (object %u)", i,
                 index, *slot, (void *)expected, object->link[i].target);
        return false;
      }
    }
  }
  return true;
}

#endif
