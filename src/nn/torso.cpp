#include "flotilla/nn/torso.h"

#include <fmt/format.h>

namespace flotilla {
namespace {

// Behind a window of `kernel` that moves by `stride`.
int windows(int extent, int kernel, int stride, int padding) {
  return (extent + 2 * padding - kernel) / stride + 1;
}

Convolution convolution(std::string name, const ImageShape& from, int outputs, int kernel,
                        int stride, int padding) {
  return {.name = std::move(name),
          .inputs = from.channels,
          .outputs = outputs,
          .kernel = kernel,
          .stride = stride,
          .padding = padding,
          .made = {windows(from.rows, kernel, stride, padding),
                   windows(from.columns, kernel, stride, padding), outputs}};
}

TorsoSpec nature(const ImageShape& image) {
  TorsoSpec torso{.convolutions = {}, .made = image};
  const auto add = [&torso](int outputs, int kernel, int stride) {
    const std::string name = fmt::format("torso.{}", torso.convolutions.size());
    torso.convolutions.push_back(convolution(name, torso.made, outputs, kernel, stride, 0));
    torso.made = torso.convolutions.back().made;
  };
  add(32, 8, 4);
  add(64, 4, 2);
  add(64, 3, 1);
  return torso;
}

TorsoSpec impala(const ImageShape& image) {
  TorsoSpec torso{.convolutions = {}, .made = image};
  const auto add = [&torso](const std::string& name, int outputs) {
    torso.convolutions.push_back(convolution(name, torso.made, outputs, 3, 1, 1));
    torso.made = torso.convolutions.back().made;
  };
  int stage = 0;
  for (const int channels : {16, 32, 32}) {
    const std::string name = fmt::format("torso.{}", stage++);
    add(name, channels);
    torso.made.rows = windows(torso.made.rows, 3, 2, 1);
    torso.made.columns = windows(torso.made.columns, 3, 2, 1);
    for (const char* each : {".block0.0", ".block0.1", ".block1.0", ".block1.1"}) {
      add(name + each, channels);
    }
  }
  return torso;
}

}  // namespace

int least_image(Torso torso) { return torso == Torso::kNature ? 36 : 1; }

TorsoSpec make_torso(Torso torso, const ImageShape& image) {
  switch (torso) {
    case Torso::kNature:
      return nature(image);
    case Torso::kImpala:
      return impala(image);
    default:
      return {.convolutions = {}, .made = image};
  }
}

}  // namespace flotilla
