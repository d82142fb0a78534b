/* Prefetching through chosen members of C++ classes, including adjacent ones. */
#include <cstdlib>
#include <string>

#include <unistd.h>

#include "p3l.hpp"

extern "C" { /* cmocka's header wants these first */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
}

struct stop {
  std::uint64_t id;
  p3l::pptr<stop> next[2];
  p3l::pptr<stop> back; /* adjacent to `next`: one field for the library */
};
P3L_CLASS(stop, stop, 1);

/* 0 ──next[0]──> 1 ──next[1]──> 2, 0 ──back──> 3 ──next[0]──> 4, 1 ──back──> 5 */
static void members_are_chosen(void **) {
  char folder[] = "/tmp/p3l-members-XXXXXX";
  assert_non_null(mkdtemp(folder));
  const std::string path = std::string(folder) + "/stops.p3l";
  {
    p3l::store store(path, p3l::create());
    store.transact([&] {
      stop *s[6];
      for (std::uint64_t i = 0; i < 6; i++) s[i] = store.make<stop>(stop{i, {}, {}});
      s[0]->next[0] = s[1], s[1]->next[1] = s[2];
      s[0]->back = s[3], s[3]->next[0] = s[4], s[1]->back = s[5];
      store.set_root("stops", s[0]);
    });
  }
  for (int which = 0; which < 4; which++) {
    p3l::store store(path);
    stop *first = store.root<stop>("stops");
    const std::size_t met = which == 0   ? store.prefetch(first, 3)
                            : which == 1 ? store.prefetch(first, 3, &stop::next)
                            : which == 2 ? store.prefetch(first, 3, &stop::back)
                                         : store.prefetch(first, 3, &stop::next, &stop::back);
    const std::size_t expected[] = {6, 3, 2, 6};
    assert_int_equal(met, expected[which]);
    /* The raw contents of the slots. */
    const void *next, *back;
    std::memcpy(&next, static_cast<const void *>(&first->next[0]), sizeof next);
    std::memcpy(&back, static_cast<const void *>(&first->back), sizeof back);
    assert_int_equal(p3l_is_surrogate(next), which == 2);
    assert_int_equal(p3l_is_surrogate(back), which == 1);
  }
  assert_int_equal(std::system(("rm -r " + std::string(folder)).c_str()), 0);
}

int main() {
  const struct CMUnitTest tests[] = {cmocka_unit_test(members_are_chosen)};
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
