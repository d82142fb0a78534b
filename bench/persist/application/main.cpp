/*
 * Runs the application (application.hpp) on the contestant that PEER names, and prints a line of JSON.
 *
 *   application PATH build|load NODES         builds it, a commit every 10,000 nodes (load: P3L's, without a log)
 *   application PATH run NODES LOOKUPS COMMITS  opens it; the first answer; look-ups, walks, scans, commits
 *
 * Each word and rank follows from the node's number, so each answer is checked. Times in seconds.
 */
#include <algorithm>
#include <chrono>
#include <fstream>
#include <random>
#include <type_traits>
#include <vector>

#include PEER

namespace {

enum : std::uint64_t { AT_ONCE = 10000, HOPS = 8, SCANNED = 1000 };

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::uint64_t mixed(std::uint64_t x) { /* splitmix64 */
  x += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

/* 8 to 19 letters; all different, since the first seven are the number in another order. */
std::string word_of(std::uint64_t id) {
  std::uint64_t number = id * UINT64_C(2654435761) % UINT64_C(4294967296), rest = mixed(id);
  std::string word;
  for (int at = 0; at < 7; at++, number /= 26) word += static_cast<char>('a' + number % 26);
  for (std::uint64_t left = 1 + rest % 12; left > 0; left--, rest /= 26)
    word += static_cast<char>('a' + rest % 26);
  return word;
}
/* Changes add multiples of RANKS, so that a rank can be checked after any number of them. */
enum : std::uint64_t { RANKS = 1000 };
std::uint64_t rank_of(std::uint64_t id) { return mixed(id ^ 77) % RANKS; }

void add_all(peer &to, std::uint64_t nodes) {
  to.begin();
  to.reserve(nodes);
  for (std::uint64_t id = 0; id < nodes; id++) {
    std::uint64_t edges[EDGES];
    for (std::uint64_t at = 0; at < EDGES; at++) edges[at] = mixed(id * EDGES + at) % nodes;
    if (id % AT_ONCE == 0 && id > 0) {
      to.commit();
      to.begin();
    }
    to.add(id, word_of(id), rank_of(id), edges);
  }
  to.commit();
}

/* "VmHWM" or "RssAnon" of this process, in bytes. */
double memory(const std::string &which) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind(which + ":", 0) == 0) return std::stod(line.substr(which.size() + 1)) * 1024;
  return 0;
}

template <class T, class = void>
struct can_load : std::false_type {};
template <class T>
struct can_load<T, std::void_t<decltype(std::declval<T &>().load(true))>> : std::true_type {};

template <class T>
void build(const std::string &path, bool load, std::uint64_t nodes) {
  double begin = now(), logged = 0;
  {
    T made(path, true, nodes);
    if constexpr (can_load<T>::value) {
      if (load) made.load(true);
      add_all(made, nodes);
      if (load) made.load(false);
      logged = static_cast<double>(made.logged());
    } else {
      if (load) die("it has no load");
      add_all(made, nodes);
    }
  }
  std::printf("{\"build\": %.3f, \"logged\": %.0f, \"peak\": %.0f}\n", now() - begin, logged,
              memory("VmHWM"));
}

/* Seconds of an operation, the mean of `count`. */
template <class F>
double each(std::uint64_t count, F &&operation) {
  double begin = now();
  for (std::uint64_t at = 0; at < count; at++) operation();
  return (now() - begin) / static_cast<double>(count);
}

/* Commits of `changes` new ranks: the median and the worst; fewer where they take long. */
void commits(peer &all, std::mt19937_64 &random, std::uint64_t nodes, std::uint64_t changes,
             std::uint64_t count) {
  std::vector<double> took;
  for (double end = now() + 5; took.size() < count && (now() < end || took.empty());) {
    std::vector<std::pair<std::string, std::uint64_t>> changed;
    for (std::uint64_t at = 0; at < changes; at++) {
      std::uint64_t id = random() % nodes;
      changed.emplace_back(word_of(id), rank_of(id) + RANKS * (random() % RANKS));
    }
    double begin = now();
    all.begin();
    for (const auto &one : changed) all.set_rank(one.first, one.second);
    all.commit();
    took.push_back(now() - begin);
  }
  std::sort(took.begin(), took.end());
  std::printf(", \"commit%llu\": %.7f, \"worst%llu\": %.7f, \"commits%llu\": %zu",
              static_cast<unsigned long long>(changes), took[took.size() / 2],
              static_cast<unsigned long long>(changes), took.back(),
              static_cast<unsigned long long>(changes), took.size());
}

void run(const std::string &path, std::uint64_t nodes, std::uint64_t lookups,
         std::uint64_t committed) {
  std::mt19937_64 random(1);
  double begin = now();
  peer all(path, false, nodes);
  if (path.empty()) add_all(all, nodes); /* in RAM: to open it is to build it */
  all.reading(true);
  std::uint64_t wrong = all.rank_of(word_of(7)) % RANKS != rank_of(7), sum = 0;
  double open = now() - begin, before = memory("RssAnon");
  /* Words are made before: to make one costs as much as to find it. */
  std::vector<std::pair<std::string, std::uint64_t>> words;
  for (std::uint64_t at = 0; at < lookups; at++) words.emplace_back(word_of(random() % nodes), 0);
  random.seed(1);
  for (auto &one : words) one.second = rank_of(random() % nodes);
  double mine = memory("RssAnon");
  std::size_t at = 0;
  auto look_up = [&] {
    const auto &one = words[at++ % words.size()];
    wrong += all.rank_of(one.first) % RANKS != one.second;
  };
  double first = each(lookups, look_up), again = each(lookups, look_up);
  double walk =
      each(lookups / 10, [&] { sum += all.walk(words[at++ % words.size()].first, HOPS); });
  double scan =
      each(1000, [&] { sum += all.scan(random() % (nodes - SCANNED), SCANNED); }) / SCANNED;
  all.reading(false);
  double resident = memory("VmRSS"), anonymous = memory("RssAnon") - (mine - before);
  std::printf(
      "{\"open\": %.6f, \"lookup1\": %.10f, \"lookup\": %.10f, \"walk\": %.10f, \"scan\": %.12f, "
      "\"resident\": %.0f, \"anonymous\": %.0f, \"wrong\": %llu, \"sum\": %llu",
      open, first, again, walk / HOPS, scan, resident, anonymous,
      static_cast<unsigned long long>(wrong), static_cast<unsigned long long>(sum));
  if (!path.empty() && committed > 0) {
    random.seed(std::random_device()()); /* what is set again to what it was may cost nothing */
    commits(all, random, nodes, 1, committed);
    commits(all, random, nodes, 100, committed);
    commits(all, random, nodes, 10000, committed / 10);
  }
  std::printf("}\n");
}

}  // namespace

int main(int argc, char **argv) {
  if (argc < 4) die("usage: application PATH build|load NODES | PATH run NODES LOOKUPS COMMITS");
  std::string path = argv[1], what = argv[2];
  std::uint64_t nodes = std::stoull(argv[3]);
  if (what == "run" && argc == 6)
    run(path, nodes, std::stoull(argv[4]), std::stoull(argv[5]));
  else
    build<peer>(path, what == "load", nodes);
}
