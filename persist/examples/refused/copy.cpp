// expect: use of deleted function|is implicitly deleted
#include <p3l_containers.hpp>
void copy(p3l::vector<int> &from, p3l::vector<int> &to) { to = from; }
