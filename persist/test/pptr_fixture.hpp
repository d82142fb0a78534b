/* Used by both tests of the C++ interface: a list of nodes, and a folder for its store. */
#ifndef P3L_PPTR_FIXTURE_HPP
#define P3L_PPTR_FIXTURE_HPP

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include <unistd.h>

#include "p3l.hpp"

extern "C" { /* cmocka's header needs these first */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
}

namespace {

struct node {
  std::uint32_t id;
  p3l::pptr<node> next;
};

/* A temporary folder that is removed at the end of its block, also after an exception. */
class folder {
 public:
  folder() {
    if (!mkdtemp(name_)) throw std::runtime_error("mkdtemp");
  }
  ~folder() {
    std::string command = std::string("rm -rf ") + name_;
    if (system(command.c_str()) != 0) perror("rm");
  }
  std::string operator/(const char *file) const { return std::string(name_) + "/" + file; }

 private:
  char name_[32] = "/tmp/p3l-pptr-XXXXXX";
};

}  // namespace

P3L_CLASS(node, node, 1);

namespace {

enum { NODES = 1000 };

[[maybe_unused]] void make_list(p3l::store &store) {
  store.transact([&] {
    node *first = nullptr;
    for (std::uint32_t i = NODES; i-- > 0;) first = store.make<node>(node{i, first});
    store.set_root("list", first);
  });
}

/* Collects the ids in order through plain pointers taken from the slots. */
[[maybe_unused]] std::uint64_t walk(p3l::store &store) {
  std::uint64_t count = 0;
  for (node *n = store.root<node>("list"); n; n = n->next) {
    if (n->id != count) throw std::logic_error("the list is out of order");
    count++;
  }
  return count;
}

template <class F>
p3l_code code_of(F &&body) {
  try {
    body();
  } catch (const p3l::error &failure) {
    assert_true(strlen(failure.what()) > 10);
    return failure.code();
  }
  return P3L_OK;
}

}  // namespace

#endif
