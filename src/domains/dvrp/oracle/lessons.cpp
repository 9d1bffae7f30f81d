#include "flotilla/domains/dvrp/oracle/lessons.h"

#include <algorithm>
#include <cmath>

#include "flotilla/domains/dvrp/oracle/batch.h"
#include "flotilla/domains/dvrp/routing/solver.h"

namespace flotilla::dvrp {
namespace {

int draw_size(const LessonSizes& sizes, Rng& rng) {
  if (!sizes.by_doubling) {
    const auto many = static_cast<uint32_t>(sizes.most - sizes.fewest + 1);
    return sizes.fewest + static_cast<int>(rng.below(many));
  }
  const double size = sizes.fewest * std::pow((sizes.most + 1.0) / sizes.fewest, rng.uniform(0, 1));
  return std::min(static_cast<int>(size), sizes.most);
}

}  // namespace

Instance draw_lesson(const Data& data, const LessonSizes& sizes, uint64_t seed, uint64_t index) {
  Rng rng(seed, stream_of(Purpose::kEnv, (uint64_t{1} << 46u) + index));
  Instance instance = draw_instance(data, draw_size(sizes, rng), rng);
  if (rng.chance(1.0 / 3)) return instance;
  for (Request& request : instance.requests) {
    const int action = static_cast<int>(rng.below(kActions));
    if (rng.chance(0.5)) request = shifted(request, shift_of(action));
  }
  return instance;
}

Teacher::Teacher(const Data& data, const Options& options)
    : data_(data), options_(options), chunk_(options.first_chunk), pool_(options.threads) {
  coming_ = std::async(std::launch::async, [this] { return solve_chunk(chunk_); });
}

std::vector<Lesson> Teacher::next() {
  std::vector<Lesson> lessons = coming_.get();
  ++chunk_;
  coming_ = std::async(std::launch::async, [this] { return solve_chunk(chunk_); });
  return lessons;
}

std::vector<Lesson> Teacher::solve_chunk(uint64_t chunk) {
  std::vector<Lesson> lessons(static_cast<size_t>(options_.chunk));
  pool_.for_each(options_.chunk, [&](int, int item) {
    const uint64_t index =
        chunk * static_cast<uint64_t>(options_.chunk) + static_cast<uint64_t>(item);
    Lesson& lesson = lessons[static_cast<size_t>(item)];
    lesson.instance = draw_lesson(data_, options_.sizes, options_.seed, index);
    const Solution solution =
        solve(lesson.instance, {.iterations = options_.iterations, .seed = index});
    lesson.sequence = sequence_of(lesson.instance, solution.routes);
  });
  return lessons;
}

}  // namespace flotilla::dvrp
