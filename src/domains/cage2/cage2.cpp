#include "flotilla/domains/cage2/cage2.h"

#include "flotilla/domains/cage2/cage2_env.h"

namespace flotilla {

void register_cage2(Registry& registry) {
  registry.add(env_type<cage2::Cage2>("cage2", "defend a network of 13 hosts against an attacker"));
}

}  // namespace flotilla
