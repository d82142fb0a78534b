// expect: persistent class has no destructor to run
#include <string>
#include <p3l.hpp>
struct person {
  std::string name;
};
P3L_CLASS(person, person, 1);
