// expect: a key of p3l::map is a number, an enum or a p3l::string
#include <p3l_containers.hpp>
struct name {
  int first, second;
};
bool contains(p3l::map<name, int> &all) { return all.contains({1, 2}); }
