/* P3L by pptr<T>. */
#include <optional>
#include <string>

#include <p3l.hpp>

#include "die.h"

#define OO7_REF(T) p3l::pptr<T>
#define OO7_GET(slot) (slot).get()
#define OO7_SET(slot, p) ((slot) = (p))
#define OO7_CHANGE(p) p3l::edit(p)
#define OO7_NEW(T, near) store->make_near<T>(near)
#define OO7_COMMIT() changes.commit()

static std::optional<p3l::store> store;

#include "schema.h"

P3L_CLASS(oo7_atomic, oo7_atomic, 1);
P3L_CLASS(oo7_connection, oo7_connection, 1);
P3L_CLASS(oo7_document, oo7_document, 1);
P3L_CLASS(oo7_use, oo7_use, 1);
P3L_CLASS(oo7_composite, oo7_composite, 1);
P3L_CLASS(oo7_assembly, oo7_assembly, 1);
P3L_CLASS(oo7_manual_page, oo7_manual_page, 1);
P3L_CLASS(oo7_manual, oo7_manual, 1);
P3L_CLASS(oo7_module, oo7_module, 1);

#include "database.h"

static oo7_module *module;

/* An exception ends the program, as errors do in C. */
template <class F>
static void or_die(F &&body) {
  try {
    body();
  } catch (const std::exception &failure) {
    oo1_die("%s", failure.what());
  }
}

static void open_store(const char *folder, const p3l_options &options) {
  store.emplace(std::string(folder) + "/parts.p3l", options);
}

static void mode_close() {
  or_die([] {
    store->close();
    store.reset();
  });
}

static void mode_load(const char *folder, uint64_t seed) {
  or_die([&] {
    open_store(folder, p3l::create());
    p3l::transaction changes(*store);
    oo7_module *made = OO7_NEW(oo7_module, nullptr);
    store->set_root("module", made);
    make_database(made, seed);
    OO7_COMMIT();
  });
  mode_close();
}

static void mode_open(const char *folder, bool writable) {
  or_die([&] {
    open_store(folder, writable ? p3l_options{} : p3l::read_only());
    module = store->root<oo7_module>("module");
    if (!module) oo1_die("%s: no module in it\n  remedy: load it again", folder);
  });
}

/* Distance from the module to the visited parts, in pointers. */
static unsigned depth_of(oo7_traversal traversal) {
  const unsigned root_part = OO7_LEVELS + 2;
  return traversal == OO7_T6 ? root_part : root_part + 2 * OO7_ATOMIC;
}

static uint64_t run(oo7_traversal traversal, bool prefetch) {
  or_die([&] {
    visits = 0;
    if (prefetch) store->prefetch(module, depth_of(traversal));
    if (traversal == OO7_T2A) {
      p3l::transaction changes(*store);
      timed_assembly(module->root, traversal);
      OO7_COMMIT();
    } else {
      p3l::scope reading(*store);
      timed_assembly(module->root, traversal);
    }
  });
  return visits;
}

static void look(oo7_traversal traversal) {
  or_die([&] {
    p3l::scope reading(*store);
    looking_assembly(module->root, traversal);
  });
}

static uint64_t faults_handled() { return 0; }
static uint64_t bytes_logged() { return store->statistics().bytes_logged; }
static void statistics(oo7_add add, void *state) {
  p3l_statistics now = store->statistics();
#define ADD(name) add(state, #name, static_cast<double>(now.name))
  ADD(swizzled), ADD(objects_copied), ADD(pages_adopted), ADD(pages_read), ADD(reads);
  ADD(memory_bytes), ADD(memory_peak), ADD(cards_written), ADD(commits), ADD(bytes_logged);
#undef ADD
}

const oo7_mode oo7_this_mode = {OO7_NAME,       OO7_COMPILER, true,      mode_load,
                                mode_open,      mode_close,   run,       look,
                                faults_handled, bytes_logged, statistics};
