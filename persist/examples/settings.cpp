/* settings STORE NAME [NUMBER | =OTHER]: names with a number, or with the number of another name. */
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <p3l.hpp>

struct setting {
  char name[24];
  p3l::field<bool> follows;
  union value {
    double number;
    p3l::pptr<setting> other;
    value() : number(0) {}
  } is;
  p3l::pptr<setting> next;
};

/* Which arm of `is` is live: 0, a number, or 1, a pointer. */
static std::uint32_t live(const void *object, std::size_t) {
  return static_cast<const setting *>(object)->follows;
}
P3L_CLASS_UNIONS(setting, setting, 1, nullptr,
                 P3L_UNION(setting, is, live, P3L_PLAIN_ARM, P3L_ARM(setting, is, is.other)));

static setting *find(p3l::store &store, const char *name) {
  for (setting *s = store.root<setting>("settings"); s; s = s->next)
    if (strcmp(s->name, name) == 0) return s;
  setting *made = store.make<setting>();
  strncpy(made->name, name, sizeof made->name - 1);
  made->next = store.root<setting>("settings");
  store.set_root("settings", made);
  return made;
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  p3l::store store(argv[1], p3l::create());
  store.transact([&] {
    setting *s = find(store, argv[2]);
    if (argc < 4) return;
    s->follows = argv[3][0] == '=';
    if (s->follows)
      s->is.other = find(store, argv[3] + 1);
    else
      p3l::edit(s->is.number) = atof(argv[3]);
  });
  for (const setting *s = find(store, argv[2]); s; s = s->follows ? s->is.other.get() : nullptr)
    if (s->follows)
      printf("%s = ", s->name);
    else
      printf("%s = %g\n", s->name, s->is.number);
}
