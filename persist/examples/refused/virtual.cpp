// expect: class with virtual functions cannot be persistent
#include <p3l.hpp>
struct shape {
  virtual double area() const { return 0; }
};
P3L_CLASS(shape, shape, 1);
