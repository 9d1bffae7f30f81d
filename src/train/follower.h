// A process that trains with others and has no run of its own: it does what rank 0 says, until that
// ends. It writes nothing.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "flotilla/env/registry.h"
#include "flotilla/train/curriculum.h"
#include "flotilla/train/orders.h"
#include "flotilla/train/trainer.h"

namespace flotilla {

class Follower {
 public:
  // All of these outlive it.
  Follower(const Registry& registry, const Algorithms& algorithms, Collective& collective)
      : registry_(registry), algorithms_(algorithms), collective_(collective) {}

  void set_policy_factory(PolicyFactory factory) { policy_factory_ = std::move(factory); }
  // Until rank 0 says that it is the end.
  void follow();
  // The last one; null before there was one.
  const Trainer* trainer() const { return trainer_.get(); }

 private:
  void start(const OrderSheet& sheet);

  const Registry& registry_;
  const Algorithms& algorithms_;
  Collective& collective_;
  PolicyFactory policy_factory_;
  std::optional<RunConfig> run_;
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace flotilla
