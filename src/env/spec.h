// What an environment looks like from outside: its observations, actions, limits and metrics.
// An env builds its spec from its validated config; the engine sizes every buffer from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "flotilla/core/error.h"

namespace flotilla {

// A spec that no env can have: a mistake of the env's author, not of who set its keys.
class SpecError : public Error {
 public:
  explicit SpecError(const std::string& message) : Error(ErrorCode::kUsage, message) {}
};

enum class ObsType : uint8_t { kFloat32, kUint8 };

struct ObsSpace {
  ObsType type = ObsType::kFloat32;
  std::vector<int> shape;
  // Bounds of each element in row-major order; infinities are allowed.
  std::vector<float> low, high;

  static ObsSpace float32(std::vector<int> shape, float low, float high);
  static ObsSpace float32(std::vector<float> low, std::vector<float> high);  // one dimension
  static ObsSpace uint8(std::vector<int> shape);                             // 0 to 255

  size_t elements() const;
  size_t row_bytes() const;
};

enum class ActionKind : uint8_t { kDiscrete, kMultiDiscrete, kBox };

// An action is `dims()` numbers of four bytes: int32 for discrete kinds, float32 for a box.
struct ActionSpace {
  ActionKind kind = ActionKind::kDiscrete;
  std::vector<int> choices;      // discrete kinds: number of choices of each dimension
  std::vector<float> low, high;  // box: bounds of each dimension, finite

  static ActionSpace discrete(int choices);
  static ActionSpace multi_discrete(std::vector<int> choices);
  static ActionSpace box(std::vector<float> low, std::vector<float> high);

  bool is_box() const { return kind == ActionKind::kBox; }
  size_t dims() const { return is_box() ? low.size() : choices.size(); }
  size_t mask_size() const;  // one flag per choice of every dimension; 0 for a box

  std::string describe() const;  // "Discrete(2)", "MultiDiscrete(3, 4)", "Box([-2], [2])"
};

struct EnvSpec {
  std::string name;
  ObsSpace obs;
  ActionSpace action;
  bool has_mask = false;             // the env writes which choices are legal
  bool has_advice = false;           // it writes which choices it advises
  int time_limit = 0;                // steps after which the engine truncates; 0: never
  std::vector<std::string> metrics;  // named numbers of a finished episode
  std::string headline;              // the one of them that people watch, if any
  float reward_low = -3.402823466e38f, reward_high = 3.402823466e38f;

  // Whether some choices are closed to a policy: those that are not both legal and advised.
  bool masked() const { return has_mask || has_advice; }

  // Throws SpecError that names what is wrong: empty shapes, bounds out of order, ...
  void validate() const;

  // SHA-256 of everything above but the headline: two sides that agree on it read each other's
  // buffers right.
  std::string sha256() const;
};

}  // namespace flotilla
