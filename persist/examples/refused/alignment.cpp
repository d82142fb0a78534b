// expect: objects in a store begin at multiples of 16
#include <p3l_containers.hpp>
struct alignas(64) part {
  int cents;
};
P3L_CLASS(part, part, 1);
