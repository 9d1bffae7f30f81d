// fuzz_readers READER ITERATIONS SEED [--corpus DIR] [--limit SECONDS] [--keep FILE]
// fuzz_readers READER --input FILE
// fuzz_readers READER --examples DIR
//
// Gives a reader of files ITERATIONS inputs that are no longer, or not quite, what it expects. It
// must accept each or refuse it with an Error of its code and one line. Anything else (a crash, a
// sanitizer's finding, another exception, an input that takes longer than the limit) ends the run
// with status 1, the number of the input, and the input itself in FILE. The second form reads that
// file again. The third writes good inputs, for a corpus.
//
// The inputs are read in a child process; this one only watches. Whatever becomes of the child, the
// input it was at can be made again from its number.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "flotilla/core/clock.h"
#include "flotilla/core/file.h"
#include "flotilla/core/text.h"
#include "flotilla/env/failure.h"
#include "fuzz/mutator.h"
#include "fuzz/readers.h"
#include "support/build.h"
#include "support/source_dir.h"

// Read by the address sanitizer when the program starts. A reader has no need for large blocks.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "max_allocation_size_mb=512"; }

namespace flotilla::fuzz {
namespace {

constexpr size_t kMaxInputBytes = size_t{1} << 26;
constexpr size_t kMemoryBytes = size_t{4} << 30;
constexpr int kChildFoundSomething = 9;

struct Arguments {
  std::string reader, corpus, input, examples, keep;
  uint64_t iterations = 0, seed = 0;
  double limit_s = 10;
};

// What the child tells, also when it has died.
struct Board {
  std::atomic<uint64_t> at{0};  // the input that is being read
  std::atomic<uint64_t> accepted{0}, refused{0}, refusals{0};
  std::atomic<uint64_t> slowest_ns{0}, slowest{0};
  char what[1000] = {};
};

[[noreturn]] void usage(const std::string& what) {
  throw Error(
      ErrorCode::kUsage,
      fmt::format("{}; usage: fuzz_readers {} ITERATIONS SEED [--corpus DIR] [--limit "
                  "SECONDS] [--keep FILE], or fuzz_readers READER --input FILE|--examples DIR",
                  what, join(reader_names(), "|")));
}

uint64_t number_from(const std::string& text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    usage("expected a number, got " + in_quotes(text));
  }
  return number;
}

Arguments arguments_from(const std::vector<std::string>& words) {
  Arguments arguments;
  std::vector<std::string> places;
  for (size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with("--")) {
      places.push_back(words[i]);
      continue;
    }
    if (i + 1 == words.size()) usage(words[i] + " needs a value");
    const std::string& value = words[i + 1];
    if (words[i] == "--corpus") {
      arguments.corpus = value;
    } else if (words[i] == "--limit") {
      arguments.limit_s = static_cast<double>(number_from(value));
    } else if (words[i] == "--keep") {
      arguments.keep = value;
    } else if (words[i] == "--input") {
      arguments.input = value;
    } else if (words[i] == "--examples") {
      arguments.examples = value;
    } else {
      usage("no option " + words[i]);
    }
    ++i;
  }
  const bool fuzz = arguments.input.empty() && arguments.examples.empty();
  if (places.size() != (fuzz ? 3u : 1u)) usage("wrong number of arguments");
  arguments.reader = places[0];
  if (make_reader(arguments.reader) == nullptr) usage("no reader " + in_quotes(arguments.reader));
  if (arguments.corpus.empty()) {
    arguments.corpus = test::source_dir() + "/tests/fuzz/corpus/" + arguments.reader;
  }
  if (arguments.keep.empty()) arguments.keep = "fuzz-" + arguments.reader + ".input";
  if (fuzz) {
    arguments.iterations = number_from(places[1]);
    arguments.seed = number_from(places[2]);
  }
  return arguments;
}

std::vector<std::string> files_in(const std::string& folder) {
  std::set<std::string> paths;  // in an order that does not depend on the file system
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    paths.insert(entry.path().string());
  }
  std::vector<std::string> files;
  for (const std::string& path : paths) files.push_back(read_whole_file(path, kMaxInputBytes));
  return files;
}

// A message without what changes from input to input: its kind.
size_t kind_of(const std::string& message) {
  std::string kind;
  bool quoted = false;
  for (const char c : message) {
    if (c == '\'') quoted = !quoted;
    const bool digit = c >= '0' && c <= '9';
    if (!quoted && !digit) kind += c;
  }
  return std::hash<std::string>{}(kind);
}

