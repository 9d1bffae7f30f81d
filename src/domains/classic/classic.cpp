#include "flotilla/domains/classic/classic.h"

#include "flotilla/domains/classic/cartpole.h"
#include "flotilla/domains/classic/catch.h"
#include "flotilla/domains/classic/corners.h"
#include "flotilla/domains/classic/faulty.h"
#include "flotilla/domains/classic/maze.h"
#include "flotilla/domains/classic/pendulum.h"
#include "flotilla/domains/classic/regions.h"

namespace flotilla {

void register_classic(Registry& registry) {
  using namespace classic;
  registry.add(env_type<CartPole>("cartpole", "balance a pole on a cart (CartPole-v1)"));
  registry.add(env_type<Pendulum>("pendulum", "swing a pendulum up (Pendulum-v1)"));
  registry.add(env_type<Corners>("corners", "visit four corners in a required order, 11 x 11"));
  registry.add(env_type<Regions>("regions", "visit four regions in a required order, 20 x 20"));
  registry.add(env_type<Maze>("maze", "visit four checkpoints of a maze in a required order"));
  registry.add(env_type<Catch>("catch", "catch a falling ball: an image and a two-part action"));
  registry.add(env_type<Faulty>("faulty", "fail on request, to try failure handling"));
}

}  // namespace flotilla
