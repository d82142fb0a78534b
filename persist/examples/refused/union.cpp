// expect: deleted|needs a default constructor
#include <p3l.hpp>
struct either {
  union {
    p3l::pptr<either> other;
    long number;
  };
};
P3L_CLASS(either, either, 1);
