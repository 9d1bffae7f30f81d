#include "fuzz/train_readers.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "flotilla/train/checkpoint.h"
#include "flotilla/train/event_file.h"
#include "flotilla/train/recipes.h"
#include "support/batch.h"
#include "support/slow_event_file.h"

namespace flotilla::fuzz {
namespace {

// cut_event_file(), held against a slow reader; on the input as it is and on the input with
// checksums that match, for few edits leave those of a record alone.
class EventsInput final : public InputReader {
 public:
  EventsInput() : fd_(memfd_create("events", MFD_CLOEXEC)) {
    if (fd_ < 0) throw_errno(ErrorCode::kInternal, "no memory file");
    path_ = fmt::format("/proc/self/fd/{}", fd_);
  }
  ~EventsInput() override { close(fd_); }

  // Whatever is in a file, it can be cut: every refusal is reported as one of a wrong code.
  ErrorCode refusal() const override { return ErrorCode::kInternal; }

  void read(const std::string& input) override {
    check(input);
    check(sealed(input));
  }

  std::vector<std::string> examples() override {
    // Steps and sizes on both sides of the limit, and of where a length takes a second byte.
    std::string all;
    for (const std::string& event :
         {std::string("\x1a\x0d\x62rain.Event:2"), text_event(), scalar_event(1), scalar_event(25),
          scalar_event(25), scalar_event(26)}) {
      all += record(event);
    }
    return {all, record(scalar_event(3)) + record("") + record(std::string(200, '\x78') + "x"), ""};
  }

  std::vector<std::string> tokens() const override {
    return {record(scalar_event(7)),
            record(scalar_event(99)),
            record(""),
            std::string("\x10\x1a", 2),
            std::string("\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11),
            "\x2a",
            "\x0a\x01\x61",
            std::string(8, '\0'),
            std::string(12, '\xff')};
  }

 private:
  static constexpr int64_t kLastStep = 25;

  template <class T>
  static std::string bytes_of(T value) {
    return {reinterpret_cast<const char*>(&value), sizeof(T)};
  }

  static std::string record(const std::string& data) {
    const std::string length = bytes_of(uint64_t{data.size()});
    return length + bytes_of(test::slow_masked_crc(length)) + data +
           bytes_of(test::slow_masked_crc(data));
  }

  static std::string scalar_event(uint8_t step) {
    return "\x09" + bytes_of(1.5) + "\x10" + bytes_of(step) + "\x2a\x0a\x0a\x08\x0a\x01\x61\x15" +
           bytes_of(0.5F);
  }

  static std::string text_event() {
    const std::string text(150, 't');
    return "\x12\x96\x01" + text;  // a field of a known number and another type
  }

  static std::string sealed(std::string file) {
    const auto put_crc = [&file](size_t begin, size_t size) {
      const std::string crc = bytes_of(test::slow_masked_crc(file.substr(begin, size)));
      file.replace(begin + size, crc.size(), crc);
    };
    for (size_t at = 0; file.size() - at >= 16;) {
      put_crc(at, 8);
      const uint64_t length = test::little_endian(std::string_view(file).substr(at, 8));
      if (length > file.size() - at - 16) break;
      put_crc(at + 12, static_cast<size_t>(length));
      at += 16 + static_cast<size_t>(length);
    }
    return file;
  }

  void check(const std::string& file) const {
    require(ftruncate(fd_, 0) == 0 &&
                pwrite(fd_, file.data(), file.size(), 0) == static_cast<ssize_t>(file.size()),
            "the input cannot be written");
    size_t expected = 0;
    for (const test::SlowRecord& record : test::slow_records(file)) {
      if (record.step > kLastStep) break;
      expected = record.end;
    }
    cut_event_file(Descriptor(::dup(fd_)), path_, kLastStep);
    std::string now(file.size() + 1, '\0');
    const ssize_t size = pread(fd_, now.data(), now.size(), 0);
    require(size == static_cast<ssize_t>(expected), "cut in another place");
    require(file.starts_with(std::string_view(now).substr(0, expected)), "something was changed");
  }

  int fd_;
  std::string path_;
};

// state.json, and what is in it of a trainer, with which it goes on; as it is and with the checksum
// that belongs to it.
class StateInput final : public InputReader {
 public:
  explicit StateInput(const std::vector<std::string>& settings)
      : run_(config(settings)), trainer_(run_) {
    for (int i = 0; i < 3; ++i) trainer_.iterate();
  }