// In the child. Returns its exit status.
int read_all(const Arguments& arguments, const Mutator& mutator, InputReader& reader,
             size_t examples, Board& board) {
  if (!test::kSanitized) {  // whose shadow takes terabytes of addresses
    const rlimit limit{kMemoryBytes, kMemoryBytes};
    setrlimit(RLIMIT_AS, &limit);
  }
  std::set<size_t> kinds;
  for (uint64_t i = 0; i < arguments.iterations; ++i) {
    board.at = i;
    const std::string input = mutator.input(i);
    const double start = process_cpu_seconds();
    try {
      const std::string message = read_one(reader, input);
      if (i < examples && !message.empty()) {
        throw std::logic_error("a good input was refused: " + message);
      }
      ++(message.empty() ? board.accepted : board.refused);
      if (!message.empty() && kinds.insert(kind_of(message)).second) ++board.refusals;
    } catch (const std::exception& error) {
      std::strncpy(board.what, error.what(), sizeof(board.what) - 1);
      return kChildFoundSomething;
    } catch (...) {
      std::strncpy(board.what, "an exception that is not a std::exception", sizeof(board.what) - 1);
      return kChildFoundSomething;
    }
    const auto took = static_cast<uint64_t>((process_cpu_seconds() - start) * 1e9);
    if (took > board.slowest_ns) {
      board.slowest_ns = took;
      board.slowest = i;
    }
  }
  return 0;
}

// Waits for the child, and ends it when it stays too long at one input. Returns what is wrong.
std::string watch(pid_t child, const Board& board, double limit_s) {
  // The limit is of CPU time: on a busy machine a child may wait for long before it gets any. One
  // that neither works nor ends has this many times as long.
  constexpr double kPatience = 60;
  uint64_t at = board.at;
  double cpu_before = process_cpu_seconds(child);
  Deadline deadline = Deadline::after(kPatience * limit_s);
  for (;;) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) {
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
      if (WIFEXITED(status) && WEXITSTATUS(status) == kChildFoundSomething) return board.what;
      return describe_wait_status(status);
    }
    usleep(20'000);
    const double cpu = process_cpu_seconds(child);
    if (board.at != at) {
      at = board.at;
      cpu_before = cpu;
      deadline = Deadline::after(kPatience * limit_s);
    } else if (cpu - cpu_before > limit_s || deadline.passed()) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return fmt::format("took longer than {} s", limit_s);
    }
  }
}

int fuzz(const Arguments& arguments) {
  const std::unique_ptr<InputReader> reader = make_reader(arguments.reader);
  const std::vector<std::string> examples = reader->examples();
  const Mutator mutator(examples, files_in(arguments.corpus), reader->tokens(), arguments.seed);
  void* const shared =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw_errno(ErrorCode::kInternal, "no shared memory");
  Board& board = *new (shared) Board;
  const uint64_t start = now_ns();
  const pid_t child = fork();
  if (child < 0) throw_errno(ErrorCode::kInternal, "cannot start a process");
  if (child == 0) {
    // Not _exit(): the leak sanitizer looks at the end.
    std::exit(read_all(arguments, mutator, *reader, examples.size(), board));
  }
  const std::string wrong = watch(child, board, arguments.limit_s);
  const double seconds = seconds_since(start);
  fmt::print(
      "{}: seed {}, {} accepted, {} refused in {} ways, {:.1f} s; slowest: input {}, {:.1f} "
      "ms\n",
      arguments.reader, arguments.seed, board.accepted.load(), board.refused.load(),
      board.refusals.load(), seconds, board.slowest.load(),
      static_cast<double>(board.slowest_ns) * 1e-6);
  if (wrong.empty()) return 0;
  write_file_atomically(arguments.keep, mutator.input(board.at));
  fmt::print("{}: input {} of seed {}: {}\n{}: written to {}\n", arguments.reader, board.at.load(),
             arguments.seed, wrong, arguments.reader, arguments.keep);
  return exit_status(ErrorCode::kCheckFailed);
}

int read_again(const Arguments& arguments) {
  const std::unique_ptr<InputReader> reader = make_reader(arguments.reader);
  const std::string message = read_one(*reader, read_whole_file(arguments.input, kMaxInputBytes));
  fmt::print("{}\n", message.empty() ? "accepted" : "refused: " + message);
  return 0;
}

int write_examples(const Arguments& arguments) {
  const std::vector<std::string> examples = make_reader(arguments.reader)->examples();
  for (size_t i = 0; i < examples.size(); ++i) {
    write_file_atomically(fmt::format("{}/example-{}", arguments.examples, i), examples[i]);
  }
  return 0;
}

}  // namespace
}  // namespace flotilla::fuzz

int main(int argc, char** argv) {
  using namespace flotilla::fuzz;
  try {
    const Arguments arguments = arguments_from({argv + 1, argv + argc});
    if (!arguments.examples.empty()) return write_examples(arguments);
    return arguments.input.empty() ? fuzz(arguments) : read_again(arguments);
  } catch (const flotilla::Error& error) {
    fmt::print(stderr, "fuzz_readers: {}\n", error.what());
    return flotilla::exit_status(error);
  } catch (const std::exception& error) {
    fmt::print(stderr, "fuzz_readers: {}\n", error.what());
    return flotilla::exit_status(flotilla::ErrorCode::kCheckFailed);
  }
}
