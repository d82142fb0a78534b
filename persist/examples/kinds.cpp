/* kinds STORE: shapes of several kinds in one list, without virtual functions. */
#include <cstdio>

#include <p3l.hpp>

struct shape {
  enum kind { CIRCLE, RECTANGLE } kind;
  p3l::pptr<shape> next;
};
struct circle : shape {
  double radius;
};
struct rectangle : shape {
  double width, height;
};
P3L_CLASS(circle, circle, 1);
P3L_CLASS(rectangle, rectangle, 1);

static double area(const shape *s) {
  switch (s->kind) {
    case shape::CIRCLE: {
      auto c = static_cast<const circle *>(s);
      return 3.14159265 * c->radius * c->radius;
    }
    case shape::RECTANGLE: {
      auto r = static_cast<const rectangle *>(s);
      return r->width * r->height;
    }
  }
  return 0;
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  {
    p3l::store store(argv[1], p3l::create());
    store.transact([&] {
      shape *one = store.make<circle>(circle{{shape::CIRCLE, nullptr}, 2});
      shape *two = store.make<rectangle>(rectangle{{shape::RECTANGLE, one}, 3, 4});
      store.set_root("shapes", two);
    });
  }
  p3l::store store(argv[1]);
  for (const shape *s = store.root<shape>("shapes"); s; s = s->next) printf("%.2f\n", area(s));
}
