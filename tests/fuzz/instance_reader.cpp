#include "fuzz/instance_reader.h"

#include "flotilla/domains/dvrp/data/generate.h"
#include "flotilla/domains/dvrp/data/instance_file.h"

namespace flotilla::fuzz {
namespace {

class InstanceInput final : public InputReader {
 public:
  ErrorCode refusal() const override { return ErrorCode::kData; }

  void read(const std::string& input) override {
    const dvrp::Instance instance = decode_instance(input, "input", data_);
    const dvrp::Instance again = decode_instance(encode_instance(instance), "input", data_);
    require(again.requests == instance.requests, "written and read again, the requests differ");
  }

  std::vector<std::string> examples() override {
    Rng rng(1, stream_of(Purpose::kTest, 0));
    const dvrp::Instance instance = draw_instance(data_, 3, rng);
    return {
        encode_instance(instance), encode_full_instance(instance),
        R"({"format": 1, "requests": [{"trip": 1, "pickup": [430, 460], "dropoff": [455, 485]}]})",
        R"({"format": 1, "requests": []})"};
  }

  std::vector<std::string> tokens() const override {
    return {"{",
            "}",
            "[",
            "]",
            ":",
            ",",
            "\"",
            "-1",
            "1441",
            "1e999",
            "null",
            "0.1",
            "\"format\"",
            "\"requests\"",
            "\"trip\"",
            "\"from\"",
            "\"to\"",
            "\"pickup\"",
            "\"city\"",
            "\"dropoff\"",
            "\\u0000",
            "\\ud800",
            "[0,1440]",
            "\"city\":\"x\",",
            "[[[[[",
            "99999999999",
            data_.city.fingerprint()};
  }

 private:
  const dvrp::Data data_ = dvrp::generate_data({.cells = 6, .travellers = 4});
};

}  // namespace

std::unique_ptr<InputReader> make_instance_reader() { return std::make_unique<InstanceInput>(); }

}  // namespace flotilla::fuzz
