/*
 * threads STORE: two threads move money between accounts, two others add it all up. No sum is ever
 * wrong.
 */
#include <cstdio>
#include <thread>
#include <vector>

#include <p3l.hpp>

enum { ACCOUNTS = 100, TRANSFERS = 200, SUMS = 500, START = 1000 };

struct bank {
  p3l::field<std::int64_t> accounts[ACCOUNTS];
};
P3L_CLASS(bank, bank, 1);

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  p3l::store store(argv[1], p3l::create());
  bank *all = store.transact([&] {
    bank *made = store.make<bank>();
    for (auto &account : made->accounts) account = START;
    store.set_root("bank", made);
    return made;
  });

  auto move_money = [&](unsigned seed) {
    for (int i = 0; i < TRANSFERS; i++) {
      seed = seed * 1664525 + 1013904223;
      unsigned from = (seed >> 8) % ACCOUNTS, to = (seed >> 16) % ACCOUNTS;
      p3l::transaction transfer(store); /* waits for the other writer and for readers */
      all->accounts[from] -= 10;
      all->accounts[to] += 10;
      if (i % 10 == 9) continue; /* thought better of it: not committed, so it is undone */
      transfer.commit();
    }
  };
  std::vector<int> wrong(2);
  auto add_up = [&](int *wrong_sums) {
    for (int i = 0; i < SUMS; i++) {
      p3l::scope reading(store); /* shared with other readers; no writer is within */
      std::int64_t sum = 0;
      for (auto &account : all->accounts) sum += account;
      if (sum != ACCOUNTS * START) ++*wrong_sums;
    }
  };

  std::thread threads[] = {std::thread(move_money, 1), std::thread(move_money, 2),
                           std::thread(add_up, &wrong[0]), std::thread(add_up, &wrong[1])};
  for (auto &thread : threads) thread.join();
  printf("%d sums, %d of them wrong; %llu commits\n", 2 * SUMS, wrong[0] + wrong[1],
         static_cast<unsigned long long>(store.statistics().commits));
}
