/* words STORE FILE: adds a text to an index of words in a store, and says where "tree" is. */
#include <fstream>
#include <iostream>
#include <p3l_containers.hpp>
#include <sstream>

struct word {
  p3l::field<std::uint64_t> count;
  p3l::vector<std::uint64_t> lines;
};
P3L_CLASS(word, word, 1);
using dictionary = p3l::unordered_map<p3l::string, word>;

int main(int, char **argv) {
  p3l::store store(argv[1], p3l::create());
  auto *words = store.root<dictionary>("words");
  store.transact([&] {
    if (!words) store.set_root("words", words = store.make<dictionary>());
    std::ifstream text(argv[2]);
    std::string line, found;
    for (std::uint64_t number = 1; std::getline(text, line); number++)
      for (std::istringstream in(line); in >> found;) {
        word &entry = (*words)[found];
        entry.count += 1;
        entry.lines.push_back(number);
      }
  }); /* the whole text or no part of it, even if the process is killed */
  std::cout << words->size() << " words\n";
  if (auto *tree = words->find("tree"))
    std::cout << "tree: " << tree->count << " times, last in line " << tree->lines.back() << "\n";
}
