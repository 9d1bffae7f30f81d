#include "flotilla/domains/cage2/recording.h"

#include <fmt/format.h>

#include "flotilla/core/error.h"
#include "flotilla/core/gzip.h"
#include "flotilla/core/json.h"
#include "flotilla/core/text.h"

namespace flotilla::cage2 {
namespace {

constexpr size_t kLargestText = size_t{1} << 30;
constexpr std::array<const char*, 6> kRedActions = {"DRS", "DNS", "ERS", "PE", "IMP", "SLP"};
constexpr std::array<const char*, 3> kRedAgents = {"bline", "meander", "sleep"};

// The fields of a row, read by number with what went wrong by name.
class Row {
 public:
  Row(const Json& row, std::string where) : row_(row), where_(std::move(where)) {
    if (!row.is_array() || row.size() < 19 || row.size() > 20) {
      throw Error(ErrorCode::kData, where_ + ": expected an array of 19 or 20 fields");
    }
  }

  int64_t integer(size_t index, const char* name, int64_t low, int64_t high) const {
    const Json& field = row_[index];
    if (!field.is_number_integer()) refuse(name, "an integer");
    const auto value = field.get<int64_t>();
    if (value < low || value > high)
      refuse(name, fmt::format("an integer from {} to {}", low, high));
    return value;
  }
  std::string text(size_t index, const char* name, size_t length) const {
    const Json& field = row_[index];
    if (!field.is_string() || field.text().size() != length) {
      refuse(name, fmt::format("a text of {} characters", length));
    }
    return field.get<std::string>();
  }
  template <size_t N>
  int name(size_t index, const char* name, const std::array<const char*, N>& names) const {
    const Json& field = row_[index];
    if (field.is_string()) {
      const auto found = std::ranges::find(names, field.text());
      if (found != names.end()) return static_cast<int>(found - names.begin());
    }
    refuse(name, fmt::format("one of {}", join({names.begin(), names.end()}, ", ")));
  }
  int64_t tenths(size_t index, const char* name) const {
    if (!row_[index].is_number()) refuse(name, "a number");
    return std::lround(10 * row_[index].get<double>());
  }
  bool has(size_t index) const { return index < row_.size(); }
  bool is_empty_text(size_t index) const {
    return row_[index].is_string() && row_[index].text().empty();
  }