  ErrorCode refusal() const override { return ErrorCode::kData; }

  void read(const std::string& input) override {
    try {
      use(decode_state(input, "input"));
    } catch (const Error& error) {
      require(error.code() == refusal(), "an error with another code");
      check_message(error.what());
    }
    use(decode_state(sealed(input), "input"));
  }

  std::vector<std::string> examples() override {
    return {take_checkpoint(trainer_, run_, std::nullopt).state,
            take_checkpoint(trainer_, run_, BestEvaluation{32, -1.5, 2}).state};
  }

  std::vector<std::string> tokens() const override {
    return {"{",
            "}",
            "[",
            "]",
            ":",
            ",",
            "\"",
            "\\",
            "-1",
            "1e308",
            "1e999",
            "-0.0",
            "null",
            "true",
            "[[[[[",
            "{\"a\":",
            "\\u0000",
            "\\ud83d",
            "0.5",
            "4294967296",
            "9223372036854775808",
            "18446744073709551616",
            "AAAA",
            "////",
            "=",
            "\"format\": 1,",
            "\"step\":",
            "\"files\"",
            "\"best\"",
            "\"run\"",
            "\"sha256\"",
            "\"env\"",
            "\"since\"",
            "\"mean\"",
            "cartpole",
            "\"config\""};
  }

 private:
  static RunConfig config(std::vector<std::string> settings) {
    for (const char* each : {"num_envs=2", "horizon=16", "net.hidden=4", "threads=1",
                             "net.normalise_obs=true", "normalise_reward=true"}) {
      settings.emplace_back(each);
    }
    const Config config = load_run_config(test::shipped(), "cartpole", true, settings);
    return RunConfig(test::shipped().find("cartpole"), config);
  }

  // Where the text of a member begins and how long it is, without its quotes.
  static std::pair<size_t, size_t> text_of(const std::string& input, const std::string& member) {
    const size_t name = input.rfind("\"" + member + "\": \"");
    if (name == input.npos) return {input.size(), 0};
    const size_t begin = name + member.size() + 5;
    return {begin, std::min(input.find('"', begin), input.size()) - begin};
  }

  static std::string sealed(std::string input) {
    // Base64 goes by fours; then most edits in it are edits of the bytes.
    const auto [run, run_size] = text_of(input, "run");
    input.erase(run + run_size / 4 * 4, run_size % 4);
    const auto [sum, sum_size] = text_of(input, "sha256");
    return input.replace(sum, sum_size, state_checksum(input));
  }

  void use(const CheckpointState& state) {
    require(decode_state(encode_state(state), "input") == state,
            "written and read again, the state differs");
    load(state.run);
    const std::vector<std::byte> saved = save();
    load(saved);
    require(save() == saved, "saved and loaded again, the run differs");
    go_on();
  }

  // What was loaded may be nonsense to learn from, which is then said.
  void go_on() {
    try {
      trainer_.iterate();
    } catch (const Error& error) {
      const bool known =
          error.code() == ErrorCode::kNumeric || error.code() == ErrorCode::kEnvironment;
      require(known, "training goes on with an error of another code");
      check_message(error.what());
    }
  }

  void load(const std::vector<std::byte>& bytes) {
    Reader reader(bytes, "input");
    trainer_.load(reader);
  }

  std::vector<std::byte> save() const {
    Writer writer;
    trainer_.save(writer);
    return writer.buffer();
  }

  const RunConfig run_;
  Trainer trainer_;
};

}  // namespace

std::unique_ptr<InputReader> make_events_reader() { return std::make_unique<EventsInput>(); }
std::unique_ptr<InputReader> make_state_reader() {
  return std::make_unique<StateInput>(
      std::vector<std::string>{"backend=serial", "ppo.minibatches=1", "ppo.epochs=1"});
}
std::unique_ptr<InputReader> make_actors_reader() {
  return std::make_unique<StateInput>(
      std::vector<std::string>{"algo=appo", "backend=actors", "actors=2", "async.schedule=fixed",
                               "appo.minibatches=1", "appo.n_epochs=1"});
}

}  // namespace flotilla::fuzz
