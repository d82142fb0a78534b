/*
 * look_on STORE: reads the price of the bicycle while another opening of the store changes it. The two
 * could be two processes: each has objects of its own in memory.
 */
#include <cstdio>

#include "bom.hpp"

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  p3l::store reading(argv[1], p3l::read_only()), writing(argv[1]);
  auto price = [](p3l::store &store) {
    return static_cast<long long>(store.root<part>("bicycle")->cents);
  };
  std::printf("%lld cents", price(reading));
  writing.transact([&] { writing.root<part>("bicycle")->cents += 1000; });
  std::printf(", %lld after the commit", price(reading));
  reading.refresh(); /* pointers that the program holds into the store dangle */
  std::printf(", %lld after refresh()\n", price(reading));
  writing.transact([&] { writing.root<part>("bicycle")->cents -= 1000; });
}
