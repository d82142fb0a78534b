// expect: a field is a number, an enum, a small struct
#include <p3l_containers.hpp>
p3l::field<std::string> name;
