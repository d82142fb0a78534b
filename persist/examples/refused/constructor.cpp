// expect: a persistent class needs a default constructor
#include <p3l_containers.hpp>
struct part {
  explicit part(int);
  int cents;
};
P3L_CLASS(part, part, 1);
