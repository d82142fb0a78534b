// expect: a key of p3l::unordered_map is a number, an enum or a p3l::string
#include <p3l_containers.hpp>
const p3l_type *type = p3l::class_of<p3l::unordered_map<double, int>>::type();
bool contains(p3l::unordered_map<double, int> &all) { return all.contains(1.5); }