 private:
  [[noreturn]] void refuse(const char* name, const std::string& expected) const {
    throw Error(ErrorCode::kData,
                fmt::format("{}, field '{}': expected {}", where_, name, expected));
  }
  const Json& row_;
  std::string where_;
};

RecordedStep read_step(const Json& json, const std::string& where) {
  const Row row(json, where);
  RecordedStep step;
  step.blue_action = static_cast<int>(row.integer(0, "blue action", 0, kBlueActions - 1));
  RecordedChoices& choices = step.choices;
  choices.green = static_cast<int>(row.integer(2, "green", -1, kHosts - 1));
  choices.move.action = static_cast<RedAction>(row.name(3, "red action", kRedActions));
  choices.move.target = static_cast<int>(row.integer(4, "red target", -1, kHosts - 1));
  choices.exploit = row.is_empty_text(5) ? -1 : row.name(5, "exploit", kExploitNames);
  const auto detected = static_cast<int>(row.integer(7, "detected", -1, 1));
  choices.detected = detected == 1;
  choices.escalated = static_cast<int>(row.integer(8, "escalated session", -1, 255));
  const std::string table = row.text(9, "observation", kHosts);
  step.facts = {std::to_string(row.integer(1, "blue success", 0, 2)),
                std::to_string(choices.green),
                kRedActions[static_cast<size_t>(choices.move.action)],
                std::to_string(choices.move.target),
                std::to_string(choices.exploit),
                std::to_string(row.integer(6, "red success", 0, 2)),
                std::to_string(detected),
                std::to_string(choices.escalated),
                table,
                std::to_string(row.tenths(10, "reward")),
                row.text(11, "access", kHosts),
                row.text(12, "scanned", kHosts),
                row.text(13, "user sessions", kHosts),
                row.text(14, "privileged sessions", kHosts),
                row.text(15, "removable", kHosts),
                row.text(16, "decoys", 2 * kHosts),
                row.text(17, "listeners", kHosts),
                std::to_string(row.integer(18, "OT service", 0, 1)),
                row.has(19) ? row.text(19, "stock observation", kHosts) : table};
  return step;
}

std::string hex_table(uint64_t table) {
  std::string text;
  for (int host = 0; host < kHosts; ++host, table >>= 4u) text += fmt::format("{:x}", table & 15u);
  return text;
}

char base62(int count) {
  constexpr std::string_view kDigits =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  return kDigits[static_cast<size_t>(std::min(count, 61))];
}

}  // namespace

const std::vector<std::string>& fact_names() {
  static const std::vector<std::string> names = {
      "blue success", "green",     "red action",        "red target",          "exploit",
      "red success",  "detected",  "escalated session", "observation",         "reward",
      "access",       "scanned",   "user sessions",     "privileged sessions", "removable",
      "decoys",       "listeners", "OT service",        "stock observation"};
  return names;
}

std::vector<std::string> facts_of(const State& state, const StepRecord& record, int ordinal,
                                  uint64_t stock_table) {
  std::string access, scanned, users, privileged, removable, decoys, listeners;
  for (int i = 0; i < kHosts; ++i) {
    const HostState& host = state.hosts[static_cast<size_t>(i)];
    access += host.privileged > 0 ? '2' : host.users() > 0 ? '1' : '0';
    scanned += (host.remembered & kScanned) != 0 ? '1' : '0';
    users += base62(host.users());
    privileged += base62(host.privileged);
    removable += base62(host.flagged);
    decoys += fmt::format("{:02x}", host.decoys);
    listeners += base62(listener_count(i, host));
  }
  return {std::to_string(static_cast<int>(record.blue)),
          std::to_string(record.green),
          kRedActions[static_cast<size_t>(record.move.action)],
          std::to_string(record.move.target),
          std::to_string(record.exploit),
          std::to_string(static_cast<int>(record.red)),
          std::to_string(record.detected),
          std::to_string(record.escalated ? ordinal : -1),
          hex_table(state.table),
          std::to_string(-record.cost),
          access,
          scanned,
          users,
          privileged,
          removable,
          decoys,
          listeners,
          state.ot_running ? "1" : "0",
          hex_table(stock_table)};
}

Recording::Recording(const std::string& path)
    : path_(path), text_(read_gzipped(path, kLargestText)) {}

std::optional<RecordedEpisode> Recording::next() {
  if (at_ >= text_.size()) return std::nullopt;
  const size_t end = std::min(text_.find('\n', at_), text_.size());
  const std::optional<Json> json = Json::try_parse(std::string_view(text_).substr(at_, end - at_));
  at_ = end + 1;
  const std::string where = fmt::format("{}:{}", path_, ++line_);
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::kData, where + ": " + why);
  };
  if (!json || !json->is_object()) refuse("is not a JSON object");
  RecordedEpisode episode;
  episode.line = line_;
  const Json *seed = json->find("seed"), *red = json->find("red"), *green = json->find("green"),
             *steps = json->find("steps");
  if (seed == nullptr || !seed->is_number_unsigned() || seed->get<uint64_t>() > UINT32_MAX) {
    refuse("field 'seed': expected an integer from 0 to 4294967295");
  }
  episode.seed = seed->get<uint32_t>();
  const auto agent = red == nullptr || !red->is_string()
                         ? kRedAgents.end()
                         : std::ranges::find(kRedAgents, red->text());
  if (agent == kRedAgents.end()) refuse("field 'red': expected bline, meander or sleep");
  episode.red = static_cast<RedAgent>(agent - kRedAgents.begin());
  episode.green = green != nullptr && green->is_string() && green->text() == "on";
  if (steps == nullptr || !steps->is_array()) refuse("field 'steps': expected an array");
  for (const Json& step : *steps) {
    episode.steps.push_back(
        read_step(step, fmt::format("{}: step {}", where, episode.steps.size() + 1)));
  }
  return episode;
}

}  // namespace flotilla::cage2
