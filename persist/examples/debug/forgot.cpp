/* Two mistakes that the debug library explains: forgot STORE write|delete */
#include <cstring>

#include "../bom.hpp"

static void rename_part(part *named, const char *name) {
  for (int i = 0; i <= 4; i++) named->name[i] = name[i]; /* edit(named)->name[i] was meant */
}

static void remove_first(p3l::store &store, part *whole) {
  use *first = whole->uses;
  whole->uses = first->next;
  store.erase(first);
}

int main(int, char **argv) {
  p3l::store store(argv[1]);
  part *bicycle = store.root<part>("bicycle");
  use *first = bicycle->uses;
  p3l::transaction changes(store);
  if (!strcmp(argv[2], "write")) rename_part(bicycle, "velo");
  remove_first(store, bicycle);
  changes.commit();
  return static_cast<int>(first->pieces);
}
