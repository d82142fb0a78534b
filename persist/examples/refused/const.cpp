// expect: no match for|no viable overloaded
#include <p3l.hpp>
void change(p3l::pptr<const int> from, p3l::pptr<int> &to) { to = from; }
