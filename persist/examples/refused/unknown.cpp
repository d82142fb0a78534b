// expect: class_of<part>
#include <p3l.hpp>
struct part {
  int x;
};
part *make(p3l::store &store) { return store.make<part>(); } /* P3L_CLASS is missing */
