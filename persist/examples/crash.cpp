/* crash STORE: a new price for the bicycle, then the bicycle without its parts; but the process is
 * killed before the second is committed. */
#include <csignal>

#include "bom.hpp"

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  p3l::store store(argv[1]);
  part *bicycle = store.root<part>("bicycle");
  store.transact([&] { bicycle->cents = 9500; });

  p3l::transaction changes(store);
  bicycle->uses = nullptr;
  raise(SIGKILL);
  changes.commit();
}
