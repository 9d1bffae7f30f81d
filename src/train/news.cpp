#include "flotilla/train/news.h"

#include <algorithm>
#include <utility>

#include "flotilla/core/serial.h"

namespace flotilla {
namespace {

std::vector<std::byte> encoded(const News& news, int first_env) {
  Writer writer;
  writer.u64("failures", static_cast<uint64_t>(news.failures));
  writer.u64("interrupted", news.interrupted ? 1 : 0);
  writer.u64("episodes", news.episodes.size());
  for (Episode episode : news.episodes) {
    episode.env += first_env;
    save_episode(episode, writer);
  }
  return writer.buffer();
}

}  // namespace

News gather_news(Collective& collective, const News& own, int first_env) {
  if (collective.size() == 1) return own;
  News all;
  for (const auto& bytes : gather_bytes(collective, encoded(own, first_env))) {
    Reader reader(bytes, "what another process says");
    all.failures += static_cast<int64_t>(reader.u64("failures"));
    all.interrupted = reader.u64("interrupted") != 0 || all.interrupted;
    const uint64_t episodes = reader.u64("episodes");
    for (uint64_t i = 0; i < episodes; ++i) all.episodes.push_back(load_episode(reader));
  }
  std::ranges::sort(all.episodes, {}, [](const Episode& e) { return std::pair(e.step, e.env); });
  return all;
}

}  // namespace flotilla
